"""MJX: `forward` and `full_m` on JAX, in double precision."""

import numpy as np

PACKAGE, DISTRIBUTION, FORMATS = "mujoco.mjx", "mujoco-mjx", ("mjcf",)


def load(path, floating):
    """The functions of the robot in an MJCF file."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import mujoco
    from mujoco import mjx

    model = mujoco.MjModel.from_xml_path(path)
    model.opt.gravity[:] = 0.0
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    theirs = mjx.put_model(model)
    blank = mjx.make_data(theirs)
    heavy = theirs.replace(opt=theirs.opt.replace(gravity=np.array([0.0, 0.0, -9.81])))
    weight = jax.jit(lambda q: mjx.forward(heavy, blank.replace(qpos=q)).qfrc_bias)

    @jax.jit
    def both(q, v):
        data = mjx.forward(theirs, blank.replace(qpos=q, qvel=v))
        return mjx.full_m(theirs, data), data.qfrc_bias

    return {
        "joints": [model.joint(k).name for k in range(model.njnt) if model.jnt_type[k] >= 2],
        "floating": {"order": "vw", "axes": "linear-world", "point": "frame", "quaternion": "wxyz"},
        "mass_matrix": lambda q: np.asarray(both(q, np.zeros(model.nv))[0]),
        "bias": lambda q, v: np.asarray(both(q, v)[1]),
        "gravity": lambda q: np.asarray(weight(q)),
        "functions": {"mass_matrix": "mjx.full_m", "bias": "Data.qfrc_bias", "gravity": "Data.qfrc_bias"},
    }
