"""What the assembly says of random mechanisms, against exact ranks and motions of rational coordinates.

Spins of rods, hinges on one axis, planar loops in space, arms drawn straight, parallel rods, axes through one
point, loops a thousand metres away and loops of which one is a hundred times smaller.
"""

import warnings

import numpy as np
import pytest
from cases import further
from exact_mechanisms import ExactMechanism, inverse_series, pose, random_mechanism, small_motion, times, turn

from connections import multibody as mb
from connections.checks import ClosureError, ModelError

WORDS = {
    "over-constrained": "over-constrained",
    "is singular for": "singular",
    "whole joints": "whole joints",
}


def verdict_of(made):
    """What the package says of a mechanism, in a word of `Truth.verdict`, and the model."""
    try:
        return "built", made.built()
    except ModelError as error:
        return next(word for text, word in WORDS.items() if text in str(error)), None


def steps_that_fail(model):
    """How many velocities lead, by 0.001, to where the loops do not close."""
    q, failed = model.neutral(), 0
    for v in 1e-3 * np.eye(model.nv):
        try:
            model.spanning_configuration(mb.displace(model, q, v))
        except ClosureError:
            failed += 1
    return failed


@pytest.mark.parametrize("block", [1, *map(further, (0, *range(2, 12)))])
def test_verdicts_are_exact(block):
    """Of 40 mechanisms: whether they are built, or why not, and which joints are independent.

    Those that are built take a small step along each velocity, unless there was a warning.
    """
    found = set()
    for seed in range(40 * block, 40 * block + 40):
        rng = np.random.default_rng(seed)
        made = random_mechanism(rng)
        clusters = made.truth(rng)
        expected = {cluster.verdict for cluster in clusters} - {"built"} or {"built"}
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always", mb.AssemblyWarning)
            verdict, model = verdict_of(made)
        assert verdict in expected, (seed, made.kind)
        if model is not None:
            names = [joint.name for joint in made.joints]
            chosen = [names.index(name) for name in model.joint_names]
            assert all(c.determined(np.intersect1d(chosen, c.members)) for c in clusters), (seed, made.kind)
            assert np.isfinite(mb.mass_matrix(model, model.neutral())).all()
            assert notes or not steps_that_fail(model), (seed, made.kind)
        found.add(verdict)
    assert found >= {"built", "singular", "whole joints"}
    assert "over-constrained" in found or block > 1  # a few blocks have none


def four_bar(tangent):
    """A parallelogram of rational bars, whose crank is turned by 2 atan(tangent)."""
    made = ExactMechanism()
    made.add(turn("crank", -1, (0, 0, 1), pose(), tangent))
    made.add(turn("coupler", 0, (0, 0, 1), pose((1, 0, 0)), -tangent))
    made.add(turn("rocker", -1, (0, 0, 1), pose((2, 0, 0)), tangent))
    made.close(mb.Revolute((0, 0, 1)), 1, 2, made.worlds()[1] @ pose((2, 0, 0)))
    return made


def test_the_exact_verdicts_are_those_of_a_parallelogram(rng):
    """Regular with one velocity, but flat: there K leaves two, and one of them is no motion."""
    for tangent, expected in ((1, ("built", 1)), (0, ("singular", 2))):
        (cluster,) = four_bar(tangent).truth(rng)
        assert (cluster.verdict, cluster.mobility) == expected
    (cluster,) = four_bar(1).truth(rng)
    assert [set(choice) for choice in cluster.choices()] == [{0}, {1}, {2}]


def test_series_of_poses(rng):
    """A motion and its inverse cancel to all orders; the angle's series is that of a rotation about z."""
    turning = np.zeros((5, 3), dtype=object)
    turning[1:] = rng.integers(1, 100, (4, 3))
    T = small_motion(turning, turning[:, ::-1])
    unit = times(T, inverse_series(T))
    assert (unit[0] == np.eye(4)).all() and not unit[1:].any()
    about_z = np.zeros((4, 3), dtype=object)
    about_z[1, 2] = 1  # cos x = (1 - s^2) / (1 + s^2) = 1 - 2 s^2 + ..., sin x = 2 s - 2 s^3 + ...
    R, p = small_motion(about_z, 0 * about_z), 2**61 - 1
    assert list(R[:, 0, 0]) == [1, 0, p - 2, 0] and list(R[:, 1, 0]) == [0, 2, 0, p - 2]


# --- references that are singular --------------------------------------------------------------------------


def test_the_error_of_a_singular_reference_has_another_one():
    """It is written in the error, and the mechanism is built there, with one velocity."""
    made = four_bar(0)
    with pytest.raises(ModelError, match="singular.*rank 1 there, 2 nearby.*'crank'") as error:
        made.built()
    line = str(error.value).splitlines()[-1]
    assert line.startswith("reference=")
    model = made.built(reference=eval(line.removeprefix("reference=")))
    assert model.nv == 1 and np.isfinite(mb.mass_matrix(model, model.neutral())).all()
