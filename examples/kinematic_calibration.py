"""
Where an arm's joints are, from six markers on its tool in forty postures
=========================================================================

An arm that was built differs from its drawing by millimetres and tenths of a degree. Cameras see where six
markers on its tool are. `model.with_placements` takes the placements of joints as data of JAX, so that the
Jacobian of the markers by all placements is one call of `jax.jacfwd`; the rest is the Gauss-Newton method:

    T_j -> T_j exp(x_j),    x = -J^+ (computed - measured).

x_j is the twist by which joint j is moved, and J^+ the pseudoinverse. Not all of x can be seen: the next
joint makes up for one that is moved along its axis, or turned about it. So 26 of the 36 numbers are seen, the
least x is taken, and what is compared is where the tool is, in postures that were not measured.
Run: python examples/kinematic_calibration.py
"""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import expm

from connections import multibody as mb

# %%
# The drawing, the arm that was built, and what the cameras see of it.

rng = np.random.default_rng(0)
MARKERS = 0.1 * np.array([[1, 0, 0], [-1, 0, 1], [0, 1, 0], [0, -1, 1], [1, 1, 2], [0, 0, 3.0]])  # m
drawing = mb.example("arm")
names = list(drawing.placements)


def twist_matrices(x):
    """The matrices (..., 4, 4) of twists [omega; v] (..., 6), whose exponentials are displacements."""
    wx, wy, wz, vx, vy, vz = jnp.moveaxis(x, -1, 0)
    o = jnp.zeros_like(wx)
    rows = [[o, -wz, wy, vx], [wz, o, -wx, vy], [-wy, wx, o, vz], [o, o, o, o]]
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)


def with_joints(robot, placements):
    """The robot with placements (joints, 4, 4)."""
    return robot.with_placements(dict(zip(names, placements, strict=True)))


def markers(robot, q):
    """Where the markers are in the world, (6, 3), m."""
    pose = mb.frame_pose(robot, q, "tool")
    return MARKERS @ pose[:3, :3].T + pose[:3, 3]


drawn = np.stack(list(drawing.placements.values()))
errors = rng.standard_normal((len(names), 6)) * ([0.01] * 3 + [0.005] * 3)  # rad, m
built = with_joints(drawing, drawn @ expm(np.asarray(twist_matrices(errors))))
postures = rng.uniform(-2.0, 2.0, (40, drawing.nq))
measured = np.stack([markers(built, q) for q in postures])

# %%
# Near x = 0, exp(x) is 1 + x, and the derivative is that of the exponential.


@jax.jit
def differences(placements, x):
    """Computed less measured positions, for joints that are moved by small twists x (joints, 6)."""
    robot = with_joints(drawing, placements @ (jnp.eye(4) + twist_matrices(x)))
    return (jax.vmap(lambda q: markers(robot, q))(postures) - measured).ravel()


jacobian = jax.jit(jax.jacfwd(differences, argnums=1))
still, placements = np.zeros((len(names), 6)), drawn
for _ in range(5):
    gap, J = differences(placements, still), jacobian(placements, still).reshape(-1, still.size)
    print(f"markers differ by {np.abs(gap).max():.0e} m")
    x, _, seen, _ = np.linalg.lstsq(J, -np.asarray(gap), rcond=1e-8)  # the least x
    placements = placements @ expm(np.asarray(twist_matrices(x.reshape(-1, 6))))

# %%
# The tool in other postures, before and after; and how many of the numbers the markers see.

calibrated = with_joints(drawing, placements)
others = rng.uniform(-3.0, 3.0, (100, drawing.nq))
before, after = (
    np.abs(mb.frame_pose(robot, others, "tool") - mb.frame_pose(built, others, "tool")).max()
    for robot in (drawing, calibrated)
)
print(
    f"{seen} of {still.size} numbers are seen; "
    f"the tool's poses differ by {before:.0e} before, {after:.0e} after"
)
assert seen == 26, seen
assert before > 1e-2 and after < 1e-9, (before, after)
# The controls: with one joint as it was drawn, markers differ; and placements are others than those that were
# built, by what is not seen.
wrong = np.concatenate([placements[:2], drawn[2:3], placements[3:]])
gap = np.abs(differences(wrong, still)).max()
assert gap > 1e-3, gap
assert np.abs(placements - np.stack(list(built.placements.values()))).max() > 1e-3
