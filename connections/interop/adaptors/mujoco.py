"""MuJoCo: `mj_fullM` and `qfrc_bias`."""

import numpy as np

PACKAGE, DISTRIBUTION, FORMATS = "mujoco", "mujoco", ("mjcf",)


def load(path, floating):
    """The functions of the robot in an MJCF file."""
    import mujoco

    model = mujoco.MjModel.from_xml_path(path)
    data = mujoco.MjData(model)

    def put(q, v, g=0.0):
        model.opt.gravity[:] = 0.0, 0.0, -g
        data.qpos[:], data.qvel[:] = q, v
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)

    def mass_matrix(q):
        put(q, np.zeros(model.nv))
        H = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, H)
        return H

    def bias(q, v):
        put(q, v)
        return data.qfrc_bias.copy()

    def gravity(q):
        put(q, np.zeros(model.nv), 9.81)
        return data.qfrc_bias.copy()

    return {
        "joints": [model.joint(k).name for k in range(model.njnt) if model.jnt_type[k] >= 2],
        "floating": {"order": "vw", "axes": "linear-world", "point": "frame", "quaternion": "wxyz"},
        "mass_matrix": mass_matrix,
        "bias": bias,
        "gravity": gravity,
        "functions": {"mass_matrix": "mj_fullM", "bias": "qfrc_bias", "gravity": "qfrc_bias"},
    }
