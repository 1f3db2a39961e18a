"""Placo: `RobotWrapper.mass_matrix` and `non_linear_effects` without gravity."""

import numpy as np

PACKAGE, DISTRIBUTION, FORMATS = "placo", "placo", ("urdf",)


def load(path, floating):
    """The functions of the robot in a URDF file; of a fixed base, the rows of the joints."""
    import placo

    robot = placo.RobotWrapper(path, placo.Flags.ignore_collisions)
    neutral = np.array(robot.state.q)
    rows = slice(None) if floating else slice(6, None)
    names = list(robot.joint_names())
    starts = [robot.get_joint_offset(name) for name in names]

    def configuration(q):
        """The configuration with (cos, sin) for the angles of joints without limits."""
        out = neutral.copy()
        if floating:
            out[:7] = q[:7]
        for name, start, value in zip(names, starts, q[7 * floating :], strict=True):
            size = robot.get_joint_size(name)
            out[start : start + size] = value if size == 1 else (np.cos(value), np.sin(value))
        return out

    def put(q, v):
        robot.state.q = configuration(q)
        robot.state.qd = v if floating else np.concatenate([np.zeros(6), v])
        robot.update_kinematics()

    def mass_matrix(q):
        put(q, np.zeros(len(neutral) - 1)[rows])
        return np.array(robot.mass_matrix())[rows, rows]

    def bias(q, v):
        put(q, v)
        robot.set_gravity(np.zeros(3))
        return np.array(robot.non_linear_effects())[rows]

    def gravity(q):
        put(q, np.zeros(len(neutral) - 1)[rows])
        robot.set_gravity(np.array([0.0, 0.0, -9.81]))
        return np.array(robot.generalized_gravity())[rows]

    return {
        "joints": names,
        "floating": {"order": "vw", "axes": "body", "point": "frame", "quaternion": "xyzw"},
        "mass_matrix": mass_matrix,
        "bias": bias,
        "gravity": gravity,
        "functions": {
            "mass_matrix": "mass_matrix",
            "bias": "non_linear_effects",
            "gravity": "generalized_gravity",
        },
    }
