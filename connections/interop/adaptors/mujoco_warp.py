"""MuJoCo Warp: `forward`, its `Data.M` and `Data.qfrc_bias`, in single precision."""

import numpy as np

PACKAGE, DISTRIBUTION, FORMATS = "mujoco_warp", "mujoco-warp", ("mjcf",)


def load(path, floating):
    """The functions of the robot in an MJCF file."""
    import mujoco
    import mujoco_warp as mjw

    model = mujoco.MjModel.from_xml_path(path)
    model.opt.gravity[:] = 0.0
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    back = mujoco.MjData(model)
    theirs, data = mjw.put_model(model), mjw.make_data(model)
    model.opt.gravity[:] = 0.0, 0.0, -9.81
    heavy = mjw.put_model(model)

    def forward(q, v, theirs=theirs):
        data.qpos.assign(q[None].astype(np.float32))
        data.qvel.assign(v[None].astype(np.float32))
        mjw.fwd_position(theirs, data)
        mjw.fwd_velocity(theirs, data)

    def mass_matrix(q):
        forward(q, np.zeros(model.nv))
        back.M[:] = data.M.numpy()[0]
        H = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, back, H)
        return H

    def bias(q, v):
        forward(q, v)
        return data.qfrc_bias.numpy()[0]

    def gravity(q):
        forward(q, np.zeros(model.nv), heavy)
        return data.qfrc_bias.numpy()[0]

    return {
        "joints": [model.joint(k).name for k in range(model.njnt) if model.jnt_type[k] >= 2],
        "floating": {"order": "vw", "axes": "linear-world", "point": "frame", "quaternion": "wxyz"},
        "precision": "float32",
        "mass_matrix": mass_matrix,
        "bias": bias,
        "gravity": gravity,
        "functions": {"mass_matrix": "Data.M", "bias": "Data.qfrc_bias", "gravity": "Data.qfrc_bias"},
    }
