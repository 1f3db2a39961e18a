"""The corpus of `connections.referee`: robots of one feature each, as URDF and MJCF, and their references.

    python tests/support/referee_corpus.py          # writes connections/referee/corpus/

The references are H, C v, C and gravity by the definition (Levi-Civita of the pulled-back metric, in JAX),
and must be those of the recursions to twelve digits. `tests/referee/test_corpus.py` compares the files with
this script, and the references with MuJoCo and Pinocchio, which read the files by themselves.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from referee_robots import X, Y, Z, crafts, robots
from scipy.spatial.transform import Rotation

SAMPLES = 2
DIGITS = 1e-12


# --- files ----------------------------------------------------------------------------------------


def _text(values):
    return " ".join(f"{float(x):.12g}" for x in values)


def urdf(robot):
    """The robot as URDF."""
    lines = ['<?xml version="1.0"?>', f"<!-- {robot.feature} -->", f'<robot name="{robot.name}">']
    for link in robot.links:
        if not link.mass:
            lines.append(f'  <link name="{link.name}"/>')
            continue
        entries = zip(("ixx", "iyy", "izz", "ixy", "ixz", "iyz"), link.inertia, strict=True)
        inertia = " ".join(f'{key}="{float(value):.12g}"' for key, value in entries)
        lines += [
            f'  <link name="{link.name}">',
            "    <inertial>",
            f'      <origin xyz="{_text(link.com)}" rpy="{_text(link.rpy)}"/>',
            f'      <mass value="{link.mass:.12g}"/>',
            f"      <inertia {inertia}/>",
            "    </inertial>",
            "  </link>",
        ]
    named = {joint.name: joint for joint in robot.joints}
    for name in robot.listed or named:
        lines += _urdf_joint(named[name])
    return "\n".join([*lines, "</robot>", ""])


def _urdf_joint(joint):
    lines = [
        f'  <joint name="{joint.name}" type="{joint.kind}">',
        f'    <parent link="{joint.parent}"/>',
        f'    <child link="{joint.child}"/>',
        f'    <origin xyz="{_text(joint.xyz)}" rpy="{_text(joint.rpy)}"/>',
    ]
    if joint.kind != "fixed":
        lines.append(f'    <axis xyz="{_text(joint.axis)}"/>')
    if joint.kind in ("revolute", "prismatic"):
        lines.append('    <limit lower="-3" upper="3" effort="100" velocity="10"/>')
    if joint.mimic:
        leader, ratio, offset = joint.mimic
        lines.append(f'    <mimic joint="{leader}" multiplier="{ratio:.12g}" offset="{offset:.12g}"/>')
    return [*lines, "  </joint>"]


def mjcf(robot):
    """The robot as MJCF; bodies have a geom without mass, which some readers need."""
    lines = [
        f"<!-- {robot.feature} -->",
        f'<mujoco model="{robot.name}">',
        '  <compiler angle="radian" balanceinertia="false" inertiafromgeom="false" fusestatic="false"/>',
        "  <worldbody>",
    ]
    root = robot.links[0].name
    if robot.base == "planar":
        lines += _mjcf_body(robot, robot.joints[0].child, robot.joints[0], 2)
    else:
        lines += _mjcf_body(robot, root, None, 2)
    return "\n".join([*lines, "  </worldbody>", "</mujoco>", ""])


def _mjcf_body(robot, name, joint, depth):
    pad = "  " * depth
    link = next(each for each in robot.links if each.name == name)
    at = "" if joint is None else f' pos="{_text(joint.xyz)}"{_quaternion(joint.rpy)}'
    lines = [f'{pad}<body name="{name}"{at}>']
    if link.mass:
        lines.append(f"{pad}  {_mjcf_inertial(link)}")
    if joint is None and robot.base == "floating":
        lines.append(f'{pad}  <freejoint name="root_joint"/>')
    elif joint is not None and joint.kind == "planar":
        for word, kind, axis in (("x", "slide", X), ("y", "slide", Y), ("angle", "hinge", Z)):
            lines.append(f'{pad}  <joint name="{joint.name}_{word}" type="{kind}" axis="{_text(axis)}"/>')
    elif joint is not None and joint.kind != "fixed":
        kind = "slide" if joint.kind == "prismatic" else "hinge"
        armature = f' armature="{joint.armature:.12g}"' if joint.armature else ""
        lines.append(
            f'{pad}  <joint name="{joint.name}" type="{kind}" axis="{_text(joint.axis)}"{armature}/>'
        )
    lines.append(f'{pad}  <geom type="sphere" size="0.01" mass="0" contype="0" conaffinity="0"/>')
    for each in robot.joints:
        if each.parent == name:
            lines += _mjcf_body(robot, each.child, each, depth + 1)
    return [*lines, f"{pad}</body>"]


def _mjcf_inertial(link):
    place = f'<inertial pos="{_text(link.com)}" mass="{link.mass:.12g}"'
    if any(link.inertia[3:]):
        assert not any(link.rpy)
        return f'{place} fullinertia="{_text(link.inertia)}"/>'
    return f'{place}{_quaternion(link.rpy)} diaginertia="{_text(link.inertia[:3])}"/>'


def _quaternion(rpy):
    if not any(rpy):
        return ""
    return f' quat="{" ".join(f"{x:.17g}" for x in np.roll(Rotation.from_euler("xyz", rpy).as_quat(), 1))}"'


# --- references -----------------------------------------------------------------------------------


def samples(name, base, joints):
    """Configurations and velocities, in our layout, of a robot with so many joints."""
    rng = np.random.default_rng(list(name.encode()))
    q, v = [], []
    for _ in range(SAMPLES):
        turn = rng.standard_normal(4)
        start = {
            "fixed": [],
            "planar": rng.uniform(-1.0, 1.0, 3),
            "floating": np.concatenate([rng.uniform(-1.0, 1.0, 3), turn / np.linalg.norm(turn)]),
        }[base]
        q.append(np.concatenate([start, rng.uniform(-1.4, 1.4, joints)]))
        rates = {"fixed": 0, "planar": 3, "floating": 6}[base] + joints
        v.append(np.sign(rng.standard_normal(rates)) * rng.uniform(0.4, 1.6, rates))
    return np.stack(q), np.stack(v)


def model_of(robot):
    """The robot by our readers."""
    from connections import multibody as mb

    return mb.from_urdf(urdf(robot), robot.base == "floating") if robot.urdf else mb.from_mjcf(mjcf(robot))


def turn_planar(q, count):
    """T with the model's velocity [x', y', angle', joints] = T [omega, v body, joints]."""
    T = np.eye(3 + count)
    c, s = np.cos(q[2]), np.sin(q[2])
    T[:3, :3] = [[0.0, c, -s], [0.0, s, c], [1.0, 0.0, 0.0]]
    rate = np.zeros_like(T)  # along omega
    rate[:2, 1:3] = [[-s, -c], [c, -s]]
    return T, rate


def free_joints(robot):
    """Names of the joints that move, in our order (depth first), without the base's."""
    return [j.name for j in deep(robot) if j.kind not in ("fixed", "planar") and j.mimic is None]


def deep(robot):
    """The joints, depth first."""

    def below(link):
        for joint in robot.joints:
            if joint.parent == link:
                yield joint
                yield from below(joint.child)

    return list(below(robot.links[0].name))


def references(robot, by="definition"):
    """{key: array} of a robot: by the definition, or by the recursion."""
    import connections as cn
    from connections import multibody as mb

    model = model_of(robot)
    own = [name for name in model.joint_names if name in free_joints(robot)]
    assert own == free_joints(robot), (own, robot.name)
    count = model.nv - {"fixed": 0, "planar": 3, "floating": 6}[robot.base]
    q, v = samples(robot.name, robot.base, count)
    H, C, g = [], [], []
    for point, velocity in zip(q, v, strict=True):
        T, rate = (
            turn_planar(point, count)
            if robot.base == "planar"
            else (np.eye(model.nv), np.zeros((model.nv, model.nv)))
        )
        theirs = T @ velocity
        if by == "definition":
            metric = model.definition.metric
            mass = np.asarray(metric.matrix(point))
            matrix = np.asarray(cn.coriolis_matrix(cn.LeviCivita(metric), point, theirs))
        else:
            mass, matrix = mb.mass_matrix(model, point), mb.coriolis_matrix(model, point, theirs)
        T_dot = rate * velocity[0]
        H.append(T.T @ mass @ T)
        C.append(T.T @ (matrix @ T + mass @ T_dot))
        g.append(T.T @ mb.gravity(model, point))
    C = np.stack(C)
    found = {"q": q, "v": v, "mass_matrix": np.stack(H), "coriolis": C, "gravity": np.stack(g)}
    return found | {"bias": np.einsum("mij,mj->mi", C, v), "com": com_of(robot)}


def com_of(robot):
    """The centre of mass of everything that is welded to the base, in its frame."""
    if robot.base == "fixed":
        return np.zeros(3)
    by_name = {link.name: link for link in robot.links}
    total, moment = 0.0, np.zeros(3)
    stack = [("base", np.eye(3), np.zeros(3))]
    while stack:
        name, R, p = stack.pop()
        link = by_name[name]
        total += link.mass
        moment = moment + link.mass * (p + R @ np.array(link.com))
        for joint in robot.joints:
            if joint.parent == name and joint.kind == "fixed":
                turn = Rotation.from_euler("xyz", joint.rpy).as_matrix()
                stack.append((joint.child, R @ turn, p + R @ np.array(joint.xyz)))
    return moment / total


def craft_references(craft, by="definition"):
    """{key: array} of a craft: by Levi-Civita of the invariant metric, or by Kirchhoff's equations."""
    import connections as cn

    q, v = samples(craft.name, craft.base, 0)
    M = craft.rigid + craft.added
    frame = cn.SE2Frame() if craft.base == "planar" else cn.SE3Frame()
    metric = cn.ConstantMetric(frame, M)
    C = np.asarray(cn.coriolis_matrix(cn.LeviCivita(metric), q, v))
    bias = np.einsum("mij,mj->mi", C, v) if by == "definition" else np.stack([kirchhoff(M, x) for x in v])
    W, c, B, b = craft.weight
    g = np.zeros_like(v)
    if craft.base == "floating":
        for k, point in enumerate(q):
            down = Rotation.from_quat(point[3:]).as_matrix().T @ np.array([0.0, 0.0, -1.0])
            force, moment = W * down - B * down, np.cross(c, W * down) - np.cross(b, B * down)
            g[k] = -np.concatenate([moment, force])
    found = {"q": q, "v": v, "mass_matrix": np.stack([M] * len(q)), "coriolis": C, "bias": bias, "gravity": g}
    return found | {"com": np.zeros(3), "rigid_mass": craft.rigid, "added_mass": craft.added}


def kirchhoff(M, v):
    """Kirchhoff's equations: momenta (M v) turned back by the motion; [omega; v] in the plane or in space."""
    p = M @ v
    if len(v) == 3:
        return np.array([v[1] * p[2] - v[2] * p[1], -v[0] * p[2], v[0] * p[1]])
    w, u = v[:3], v[3:]
    return np.concatenate([np.cross(w, p[:3]) + np.cross(u, p[3:]), np.cross(w, p[3:])])


def index():
    """The table of the corpus, as it is written into a file."""
    rows = []
    for robot in robots():
        joints = free_joints(robot)
        rows.append(
            {
                "name": robot.name,
                "feature": robot.feature,
                "base": robot.base,
                "joints": joints,
                "orders": orders(robot, joints),
                "urdf": robot.urdf,
                "mjcf": robot.mjcf,
                "craft": False,
            }
        )
    for craft in crafts():
        row = {"name": craft.name, "feature": craft.feature, "base": craft.base, "joints": [], "orders": []}
        rows.append(row | {"urdf": False, "mjcf": False, "craft": True})
    return rows


def orders(robot, joints):
    """Other orders in which libraries list the joints: breadth first, of the file, by name."""
    breadth, queue = [], [robot.links[0].name]
    while queue:
        link = queue.pop(0)
        reached = [joint for joint in robot.joints if joint.parent == link]
        breadth += [joint.name for joint in reached]
        queue += [joint.child for joint in reached]
    found = []
    for order in (breadth, robot.listed or [joint.name for joint in robot.joints], sorted(joints)):
        kept = [name for name in order if name in joints]
        if kept and kept != joints and kept not in found:
            found.append(kept)
    return found


def files():
    """{name of the file: text} of the corpus."""
    import json

    found = {"index.json": json.dumps(index(), indent=1) + "\n"}
    for robot in robots():
        if robot.urdf:
            found[f"{robot.name}.urdf"] = urdf(robot)
        if robot.mjcf:
            found[f"{robot.name}.xml"] = mjcf(robot)
    return found


def main():
    folder = Path(__file__).resolve().parents[2] / "connections" / "referee" / "corpus"
    for name, text in files().items():
        (folder / name).write_text(text)
    arrays = {}
    for each, measure in [(r, references) for r in robots()] + [(c, craft_references) for c in crafts()]:
        found, again = measure(each), measure(each, "recursion")
        for key, value in found.items():
            gap = float(np.max(np.abs(value - again[key]), initial=0.0))
            size = float(np.max(np.abs(value), initial=1.0))
            if gap > DIGITS * size:
                sys.exit(f"{each.name}/{key}: definition and recursion differ by {gap:.2e} of {size:.2e}")
            arrays[f"{each.name}/{key}"] = value
        print(each.name)
    np.savez_compressed(folder / "references.npz", **arrays)


if __name__ == "__main__":
    main()
