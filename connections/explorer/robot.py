"""A robot in free motion, and tangent vectors carried along it by two connections.

The motion is a geodesic of the kinetic-energy metric: no gravity, no forces. Levi-Civita's connection and
those of C = C* + gamma (C_x - C*), with C_x of the body-level factor (v x*) I, have that same geodesic and
keep kinetic energies; for gamma other than 0 they have torsion, and turn the carried vectors. With P = H^-1 C
along the motion a carried vector follows zdot = -P z, which is integrated here for all vectors at once.
Arrays in, arrays out; nothing here knows of a browser. Source: [W] III-B, IV; [E] (11).
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from connections import multibody as mb
from connections.affine.motions.jax_motions import HostMotions
from connections.checks import IntegrationError, as_array, require_finite
from connections.control import contraction_rates
from connections.control.results import ContractionRates
from connections.explorer.link_meshes import surfaces
from connections.integration.driver import follow
from connections.integration.solver import Settings
from connections.multibody.definition.host_kinematics import configuration
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.loops.condition_rows import gather

if TYPE_CHECKING:
    from connections.multibody.definition.kinematics import Kinematics
    from connections.multibody.program.closure_conditions import HostConditions

FRAMES = 361  # of the film; a carried vector of an arm may turn by 90 degrees in a tenth of a second
_NODES = 4 * (FRAMES - 1) + 1  # times of the film, and three between each two, for the integration of P
_MOST_STEPS = 3 * _NODES
_COMPONENTS = {
    mb.Free: ("wx", "wy", "wz", "vx", "vy", "vz"),
    mb.Spherical: ("wx", "wy", "wz"),
    mb.Planar: ("x", "y", "angle"),
    mb.Cylindrical: ("angle", "displacement"),
}
VELOCITY = "the velocity itself"


@dataclass(frozen=True, eq=False)
class RobotMotion:
    """A free motion, up to a singularity if it meets one.

    Parameters
    ----------
    times : (T,) s.
    q, v : (T, nq), (T, nv).
    positions, rotations : (T, N, 3) m, (T, N, 3, 3), of the bodies in the world.
    jacobians : (T, N, 6, nv) body twists [omega; v] per unit of v.
    H : (T, nv, nv) mass matrices.
    plain, extra : (4 T - 3, nv, nv) H^-1 C* and H^-1 (C_x - C*), at the times and three points between each
        two.
    stopped : why it ends early; empty if it does not.
    """

    times: np.ndarray
    q: np.ndarray
    v: np.ndarray
    positions: np.ndarray
    rotations: np.ndarray
    jacobians: np.ndarray
    H: np.ndarray
    plain: np.ndarray
    extra: np.ndarray
    stopped: str

    @property
    def has_torsion(self) -> bool:
        """Whether C_x differs from C* anywhere on the way."""
        scale = np.abs(self.plain).max() + np.abs(self.extra).max()
        return bool(np.abs(self.extra).max() > 1e-10 * scale)

    @property
    def energy(self) -> np.ndarray:
        """(T,) kinetic energy, J; constant."""
        energy: np.ndarray = 0.5 * np.einsum("ti,tij,tj->t", self.v, self.H, self.v)
        return energy

    def carry(self, gamma: float) -> np.ndarray:
        """W (T, nv, nv): a vector z at the start is carried to W z under C* + gamma (C_x - C*).

        W = W_0 S: S turns within the frame that Levi-Civita's connection carries,
        Sdot = -gamma W_0^-1 H^-1 (C_x - C*) W_0 S. The steps of S are rotations in the metric at the start:
        lengths do not drift.

        Parameters
        ----------
        gamma : 0 for Levi-Civita's connection, 1 for that of (v x*) I.
        """
        require_finite("gamma", gamma)
        turning = np.linalg.solve(self._carried_plainly, -self.extra[::2] @ self._carried_plainly)
        turned = _linear(float(gamma) * turning, self.times[1] - self.times[0])
        W: np.ndarray = self._carried_plainly[::2] @ turned
        return W

    @cached_property
    def _carried_plainly(self) -> np.ndarray:
        """W_0 (2 T - 1, nv, nv), at the times and halfway between."""
        return _linear(-self.plain, 0.5 * (self.times[1] - self.times[0]))

    def turns(self, gamma: float) -> np.ndarray:
        """(nv,) angles, rad, between a frame carried to the end and Levi-Civita's, one angle per plane.

        Parameters
        ----------
        gamma : as in `carry`.
        """
        L = np.linalg.cholesky(self.H[-1])
        turned = L.T @ np.linalg.solve(self.carry(0.0)[-1].T, self.carry(gamma)[-1].T).T @ np.linalg.inv(L.T)
        angles: np.ndarray = np.abs(np.angle(np.linalg.eigvals(turned)))
        return angles

    def lengths(self, z: np.ndarray) -> np.ndarray:
        """(T,) lengths of vectors (T, nv) in the kinetic-energy metric, sqrt(J)."""
        lengths: np.ndarray = np.sqrt(np.einsum("ti,tij,tj->t", z, self.H, z))
        return lengths

    def angle(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """(T,) angle between vectors (T, nv) in the kinetic-energy metric, rad.

        Parameters
        ----------
        first, second : (T, nv).
        """
        a, b = (z / self.lengths(z)[:, None] for z in (first, second))
        half: np.ndarray = np.arctan2(self.lengths(a - b), self.lengths(a + b))  # exact for small angles
        return 2.0 * half

    def point_velocities(self, z: np.ndarray, points: np.ndarray) -> np.ndarray:
        """(T, N, 3) world velocities that z gives to one point of each body, m/s.

        Parameters
        ----------
        z : (T, nv) tangent vectors.
        points : (N, 3) m, in the bodies' frames.
        """
        twists = np.einsum("tnai,ti->tna", self.jacobians, z)
        local = twists[..., 3:] + np.cross(twists[..., :3], points)
        velocities: np.ndarray = np.einsum("tnab,tnb->tna", self.rotations, local)
        return velocities

    def world_points(self, points: np.ndarray) -> np.ndarray:
        """(T, N, 3) m, where points (N, 3) of the bodies are in the world."""
        there: np.ndarray = self.positions + np.einsum("tnab,nb->tna", self.rotations, points)
        return there


class Robot:
    """A robot that can be set in motion; its motions and poses are computed by the recursions.

    Parameters
    ----------
    model : the robot.
    name : its name on the page.
    urdf : the file that describes it, for the page to draw its visuals; without it, inertias are drawn.

    Attributes
    ----------
    surfaces : what its bodies look like.
    missing : a sentence about visuals that are not drawn; empty if all are.
    """

    def __init__(
        self, model: mb.Model, name: str = "robot", urdf: str | os.PathLike[str] | None = None
    ) -> None:
        self.model, self.name = model, name
        self.surfaces, self.missing = ((), "") if urdf is None else surfaces(model, urdf)
        self._lock = threading.Lock()  # the recursions' workspaces belong to one thread at a time

    @cached_property
    def components(self) -> tuple[str, ...]:
        """Names of the nv components of the velocity: of joints, numbered from 0 if they have several."""
        names: list[str] = []
        for joint in self.model.joint_names:
            part = self.model.velocity_slice(joint)
            count = part.stop - part.start
            kind = type(self.model.kinematics.joints[self.model.joint_names.index(joint)])
            parts = _COMPONENTS.get(kind, range(count))
            names += [joint] if count == 1 else [f"{joint} {part}" for part in parts]
        return tuple(names)

    @cached_property
    def adjustable(self) -> tuple[str, ...]:
        """Independent joints with one coordinate; each gets a slider."""
        slices = ((joint, self.model.configuration_slice(joint)) for joint in self.model.joint_names)
        return tuple(joint for joint, part in slices if part.stop - part.start == 1)

    def start(self) -> np.ndarray:
        """A configuration (nq,) to begin with: neutral, the joints of an open tree slightly bent."""
        q = np.array(self.model.neutral())
        if not self.model.closed:
            for number, joint in enumerate(self.adjustable):
                kind = self.model.kinematics.joints[self.model.joint_names.index(joint)]
                q[self.model.configuration_slice(joint)] += (
                    (0.5 if number % 2 else -0.5) if isinstance(kind, mb.Revolute) else 0.0
                )
        return q

    def push(self, seed: int) -> np.ndarray:
        """A velocity (nv,) with entries up to 1 rad/s or m/s, the same for the same seed.

        A free base turns, but has no linear velocity: it would fly out of sight.

        Parameters
        ----------
        seed : of the random numbers.
        """
        v = np.random.default_rng([seed, 7]).uniform(-1.0, 1.0, self.model.nv)
        for joint, kind in zip(self.model.joint_names, self.model.kinematics.joints, strict=True):
            if isinstance(kind, mb.Free):
                v[self.model.velocity_slice(joint)][3:] = 0.0
        unit: np.ndarray = v / np.abs(v).max()
        return unit

    def poses(self, q: Any) -> tuple[np.ndarray, np.ndarray]:
        """Positions (N, 3), m, and rotations (N, 3, 3) of the bodies at q (nq,), in the world."""
        with self._lock:
            positions, rotations, _ = self._poses(configuration(self.model.kinematics, "q", q)[None])
        return positions[0], rotations[0]

    def move(self, q: Any, v: Any, duration: float) -> RobotMotion:
        """The free motion from (q, v).

        Parameters
        ----------
        q : (nq,) configuration.
        v : (nv,) velocity, rad/s and m/s.
        duration : s, positive.

        Returns
        -------
        RobotMotion, shorter than `duration` if the motion reaches a singular configuration.

        Raises
        ------
        ClosureError, PointError, NonFiniteError : q is no configuration of the robot.
        IntegrationError : the motion cannot begin.
        """
        q, v = (
            np.asarray(as_array(*item)) for item in (("q", q, (self.model.nq,)), ("v", v, (self.model.nv,)))
        )
        require_finite("q", q)
        require_finite("v", v)
        if not (np.isfinite(duration) and duration > 0.0):
            raise ValueError(f"duration: expected a positive number of seconds, got {duration}")
        with self._lock:
            mb.mass_matrix(self.model, q)  # raises the error if q is no configuration
            return self._move(q, v, float(duration))

    def rates(self, motion: RobotMotion) -> ContractionRates:
        """How fast neighbouring free motions come together or separate, at the times of a motion.

        Parameters
        ----------
        motion : one of this robot.

        Returns
        -------
        `control.contraction_rates` without gravity and forces. Its distance is the one whose largest bound is
        least at every eighth time; every distance gives a bound at all times.
        """
        free = self.model.with_gravity((0.0, 0.0, 0.0))
        with self._lock:
            some = contraction_rates(free, motion.q[::8], motion.v[::8])
            return contraction_rates(free, motion.q, motion.v, weight=(some.kappa, some.delta))

    def _move(self, q: np.ndarray, v: np.ndarray, duration: float) -> RobotMotion:
        stopped = ""
        for _ in range(6):
            times = np.linspace(0.0, duration, _NODES)
            points, velocities, good = self._geodesic(q, v, times)
            if good.all():
                break
            reached = times[max(int(np.argmin(good)) - 1, 0)]
            stopped = f"the motion ends at {reached:.3g} s: it reaches a singular configuration"
            duration = 0.98 * reached
            if not reached > 0.0:
                break
        if not good.all():
            raise IntegrationError("the motion cannot be followed from here: take another pose or velocity")
        H = mb.mass_matrix(self.model, points)
        plain = mb.coriolis_matrix(self.model, points, velocities)
        extra = mb.coriolis_matrix(self.model, points, velocities, body_factor="force_cross") - plain
        positions, rotations, jacobians = self._poses(points[::4])
        return RobotMotion(
            times=times[::4],
            q=points[::4],
            v=velocities[::4],
            positions=positions,
            rotations=rotations,
            jacobians=jacobians,
            H=H[::4],
            plain=np.linalg.solve(H, plain),
            extra=np.linalg.solve(H, extra),
            stopped=stopped,
        )

    def _geodesic(
        self, q: np.ndarray, v: np.ndarray, times: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Configurations and velocities (T, ...) of the free motion, and which times (T,) it reaches."""
        host = self.model.connection.host
        motions = HostMotions(host.free_motion())
        started = motions.start((q[None], v[None]), 1)
        settings = Settings(max_steps=_MOST_STEPS)
        scales = np.stack([started.origin, np.zeros_like(started.origin)])
        attempts = motions.attempts(0.0, started, scales, (settings.rtol, settings.atol))
        states = follow(attempts, started.y, started.origin, times, settings).states[0]
        points, velocities = np.split(states, [len(q)], axis=1)
        good = np.isfinite(states).all(axis=1)
        points[good] = [host.normalized(point) for point in points[good]]
        return points, velocities, good

    @cached_property
    def _tree(self) -> tuple[Kinematics, HostConditions]:
        """The spanning tree, and its loop conditions without loops, which compute the poses."""
        from connections.multibody.program.closure_conditions import HostConditions  # imports Numba

        tree, nothing = self.model.kinematics, np.zeros(0)
        tree = tree.spanning if isinstance(tree, ClosedKinematics) else tree
        return tree, HostConditions(tree, gather(tree.tree, tree, nothing, (), (), nothing, nothing)[0])

    def _poses(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Positions (T, N, 3), rotations (T, N, 3, 3), jacobians (T, N, 6, nv) of the bodies at q (T, nq)."""
        (tree, conditions), G = self._tree, np.eye(self.model.nv)
        if self.model.closed:
            q, G, _ = self.model.program.solution(q)
        placed = [conditions.placed(point) for point in q]
        transforms = np.stack([each.transforms[:-1] for each in placed])
        R, p = transforms[..., :3, :3], transforms[..., :3, 3]
        columns = np.stack([each.columns for each in placed])[:, None] * tree.moves[:, :, None]
        w = columns[..., :3]
        u = columns[..., 3:] + np.cross(w, p[:, :, None])  # from the world's origin to the bodies'
        jacobians = np.concatenate([w @ R, u @ R], axis=-1).swapaxes(-1, -2)
        return p, R, jacobians @ np.expand_dims(G, -3)


def _linear(A: np.ndarray, step: float) -> np.ndarray:
    """Y (K, n, n) of Ydot = A Y, Y = 1 at first, from A (2 K - 1, n, n) at both ends and the middle of steps.

    Magnus' expansion to order four by Simpson's rule, and the diagonal Pade approximant of its exponential: a
    rotation in any metric in which A is skew.
    """
    start, middle, end = A[:-2:2], A[1:-1:2], A[2::2]
    Omega = step / 6.0 * (start + 4.0 * middle + end) - step**2 / 12.0 * (start @ end - end @ start)
    one, square = np.eye(A.shape[-1]), Omega @ Omega / 12.0
    factors = np.linalg.solve(one - 0.5 * Omega + square, one + 0.5 * Omega + square)
    Y = np.empty((len(factors) + 1, *one.shape))
    Y[0] = one
    for number, factor in enumerate(factors):
        Y[number + 1] = factor @ Y[number]
    return Y
