"""Brax, generalized: `State.mass_mx` and `dynamics.inverse` without gravity, in double precision."""

from xml.etree import ElementTree

import numpy as np

PACKAGE, DISTRIBUTION, FORMATS = "brax", "brax", ("mjcf",)


def load(path, floating):
    """The functions of the robot in an MJCF file."""
    import jax

    jax.config.update("jax_enable_x64", True)
    from brax.generalized import dynamics, pipeline
    from brax.io import mjcf

    system = mjcf.loads(with_geoms(path))
    model = system.mj_model
    system = system.replace(gravity=0.0 * system.gravity)

    @jax.jit
    def both(q, v):
        state = pipeline.init(system, q, v)
        return state.mass_mx, dynamics.inverse(system, state)

    @jax.jit
    def weight(q):
        heavy = system.replace(gravity=jax.numpy.array([0.0, 0.0, -9.81]))
        return dynamics.inverse(heavy, pipeline.init(heavy, q, jax.numpy.zeros(model.nv)))

    return {
        "joints": [model.joint(k).name for k in range(model.njnt) if model.jnt_type[k] >= 2],
        "floating": {"order": "vw", "axes": "linear-world", "point": "frame", "quaternion": "wxyz"},
        "mass_matrix": lambda q: np.asarray(both(q, np.zeros(model.nv))[0]),
        "bias": lambda q, v: np.asarray(both(q, v)[1]),
        "gravity": lambda q: np.asarray(weight(q)),
        "functions": {
            "mass_matrix": "State.mass_mx",
            "bias": "generalized.dynamics.inverse",
            "gravity": "generalized.dynamics.inverse",
        },
    }


def with_geoms(path):
    """The file's text for Brax, which reads no body without a geom, and no inertia fixed to the world."""
    root = ElementTree.parse(path).getroot()
    for body in root.iter("body"):
        if body.find("geom") is None:
            ElementTree.SubElement(body, "geom", size="0.01", mass="0", contype="0", conaffinity="0")
    grounded = root.findall("worldbody/body")
    while grounded:
        body = grounded.pop()
        if body.find("joint") is None and body.find("freejoint") is None:
            for part in body.findall("inertial"):
                body.remove(part)
            grounded += body.findall("body")
    return ElementTree.tostring(root, encoding="unicode")
