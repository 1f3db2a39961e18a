"""Mistakes in dynamics, a robot of the corpus that shows each, and the rows of the referee that should fail.

A mistake that only makes another robot of the right one ("same" rows) is consistent with itself: the rows
about H and the bias alone hold, which tells it from wrong dynamics.
"""

from __future__ import annotations

from referee_library import CRAFTS, library

from connections import referee

SAME = frozenset({"same_mass_matrix", "same_bias"})
OTHER = SAME | {"same_gravity"}
BIAS = frozenset({"bias", "same_bias"})
WRONG_H = frozenset({"bias", "same_mass_matrix"})  # no longer the H of its bias

#: mistake -> (robot, rows that fail). Those of real libraries first.
MISTAKES = {
    "slide not turned": ("slide_behind_hinge", SAME | {"bias"}),
    "inertia not turned": ("turned_inertias", SAME),
    "inertia turned back": ("turned_inertias", SAME),
    "inertia turned by ypr": ("turned_inertias", SAME),
    "axis not normalized": ("unnormalized_axes", OTHER),
    "lower triangle scaled": ("oblique_axes", WRONG_H | {"symmetric"}),
    "upper triangle only": ("oblique_axes", WRONG_H | {"symmetric"}),
    "negative diagonal": ("negative_axes", {"definite", "same_mass_matrix"}),
    "large coupling": ("branches", WRONG_H | {"definite"}),
    "yaw reversed": ("vessel_3dof", BIAS),
    "no bias": ("vessel_3dof", BIAS),
    "C of the diagonal": ("vessel_3dof", BIAS),
    "no added Coriolis terms": ("vehicle_6dof", BIAS),
    "diagonal added mass": ("vehicle_6dof", SAME),
    "no acceleration of the current": ("vessel_3dof", {"galilean"}),
    "axis without sign": ("negative_axes", OTHER),
    "axis snapped": ("oblique_axes", OTHER),
    "axis in parent's axes": ("turned_origins", OTHER),
    "origins without turn": ("turned_origins", OTHER),
    "fixed joints without turn": ("fixed_links", OTHER),
    "fixed links without mass": ("fixed_links", OTHER),
    "a chain": ("branches", OTHER),
    "breadth first": ("branches", OTHER),
    "mimic without ratio": ("mimic", OTHER),
    "mimic without offset": ("mimic", OTHER),
    "no armature": ("armature", {"same_mass_matrix"}),
    "centre of mass at the frame": ("floating_offset", OTHER),
    "no products of inertia": ("products_of_inertia", SAME),
    "products with other sign": ("products_of_inertia", SAME),
    "inertia about the frame": ("oblique_axes", SAME),
    "quaternion misread": ("floating_body", {"gravity", "same_gravity"}),
    "base velocity in world axes": ("floating_body", OTHER | {"bias", "gravity"}),
    "angular part first": ("floating_body", BIAS),
    "no gyroscopic term": ("turned_inertias", BIAS),
    "no centripetal force": ("oblique_axes", BIAS),
    "axis at rest": ("oblique_axes", BIAS),
    "half of the bias": ("negative_axes", BIAS),
    "bias reversed": ("negative_axes", BIAS),
    "first row lost": ("negative_axes", BIAS),
    "bias with gravity": ("oblique_axes", BIAS | {"quadratic"}),
    "bias with damping": ("oblique_axes", BIAS | {"quadratic"}),
    "bias of the speed": ("oblique_axes", BIAS | {"quadratic"}),
    "no coupling": ("branches", WRONG_H),
    "C transposed": ("oblique_axes", {"product"}),
    "half of C": ("oblique_axes", {"product", "skew"}),
    "C without skew": ("turned_inertias", {"skew"}),
    "C of an outer product": ("oblique_axes", {"skew"}),
    "gravity upwards": ("oblique_axes", {"same_gravity"}),
    "gravity in body axes": ("hard_floating", {"same_gravity", "gravity"}),
    "derivative index last": ("negative_axes", {"d_mass_matrix"}),
    "C as derivative by v": ("negative_axes", {"d_bias_v"}),
    "derivative by q transposed": ("negative_axes", {"d_bias_q"}),
}


def judged(mistake, precision):
    """The report on a mistake, and the rows that should fail."""
    name, expected = MISTAKES[mistake]
    robot = referee.robot(name)
    there = library(robot, precision=precision, mistake=mistake)
    derivatives = current = None
    if expected & {"d_mass_matrix", "d_bias_v", "d_bias_q"}:
        derivatives = there.derivatives
    if "galilean" in expected:
        current = there.current
    gravity = there.gravity if robot.name != "vehicle_6dof" else None
    coriolis = there.coriolis if "C" in mistake.split() and robot.name not in CRAFTS else None
    given = (there.mass_matrix, there.bias, coriolis, gravity, derivatives)
    return referee.audit_robot(robot, *given, current=current, samples=1), frozenset(expected)
