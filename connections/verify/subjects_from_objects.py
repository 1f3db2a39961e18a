"""Subjects from objects of the library: a metric, a connection, a system or a robot at random points."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from connections.affine import (
    AffineConnection,
    ConstrainedConnection,
    GroupAction,
    StatisticalConnection,
    StatisticalModel,
    WeylConnection,
)
from connections.checks import (
    NonFiniteError,
    ShapeError,
    SubjectError,
    as_array,
    raise_at,
    require_draws,
    require_finite,
    require_text,
)
from connections.coriolis import MechanicalSystem, NonholonomicSystem
from connections.geometry import Metric
from connections.multibody import Model
from connections.verify.nonholonomic_subjects import NonholonomicSubject, nonholonomic_subject
from connections.verify.numerics import Array
from connections.verify.robots import robot_subject
from connections.verify.subjects import Subject, compiled_of, shared, subject_of

ATTEMPTS = 100  # draws per sample to find a point at which a system is regular
ACCEPTED = "a Subject, NonholonomicSubject, Metric, AffineConnection with a metric, MechanicalSystem, "
ACCEPTED += "NonholonomicSystem, SymbolicSystem, StatisticalModel or Model"


def as_subject(thing: Any, name: str, samples: int = 2, seed: int = 0) -> Subject | NonholonomicSubject:
    """The subject of an object that defines a system.

    Parameters
    ----------
    thing : a subject, which is returned as it is; a `Metric` (its Levi-Civita connection is verified); an
        `AffineConnection` that was made with a metric (it is verified); a `MechanicalSystem`, a
        `NonholonomicSystem` or a `SymbolicSystem`; a `StatisticalModel`; a robot (`Model`).
    name : for the report.
    samples : number of points; their coordinates are drawn from [-1, 1), a robot's as ``model.random`` does.
    seed : of all random numbers.

    Raises
    ------
    SubjectError : the object is of another type, the connection has no metric, or no regular point is found.
    ShapeError : q, v or a of the subject do not fit the system or each other.
    NonFiniteError, and the errors of metric, frame and connection : the system is not valid at a sample.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import verify
    >>> body = cn.LeviCivita(cn.ConstantMetric(cn.SO3Frame(), np.diag([1.0, 2.0, 3.0])))
    >>> subject = verify.as_subject(body, "spinning body", samples=5)
    >>> subject.name, subject.q.shape
    ('spinning body', (5, 4))
    """
    require_text("name", name)
    require_draws(samples, seed)
    if isinstance(thing, Model):
        return robot_subject(thing, name, samples, seed)
    if isinstance(thing, Subject | NonholonomicSubject):
        subject = thing
    else:
        rng = np.random.default_rng([seed, *b"as_subject"])
        subject = random_subject(name, _system(thing), rng, samples, seed)
    _require_regular(subject)
    return subject


def is_acceptable(thing: Any) -> bool:
    """Whether `as_subject` takes an object of this type."""
    return isinstance(thing, Subject | NonholonomicSubject | Model) or _is_system(thing)


def random_subject(
    name: str,
    system: MechanicalSystem | NonholonomicSystem,
    rng: np.random.Generator,
    samples: int,
    seed: int,
    action: GroupAction | None = None,
) -> Subject | NonholonomicSubject:
    """A subject at random points at which the system is regular: `sample_at` of numbers in [-1, 1).

    Parameters
    ----------
    name : for the report.
    system : with or without constraints.
    rng : of the points and velocities.
    samples : number of points.
    seed : of the random fields of the checks.
    action : a symmetry of a system with constraints, for the row of Lemma 3.3.

    Raises
    ------
    SubjectError : no regular points are found; the message says why the last one is not regular.
    """
    points = _points(system, rng, samples)
    if isinstance(system, NonholonomicSystem):
        return nonholonomic_subject(name, system, points, rng, seed=seed, action=action)
    return subject_of(name, system, points, rng, seed)


def _is_system(thing: Any) -> bool:
    from connections.symbolic import SymbolicSystem  # imports SymPy

    known = Metric | AffineConnection | MechanicalSystem | NonholonomicSystem | SymbolicSystem
    known |= StatisticalModel
    return isinstance(thing, known)


def _system(thing: Any) -> MechanicalSystem | NonholonomicSystem:
    """The system that a metric, a connection or expressions define."""
    if isinstance(thing, MechanicalSystem | NonholonomicSystem):
        return thing
    if isinstance(thing, StatisticalModel):
        return MechanicalSystem(thing.metric)
    if isinstance(thing, Metric):
        return MechanicalSystem(thing)
    if isinstance(thing, ConstrainedConnection):
        return NonholonomicSystem(thing)
    if isinstance(thing, WeylConnection | StatisticalConnection):
        raise SubjectError(
            f"a {type(thing).__name__} changes lengths, and the propositions are about the connection of a "
            "metric: verify its metric; the rows Weyl, dual, dual R and parts are about such connections"
        )
    if isinstance(thing, AffineConnection):
        if thing.known_metric is None:
            raise SubjectError(
                f"the {type(thing).__name__} has no metric: give MechanicalSystem(metric, connection=...)"
            )
        return MechanicalSystem(thing.known_metric, connection=thing)
    if not _is_system(thing):
        raise SubjectError(f"expected {ACCEPTED}, got {type(thing).__name__}")
    numeric: MechanicalSystem | NonholonomicSystem = thing.numeric()
    return numeric


def _points(system: MechanicalSystem | NonholonomicSystem, rng: np.random.Generator, samples: int) -> Array:
    """Regular points, (samples, nq)."""
    metric, valid = system.metric, shared(compiled_of, system, type(system).valid_at)
    points: list[Array] = []
    for _ in range(ATTEMPTS * samples):
        q = np.asarray(metric.sample_at(jnp.asarray(rng.uniform(-1.0, 1.0, metric.frame.ambient_dim))))
        if valid(q):
            points.append(q)
        if len(points) == samples:
            return np.stack(points)
    reason = ""
    try:
        system.explain(q)
    except ValueError as error:
        reason = f"\nOne of them: {error}"
    raise SubjectError(
        f"fewer than {samples} regular points among {ATTEMPTS * samples} random ones with coordinates "
        f"from -1 to 1; give points of your own: subject(name, metric, q, rng){reason}"
    )


def _require_regular(subject: Subject | NonholonomicSubject) -> None:
    """Raise the error that says why the system is not valid at a sample, if there is one."""
    system = subject.system
    frame = system.frame
    q = np.asarray(as_array("q", subject.q, (frame.ambient_dim,)))
    if q.ndim != 2 or len(q) == 0:
        raise ShapeError("q", ("samples", frame.ambient_dim), q.shape)
    require_finite("q", q)
    for name, values in (("v", subject.v), ("a", subject.a)):
        if np.shape(values) != (len(q), frame.dim):
            raise ShapeError(name, (len(q), frame.dim), np.shape(values))
        require_finite(name, values)
    mechanical = system.reduced if isinstance(system, NonholonomicSystem) else system
    assert mechanical.connection is not None
    for point in q:
        system.explain(point)
        if not np.isfinite(mechanical.potential_at(jnp.asarray(point))):
            raise_at(NonFiniteError, "the potential is not finite", point)
        mechanical.gravity(point)
        mechanical.connection.coefficients(point)
