"""Public functions of each room where JAX may not promote ranks, as strict projects set it."""

import jax
import jax.numpy as jnp
import pytest
from cases import always
from fuzz_exceptions import NOT_RUN
from good_calls import programs
from results import results_of

PROGRAMS = [name for name in programs() if name not in NOT_RUN]
#: Some of those that once failed.
ALWAYS = (
    "public_calls.ContorsionFamily.connection",
    "public_calls.GroupAction.check_invariant_input_coefficients",
    "connections.GridMetric",
    "connections.multibody.rolling_forms",
    "public_calls.NonholonomicSystem.multipliers",
    "public_calls.StatisticalConnection.with_alpha",
)


@pytest.fixture
def strict():
    with jax.numpy_rank_promotion("raise"):
        yield


@pytest.mark.usefixtures("strict")
def test_the_setting_is_on():
    """The control."""
    with pytest.raises(ValueError, match="rank_promotion"):
        jnp.ones((2, 2)) * jnp.ones(2)


@pytest.mark.parametrize("program", always(PROGRAMS, *ALWAYS))
@pytest.mark.usefixtures("strict")
def test_no_public_function_promotes_ranks(program, capsys):
    results_of(program)
