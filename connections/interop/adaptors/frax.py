"""Frax: `Robot.mass_matrix`, `centrifugal_coriolis_vector`, `gravity_vector`, in double precision."""

import numpy as np

PACKAGE, DISTRIBUTION, FORMATS = "frax", "frax", ("urdf",)


def load(path, floating):
    """The functions of the robot in a URDF file."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import frax

    robot = frax.Robot(path, floating_base="quaternion" if floating else None)
    mass_matrix, bias = jax.jit(robot.mass_matrix), jax.jit(robot.centrifugal_coriolis_vector)
    gravity = jax.jit(robot.gravity_vector)
    return {
        "joints": list(robot.joint_names)[6 * floating :],
        "floating": {"order": "vw", "axes": "linear-world", "point": "frame", "quaternion": "wxyz"},
        "mass_matrix": lambda q: np.asarray(mass_matrix(q)),
        "bias": lambda q, v: np.asarray(bias(q, v)),
        "gravity": lambda q: np.asarray(gravity(q)),
        "functions": {
            "mass_matrix": "Robot.mass_matrix",
            "bias": "Robot.centrifugal_coriolis_vector",
            "gravity": "Robot.gravity_vector",
        },
    }
