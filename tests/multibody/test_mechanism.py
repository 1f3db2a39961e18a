"""`Mechanism` against URDF files, against closed forms, and one error per wrong call."""

import pickle
import warnings
from copy import deepcopy
from dataclasses import fields, replace

import numpy as np
import pytest
from cases import further
from scipy.spatial.transform import Rotation

import connections as cn
from connections import multibody as mb
from connections.checks import MetricError, ModelError

Z = (0.0, 0.0, 1.0)
BRANCHED = f"{__file__.rsplit('/', 2)[0]}/data/branched.urdf"


def placed(position=(0, 0, 0), rpy=(0, 0, 0)):
    transform = np.eye(4)
    transform[:3, :3], transform[:3, 3] = Rotation.from_euler("xyz", rpy).as_matrix(), position
    return transform


def body(mechanism, name, **changes):
    numbers = {"mass": 2.0, "center_of_mass": (0.1, 0, 0), "inertia": np.diag([0.2, 0.3, 0.25])}
    mechanism.add_body(name, **(numbers | changes))


@pytest.fixture
def mechanism():
    """base -[shoulder]-> arm, base on the world by a slide."""
    made = mb.Mechanism()
    body(made, "base")
    body(made, "arm")
    made.add_joint("slide", "world", "base", mb.Prismatic(Z))
    made.add_joint("shoulder", "base", "arm", mb.Revolute((0, 1, 0)), placed((0.3, 0, 0)))
    return made


def same(ours, theirs):
    for name in ("quaternions", "positions", "inertias", "parents"):
        a, b = getattr(ours.kinematics.tree, name), getattr(theirs.kinematics.tree, name)
        np.testing.assert_allclose(a, b, atol=1e-15)
    assert (ours.joint_names, ours.body_names) == (theirs.joint_names, theirs.body_names)
    assert ours.kinematics.tree.joints == theirs.kinematics.tree.joints
    assert ours.kinematics.tree.links == theirs.kinematics.tree.links


def test_the_model_is_that_of_the_same_urdf(tmp_path):
    from urdf_parts import joint, link

    origin = '<origin xyz="1 -2 0.5" rpy="0.3 -0.2 0.7"/>'
    path = tmp_path / "robot.urdf"
    path.write_text(
        '<robot name="r">' + link("base") + link("arm") + link("hand") + link("tip")
        + joint("a_shoulder", "base", "arm", more=f'{origin}<axis xyz="1 2 0"/>')
        + joint("b_weld", "arm", "hand", "fixed", origin)
        + joint("c_slide", "hand", "tip", "prismatic", '<axis xyz="0 1 0"/>') + "</robot>"
    )  # fmt: skip
    made, there = mb.Mechanism(), placed((1, -2, 0.5), (0.3, -0.2, 0.7))
    for name in ("base", "arm", "hand", "tip"):
        body(made, name)
    made.add_joint("root_joint", "world", "base", mb.Free())
    made.add_joint("a_shoulder", "base", "arm", mb.Revolute((1, 2, 0)), there)
    made.add_joint("b_weld", "arm", "hand", mb.Fixed(), there)
    made.add_joint("c_slide", "hand", "tip", mb.Prismatic((0, 1, 0)))
    same(made.build(), mb.from_urdf(path, floating_base=True))


def test_a_pendulum_on_a_cart_has_the_mass_matrix_of_the_textbook():
    M, m, length, moment = 2.0, 0.5, 0.4, 0.03
    made = mb.Mechanism()
    made.add_body("cart", mass=M)
    made.add_body("pole", mass=m, center_of_mass=(0, 0, length), inertia=np.diag([moment, moment, 0]))
    made.add_joint("slide", "world", "cart", mb.Prismatic((1, 0, 0)))
    made.add_joint("hinge", "cart", "pole", mb.Revolute((0, 1, 0)))
    model = made.build(gravity=(0, 0, -2.0))
    angle = 0.7
    coupling = m * length * np.cos(angle)
    expected = [[M + m, coupling], [coupling, moment + m * length**2]]
    np.testing.assert_allclose(model.definition.metric.matrix(np.array([0.3, angle])), expected, atol=1e-15)
    np.testing.assert_allclose(model.potential_at(np.array([0.3, angle])), 2.0 * m * length * np.cos(angle))
    assert model.gravity == (0.0, 0.0, -2.0)


def test_joints_are_numbered_depth_first_in_the_order_of_addition():
    made = mb.Mechanism()
    for name in ("root", "z", "a", "z1", "a1", "other"):
        body(made, name)
    made.add_joint("jz", "root", "z", mb.Revolute(Z))
    made.add_joint("ja", "root", "a", mb.Revolute(Z))
    made.add_joint("ja1", "a", "a1", mb.Spherical())
    made.add_joint("jother", "world", "other", mb.Planar())
    made.add_joint("jz1", "z", "z1", mb.Universal((1, 0, 0), (0, 1, 0)))
    made.add_joint("jroot", "world", "root", mb.Free())
    model = made.build()
    assert model.joint_names == ("jother", "jroot", "jz", "jz1", "ja", "ja1")
    assert (model.nq, model.nv) == (3 + 7 + 1 + 2 + 1 + 4, 3 + 6 + 1 + 2 + 1 + 3)
    assert model.frame == cn.ProductFrame(
        cn.CoordinateFrame(3), cn.SE3Frame(), cn.CoordinateFrame(4), cn.SO3Frame()
    )
    np.testing.assert_array_equal(model.kinematics.tree.parents, [-1, -1, 1, 2, 1, 4])
    assert model.spanning_configuration(model.neutral())["jz1"].shape == (2,)


@pytest.mark.parametrize(
    "joint",
    [
        mb.Helical((1, 2, -1), 0.2), further(mb.Cylindrical((0, 1, 1))), further(mb.Planar()),
        further(mb.Universal((1, 0.3, 0), (0.2, 1, 0.5))),
    ],
    ids=lambda joint: type(joint).__name__,
)  # fmt: skip
def test_a_joint_and_its_chain_make_the_same_mass_matrix(joint, rng):
    """The definition does not know chains: bodies without mass, one joint each."""
    whole, parts = mb.Mechanism(), mb.Mechanism()
    for made, last in ((whole, 0), (parts, len(joint.chain) - 1)):
        body(made, "root")
        made.add_joint("root", "world", "root", mb.Spherical())
        for number in range(last):
            made.add_body(f"between {number}")
        body(made, "arm")
    whole.add_joint("whole", "root", "arm", joint, placed((1, 2, 3), (0.1, 0.2, 0.3)))
    names = [*(f"between {number}" for number in range(len(joint.chain) - 1)), "arm"]
    for number, (parent, child, link) in enumerate(zip(["root", *names], names, joint.chain, strict=False)):
        place = placed((1, 2, 3), (0.1, 0.2, 0.3)) if number == 0 else None
        parts.add_joint(f"part {number}", parent, child, link, place)
    whole, parts = whole.build(), parts.build()
    q = whole.random(rng)
    H = whole.definition.metric.matrix(q)
    np.testing.assert_allclose(H, parts.definition.metric.matrix(q), atol=1e-13)
    np.testing.assert_allclose(mb.body_jacobians(whole, q)[-6:], mb.body_jacobians(parts, q)[-6:], atol=1e-13)
    moved = q.copy()
    moved[4:] += 0.5  # negative control
    assert joint.nq == 1 or np.max(np.abs(H - parts.definition.metric.matrix(moved))) > 1e-2


def test_a_mechanism_can_be_built_again_after_more(mechanism):
    first = mechanism.build()
    body(mechanism, "tip")
    with pytest.raises(ModelError, match="no joint leads to 'tip'"):
        mechanism.build()
    mechanism.add_joint("wrist", "arm", "tip", mb.Spherical())
    assert mechanism.build().joint_names == ("slide", "shoulder", "wrist")
    assert first.joint_names == ("slide", "shoulder")
    assert repr(mechanism) == "Mechanism(3 bodies, 3 joints)"


def test_what_is_given_is_copied():
    made, place, c, moments = mb.Mechanism(), placed((1, 0, 0)), np.array([0.1, 0, 0]), np.eye(3)
    made.add_body("arm", mass=1.0, center_of_mass=c, inertia=moments)
    made.add_joint("shoulder", "world", "arm", mb.Revolute(Z), place)
    before = made.build()
    place[0, 3], c[0], moments[2, 2] = 5.0, 7.0, 9.0
    same(made.build(), before)


# --- what is refused ---------------------------------------------------------------------------------------


def rotated(**entries):
    transform = placed(rpy=(0.1, 0.2, 0.3))
    for where, value in entries.items():
        transform[int(where[1]), int(where[2])] = value
    return transform


SCALED, MIRROR, NEARLY = np.diag([1.1, 1.1, 1.1, 1]), np.diag([1.0, 1, -1, 1]), np.eye(4)
NEARLY[0, 0] += 1e-8
BAD_JOINTS = {
    "taken name": (("slide", "arm", "tip", mb.Free()), "there is a joint 'slide' already"),
    "empty name": (("", "arm", "tip", mb.Free()), "a joint needs a name, got ''"),
    "name not text": ((3, "arm", "tip", mb.Free()), "a joint needs a name, got 3"),
    "no parent": (("j", "torso", "tip", mb.Free()), "'j': its parent body 'torso' does not exist"),
    "no child": (("j", "arm", "hand", mb.Free()), "'j': its child body 'hand' does not exist"),
    "body not text": (("j", ["arm"], "tip", mb.Free()), "'j': its parent body .'arm'. does not exist"),
    "world moves": (("j", "arm", "world", mb.Free()), "'j': its child body 'world' does not exist"),
    "class": (("j", "arm", "tip", mb.Free), "'j': expected a joint such as Revolute.*, got <class"),
    "text": (("j", "arm", "tip", "revolute"), "'j': expected a joint .*'revolute'"),
    "two joints": (
        ("j", "world", "arm", mb.Free()),
        "body 'arm' is moved by joint 'shoulder' .* by 'j'.*close a loop by add_loop",
    ),
    "itself": (("j", "tip", "tip", mb.Free()), "cycle: 'tip' -.j. -> 'tip'"),
    "size": (("j", "arm", "tip", mb.Free(), np.eye(3)), r"'j': .* must be \(4, 4\), got \(3, 3\)"),
    "junk": (("j", "arm", "tip", mb.Free(), "here"), "'j': placement: expected an array"),
    "ragged": (("j", "arm", "tip", mb.Free(), [[1], [2, 3]]), "'j': placement: expected an array"),
    "nan": (("j", "arm", "tip", mb.Free(), rotated(p03=np.nan)), "'j': its placement is not finite"),
    "last row": (("j", "arm", "tip", mb.Free(), rotated(p30=0.1)), "'j': the last row"),
    "transposed": (("j", "arm", "tip", mb.Free(), placed((1, 0, 0)).T), "'j': the last row"),
    "scaled": (("j", "arm", "tip", mb.Free(), SCALED), "'j': .*not a rigid transform: .* 2.1e-01"),
    "nearly": (("j", "arm", "tip", mb.Free(), NEARLY), "'j': .*not a rigid transform: .* 2.0e-08, .*1e-09"),
    "mirror": (("j", "arm", "tip", mb.Free(), MIRROR), "'j': .* reflection"),
}


@pytest.mark.parametrize("case", BAD_JOINTS)
def test_bad_joints_are_refused_and_leave_nothing(case, mechanism):
    body(mechanism, "tip")
    arguments, message = BAD_JOINTS[case]
    with pytest.raises(ModelError, match=message):
        mechanism.add_joint(*arguments)
    mechanism.add_joint("wrist", "arm", "tip", mb.Revolute(Z))  # what every error above departs from
    assert mechanism.build().joint_names == ("slide", "shoulder", "wrist")


def test_a_cycle_is_refused_by_its_path():
    made = mb.Mechanism()
    for name in ("a", "b", "c"):
        body(made, name)
    made.add_joint("ab", "a", "b", mb.Revolute(Z))
    made.add_joint("bc", "b", "c", mb.Revolute(Z))
    with pytest.raises(ModelError, match=r"cycle: 'a' -\[ab\] -> 'b' -\[bc\] -> 'c' -\[ca\] -> 'a'"):
        made.add_joint("ca", "c", "a", mb.Revolute(Z))
    made.add_joint("wa", "world", "a", mb.Revolute(Z))
    assert made.build().joint_names == ("wa", "ab", "bc")


BAD_BODIES = {
    "taken name": ({"name": "arm"}, "there is a body 'arm' already"),
    "empty name": ({"name": ""}, "a body needs a name"),
    "no name": ({"name": None}, "a body needs a name, got None"),
    "world": ({"name": "world"}, "body 'world': this is the name of the ground"),
    "mass negative": ({"mass": -1.0}, "'tip': mass is negative: -1 kg"),
    "mass nan": ({"mass": np.nan}, "'tip': mass is nan"),
    "mass text": ({"mass": "heavy"}, "'tip': mass: expected a real number, got a str"),
    "mass array": ({"mass": [1.0, 2.0]}, "'tip': mass: expected a real number, got a list"),
    "centre size": ({"center_of_mass": (0, 0)}, "'tip': centre of mass"),
    "mass a digit": ({"mass": "2"}, "'tip': mass: expected a real number, got a str"),
    "mass too large": ({"mass": 10**400}, "'tip': mass"),
    "centre too large": ({"center_of_mass": (0, -(10**400), 0)}, "'tip': centre of mass"),
    "centre inf": ({"center_of_mass": (0, np.inf, 0)}, r"'tip': centre of mass\[1\] is inf"),
    "inertia size": ({"inertia": (1, 1, 1)}, "'tip': inertia: expected shape"),
    "inertia nan": ({"inertia": np.full((3, 3), np.nan)}, r"'tip': inertia\[0, 0\] is nan"),
    "inertia asymmetric": ({"inertia": [[1, 0.1, 0], [0, 1, 0], [0, 0, 1]]}, "'tip': .* not symmetric"),
}


@pytest.mark.parametrize("case", BAD_BODIES)
def test_bad_bodies_are_refused_and_leave_nothing(case, mechanism):
    changes, message = BAD_BODIES[case]
    arguments = {"name": "tip"} | changes
    with pytest.raises(ModelError, match=message):
        body(mechanism, **arguments)
    assert repr(mechanism) == "Mechanism(2 bodies, 2 joints)"


def test_bad_mechanisms_are_not_built(mechanism):
    with pytest.raises(ModelError, match="no bodies"):
        mb.Mechanism().build()
    with pytest.raises(ModelError, match="reference: .*closed loops, and there are none"):
        mechanism.build(reference={"shoulder": 1.0})
    with pytest.raises(ModelError, match="reference: expected"):
        mechanism.build(reference=[1.0])
    for gravity in ((0, 0), 9.81, (0, 0, np.nan)):
        with pytest.raises(ModelError, match="gravity"):
            mechanism.build(gravity=gravity)
    loose = mb.Mechanism()
    for name in ("a", "b", "c"):
        body(loose, name)
    loose.add_joint("ab", "a", "b", mb.Revolute(Z))
    with pytest.raises(ModelError, match="not connected: no joint leads to 'a', 'c'; .*'world'"):
        loose.build()
    still = mb.Mechanism()
    body(still, "a")
    still.add_joint("weld", "world", "a", mb.Fixed())
    with pytest.raises(ModelError, match="nothing moves"):
        still.build()


# --- bodies without mass, and inertias that no body has ----------------------------------------------------


def test_bodies_without_mass_are_legal_where_the_mass_matrix_is_positive(mechanism):
    mechanism.add_body("cross")
    mechanism.add_joint("first", "arm", "cross", mb.Revolute((1, 0, 0)))
    bare = mechanism.build()
    with pytest.raises(MetricError, match="singular along joint 'first'.*give 'cross' an inertia"):
        mb.inverse_mass_matrix(bare, bare.neutral())
    body(mechanism, "tip")
    mechanism.add_joint("second", "cross", "tip", mb.Revolute((0, 1, 0)))
    model = mechanism.build()
    assert np.linalg.eigvalsh(model.definition.metric.matrix(np.array([0.1, 0.2, 0.3, 0.4])))[0] > 0


def test_a_point_mass_may_swing_but_not_spin():
    made = mb.Mechanism()
    made.add_body("bob", mass=1.0, center_of_mass=(0, 0, -1))
    made.add_joint("pivot", "world", "bob", mb.Universal((1, 0, 0), (0, 1, 0)))
    np.testing.assert_allclose(made.build().definition.metric.matrix(np.zeros(2)), np.eye(2), atol=1e-15)
    spun = mb.Mechanism()
    spun.add_body("bob", mass=1.0, center_of_mass=(0, 0, -1))
    spun.add_joint("pivot", "world", "bob", mb.Spherical())
    ball = spun.build()
    with pytest.raises(MetricError, match="singular along joint 'pivot'"):
        mb.forward_dynamics(ball, ball.neutral(), np.zeros(3), np.zeros(3))


def test_an_impossible_inertia_warns_where_it_was_given(mechanism):
    with pytest.warns(mb.InertiaWarning, match="body 'tip': .*triangle.*0.1, 0.1, 0.9") as caught:
        mechanism.add_body("tip", mass=1.0, inertia=np.diag([0.1, 0.9, 0.1]))
    assert caught[0].filename == __file__
    with pytest.warns(mb.InertiaWarning, match="body 'end': .*not positive semidefinite"):
        mechanism.add_body("end", mass=1.0, inertia=np.diag([-0.1, 0.1, 0.1]))
    with warnings.catch_warnings(), pytest.raises(mb.InertiaWarning, match="'top'"):
        warnings.simplefilter("error", mb.InertiaWarning)
        mechanism.add_body("top", mass=1.0, inertia=np.diag([-0.1, 0.1, 0.1]))
    assert repr(mechanism) == "Mechanism(4 bodies, 2 joints)"
    mechanism.add_joint("wrist", "arm", "tip", mb.Revolute(Z))
    mechanism.add_joint("last", "tip", "end", mb.Revolute((0, 1, 0)))
    assert mechanism.build().nv == 4  # about y the moment is positive
    mechanism.add_body("mass")
    with pytest.warns(mb.InertiaWarning):
        mechanism.add_body("worst", mass=0.0, inertia=np.diag([-0.1, 0.1, 0.1]))
    mechanism.add_joint("bad", "arm", "worst", mb.Revolute((1, 0, 0)))
    mechanism.add_joint("weld", "arm", "mass", mb.Fixed())
    with pytest.raises(ModelError, match="'bad' moves body 'worst'.*of negative inertia.*indefinite"):
        mechanism.build()


@pytest.mark.parametrize("name", ["arm", "four_bar"])
@pytest.mark.parametrize("how", ["made", "pickled", "copied"])
def test_the_arrays_of_a_model_cannot_be_written_to(name, how):
    """After a write, the parameters and the program would disagree."""
    model = mb.example(name)
    model = {"made": model, "pickled": pickle.loads(pickle.dumps(model)), "copied": deepcopy(model)}[how]
    kinematics = model.kinematics
    parts = [kinematics.tree, *([kinematics, kinematics.rows, kinematics.clusters] if model.closed else [])]
    values = [getattr(part, field.name) for part in parts for field in fields(part)]
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    assert len(arrays) >= 4
    for array in arrays:
        assert not array.flags.writeable
    before = mb.inertial_parameters(model)
    with pytest.raises(ValueError, match="read-only"):
        kinematics.tree.inertias[0, 5, 5] = 100.0
    mb.inertial_parameters(model)[:] = 0.0  # the caller's own
    np.testing.assert_array_equal(mb.inertial_parameters(model), before)


def test_a_tree_does_not_keep_the_callers_arrays():
    tree = mb.example("arm").kinematics.tree
    inertias = tree.inertias.copy()
    heavy = mb.Model.of(replace(tree, inertias=inertias))
    before = mb.inertial_parameters(heavy)
    inertias *= 2.0
    np.testing.assert_array_equal(mb.inertial_parameters(heavy), before)
