"""Mechanisms that people build, as plans, each with its closed form; all dimensions are invented.

Angles in rad, lengths in m. `MECHANISMS` lists them: the plan, and a function from q to coordinates of
dependent joints, which shares nothing with the package. In the plans z points up, or y for the planar ones.
"""

from __future__ import annotations

import numpy as np
from closed_oracles import four_bar_angles
from closed_plan import Plan, at
from scipy.spatial.transform import Rotation

from connections import multibody as mb

X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
HINGE = mb.Revolute(Z)
DOWN = (0.0, 0.0, -9.81)


def angle_of(A, B, C, side=1.0):
    """The angle x with A cos x + B sin x = C, on one of its two sides."""
    return np.arctan2(B, A) + side * np.arccos(C / np.hypot(A, B))


def turned(axis, angle):
    """Rotation matrix about a unit axis."""
    return Rotation.from_rotvec(angle * np.asarray(axis)).as_matrix()


# --- shafts -----------------------------------------------------------------------------------------------

BEND = 0.6  # rad, between two shafts


def shafts(closure, turn=0.4, follows=None):
    """Two shafts in fixed bearings, whose axes meet at an angle, joined where they meet."""
    plan = Plan(30)
    plan.add("driver", "world", "driver", HINGE, None, turn)
    plan.add("driven", "world", "driven", HINGE, at(rpy=(BEND, 0.0, 0.0)), follows)
    plan.loop("joint", "driver", "driven", closure, independent=["driver"])
    plan.nv = 1
    return plan


def cardan():
    """A universal joint between two shafts: its cross turns unevenly."""
    return shafts(mb.Universal(X, Y), follows=cardan_angle(0.4))


def cardan_angle(turn):
    """X of the driver is perpendicular to y of the driven: cos x (-sin y) + sin x cos y cos bend = 0."""
    return np.arctan2(np.sin(turn) * np.cos(BEND), np.cos(turn))


def homokinetic():
    """A constant-velocity joint between the same shafts."""
    return shafts(mb.ConstantVelocity(), follows=0.4)


# --- a jack -----------------------------------------------------------------------------------------------

ARM, GROUND, PITCH = 0.5, 0.8, 8e-4  # m, m, m/rad: a lead of 5 mm
START = 1.2  # rad, the arm in the reference


def span(arm):
    """Distance from the barrel's hinge to the arm's pin, m, by the law of cosines."""
    return np.sqrt(ARM**2 + GROUND**2 - 2.0 * ARM * GROUND * np.cos(arm))


def lean(arm):
    """The barrel's angle to the x axis."""
    return np.mod(np.arctan2(ARM * np.sin(arm), ARM * np.cos(arm) - GROUND), 2.0 * np.pi)


def jack(pitch=PITCH, swapped=False, independent=("arm",)):
    """A rotor in the barrel carries the thread of a rod that is pinned to the arm."""
    plan = Plan(21)
    plan.add("arm", "world", "arm", HINGE, None, START)
    plan.add("barrel", "world", "barrel", HINGE, at(GROUND), lean(START))
    plan.add("rotor", "barrel", "rotor", mb.Revolute(X))
    plan.add("pin", "arm", "rod", HINGE, at(ARM), lean(START) - START)
    ends = ("rod", "rotor") if swapped else ("rotor", "rod")
    plan.loop("screw", *ends, mb.Helical(X, pitch), independent=independent)
    return plan


# --- parallel robots --------------------------------------------------------------------------------------

BASE, UPPER, LOWER, HAND, HALF = 0.2, 0.35, 0.8, 0.06, 0.05  # m, of the Delta robot
AROUND = 2.0 * np.pi / 3.0 * np.arange(3)


def delta_robot(arms=(0.3, 0.5, 0.2)):
    """Three arms move a platform by two parallel rods each, which keep it level; the rods have no mass."""
    plan = Plan(31, DOWN)
    for number, (turn, arm) in enumerate(zip(AROUND, arms, strict=True)):
        place = at(rpy=(0.0, 0.0, turn)) @ at(BASE)
        plan.add(f"motor {number}", "world", f"arm {number}", mb.Revolute(Y), place, arm)
    plan.add("hand", "world", "hand", mb.Free(), None, [*delta_point(np.array(arms)), 0.0, 0.0, 0.0, 1.0])
    motors = [f"motor {number}" for number in range(3)]
    for number, turn in enumerate(AROUND):
        for side in (-1.0, 1.0):
            ends = at(UPPER, side * HALF), at(rpy=(0.0, 0.0, turn)) @ at(HAND, side * HALF)
            bodies = f"arm {number}", "hand", mb.Distance(LOWER)
            plan.loop(f"rod {number} {side:+.0f}", *bodies, *ends, independent=motors)
    plan.nv = 3
    return plan


def delta_elbows(q):
    """(3, 3): the ends of the arms, each moved in by the platform's radius, and their derivatives."""
    radial = np.stack([np.cos(AROUND), np.sin(AROUND), 0.0 * AROUND], axis=1)
    q = np.asarray(q)[:, None]
    up = np.array([0.0, 0.0, 1.0])
    elbows = (BASE - HAND + UPPER * np.cos(q)) * radial - UPPER * np.sin(q) * up
    return elbows, -UPPER * np.sin(q) * radial - UPPER * np.cos(q) * up


def delta_point(q):
    """The platform's origin: the lower intersection of three spheres about the elbows."""
    a, b, c = delta_elbows(q)[0]
    ex = (b - a) / np.linalg.norm(b - a)
    along = ex @ (c - a)
    ey = c - a - along * ex
    ey /= np.linalg.norm(ey)
    x = np.linalg.norm(b - a) / 2.0
    y = ((c - a) @ (c - a) / 2.0 - along * x) / (ey @ (c - a))
    height = np.sqrt(LOWER**2 - x**2 - y**2)
    ez = np.cross(ex, ey)
    return a + x * ex + y * ey - height * np.sign(ez[2]) * ez


def delta_jacobian(q):
    """dp/dq (3, 3): with rods n_i = p - elbow_i, n_i . dp = n_i . d elbow_i."""
    elbows, rates = delta_elbows(q)
    rods = delta_point(q) - elbows
    return np.linalg.solve(rods, np.diag(np.sum(rods * rates, axis=1)))


FOOT, TOP = 0.5, 0.3  # m, radii of base and platform of the 3-RPS


def three_rps(pose=(0.6, 0.4, 0.25)):
    """Three legs, each a hinge across its plane, a slide and a ball, tilt and lift a platform."""
    plan = Plan(32, DOWN)
    lengths, leans = three_rps_legs(*pose)
    T = three_rps_pose(*pose)
    plan.add("platform", "world", "platform", mb.Free(), None, coordinates(T))
    for leg, turn in enumerate(AROUND):
        place = at(rpy=(0.0, 0.0, turn)) @ at(FOOT)
        plan.add(f"foot {leg}", "world", f"lower {leg}", mb.Revolute(Y), place, leans[leg])
        plan.add(f"leg {leg}", f"lower {leg}", f"upper {leg}", mb.Prismatic(Z), None, lengths[leg])
        corner = at(rpy=(0.0, 0.0, turn)) @ at(TOP)
        plan.loop(f"ball {leg}", f"upper {leg}", "platform", None, None, corner, independent=[f"leg {leg}"])
    plan.nv = 3
    return plan


def coordinates(T):
    """Position and quaternion (7,) of a pose."""
    return np.concatenate([T[:3, 3], Rotation.from_matrix(T[:3, :3]).as_quat()])


def three_rps_pose(height, tilt, about):
    """The pose (4, 4) of the platform: a rotation by `tilt` about a horizontal axis at the angle `about`.

    Each corner stays in the plane of its leg, so the platform cannot turn about the vertical, and its centre
    moves aside by TOP (1 - cos tilt) / 2, to the angle pi - 2 about ... of the axis doubled. Source: Bonev,
    Geometric analysis of parallel mechanisms, 2002, chapter 4.
    """
    R = turned((np.cos(about), np.sin(about), 0.0), tilt)
    aside = 0.5 * TOP * (1.0 - np.cos(tilt))
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = R, (aside * np.cos(2.0 * about), -aside * np.sin(2.0 * about), height)
    return T


def three_rps_legs(*pose):
    """Lengths and leans (3,) of the legs."""
    T = three_rps_pose(*pose)
    lengths, leans = [], []
    for turn in AROUND:
        spin = turned(Z, turn)
        reach = spin.T @ (T[:3, :3] @ spin @ [TOP, 0.0, 0.0] + T[:3, 3]) - [FOOT, 0.0, 0.0]
        assert abs(reach[1]) < 1e-12  # in the plane of the leg
        lengths.append(np.hypot(reach[0], reach[2]))
        leans.append(np.arctan2(reach[0], reach[2]))
    return np.array(lengths), np.array(leans)


# --- machines ---------------------------------------------------------------------------------------------

PIVOT, ANCHOR, ROCKER = np.array([1.6, 0.0]), np.array([0.3, 0.25]), 0.4  # m, on the stick of an excavator
GAP, LINK, HORN = 0.35, 0.38, 0.3  # m, from rocker to bucket, the link, and the bucket's horn


def bucket_angles(cylinder):
    """Barrel, rocker, link and bucket to the stick, of the length of the cylinder (rod and barrel)."""
    reach = PIVOT - ANCHOR
    far = np.linalg.norm(reach)
    at_anchor = np.arccos((far**2 + cylinder**2 - ROCKER**2) / (2.0 * far * cylinder))
    barrel = np.arctan2(reach[1], reach[0]) + at_anchor
    tip = ANCHOR + cylinder * np.array([np.cos(barrel), np.sin(barrel)]) - PIVOT
    rocker = np.arctan2(tip[1], tip[0])
    link, bucket = four_bar_angles(rocker, (GAP, ROCKER, LINK, HORN))
    return barrel, rocker, link, bucket


def bucket_linkage(cylinder=1.5, stick=-0.5):
    """An excavator's stick; a cylinder turns a rocker, which turns the bucket by a link."""
    plan = Plan(33, (0.0, -9.81, 0.0))
    barrel, rocker, link, bucket = bucket_angles(cylinder)
    plan.add("stick", "world", "stick", HINGE, None, stick)
    plan.add("foot", "stick", "barrel", HINGE, at(*ANCHOR), barrel)
    plan.add("cylinder", "barrel", "piston", mb.Prismatic(X), None, cylinder)
    plan.add("rocker", "stick", "rocker", HINGE, at(*PIVOT), rocker)
    plan.add("link", "rocker", "link", HINGE, at(ROCKER), link - rocker)
    plan.add("bucket", "stick", "bucket", HINGE, at(PIVOT[0] + GAP), bucket)
    plan.loop("pin", "piston", "rocker", HINGE, None, at(ROCKER), independent=["cylinder"])
    plan.loop("horn", "link", "bucket", HINGE, at(LINK), at(HORN))
    plan.nv = 2
    return plan


def bucket_dependent(q):
    barrel, rocker, link, bucket = bucket_angles(q["cylinder"])
    return {"foot": barrel, "rocker": rocker, "link": link - rocker, "bucket": bucket}


# A double-wishbone suspension, m: x points forward, y to the wheel, z up.
LOWER_HINGE, UPPER_HINGE = np.array([0.0, 0.3, 0.2]), np.array([0.02, 0.38, 0.48])
LOWER_BALL, UPPER_BALL = np.array([0.02, 0.4, -0.02]), np.array([-0.03, 0.26, 0.02])  # from the hinges
UPPER_AXIS = np.array([0.99, 0.0, -0.141]) / np.linalg.norm([0.99, 0.0, -0.141])
STEERING_ARM, RACK = np.array([-0.14, -0.05, 0.06]), np.array([-0.12, 0.28, 0.22])  # the arm: from the ball
KINGPIN = UPPER_HINGE + UPPER_BALL - LOWER_HINGE - LOWER_BALL
TIE = np.linalg.norm(LOWER_HINGE + LOWER_BALL + STEERING_ARM - RACK)


def double_wishbone():
    """Two wishbones carry an upright on balls; a tie rod to the rack steers it."""
    plan = Plan(34, DOWN)
    plan.add("lower", "world", "lower arm", mb.Revolute(X), at(*LOWER_HINGE), 0.0)
    plan.add("upper", "world", "upper arm", mb.Revolute(UPPER_AXIS), at(*UPPER_HINGE), 0.0)
    plan.add("ball", "lower arm", "upright", mb.Spherical(), at(*LOWER_BALL))
    plan.add("steering", "world", "rack", mb.Prismatic(Y), at(*RACK), 0.0)
    chosen = ["lower", "steering"]
    plan.loop("upper ball", "upper arm", "upright", None, at(*UPPER_BALL), at(*KINGPIN), chosen)
    plan.loop("tie rod", "rack", "upright", mb.Distance(TIE), None, at(*STEERING_ARM), chosen)
    plan.nv = 2
    return plan


def wishbone_dependent(q):
    """The upper arm, and the upright's orientation in the lower arm, of the lower arm and the rack.

    The upper arm turns until the balls have their distance; then the upright turns about the line of the
    balls until the tie rod has its length. Both are A cos x + B sin x = C.
    """
    lower = LOWER_HINGE + turned(X, q["lower"]) @ LOWER_BALL
    upper = turn_to_distance(UPPER_HINGE, UPPER_AXIS, UPPER_BALL, lower, np.linalg.norm(KINGPIN))
    line = UPPER_HINGE + turned(UPPER_AXIS, upper) @ UPPER_BALL - lower
    first = smallest_turn(KINGPIN, line)  # any orientation with the balls in place
    end = RACK + [0.0, q["steering"], 0.0]
    along = line / np.linalg.norm(line)
    steer = turn_to_distance(lower, along, first @ STEERING_ARM, end, TIE)
    R = turned(X, q["lower"]).T @ turned(along, steer) @ first
    return {"upper": upper, "ball": Rotation.from_matrix(R).as_quat()}


def turn_to_distance(hinge, axis, arm, point, length):
    """The smaller angle by which `arm` turns about an axis through `hinge` to be `length` from a point."""
    along = (arm @ axis) * axis
    out, side = arm - along, np.cross(axis, arm)
    away = point - hinge - along
    C = 0.5 * (out @ out + away @ away - length**2)
    return min((angle_of(out @ away, side @ away, C, sign) for sign in (1.0, -1.0)), key=abs)


def smallest_turn(start, end):
    """The smallest rotation that takes one direction to another."""
    a, b = start / np.linalg.norm(start), end / np.linalg.norm(end)
    across = np.cross(a, b)
    size = np.linalg.norm(across)
    return turned(across / size, np.arctan2(size, a @ b)) if size > 0.0 else np.eye(3)


# --- legs -------------------------------------------------------------------------------------------------

HEIGHTS, CRANK, SIDE, HEEL = (0.26, 0.18), 0.05, 0.04, 0.055  # m: of the motors, and of where rods end


def ankle_ends(motor):
    """Where a rod ends: (crank's hinge in the shank, pin in the foot), from the ankle."""
    side = (SIDE, -SIDE)[motor]
    return np.array([0.0, side, HEIGHTS[motor]]), np.array([-HEEL, side, -0.02])


def ankle_cranks(pitch, roll):
    """Angles of the two cranks, which point back from the shank at zero: one equation for each rod."""
    foot = turned(Y, pitch) @ turned(X, roll)
    found = []
    for motor in range(2):
        hinge, pin = ankle_ends(motor)
        rod = np.linalg.norm(hinge - [CRANK, 0.0, 0.0] - pin)  # its length: level cranks hold the foot level
        found.append(turn_to_distance(hinge, np.array(Y), np.array([-CRANK, 0.0, 0.0]), foot @ pin, rod))
    return np.array(found)


def parallel_ankle(independent=("ankle",), pitch=0.15, roll=-0.1):
    """A humanoid's ankle: two motors in the shank turn the foot about two axes by cranks and rods."""
    plan = Plan(35, DOWN)
    plan.add("ankle", "world", "foot", mb.Universal(Y, X), None, (pitch, roll))
    cranks = ankle_cranks(pitch, roll)
    foot = turned(Y, pitch) @ turned(X, roll)
    for motor, crank in enumerate(cranks):
        hinge, pin = ankle_ends(motor)
        rod = np.linalg.norm(hinge - [CRANK, 0.0, 0.0] - pin)
        reach = turned(Y, crank).T @ (foot @ pin - hinge) + [CRANK, 0.0, 0.0]
        # Rx(a) Ry(b) (-z) = (-sin b, sin a cos b, -cos a cos b)
        lean = np.arctan2(reach[1], -reach[2]), np.arcsin(-reach[0] / rod)
        name = ("left", "right")[motor]
        plan.add(f"{name} motor", "world", f"{name} crank", mb.Revolute(Y), at(*hinge), crank)
        plan.add(f"{name} rod", f"{name} crank", f"{name} rod", mb.Universal(X, Y), at(-CRANK), lean)
        chosen = list(independent)
        plan.loop(f"{name} ball", f"{name} rod", "foot", None, at(0, 0, -rod), at(*pin), chosen)
    plan.nv = 2
    return plan


THIGH, SHANK = 0.4, 0.42  # m
#: ground, crank, rod, lever, m: of the knee; of the ankle, in the thigh and in the shank
KNEE_BARS, UPPER_BARS, LOWER_BARS = (
    (0.3, 0.07, 0.29, 0.1),
    (0.22, 0.06, 0.21, 0.08),
    (SHANK, 0.07, 0.41, 0.09),
)
LEVER, OFFSET = 1.2, 0.9  # rad, of the levers to shank and foot, and of the bellcrank's second arm


def leg_angles(knee_motor, ankle_motor):
    """The other joints at these angles of the two motors; x runs down the thigh and down the shank.

    Three four-bars: the first motor turns the shank's lever; the second one turns a bellcrank on the knee's
    axis, whose second arm turns the foot's lever. Cranks and levers are measured from the line of their
    pivots.
    """
    rod, lever = four_bar_angles(knee_motor, KNEE_BARS)
    knee = lever - LEVER
    upper, bellcrank = four_bar_angles(ankle_motor, UPPER_BARS)
    arm = bellcrank + OFFSET - knee  # to the shank
    lower, foot = four_bar_angles(arm, LOWER_BARS)
    return {
        "knee rod": rod - knee_motor,
        "knee": knee,
        "upper rod": upper - ankle_motor,
        "bellcrank": bellcrank,
        "lower rod": lower - arm,
        "ankle": foot - LEVER,
    }


def parallel_leg(knee_motor=1.4, ankle_motor=1.5):
    """A humanoid's knee and ankle, both driven by motors in the thigh; the second one acts over the knee."""
    plan = Plan(36, (9.81, 0.0, 0.0))
    start = leg_angles(knee_motor, ankle_motor)
    lever, arm = at(rpy=(0.0, 0.0, LEVER)), at(rpy=(0.0, 0.0, OFFSET))
    (knee_ground, *knee), (upper_ground, *upper) = KNEE_BARS, UPPER_BARS
    _, *lower = LOWER_BARS
    plan.add("knee motor", "world", "knee crank", HINGE, at(THIGH - knee_ground), knee_motor)
    plan.add("knee rod", "knee crank", "knee rod", HINGE, at(knee[0]), start["knee rod"])
    plan.add("knee", "world", "shank", HINGE, at(THIGH), start["knee"])
    plan.add("ankle motor", "world", "ankle crank", HINGE, at(THIGH - upper_ground), ankle_motor)
    plan.add("upper rod", "ankle crank", "upper rod", HINGE, at(upper[0]), start["upper rod"])
    plan.add("bellcrank", "world", "bellcrank", HINGE, at(THIGH), start["bellcrank"])
    plan.add("lower rod", "bellcrank", "lower rod", HINGE, arm @ at(lower[0]), start["lower rod"])
    plan.add("ankle", "shank", "foot", HINGE, at(SHANK), start["ankle"])
    motors = ["knee motor", "ankle motor"]
    plan.loop("to the knee", "knee rod", "shank", HINGE, at(knee[1]), lever @ at(knee[2]), motors)
    plan.loop("over the knee", "upper rod", "bellcrank", HINGE, at(upper[1]), at(upper[2]), motors)
    plan.loop("to the foot", "lower rod", "foot", HINGE, at(lower[1]), lever @ at(lower[2]), motors)
    plan.nv = 2
    return plan


# --- the list ---------------------------------------------------------------------------------------------


def _delta(q):
    return {"hand": np.array([*delta_point([q[f"motor {leg}"] for leg in range(3)]), 0.0, 0.0, 0.0, 1.0])}


def _ankle(q):
    left, right = ankle_cranks(*q["ankle"])
    return {"left motor": left, "right motor": right}


#: Name -> (plan, what the closed form says of other joints at {joint: position or coordinates}).
MECHANISMS = {
    "Cardan shafts": (cardan, lambda q: {"driven": cardan_angle(q["driver"])}),
    "homokinetic shafts": (homokinetic, lambda q: {"driven": q["driver"]}),
    "Delta robot": (delta_robot, _delta),
    "excavator bucket": (bucket_linkage, bucket_dependent),
    "double wishbone": (double_wishbone, wishbone_dependent),
    "parallel ankle": (parallel_ankle, _ankle),
    "knee and ankle": (parallel_leg, lambda q: leg_angles(q["knee motor"], q["ankle motor"])),
}
