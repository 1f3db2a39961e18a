"""Pinocchio: `crba`, `nonLinearEffects`, `computeCoriolisMatrix`, `computeGeneralizedGravity`."""

import numpy as np

PACKAGE, DISTRIBUTION, FORMATS = "pinocchio", "pin", ("urdf",)


def load(path, floating):
    """The functions of the robot in a URDF file, whose joints that mimic follow."""
    import pinocchio as pin

    root = (pin.JointModelFreeFlyer(),) if floating else ()
    model = pin.buildModelFromUrdf(path, *root, mimic=True)
    heavy = model.copy()
    model.gravity = pin.Motion.Zero()
    data = model.createData()
    moving = [
        (name, joint)
        for name, joint in zip(list(model.names)[1:], list(model.joints)[1:], strict=True)
        if joint.nv == 1 and "Mimic" not in joint.shortname()
    ]

    def configuration(q):
        """The configuration with (cos, sin) for the angles of joints without limits."""
        out = pin.neutral(model)
        first = 7 if floating else 0
        out[:first] = q[:first]
        for value, (_, joint) in zip(q[first:], moving, strict=True):
            out[joint.idx_q : joint.idx_q + joint.nq] = (
                value if joint.nq == 1 else (np.cos(value), np.sin(value))
            )
        return out

    def mass_matrix(q):
        upper = np.triu(pin.crba(model, model.createData(), configuration(q)))  # it adds to used data
        return upper + np.triu(upper, 1).T

    return {
        "joints": [name for name, _ in moving],
        "floating": {"order": "vw", "axes": "body", "point": "frame", "quaternion": "xyzw"},
        "mass_matrix": mass_matrix,
        "bias": lambda q, v: pin.nonLinearEffects(model, data, configuration(q), v),
        "coriolis": lambda q, v: pin.computeCoriolisMatrix(model, data, configuration(q), v),
        "gravity": lambda q: pin.computeGeneralizedGravity(heavy, heavy.createData(), configuration(q)),
        "functions": {
            "mass_matrix": "crba",
            "bias": "nonLinearEffects",
            "coriolis": "computeCoriolisMatrix",
            "gravity": "computeGeneralizedGravity",
        },
    }
