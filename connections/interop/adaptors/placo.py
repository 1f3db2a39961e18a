"""Placo: `RobotWrapper.mass_matrix` and `non_linear_effects` without gravity."""

import numpy as np

PACKAGE, DISTRIBUTION, FORMATS = "placo", "placo", ("urdf",)


def load(path, floating):
    """The functions of the robot in a URDF file; of a fixed base, the rows of the joints."""
    import placo

    robot = placo.RobotWrapper(path, placo.Flags.ignore_collisions)
    robot.set_gravity(np.zeros(3))
    neutral = np.array(robot.state.q)
    rows = slice(None) if floating else slice(6, None)

    def put(q, v):
        robot.state.q = q if floating else np.concatenate([neutral[:7], q])
        robot.state.qd = v if floating else np.concatenate([np.zeros(6), v])
        robot.update_kinematics()

    def mass_matrix(q):
        put(q, np.zeros(len(neutral) - 1)[rows])
        return np.array(robot.mass_matrix())[rows, rows]

    def bias(q, v):
        put(q, v)
        return np.array(robot.non_linear_effects())[rows]

    return {
        "joints": list(robot.joint_names()),
        "floating": {"order": "vw", "axes": "body", "point": "frame", "quaternion": "xyzw"},
        "mass_matrix": mass_matrix,
        "bias": bias,
        "functions": {"mass_matrix": "mass_matrix", "bias": "non_linear_effects"},
    }
