"""Newton: `eval_mass_matrix` and `eval_inverse_dynamics_passive`, in single precision."""

from xml.etree import ElementTree

import numpy as np

PACKAGE, DISTRIBUTION, FORMATS = "newton", "newton", ("urdf", "mjcf")


def load(path, floating):
    """The functions of the robot in a URDF or MJCF file."""
    import newton
    import warp

    builder = newton.ModelBuilder()
    if path.endswith(".urdf"):
        builder.add_urdf(path, floating=floating)
    else:
        builder.add_mjcf(path)
    model = builder.finalize(device="cpu")
    state = model.state()
    H = warp.zeros((1, model.joint_dof_count, model.joint_dof_count), dtype=warp.float32, device="cpu")
    c = warp.zeros(model.joint_dof_count, dtype=warp.float32, device="cpu")

    def put(q, v):
        state.joint_q.assign(q.astype(np.float32))
        state.joint_qd.assign(v.astype(np.float32))
        newton.eval_fk(model, state.joint_q, state.joint_qd, state)

    def mass_matrix(q):
        put(q, np.zeros(model.joint_dof_count))
        newton.eval_mass_matrix(model, state, H)
        return H.numpy()[0]

    def bias(q, v):
        put(q, v)
        newton.eval_inverse_dynamics_passive(model, state, coriolis_force=c)
        return c.numpy()

    def gravity(q):
        put(q, np.zeros(model.joint_dof_count))
        newton.eval_inverse_dynamics_passive(model, state, gravity_force=c)
        return c.numpy()

    kinds, starts = model.joint_type.numpy(), model.joint_qd_start.numpy()
    moving = (newton.JointType.REVOLUTE, newton.JointType.PRISMATIC, newton.JointType.D6)
    chosen = [k for k in range(model.joint_count) if kinds[k] in moving and starts[k + 1] > starts[k]]
    labels = [model.joint_label[k].rpartition("/")[2] for k in chosen]
    together = joints_of_one_body(path)
    center = [float(x) for x in model.body_com.numpy()[0]]  # of the base alone, without what is fixed to it
    return {
        "joints": [name for label in labels for name in together.get(label, [label])],
        "floating": {"order": "vw", "axes": "mixed", "point": center, "quaternion": "xyzw"},
        "precision": "float32",
        "mass_matrix": mass_matrix,
        "bias": bias,
        "gravity": gravity,
        "functions": {
            "mass_matrix": "eval_mass_matrix",
            "bias": "eval_inverse_dynamics_passive",
            "gravity": "eval_inverse_dynamics_passive",
        },
    }


def joints_of_one_body(path):
    """{label: names} of the joints that Newton makes one of: several of one body in an MJCF file."""
    bodies = ElementTree.parse(path).getroot().iter("body")
    found = [[joint.get("name") for joint in body.findall("joint")] for body in bodies]
    return {"_".join(names): names for names in found if len(names) > 1}
