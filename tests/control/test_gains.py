"""Gains: every accepted form, and every rejected one with the gain's name in the message."""

import numpy as np
import pytest

from connections.checks import NonFiniteError, ShapeError
from connections.control import gain_matrix
from connections.control.errors import GainError


def test_scalar_vector_and_matrix_become_the_same_matrix():
    for gain in (2.0, [2.0, 2.0], 2.0 * np.eye(2)):
        np.testing.assert_array_equal(gain_matrix("K", gain, 2), 2.0 * np.eye(2))


def test_a_skew_part_is_allowed_unless_symmetry_is_asked_for():
    gain = np.array([[1.0, 0.5], [-0.5, 1.0]])
    np.testing.assert_array_equal(gain_matrix("K", gain, 2), gain)
    with pytest.raises(GainError, match="K must be symmetric"):
        gain_matrix("K", gain, 2, symmetric=True)


@pytest.mark.parametrize(
    ("gain", "error", "message"),
    [
        (np.ones(3), ShapeError, "K"),
        (np.ones((2, 3)), ShapeError, "K"),
        (np.nan, NonFiniteError, "K"),
        ([1.0, np.inf], NonFiniteError, r"K\[1\]"),
        (0.0, GainError, "K must be positive definite"),
        ([1.0, -1.0], GainError, "K must be positive definite"),
        ([[1.0, 3.0], [3.0, 1.0]], GainError, "K must be positive definite"),
        ("high", TypeError, "K"),
    ],
)
def test_rejected(gain, error, message):
    with pytest.raises(error, match=message):
        gain_matrix("K", gain, 2)
