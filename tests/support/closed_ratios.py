"""Constant G, written by hand: {dependent joint: ({independent joint: factor}, offset)} of each mechanism."""

_HUMANOID_LEG = {
    "hipz_to_hipx_rotor": {"hipz_to_hipx_link": 6.0},
    "hipx_to_hipy_rotor": {"hipx_to_hipy_link": 6.0},
    "hipy_to_knee_rotor": {"hipy_to_knee_link": 12.0},
    "hipy_to_ankle_rotor": {"hipy_to_knee_link": 12.0, "knee_to_ankle": 12.0},  # a belt over two joints
}
_CHEETAH_LEG = {
    "torso_to_{}_abad_rotor_j": {"torso_to_{}_abad_j": 6.0},
    "{}_abad_to_hip_rotor_j": {"{}_abad_to_hip_j": 6.0},
    "{}_hip_to_knee_rotor_j": {"{}_hip_to_knee_j": 9.33},
}
_HUMANOID_SIDE = {
    "{}_base_to_hipz_rotor": {"base_to_{}_hipz_link": 6.0},
    **{
        "{}_" + rotor: {"{}_" + joint: factor for joint, factor in factors.items()}
        for rotor, factors in _HUMANOID_LEG.items()
    },
    "base_to_{}_shouldery_rotor": {"base_to_{}_shouldery_link": 6.0},
    "{}_shouldery_to_shoulderx_rotor": {"{}_shouldery_shoulderx_link": 6.0},
    "{}_shoulderx_to_shoulderz_rotor": {"{}_shoulderx_shoulderz_link": 6.0},
    "{}_shoulderz_to_elbow_rotor": {"{}_shoulderz_elbow_link": 9.0},
}


def _on(side, table):
    return {
        dependent.format(side): {joint.format(side): factor for joint, factor in factors.items()}
        for dependent, factors in table.items()
    }


def _without_offset(*tables):
    return {dependent: (factors, 0.0) for table in tables for dependent, factors in table.items()}


#: The mechanisms of `closed_chains` with couplings, and the URDF+ files; four_bar and planar_leg_linkage are
#: parallelograms.
RATIOS = {
    "gear train": {  # gear 2 = -gear 1 / 2.5, gear 3 = 3 gear 2 - 0.4, rack = 0.12 gear 3
        "gear 2": ({"gear 1": -0.4}, 0.0),
        "gear 3": ({"gear 1": -1.2}, -0.4),
        "rack": ({"gear 1": -0.144}, -0.048),
    },
    "belt leg": {
        "hip rotor": ({"hip": 6.0}, 0.0),
        "knee rotor": ({"knee": 9.0}, -0.3),
        "ankle rotor": ({"knee": 8.0, "ankle": 8.0}, 0.0),
    },
    "differential": _without_offset(
        {"motor 1": {"pitch": 3.0, "roll": 3.0}, "motor 2": {"pitch": 3.0, "roll": -3.0}}
    ),
    "four_bar": _without_offset({"joint2": {"joint1": -1.0}, "joint3": {"joint1": 1.0}}),
    "planar_leg_linkage": _without_offset(
        {"thigh_to_support": {"thigh_to_driver": 1.0}, "driver_to_foot": {"thigh_to_driver": -1.0}}
    ),
    "revolute_rotor_chain": _without_offset({f"joint{k}r": {f"joint{k}": 6.0} for k in (1, 2, 3)}),
    "mit_humanoid_leg": _without_offset({"base_to_hipz_rotor": {"base_to_hipz_link": 6.0}}, _HUMANOID_LEG),
    "mini_cheetah": _without_offset(*(_on(leg, _CHEETAH_LEG) for leg in ("FR", "FL", "HR", "HL"))),
    "mit_humanoid": _without_offset(*(_on(side, _HUMANOID_SIDE) for side in ("right", "left"))),
}
