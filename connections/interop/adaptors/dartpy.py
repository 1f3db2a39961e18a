"""DART: `Skeleton.getMassMatrix`, `getCoriolisForces`, `getGravityForces`."""

import numpy as np

PACKAGE, DISTRIBUTION, FORMATS = "dartpy", "dartpy", ("urdf",)


def load(path, floating):
    """The functions of the robot in a URDF file."""
    import dartpy

    loader = dartpy.utils.DartLoader()
    kinds = dartpy.utils.DartLoaderRootJointType
    loader.setOptions(
        dartpy.utils.DartLoaderOptions(defaultRootJointType=kinds.FLOATING if floating else kinds.FIXED)
    )
    skeleton = loader.parseSkeleton(path)
    if skeleton is None:
        raise ValueError("DART reads no skeleton from the file")
    skeleton.setGravity([0.0, 0.0, -9.81])

    def put(q, v):
        positions = np.concatenate([vector(q[3:7]), q[:3], q[7:]]) if floating else q
        skeleton.setPositions(positions)
        skeleton.setVelocities(v)

    def mass_matrix(q):
        put(q, np.zeros(skeleton.getNumDofs()))
        return skeleton.getMassMatrix()

    def bias(q, v):
        put(q, v)
        return skeleton.getCoriolisForces()

    def gravity(q):
        put(q, np.zeros(skeleton.getNumDofs()))
        return skeleton.getGravityForces()

    first = 6 if floating else 0
    return {
        "joints": [skeleton.getDof(k).getName() for k in range(first, skeleton.getNumDofs())],
        "floating": {"order": "wv", "axes": "mixed", "point": "frame", "quaternion": "xyzw"},
        "mass_matrix": mass_matrix,
        "bias": bias,
        "gravity": gravity,
        "functions": {
            "mass_matrix": "Skeleton.getMassMatrix",
            "bias": "Skeleton.getCoriolisForces",
            "gravity": "Skeleton.getGravityForces",
        },
    }


def vector(quaternion):
    """The rotation vector of a quaternion (x, y, z, w)."""
    x, w = np.array(quaternion[:3]), quaternion[3]
    if w < 0.0:
        x, w = -x, -w
    sine = np.linalg.norm(x)
    return 2.0 * x if sine < 1e-9 else 2.0 * np.arctan2(sine, w) / sine * x
