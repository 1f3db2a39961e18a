"""Programs that call public methods which neither a docstring's example nor `public_calls` calls."""

from __future__ import annotations

_ROBOT = """
import numpy as np
from connections import multibody as mb
robot = mb.example("arm")
q, v = robot.neutral(), np.linspace(-0.3, 0.5, robot.nv)
joint, body = robot.joint_names[0], robot.body_names[-1]
"""

_TRACED = """
import jax
import numpy as np
from connections import multibody as mb
robot = mb.example("arm")
model = robot.with_inertial_parameters(jax.numpy.asarray(mb.inertial_parameters(robot)))
"""

_SYSTEM = """
import jax.numpy as jnp
import numpy as np
import connections as cn
from connections import control
plane = cn.CoordinateFrame(2)
def make(p):
    return cn.MechanicalSystem(cn.MatrixMetric(plane, lambda q, p: jnp.eye(2) * p[0], p))
system = make(jnp.array([2.0]))
q, v, w = np.array([0.1, 0.2]), np.array([1.0, -0.5]), np.array([0.3, 0.4])
law = control.PassivityController(system, 5.0)
field = control.FieldReference(plane, lambda t, q: -q)
"""

_BODY = """
import numpy as np
from connections import control
from connections import multibody as mb
robot = mb.example("quadruped")
name = robot.body_names[-1]
q, v = robot.neutral(), np.zeros(robot.nv)
point, surface = control.PointContact(name, 0.5), control.SurfaceContact(name, 0.5, (0.1, 0.05))
contacts = control.Contacts(robot, [point])
"""

_SYMBOLIC = """
import sympy
from connections import symbolic
x, y, z, m = sympy.symbols("x y z m")
system = symbolic.SymbolicSystem(
    (x, y, z), sympy.diag(m, m, m), forms=[[-y, 0, 1]], inputs=[[1, 0, 0]],
    potential=m * x, parameters={m: 2.0}
)
Gamma = system.full_coefficients()
"""

#: Name: the text of a program.
PROGRAMS: dict[str, str] = {
    "methods of a model": _ROBOT
    + """
robot.configuration_slice(joint)
robot.velocity_slice(joint)
robot.subtree(robot.body_names[1])
robot.with_armature({joint: 0.1})
robot.with_frames({"tip": (body, np.eye(4))})
robot.with_gravity((0.0, 0.0, -1.6))
robot.with_inertial_parameters(mb.inertial_parameters(robot))
robot.with_locked({joint: 0.3})
robot.with_placements({joint: np.eye(4)})
robot.motor_matrix(q)
robot.passive_forces(q, v)
robot.passive_slopes(q, v)
robot.potential(q)
robot.spanning_configuration(q)
limits = mb.joints.Limits(-1.0, 1.0, 2.0, 3.0).for_joint("a", mb.Revolute((0.0, 0.0, 1.0)))
mb.joints.Limits.of([limits, limits])
""",
    "a robot with other independent joints": """
from connections import multibody as mb
robot = mb.example("four_bar")
robot.with_independent(robot.joint_names)
""",
    "a coupling": """
import numpy as np
from connections import multibody as mb
gears = mb.Mechanism()
gears.add_body("a", 1.0, (0.1, 0.0, 0.0), 0.1 * np.eye(3))
gears.add_body("b", 1.0, (0.1, 0.0, 0.0), 0.1 * np.eye(3))
gears.add_joint("one", "world", "a", mb.Revolute((0.0, 0.0, 1.0)))
gears.add_joint("two", "world", "b", mb.Revolute((0.0, 0.0, 1.0)))
gears.add_coupling("teeth", {"one": 1.0, "two": 2.0}, 0.1)
""",
    "methods of a traced model": _TRACED
    + """
model.with_armature({robot.joint_names[0]: 0.1})
model.with_gravity((0.0, 0.0, -1.6))
model.with_inertial_parameters(mb.inertial_parameters(robot))
model.with_frames({"tip": ("tool", np.eye(4))})
model.with_placements({robot.joint_names[0]: np.eye(4)})
model.with_motors([mb.joints.Motor("m", {"lift": 2.0})])
model.with_passive(mb.joints.Passive(damping={"lift": 0.1}))
""",
    "control laws": _SYSTEM
    + """
field.velocity(0.5, q)
field.acceleration(0.5, q, v)
observer = control.MomentumObserver(system, 2.0)
observer.momentum(q, v)
observer.residual(q, v, w)
observer.state_rate(q, v, w, w)
control.ClosedLoop(system, law, field).simulate(q, v, [0.0, 0.1])
family = control.LinearlyParametrizedSystem(make, [2.0])
family.check_linear(q, v, w, v)
family.plant([3.0])
family.regressor(q, v, w, v)
adaptive = control.AdaptiveController(family, 2.0, 1.0)
adaptive.torque(q, v, w, v, [2.0])
adaptive.parameters_rate(q, v, w, v, [2.0])
adaptive.lyapunov(system, q, w, [0.1], [2.0])
""",
    "a sweep of closed loops": """
import numpy as np
import connections as cn
from connections import control
space = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
system = cn.MechanicalSystem(space)
family = cn.ContorsionFamily(space)
law = control.PassivityController(system, 5.0, family.connection(0.5))
loop = control.ClosedLoop(system, law, control.FieldReference(space.frame, lambda t, q: -q))
loop.member([0.3])
loop.sweep([[0.3], [0.4]], np.zeros(3), np.ones(3), [0.0, 0.1])
""",
    "a payload": """
import numpy as np
from connections import control
from connections import multibody as mb
robot = mb.example("arm")
q, v = robot.neutral(), np.zeros(robot.nv)
family = control.UnknownInertia(robot.system(), [robot.body_names[-1]])
family.plant(np.array([1.0, 0.0, 0.0, 0.0, 0.1, 0.0, 0.1, 0.0, 0.0, 0.1]))
family.known_force(q, v, v, v)
adaptive = control.AdaptiveController(family, 2.0, "natural", rate=1.0, mass_bound=9.0)
ball = [1.0, 0.0, 0.0, 0.0, 0.1, 0.0, 0.1, 0.0, 0.0, 0.1]
adaptive.next_parameters(q, v, v, v, ball, 0.001)
""",
    "contacts": _BODY
    + """
contacts.jacobian(q)
contacts.jacobian_rate(q, v)
contacts.forward_dynamics(q, v, np.zeros(robot.nv))
contacts.margin(np.array([0.0, 0.0, 1.0]))
contacts.stacked(q)
point.margin(np.array([0.0, 0.0, 1.0]))
point.restrict(robot, name, q)
surface.margin(np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))
surface.restrict(robot, name, q)
control.CentroidalCoordinates(robot).inclusion(q, v)
""",
    "a regulator": """
import numpy as np
from connections import control
from connections import multibody as mb
robot = mb.example("arm")
q, v = robot.neutral(), np.zeros(robot.nv)
regulator = control.Regulator(robot, q, v, np.zeros(robot.nv), np.ones((robot.nv, 2 * robot.nv)))
regulator.error(q, v)
regulator.input(q, v)
control.SeriesElastic(100.0, 1.0, 0.1).of_size(2)
""",
    "a command of the whole body": """
import numpy as np
from connections import control
from connections import multibody as mb
robot = mb.example("arm")
posture = control.PostureTask(damping=10.0, stiffness=100.0, name="posture")
law = control.WholeBodyController(robot, [posture])
law.command(robot.neutral(), np.zeros(6), {"posture": robot.neutral()}).check_power_balance()
""",
    "a layout": """
from connections import referee
referee.planar("body").v_to([0.0, 0.0, 0.5], [3.0, 1.0, 2.0])
""",
    "filters": """
import jax.numpy as jnp
import numpy as np
import connections as cn
from connections import estimation
line = estimation.Filter(cn.CoordinateFrame(1), noise=[[1.0]])
start, sensor = estimation.Estimate([0.0], [[3.0]]), estimation.Sensor(lambda q: q, [[1.0]])
history = line.run(start, [1.0], np.zeros((1, 1)), [[2.0]], sensor)
line.smooth(history)
line.difference(start, [0.5])
history.summary()
history.plot(errors=[[0.1]], components=[0], names=["x"])
seen = estimation.Sensor(lambda q, u, t, p: q + p * u, [[1.0]], turns=(0,), parameters=2.0)
line.update(start, [0.5], seen, gate=0.9, u=[0.3])
""",
    "expressions": _SYMBOLIC
    + """
system.bracket((1, x, 0), (y, 0, 0))
system.christoffel_symbols()
system.coefficients()
system.contorsion(Gamma)
system.covariant_derivative((x, y), (1, x))
system.curvature()
system.curvature_of(Gamma)
system.equations_of_motion()
system.full_coefficients()
system.function([x * y, m])
system.input_coefficients()
system.input_coefficients_of_functions((x,))
system.latex()
system.nonintegrability()
system.orthogonal_basis()
system.parameter_values({m: 3.0})
system.projected_structure_functions()
system.projection()
system.schouten_curvature()
system.structure_functions()
system.symmetric_product((x, y), (1, x))
system.torsion(Gamma)
system.velocities()
system.with_basis(system.distribution)
system.coriolis_matrix()
""",
    "planar trees": """
from connections import symbolic
arm = symbolic.planar_chain(2)
arm.composite_inertias()
arm.christoffel_symbols_by_derivatives()
arm.system()
""",
    "gaits": """
import numpy as np
from connections import systems
racer = systems.Locomotion(systems.roller_racer().numeric(), driven=(3,))
gait = systems.roller_racer_gait()
q, v = racer.start(gait)
racer.rates(0.1, q, v, gait)
racer.control(gait)
""",
    "a function with parameters": """
import jax.numpy as jnp
import connections as cn
from connections import multibody as mb
cn.ParametricFunction(lambda q, a: a * q, 2.0)(jnp.ones(2))
mb.SelectedForms(lambda q: jnp.eye(3), rows=(0, 2))(jnp.zeros(3))
""",
}
