"""Robots: joints, `Mechanism`, URDF and MJCF files; `Model`, which defines H and A; fast recursions.

`mb.joints` has limits, motors and springs, too; `mb.curvatures` curvature tensors and what is made of them,
`mb.codegen` generated C and CUDA.

>>> from connections import multibody as mb
>>> model = mb.from_urdf("robot.urdf", floating_base=True)  # doctest: +SKIP
"""

from connections._moved import keep_old_names
from connections.affine.independent_forms import SelectedForms, independent_forms
from connections.engines.threads import get_num_threads, set_num_threads
from connections.multibody import codegen as codegen
from connections.multibody import curvatures as curvatures
from connections.multibody import joints as joints
from connections.multibody.as_geometry.recursive_connection import RecursiveConnection, RecursiveMetric
from connections.multibody.assembly.assembly import AssemblyWarning
from connections.multibody.constraint_forces import closure_forces, joint_forces
from connections.multibody.definition.rigid_bodies import RigidBodySystemConnection, RigidBodySystemMetric
from connections.multibody.description.examples import example, example_path, examples
from connections.multibody.description.left_out import LeftOutWarning
from connections.multibody.description.mechanism import Mechanism
from connections.multibody.description.mjcf import from_mjcf
from connections.multibody.description.packages import load
from connections.multibody.description.urdf import from_urdf
from connections.multibody.displacements import difference, displace, finite_differences
from connections.multibody.functions import (
    body_jacobians,
    center_of_mass,
    center_of_mass_jacobian,
    christoffel_derivatives,
    christoffel_symbols,
    coriolis_matrix,
    coriolis_matrix_rate,
    coriolis_product,
    coriolis_transpose_product,
    forward_dynamics,
    forward_kinematics,
    frame_jacobian,
    frame_jacobian_rate,
    frame_pose,
    gravity,
    inverse_dynamics,
    inverse_mass_matrix,
    mass_matrix,
    mass_matrix_rate,
    momentum_regressor,
    nonlinear_effects,
    regressor,
)
from connections.multibody.inertia import InertiaWarning
from connections.multibody.inertia_metric import inertia_metric
from connections.multibody.inverse_kinematics import InverseKinematics, inverse_kinematics
from connections.multibody.joints import (
    Cylindrical,
    Fixed,
    Free,
    Helical,
    Joint,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
    Universal,
)
from connections.multibody.linearization import (
    forward_dynamics_derivatives,
    inverse_dynamics_derivatives,
    linearize,
    zero_order_hold,
)
from connections.multibody.logarithms import Logarithm, logarithm
from connections.multibody.loops.closures import Coincident, ConstantVelocity, Distance
from connections.multibody.model import Model, close_loops, inertial_parameters, total_mass
from connections.multibody.momenta import (
    centroidal_momentum,
    centroidal_momentum_matrix,
    centroidal_momentum_matrix_rate,
    kinetic_energy,
)
from connections.multibody.preparing import prepare
from connections.multibody.program.closed import SolvedLoops
from connections.multibody.program.warm_up import warm_up
from connections.multibody.robot_audit import audit_coriolis
from connections.multibody.rolling import (
    Ball,
    Blade,
    Contact,
    Wheel,
    momentum_forms,
    rolling_forms,
)
from connections.multibody.second_derivatives import (
    forward_dynamics_hessian_product,
    forward_dynamics_second_derivatives,
    inverse_dynamics_hessian_product,
    inverse_dynamics_second_derivatives,
)
from connections.multibody.traced_model import TracedModel
from connections.multibody.variational_steps import discrete_momentum, variational_step

__all__ = [
    "AssemblyWarning",
    "Ball",
    "Blade",
    "SolvedLoops",
    "Coincident",
    "ConstantVelocity",
    "Contact",
    "Cylindrical",
    "Distance",
    "Fixed",
    "Free",
    "Helical",
    "InertiaWarning",
    "InverseKinematics",
    "Joint",
    "LeftOutWarning",
    "Logarithm",
    "Mechanism",
    "Model",
    "Planar",
    "Prismatic",
    "RecursiveConnection",
    "RecursiveMetric",
    "Revolute",
    "RigidBodySystemConnection",
    "RigidBodySystemMetric",
    "SelectedForms",
    "Spherical",
    "TracedModel",
    "Universal",
    "Wheel",
    "audit_coriolis",
    "body_jacobians",
    "center_of_mass",
    "centroidal_momentum",
    "centroidal_momentum_matrix",
    "centroidal_momentum_matrix_rate",
    "kinetic_energy",
    "center_of_mass_jacobian",
    "christoffel_derivatives",
    "christoffel_symbols",
    "close_loops",
    "closure_forces",
    "coriolis_matrix",
    "coriolis_matrix_rate",
    "coriolis_product",
    "coriolis_transpose_product",
    "difference",
    "discrete_momentum",
    "displace",
    "example",
    "example_path",
    "examples",
    "finite_differences",
    "forward_dynamics",
    "forward_dynamics_derivatives",
    "forward_dynamics_hessian_product",
    "forward_dynamics_second_derivatives",
    "forward_kinematics",
    "frame_jacobian",
    "frame_jacobian_rate",
    "frame_pose",
    "from_mjcf",
    "from_urdf",
    "get_num_threads",
    "gravity",
    "independent_forms",
    "inertia_metric",
    "inertial_parameters",
    "inverse_dynamics",
    "inverse_dynamics_derivatives",
    "inverse_dynamics_hessian_product",
    "inverse_dynamics_second_derivatives",
    "inverse_kinematics",
    "inverse_mass_matrix",
    "joint_forces",
    "linearize",
    "load",
    "logarithm",
    "mass_matrix",
    "mass_matrix_rate",
    "momentum_forms",
    "momentum_regressor",
    "nonlinear_effects",
    "prepare",
    "regressor",
    "rolling_forms",
    "set_num_threads",
    "total_mass",
    "variational_step",
    "warm_up",
    "zero_order_hold",
]

#: What rooms above import of this one besides its public names: file -> names.
_OFFERS = {
    "clusters": "LINEAR",
    "definition": "spatial",
    "definition.host_kinematics": "configuration",
    "definition.kinematics": "Kinematics product_of_frames",
    "description.files": "MOST_ASSETS",
    "description.limited": "MEMORY SECONDS run_limited",
    "description.mjcf": "mujoco_for",
    "description.urdf_visuals": "Visual read_visuals",
    "description.xml": "read_root",
    "generation.identifiers": "identifier",
    "generation.recording": "STEPS exported of_frames",
    "inertia": "inertia_of inertia_of_matrix pseudo_inertia_basis",
    "joints.coordinates": "CoordinateJoint",
    "loops.closed_kinematics": "ClosedKinematics",
    "loops.condition_rows": "FunctionCoupling FunctionLoop gather",
    "model": "require_model",
    "program": "warm_up",
    "program.closure_conditions": "HostConditions",
    "program.compiled_functions": "compiled description",
    "program.table": "BODY_FACTORS",
}

keep_old_names(__name__)
