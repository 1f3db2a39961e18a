"""Small mechanisms with closed chains, as plans that `closed_oracles` can assemble by other means.

Angles in rad, lengths in m; planar mechanisms lie in the xy plane and fall along -y.
"""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp
import numpy as np
from closed_oracles import BARS, four_bar_angles, poses
from closed_plan import Plan, at
from mechanisms import random_joint, random_placement
from scipy.spatial.transform import Rotation

from connections import multibody as mb

X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
REVOLUTE = mb.Revolute(Z)


# --- planar linkages --------------------------------------------------------------------------------------


def add_four_bar(plan, name, parent, placement, bars=BARS, crank=0.8, side=1.0, axis=REVOLUTE):
    """Crank, coupler and rocker on `parent`; the crank is independent. Loop `name`."""
    ground, a, b, c = bars
    coupler, rocker = four_bar_angles(crank, bars, side)
    plan.add(f"{name} crank", parent, f"{name} crank", axis, placement, crank)
    plan.add(f"{name} coupler", f"{name} crank", f"{name} coupler", axis, at(a), coupler - crank)
    plan.add(f"{name} rocker", parent, f"{name} rocker", axis, placement @ at(ground), rocker)
    ends = f"{name} coupler", f"{name} rocker"
    plan.loop(name, *ends, mb.Coincident(), at(b), at(c), independent=[f"{name} crank"])


def four_bar(bars=BARS, crank=0.8, side=1.0):
    """Unequal bars: G depends on the angle."""
    plan = Plan(1)
    add_four_bar(plan, "bar", "world", np.eye(4), bars, crank, side)
    plan.nv = 1
    return plan


def parallelogram(a=0.5, b=0.8):
    """Without gravity: H is constant. It is flat, and singular, at 0."""
    plan = four_bar((b, a, b, a), 1.0)
    plan.gravity = (0.0, 0.0, 0.0)
    return plan


def four_bar_with_branches():
    """Bodies below the loop, on the coupler and on the rocker, and the loop below a turntable."""
    plan = Plan(2)
    plan.add("table", "world", "table", mb.Revolute(Y), at(0.1, 0.2, 0.3), 0.3)
    add_four_bar(plan, "bar", "table", at(0.1, 0, 0.2, (0.3, -0.2, 0.5)))
    plan.add("wrist", "bar coupler", "wrist", mb.Spherical(), at(0.4, 0.2, 0.1))
    plan.add("hand", "wrist", "hand", mb.Universal(X, Y), at(0.1, 0.0, 0.2), (0.3, -0.4))
    plan.add("pan", "bar rocker", "pan", mb.Prismatic((1, 1, 0)), at(0.2, 0.1, 0.0), 0.1)
    plan.nv = 1 + 1 + 3 + 2 + 1
    return plan


def crank_slider():
    """Offset slider-crank, the slider on a joint of the tree; the loop closes at its pin."""
    plan, crank = Plan(3), 0.9
    lean = -np.arcsin((0.4 * np.sin(crank) - 0.1) / 1.1)
    plan.add("crank", "world", "crank", REVOLUTE, None, crank)
    plan.add("rod", "crank", "rod", REVOLUTE, at(0.4), lean - crank)
    reach = 0.4 * np.cos(crank) + 1.1 * np.cos(lean)
    plan.add("slide", "world", "slider", mb.Prismatic(X), at(0, 0.1, 0), reach)
    plan.loop("pin", "rod", "slider", mb.Revolute(Z), at(1.1), independent=["crank"])
    plan.nv = 1
    return plan


def slider_in_its_guide():
    """The same linkage, cut at the guide: the loop is closed by a prismatic joint."""
    plan, crank = Plan(3), 0.9
    lean = -np.arcsin((0.4 * np.sin(crank) - 0.1) / 1.1)
    plan.add("crank", "world", "crank", REVOLUTE, None, crank)
    plan.add("rod", "crank", "rod", REVOLUTE, at(0.4), lean - crank)
    plan.add("pin", "rod", "slider", REVOLUTE, at(1.1), -lean)
    plan.loop("guide", "world", "slider", mb.Prismatic(X), at(0, 0.1, 0), independent=["crank"])
    plan.nv = 1
    return plan


def six_bar():
    """Stephenson's third linkage: a dyad from a four-bar's coupler to the ground; two loops, one cluster."""
    plan = Plan(4)
    add_four_bar(plan, "bar", "world", np.eye(4))
    coupler = four_bar_angles(0.8)[0]
    point = 0.35 * np.array([np.cos(0.8), np.sin(0.8)]) + [
        0.5 * np.cos(coupler) - 0.3 * np.sin(coupler),
        0.5 * np.sin(coupler) + 0.3 * np.cos(coupler),
    ]
    pivot, b, c = np.array([1.3, 0.5]), 0.8, 0.6
    reach = pivot - point
    inner = np.arccos((b * b + reach @ reach - c * c) / (2.0 * b * np.linalg.norm(reach)))
    dyad = np.arctan2(reach[1], reach[0]) + inner
    tip = point + b * np.array([np.cos(dyad), np.sin(dyad)]) - pivot
    plan.add("dyad", "bar coupler", "dyad", REVOLUTE, at(0.5, 0.3), dyad - coupler)
    plan.add("lever", "world", "lever", REVOLUTE, at(*pivot), np.arctan2(tip[1], tip[0]))
    plan.loop("second", "dyad", "lever", None, at(b), at(c), independent=["bar crank"])
    plan.nv = 1
    return plan


def planar_robot():
    """3-RRR: a platform on three two-bar legs; its first leg belongs to the tree."""
    plan = Plan(5)
    bases = np.array([[0.0, 0.0], [1.2, 0.0], [0.6, 1.0]])
    center, turn, radius, bars = np.array([0.62, 0.36]), 0.3, 0.2, (0.5, 0.45)
    corners = turn + np.array([np.pi + 0.5, -0.5, np.pi / 2])
    tips = center + radius * np.stack([np.cos(corners), np.sin(corners)], axis=1)
    for leg, (base, tip) in enumerate(zip(bases, tips, strict=True)):
        reach = tip - base
        span = np.linalg.norm(reach)
        inner = np.arccos((bars[0] ** 2 + span**2 - bars[1] ** 2) / (2.0 * bars[0] * span))
        upper = np.arctan2(reach[1], reach[0]) + inner
        elbow = base + bars[0] * np.array([np.cos(upper), np.sin(upper)])
        lower = np.arctan2(*(tip - elbow)[::-1])
        plan.add(f"hip {leg}", "world", f"upper {leg}", REVOLUTE, at(*base), upper)
        plan.add(f"knee {leg}", f"upper {leg}", f"lower {leg}", REVOLUTE, at(bars[0]), lower - upper)
        if leg == 0:
            plan.add("ankle", "lower 0", "platform", REVOLUTE, at(bars[1]), turn - lower)
    first = radius * np.array([np.cos(corners[0] - turn), np.sin(corners[0] - turn)])
    for leg in (1, 2):  # the platform's origin is its first corner
        corner = radius * np.array([np.cos(corners[leg] - turn), np.sin(corners[leg] - turn)]) - first
        hips, ends = ["hip 0", f"hip {leg}"], (f"lower {leg}", "platform")
        plan.loop(f"leg {leg}", *ends, None, at(bars[1]), at(*corner), independent=hips)
    plan.nv = 3
    return plan


# --- spatial loops ----------------------------------------------------------------------------------------


def serial_loop(kinds, closure, seed, independent=None, from_world=True):
    """A random serial chain from the world, closed back to it exactly at a random configuration.

    Parameters
    ----------
    kinds : classes of its joints.
    closure : the conditions at the end; both frames coincide in the reference, but for `Distance`.
    from_world : whether the first body of the loop is the world, or the end of the chain.
    """
    plan, parent = Plan(seed), "world"
    rng = plan.rng
    for number, kind in enumerate(kinds):
        joint = random_joint(rng, kind)
        start = 0.7 * joint.random(rng) if kind not in (mb.Spherical, mb.Free) else joint.random(rng)
        plan.add(f"joint {number}", parent, f"link {number}", joint, random_placement(rng, 0.4), start)
        parent = f"link {number}"
    tip = random_placement(rng, 0.4)
    end = poses(plan, plan.reference)[parent] @ tip
    if isinstance(closure, mb.Distance):
        end = end @ at(*(closure.length * np.array([0.6, 0.0, 0.8])))
    sides = [("world", end), (parent, tip)]
    (first, its), (second, other) = sides if from_world else sides[::-1]
    plan.loop("loop", first, second, closure, its, other, independent=independent)
    return plan


def on_ellipsoid(T):
    """The origin of b on an ellipsoid about a frame of a, (..., 1)."""
    r = (T[..., :3, 3] - np.array([0.3, 0.0, 0.0])) / np.array([0.3, 0.5, 0.4])
    return (r * r).sum(axis=-1, keepdims=True) - 1.0


#: A closure, the number of its independent conditions, the number of joints in the loop, and a seed for
#: which the reference is far from singular.
CLOSURES = {
    "coincident": (mb.Coincident(), 3, 5, 388),
    "spherical": (mb.Spherical(), 3, 4, 343),
    "distance": (mb.Distance(0.7), 1, 3, 102),
    "revolute": (mb.Revolute((0.2, -0.5, 1.0)), 5, 6, 306),
    "prismatic": (mb.Prismatic((1.0, 0.4, 0.2)), 5, 6, 171),
    "cylindrical": (mb.Cylindrical((0.3, 1.0, 0.0)), 4, 6, 341),
    "helical": (mb.Helical((0.4, -0.3, 1.0), 0.15), 5, 6, 222),
    "universal": (mb.Universal((1.0, 0.2, 0.0), (0.1, 1.0, 0.3)), 4, 5, 245),
    "constant velocity": (mb.ConstantVelocity((0.2, 1.0, -0.4)), 4, 5, 124),
    "planar": (mb.Planar(), 3, 4, 331),
    "fixed": (mb.Fixed(), 6, 7, 288),
    "function": (on_ellipsoid, 1, 3, 102),
}


def closed_by(name, from_world=True):
    """A loop of random revolute, helical and prismatic joints, closed in this way."""
    closure, conditions, count, seed = CLOSURES[name]
    kinds = [mb.Revolute, mb.Revolute, mb.Helical, *[mb.Revolute] * 3, mb.Prismatic]
    plan = serial_loop(kinds[:count], closure, seed, from_world=from_world)
    plan.nv = count - conditions
    return plan


def spatial_loop():
    """Four revolute joints in general position and a ball: three dependent joints."""
    plan = serial_loop([mb.Revolute] * 4, mb.Coincident(), 382, independent=["joint 0"])
    plan.nv = 1
    return plan


def loop_with_balls():
    """Dependent joints of several coordinates: a spherical, a universal, a prismatic one follow a crank."""
    kinds = [mb.Revolute, mb.Spherical, mb.Universal, mb.Prismatic]
    plan = serial_loop(kinds, mb.Fixed(), 111, independent=["joint 0"])
    plan.nv = 1
    return plan


def loop_of_wide_joints():
    """Independent spherical joint and cylinder in the loop: brackets and q-dependent G together."""
    kinds = [mb.Spherical, mb.Revolute, mb.Cylindrical, mb.Revolute]
    plan = serial_loop(kinds, mb.Coincident(), 246, independent=["joint 0", "joint 3"])
    plan.nv = 4
    return plan


def stewart_platform(independent="platform", yaw=0.2):
    """A free platform on six legs: universal, prismatic, ball. The platform or the legs are independent."""
    plan = Plan(10)
    placed = at(0.05, -0.03, 0.8, (0.1, -0.15, yaw))
    quaternion = Rotation.from_matrix(placed[:3, :3]).as_quat()
    plan.add("platform", "world", "platform", mb.Free(), None, [*placed[:3, 3], *quaternion])
    for leg in range(6):
        side, corner = (-1.0, 1.0)[leg % 2], 2.0 * np.pi / 3.0 * (leg // 2)
        low, high = corner + side * 0.25, corner + side * (np.pi / 3.0 - 0.25)
        foot = np.array([np.cos(low), np.sin(low), 0.0])
        top = 0.6 * np.array([np.cos(high), np.sin(high), 0.0])
        reach = placed[:3, :3] @ top + placed[:3, 3] - foot
        length = np.linalg.norm(reach)  # Rx(a) Ry(b) z = (sin b, -sin a cos b, cos a cos b)
        angles = np.arctan2(-reach[1], reach[2]), np.arcsin(reach[0] / length)
        plan.add(f"foot {leg}", "world", f"lower {leg}", mb.Universal(X, Y), at(*foot), angles)
        plan.add(f"leg {leg}", f"lower {leg}", f"upper {leg}", mb.Prismatic(Z), None, length)
        name = "platform" if independent == "platform" else f"leg {leg}"
        plan.loop(f"ball {leg}", f"upper {leg}", "platform", None, None, at(*top), independent=[name])
    plan.nv = 6
    return plan


# --- floating bases ---------------------------------------------------------------------------------------


def legged_robot(legs=2):
    """A free base on legs whose knees are driven through four-bars, with a foot on each shank."""
    plan = Plan(11, (0.0, 0.0, -9.81))
    plan.add("base", "world", "base", mb.Free(), None, [0.1, 0.2, 0.9, 0.1, -0.2, 0.3, np.sqrt(0.86)])
    for leg in range(legs):
        place = at(0.2, 0.3 * (-1) ** leg, -0.1, (np.pi / 2, 0.4, 0.1))
        plan.add(f"hip {leg}", "base", f"thigh {leg}", mb.Revolute((0.3, 0.2, 1)), place, 0.4 - 0.3 * leg)
        crank = (0.8, 2.1)[leg % 2]
        add_four_bar(plan, f"knee {leg}", f"thigh {leg}", at(0.1, 0.05, 0.02), (0.5, 0.2, 0.45, 0.35), crank)
        plan.add(f"foot {leg}", f"knee {leg} rocker", f"foot {leg}", mb.Revolute(X), at(0.3, -0.2, 0.1), 0.2)
    plan.nv = 6 + 3 * legs
    return plan


def belt_leg():
    """A free base; rotors on base and thigh drive hip, knee and, over both of its joints, the ankle."""
    plan = Plan(12, (0.0, 0.0, -9.81))
    plan.add("base", "world", "base", mb.Free(), None, [0.1, 0.2, 0.9, 0.1, -0.2, 0.3, np.sqrt(0.86)])
    plan.add("hip", "base", "thigh", mb.Revolute((1, 0.3, 0)), at(0.1, 0.2, 0), 0.3)
    plan.add("hip rotor", "base", "hip rotor", mb.Revolute(X), at(0.0, 0.2, 0))
    plan.add("knee", "thigh", "shank", mb.Revolute(Y), at(0, 0, -0.3), -0.4)
    plan.add("knee rotor", "thigh", "knee rotor", mb.Revolute(Y), at(0, 0.1, 0))
    plan.add("ankle rotor", "thigh", "ankle rotor", mb.Revolute(Y), at(0, 0.15, 0.05))
    plan.add("ankle", "shank", "foot", mb.Revolute(Y), at(0, 0, -0.3), 0.2)
    plan.couple("hip belt", {"hip": 6.0, "hip rotor": -1.0}, independent=["hip"])
    plan.couple("knee belt", {"knee": 9.0, "knee rotor": -1.0}, 0.3, independent=["knee"])
    plan.couple("ankle belt", {"knee": 8.0, "ankle": 8.0, "ankle rotor": -1.0}, independent=["knee", "ankle"])
    plan.nv = 9
    return plan


# --- couplings --------------------------------------------------------------------------------------------


def gear_train():
    """Three gears about different axes and a rack, all driven by the first, on a swinging frame."""
    plan = Plan(13)
    plan.add("swing", "world", "swing", mb.Revolute((0, 1, 1)), None, 0.2)
    plan.add("gear 1", "swing", "gear 1", mb.Revolute(Z), at(0.2, 0, 0), 0.1)
    plan.add("gear 2", "swing", "gear 2", mb.Revolute(X), at(0, 0.3, 0))
    plan.add("gear 3", "swing", "gear 3", mb.Revolute((1, 0, 1)), at(0, 0, 0.3))
    plan.add("rack", "swing", "rack", mb.Prismatic(Y), at(0.1, 0, 0.3))
    plan.couple("1 to 2", {"gear 1": 1.0, "gear 2": 2.5}, independent=["gear 1"])
    plan.couple("2 to 3", {"gear 2": 3.0, "gear 3": -1.0}, 0.4)
    plan.couple("pinion", {"gear 3": 0.12, "rack": -1.0})
    plan.nv = 2
    return plan


def differential():
    """Two motors on the forearm turn a wrist by the sum and the difference of their angles."""
    plan = Plan(14)
    turned = Rotation.from_rotvec([0.3, 0.5, -0.2]).as_quat()
    plan.add("forearm", "world", "forearm", mb.Spherical(), None, turned)
    plan.add("pitch", "forearm", "cross", mb.Revolute(Y), at(0.3, 0, 0), 0.3)
    plan.add("roll", "cross", "hand", mb.Revolute(X), at(0.1, 0, 0), -0.5)
    plan.add("motor 1", "forearm", "motor 1", mb.Revolute(Y), at(0.1, 0.1, 0))
    plan.add("motor 2", "forearm", "motor 2", mb.Revolute(Y), at(0.1, -0.1, 0))
    wrist = ["pitch", "roll"]
    plan.couple("sum", {"motor 1": 1.0, "pitch": -3.0, "roll": -3.0}, independent=wrist)
    plan.couple("difference", {"motor 2": 1.0, "pitch": -3.0, "roll": 3.0}, independent=wrist)
    plan.nv = 5
    return plan


def cam():
    """A follower lifted by the angle of a cam, on a pendulum; the coupling is a function."""
    plan, angle = Plan(15), 0.6
    plan.add("pendulum", "world", "pendulum", mb.Revolute(Z), None, 0.3)
    plan.add("shaft", "pendulum", "shaft", mb.Revolute(Z), at(0.2, -0.3, 0), angle)
    plan.add("lift", "pendulum", "follower", mb.Prismatic((1, 1, 0)), at(0.2, -0.1, 0), lift_of(angle))
    plan.couple("profile", {"shaft": 1.0, "lift": 1.0}, function=cam_profile, independent=["shaft"])
    plan.nv = 2
    return plan


def lift_of(angle):
    """Height of the follower, m."""
    return 0.2 + 0.05 * np.cos(angle) + 0.02 * np.sin(2.0 * angle)


def cam_profile(angle, lift):
    """What is zero where the follower touches the cam."""
    library = np if isinstance(angle, np.ndarray) else jnp
    return lift - (0.2 + 0.05 * library.cos(angle) + 0.02 * library.sin(2.0 * angle))


#: Mechanisms whose G is constant.
LINEAR = {"gear train": gear_train, "belt leg": belt_leg, "differential": differential}

#: Mechanisms whose G depends on the configuration.
CURVED = {
    "four-bar": four_bar,
    "four-bar with branches": four_bar_with_branches,
    "crank-slider": crank_slider,
    "slider in its guide": slider_in_its_guide,
    "six-bar": six_bar,
    "planar robot": planar_robot,
    "spatial loop": spatial_loop,
    "loop with balls": loop_with_balls,
    "loop of wide joints": loop_of_wide_joints,
    "Stewart platform": stewart_platform,
    "Stewart platform by its legs": partial(stewart_platform, "legs"),
    "legged robot": legged_robot,
    "cam": cam,
}

#: One loop for each kind of closure.
BY_CLOSURE = {f"closed by: {name}": partial(closed_by, name) for name in CLOSURES}

PLANS = LINEAR | CURVED | BY_CLOSURE
