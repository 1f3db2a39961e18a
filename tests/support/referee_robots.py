"""The robots and craft of the corpus of `connections.referee`, of one feature each.

`referee_corpus.py` writes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np


@dataclass(frozen=True)
class Link:
    """A body: mass (kg), centre of mass (m), inertia xx yy zz xy xz yz (kg m^2) in axes turned by rpy."""

    name: str
    mass: float = 0.0
    com: tuple = (0.0, 0.0, 0.0)
    inertia: tuple = (0.0,) * 6
    rpy: tuple = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Joint:
    """A joint as URDF has it."""

    name: str
    kind: str
    parent: str
    child: str
    xyz: tuple = (0.0, 0.0, 0.0)
    rpy: tuple = (0.0, 0.0, 0.0)
    axis: tuple = (0.0, 0.0, 1.0)
    mimic: tuple | None = None  # leader, multiplier, offset
    armature: float = 0.0


@dataclass(frozen=True)
class Robot:
    """A robot of the corpus; the first link is its root."""

    name: str
    feature: str
    links: tuple
    joints: tuple
    base: str = "fixed"
    urdf: bool = True
    mjcf: bool = True
    listed: tuple = field(default=())  # names of joints in the order of the file, if not that of `joints`


def _base():
    return Link("base", 3.0, (0.02, 0.01, 0.05), (0.02, 0.03, 0.04, 0.0, 0.0, 0.0))


def _body(
    name, mass=1.0, com=(0.05, -0.02, 0.12), inertia=(0.01, 0.012, 0.008, 0.0, 0.0, 0.0), rpy=(0, 0, 0)
):
    return Link(name, mass, com, inertia, tuple(map(float, rpy)))


def _chain(name, feature, axes, kinds=None, places=None, turns=None, bodies=None, base=None, **more):
    """A serial robot: one link after the other."""
    count = len(axes)
    kinds = kinds or ["revolute"] * count
    places = places or [(0.1, 0.05, 0.2), (0.25, 0.0, 0.1), (0.0, 0.2, 0.15), (0.1, -0.1, 0.2)][:count]
    turns = turns or [(0.0, 0.0, 0.0)] * count
    bodies = bodies or [_body(f"link{k + 1}", 1.5 - 0.3 * k) for k in range(count)]
    links = (base or _base(), *bodies)
    joints = tuple(
        Joint(f"joint{k + 1}", kinds[k], links[k].name, links[k + 1].name, places[k], turns[k], axes[k])
        for k in range(count)
    )
    return Robot(name, feature, links, joints, **more)


X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
OBLIQUE = (0.6, 0.0, 0.8), (2 / 3, -1 / 3, 2 / 3), (0.0, 0.28, 0.96)
TURNS = [(0.4, -0.3, 0.2), (-0.7, 0.5, 1.1), (0.3, 0.9, -0.6)]
PRODUCTS = (0.014, 0.012, 0.009, 0.003, -0.002, 0.0025)


def _slide_behind_hinge():
    base, arm = _base(), Link("arm", 1.0, (0.1, 0.0, 0.0), (0.01, 0.01, 0.01, 0.0, 0.0, 0.0))
    load = Link("load", 2.0, (0.0, 0.0, 0.0), (0.01, 0.01, 0.01, 0.0, 0.0, 0.0))
    joints = (
        Joint("hinge", "revolute", "base", "arm", (0.0, 0.0, 0.0), axis=Z),
        Joint("slide", "prismatic", "arm", "load", (0.3, 0.2, 0.1), axis=Y),
    )
    feature = "a slide along y behind a hinge about z, whose axis turns with the hinge"
    return Robot("slide_behind_hinge", feature, (base, arm, load), joints)


def _branches(base, name="branches"):
    names = ("a1", "a2", "b1", "b2", "c1")
    links = (base, *(_body(f"link_{n}", 0.6 + 0.2 * k) for k, n in enumerate(names)))
    places = ((0.2, 0.1, 0.0), (0.0, 0.1, 0.2), (-0.2, 0.1, 0.1), (0.1, 0.0, 0.2), (0.0, -0.2, 0.1))
    axes = (Z, Y, X, (0.0, -1.0, 0.0), Y)
    parents = ("base", "link_a1", "base", "link_b1", "link_a1")
    joints = tuple(
        Joint(n, "revolute", p, f"link_{n}", x, (0.0, 0.0, 0.0), a)
        for n, p, x, a in zip(names, parents, places, axes, strict=True)
    )
    return Robot(name, "three branches, whose depth-first and breadth-first orders differ", links, joints)


def _fixed_links():
    links = (
        _base(),
        _body("link1", 1.2),
        _body("bracket", 0.8, (0.1, 0.02, -0.03)),
        _body("link2", 0.9),
        _body("tool", 0.7, (0.0, 0.06, 0.2)),
    )
    joints = (
        Joint("joint1", "revolute", "base", "link1", (0.1, 0.0, 0.2), axis=Y),
        Joint("weld1", "fixed", "link1", "bracket", (0.1, 0.05, 0.2), (0.5, -0.4, 0.8)),
        Joint("joint2", "revolute", "bracket", "link2", (0.05, 0.1, 0.15), axis=X),
        Joint("weld2", "fixed", "link2", "tool", (0.0, 0.1, 0.2), (0.0, 0.7, 0.3)),
    )
    return Robot("fixed_links", "links with mass that fixed, turned joints carry", links, joints)


def _mimic():
    robot = _chain(
        "mimic",
        "a hinge that follows another with ratio -1.5 and offset 0.2",
        (Z, Y, Y),
        mjcf=False,
    )
    tied = replace(robot.joints[2], mimic=("joint2", -1.5, 0.2))
    return Robot(robot.name, robot.feature, robot.links, (*robot.joints[:2], tied), mjcf=False)


def _armature():
    robot = _chain("armature", "rotors of motors, 0.3 and 0.05 kg m^2, as armature", (Z, Y))
    joints = tuple(
        replace(joint, armature=armature) for joint, armature in zip(robot.joints, (0.3, 0.05), strict=True)
    )
    return Robot(robot.name, robot.feature, robot.links, joints, urdf=False)


def _reversed_file():
    robot = _chain("reversed_file", "a file that lists the last joint first", (Z, (0.0, -1.0, 0.0), X))
    return Robot(
        robot.name,
        robot.feature,
        robot.links,
        robot.joints,
        mjcf=False,
        listed=tuple(j.name for j in reversed(robot.joints)),
    )


def _light_finger():
    bodies = [
        Link("link1", 20.0, (0.1, 0.0, 0.3), (0.8, 0.9, 0.4, 0.0, 0.0, 0.0)),
        Link("link2", 8.0, (0.0, 0.1, 0.2), (0.2, 0.25, 0.1, 0.0, 0.0, 0.0)),
        Link("finger", 0.02, (0.0, 0.01, 0.03), (6e-6, 7e-6, 3e-6, 0.0, 0.0, 0.0)),
    ]
    return _chain("light_finger", "a finger of 20 g on an arm of 28 kg", (Z, Y, X), bodies=bodies)


OFFSET_TRUNK = Link("base", 5.0, (0.12, -0.07, 0.09), (0.09, 0.12, 0.07, 0.0, 0.0, 0.0))
HARD_TRUNK = Link("base", 5.0, (0.12, -0.07, 0.09), (0.09, 0.12, 0.07, 0.011, -0.008, 0.013))


def _hard_floating():
    links = (
        HARD_TRUNK,
        Link("thigh", 1.1, (0.03, 0.02, -0.15), (0.02, 0.014, 0.009, 0.0, 0.0, 0.0), (0.3, -0.5, 0.8)),
        Link("bracket", 0.4, (0.05, 0.0, -0.02), (0.001, 0.002, 0.0015, 0.0, 0.0, 0.0)),
        Link("shank", 0.7, (0.0, 0.03, -0.12), PRODUCTS),
        Link("arm", 0.9, (0.1, -0.02, 0.05), (0.008, 0.011, 0.006, 0.0, 0.0, 0.0)),
        Link("slider", 0.5, (0.02, 0.05, 0.0), (0.002, 0.003, 0.001, 0.0, 0.0, 0.0)),
    )
    joints = (
        Joint("hip", "revolute", "base", "thigh", (0.1, 0.15, -0.05), (0.2, -0.4, 0.3), (0.0, -1.0, 0.0)),
        Joint("weld", "fixed", "thigh", "bracket", (0.02, 0.05, -0.2), (0.6, 0.1, -0.7)),
        Joint("knee", "revolute", "bracket", "shank", (0.0, 0.02, -0.1), (0.0, 0.0, 0.0), OBLIQUE[1]),
        Joint("shoulder", "revolute", "base", "arm", (-0.1, -0.2, 0.1), (-0.3, 0.6, 0.1), (0.0, 0.0, 2.0)),
        Joint("reach", "prismatic", "arm", "slider", (0.2, 0.0, 0.05), (0.5, 0.0, -0.9), OBLIQUE[0]),
    )
    feature = "a floating base with two branches and nearly all other features at once"
    return Robot("hard_floating", feature, links, joints, base="floating")


def robots():
    """All robots, in the order of the corpus."""
    hinge = (0.0, -1.0, 0.0)
    return (
        _chain("negative_axes", "hinges about -z, -y and -x", ((0.0, 0.0, -1.0), hinge, (-1.0, 0.0, 0.0))),
        _chain("oblique_axes", "hinges about axes that are oblique to their frames", OBLIQUE),
        _chain("unnormalized_axes", "axes that the file gives with lengths 2, 1/2 and 5",
               ((0.0, 2.0, 0.0), (0.0, 0.0, 0.5), (3.0, 4.0, 0.0))),
        _chain("turned_origins", "joint origins that are turned about all three axes", (Z, Y, X),
               turns=TURNS),
        _slide_behind_hinge(),
        _chain("turned_slides", "slides and hinges in turn, behind turned origins",
               (Z, OBLIQUE[0], Y, (-1.0, 0.0, 0.0)),
               kinds=["revolute", "prismatic", "revolute", "prismatic"], turns=[*TURNS, (0.2, 0.1, -0.4)]),
        _chain("turned_inertias", "inertial frames that are turned about all three axes", (Z, Y, X),
               bodies=[_body(f"link{k + 1}", 1.0, inertia=(0.03, 0.012, 0.02, 0.0, 0.0, 0.0), rpy=TURNS[k])
                       for k in range(3)]),
        _chain("products_of_inertia", "products of inertia", (Z, Y, X),
               bodies=[_body(f"link{k + 1}", 0.3, (0.0, 0.0, 0.05), PRODUCTS) for k in range(3)]),
        _fixed_links(),
        _branches(_base()),
        _mimic(),
        _armature(),
        _chain("continuous", "hinges without limits", (Z, Y, X), kinds=["continuous"] * 3),
        _reversed_file(),
        _light_finger(),
        _chain("massless_root", "a root link without inertial data", (Z, Y), base=Link("base")),
        Robot("floating_body", "one floating body, whose centre of mass is not its frame",
              (HARD_TRUNK,), (), "floating"),
        _on(_chain("floating_offset", "a floating base whose centre of mass is not its frame, and a hinge",
                   (hinge,), base=OFFSET_TRUNK), "floating"),
        _on(_branches(OFFSET_TRUNK, name="floating_branches"), "floating"),
        _massless_floating_root(),
        _hard_floating(),
        _planar(),
    )  # fmt: skip


def _on(robot, base):
    return replace(robot, base=base)


def _massless_floating_root():
    links = (Link("base"), Link("trunk", HARD_TRUNK.mass, HARD_TRUNK.com, HARD_TRUNK.inertia), _body("link1"))
    joints = (
        Joint("weld", "fixed", "base", "trunk", (0.1, 0.0, 0.05), (0.3, -0.2, 0.5)),
        Joint("joint1", "revolute", "trunk", "link1", (0.1, 0.05, 0.2), axis=Y),
    )
    feature = "a floating root link without inertial data, to which the trunk is fixed"
    return Robot("floating_massless_root", feature, links, joints, base="floating")


def _planar():
    links = (Link("ground", 1.0, (0, 0, 0), (0.1, 0.1, 0.1, 0, 0, 0)), OFFSET_TRUNK, _body("link1"))
    joints = (
        Joint("ice", "planar", "ground", "base", axis=Z),
        Joint("joint1", "revolute", "base", "link1", (0.2, 0.1, 0.1), axis=Z),
    )
    return Robot("planar_base", "a base that moves in a plane, and a hinge", links, joints, base="planar")


# --- marine craft ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Craft:
    """A craft: rigid and added mass (n, n) in body axes [omega; v], weight and buoyancy with their points."""

    name: str
    feature: str
    base: str
    rigid: np.ndarray
    added: np.ndarray
    weight: tuple = (0.0, (0.0, 0.0, 0.0), 0.0, (0.0, 0.0, 0.0))  # W (N), point, B (N), point


def crafts():
    """The craft."""
    m, c, izz = 23.8, (0.046, 0.021), 1.9
    rigid3 = np.array([[izz, -m * c[1], m * c[0]], [-m * c[1], m, 0.0], [m * c[0], 0.0, m]])
    added3 = np.array([[1.1, 0.25, 0.9], [0.25, 2.6, -0.35], [0.9, -0.35, 10.3]])
    m, c = 31.0, np.array([0.03, -0.02, 0.05])
    cross = np.array([[0.0, -c[2], c[1]], [c[2], 0.0, -c[0]], [-c[1], c[0], 0.0]])
    inertia = np.array([[0.9, 0.05, -0.08], [0.05, 3.4, 0.04], [-0.08, 0.04, 3.2]])
    rigid6 = np.block([[inertia, m * cross], [-m * cross, m * np.eye(3)]])
    half = np.array(
        [
            [0.31, 0.02, -0.03, 0.11, -0.25, 0.07],
            [0.0, 1.5, 0.06, 0.21, 0.13, -0.42],
            [0.0, 0.0, 1.4, -0.17, 0.52, 0.09],
            [0.0, 0.0, 0.0, 3.1, 0.35, -0.28],
            [0.0, 0.0, 0.0, 0.0, 21.0, 0.9],
            [0.0, 0.0, 0.0, 0.0, 0.0, 24.0],
        ]
    )
    added6 = half + np.triu(half, 1).T
    return (
        Craft("vessel_3dof", "a vessel in the plane with asymmetric added mass", "planar", rigid3, added3),
        Craft("vehicle_6dof", "an underwater vehicle with asymmetric added mass, lighter than its water",
              "floating", rigid6, added6, (m * 9.81, tuple(c), 1.02 * m * 9.81, (0.01, 0.015, -0.04))),
    )  # fmt: skip


def random_robot(seed):
    """A random tree: one to six joints of three kinds, masses from 50 g to 20 kg, any axes and turns."""
    rng = np.random.default_rng(seed)
    count, base = int(rng.integers(1, 7)), ("fixed", "floating")[seed % 2]
    links, joints = [_random_link("base", rng)], []
    for number in range(count):
        parent = links[int(rng.integers(len(links)))].name
        kind = "revolute" if not number else str(rng.choice(["revolute", "revolute", "prismatic", "fixed"]))
        links.append(_random_link(f"link{number}", rng))
        place, turn = tuple(0.3 * rng.standard_normal(3)), tuple(rng.uniform(-1.5, 1.5, 3))
        axis = tuple(rng.standard_normal(3))
        joints.append(Joint(f"joint{number}", kind, parent, f"link{number}", place, turn, axis))
    return Robot(f"random{seed}", "random", tuple(links), tuple(joints), base=base)


def _random_link(name, rng):
    mass, size = float(np.exp(rng.uniform(np.log(0.05), np.log(20.0)))), rng.uniform(0.03, 0.3)
    points = size * rng.standard_normal((6, 3))
    points -= points.mean(axis=0)
    moments = mass / 6 * (np.sum(points**2) * np.eye(3) - points.T @ points)
    entries = (moments[a, b] for a, b in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)))
    turn = rng.uniform(-1.5, 1.5, 3) * (rng.random() < 0.5)
    return Link(name, mass, tuple(0.2 * rng.standard_normal(3)), tuple(map(float, entries)), tuple(turn))
