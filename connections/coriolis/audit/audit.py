"""Which kind of Coriolis matrix is this? An audit of C(q, v) and H(q) given as black boxes.

A Coriolis matrix that is linear in v is a connection, ``Gamma_low[i, j, k] = C(q, e_j)[i, k]``. Its distance
from the Riemannian one, computed from H by the generalized Christoffel formula ([W] (8)), is the contorsion
``D = Gamma* - Gamma``, and D decides everything: Hdot - 2 C is skew where D is antisymmetric in (1, 3), C v
is right where D is antisymmetric in (2, 3), C is the Christoffel matrix where D = 0.

H is differentiated by finite differences along the frame, on the manifold, so every verdict is given against
a measured noise floor. Two further checks need no linearity and share nothing with D: C(q, v) v against
Hamel's equations, and Hdot along v against C + C^T.

Source: [W] Props. III.1, III.2, IV.1, IV.2, Cor. III.1, eqs. (3), (6), (8), (12).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType
from typing import Any, overload

import jax
import numpy as np

from connections._jax import ArrayLike
from connections.checks import (
    Check,
    NonFiniteError,
    ShapeError,
    as_array,
    html_table,
    require_function,
    require_type,
    require_untraced,
)
from connections.coriolis.audit.differences import FrameDifferences
from connections.coriolis.audit.measurements import (
    LARGEST_TOLERANCE,
    MARGIN,
    Array,
    AuditSample,
    BlackBoxCoriolis,
    BlackBoxMatrix,
    Measurement,
    ValidatedBlackBoxes,
    alternated,
    measure,
    worst_of,
)
from connections.coriolis.of_robots import function_of
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.parameters import PytreePartial
from connections.geometry.frames import FrameField

_HINT = " (are H, C and v in the frame given, components in its order?)"

_REMEDY = " Remedy: C_ik + D_ijk v^j, with D of `contorsion`, is the Riemannian C of this H."

_LEAST = " In this frame it is the least C: Gamma has no alternating part."

MEANING = {
    "linear": "C(q, v) is linear in v, so it is a connection",
    "bias": "C(q, v) v is right (Hamel), at the given v",
    "skew": "Hdot - 2 C is skew, at the given v",
    "metric_compatible": "Hdot - 2 C is skew for every v: D(1,3) antisymmetric",
    "same_geodesics": "C v is right for every v: D(2,3) antisymmetric",
    "torsion_free": "no torsion: C(q, e_j) e_k - C(q, e_k) e_j = H [X_j, X_k]",
}

_COLUMNS = ("property", "verdict", "residual", "scale", "noise", "meaning")
_NOTE = f"A residual counts as zero up to {MARGIN:g} times the noise."


@dataclass(frozen=True, eq=False)
class AuditReport:
    """The result of an audit; `print` it, or read its fields.

    Parameters
    ----------
    checks : name -> `Check`, for "linear", "bias", "skew", "metric_compatible", "same_geodesics",
        "torsion_free". Residual, scale and tolerance are those of the component with the largest error; the
        tolerance is ten noise floors. If the noise is too large for a verdict, the residual is the bound that
        follows from the noise, and the check is not ok. If C is not linear, the last three are NaN, because
        there is no connection; their direct versions are "bias" and "skew".
    verdicts : name -> "holds", "fails", "unknown" (noise) or "not applicable" (C is not linear in v).
    noise : name -> absolute noise floor of the residual.
    kind : "riemannian", "torsion", "nonlinear" (admissible at the given velocities, no connection),
        "dynamics only", "skew only", "inadmissible", or "unknown".
    contorsion : D (m, n, n, n), all indices lower, of Gamma = Gamma* - D; None where C is not linear.
    beta : (m, C(n, 3)) of [W] (12), i < j < k lexicographic, where D is totally antisymmetric; else None.
    derivative_noise : largest absolute error expected in L_{X_i} H.
    summary : one or two sentences.
    least : whether C is admissible and Gamma has no alternating part: of all Gamma with this C v and
        Hdot = C + C^T it is then the least in this frame, in the norm of any inner product.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> H = lambda q: np.exp(2 * q[0]) * np.eye(1)
    >>> C = lambda q, v: np.exp(2 * q[0]) * v[0] * np.eye(1)
    >>> report = cn.audit_coriolis(C, H, cn.CoordinateFrame(1), [0.3], [0.5])
    >>> report.kind, report.admissible
    ('riemannian', True)
    >>> sorted(report.verdicts)
    ['bias', 'linear', 'metric_compatible', 'same_geodesics', 'skew', 'torsion_free']
    """

    checks: Mapping[str, Check]
    verdicts: Mapping[str, str]
    noise: Mapping[str, float]
    kind: str
    contorsion: Array | None
    beta: Array | None
    derivative_noise: float
    summary: str
    least: bool

    def __getstate__(self) -> dict[str, Any]:
        """The fields; Python pickles no read-only mapping."""
        return {
            name: dict(value) if isinstance(value, Mapping) else value for name, value in vars(self).items()
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the fields, mappings read-only."""
        self.__dict__.update(
            {name: MappingProxyType(each) if isinstance(each, dict) else each for name, each in state.items()}
        )

    @property
    def admissible(self) -> bool:
        """Whether C v is right and Hdot - 2 C skew, by the direct checks and (C linear) through D."""
        names = ["bias", "skew"]
        if self.verdicts["linear"] == "holds":
            names += ["metric_compatible", "same_geodesics"]
        return all(self.verdicts[name] == "holds" for name in names)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python objects for JSON; NaN and infinity become None."""
        checks = {
            name: {key: _plain(value) for key, value in check.to_dict().items()}
            | {"verdict": self.verdicts[name], "noise": _plain(self.noise[name]), "meaning": MEANING[name]}
            for name, check in self.checks.items()
        }
        return {
            "kind": self.kind,
            "admissible": self.admissible,
            "least": self.least,
            "summary": self.summary,
            "checks": checks,
            "derivative_noise": self.derivative_noise,
            "contorsion": None if self.contorsion is None else self.contorsion.tolist(),
            "beta": None if self.beta is None else self.beta.tolist(),
        }

    def __str__(self) -> str:
        lines = [
            f"{name:<18} {verdict:<14} {residual:>9} {scale:>9} {noise:>9}  {meaning}"
            for name, verdict, residual, scale, noise, meaning in (_COLUMNS, *self._rows())
        ]
        return "\n".join([*lines, _NOTE, "", self.summary])

    def _repr_html_(self) -> str:
        return html_table(self.summary, self._rows(), _COLUMNS, (_NOTE,))

    def _rows(self) -> list[tuple[str, ...]]:
        """The checks as texts, in the order of `_COLUMNS`."""
        return [
            (
                name,
                self.verdicts[name],
                *map(_number, (check.residual, check.scale, self.noise[name])),
                MEANING[name],
            )
            for name, check in self.checks.items()
        ]


@overload
def audit_coriolis(
    coriolis: BlackBoxCoriolis, mass_matrix: BlackBoxMatrix, frame: FrameField, q: ArrayLike, v: ArrayLike
) -> AuditReport: ...
@overload
def audit_coriolis(robot: Any, coriolis: BlackBoxCoriolis, q: ArrayLike, v: ArrayLike, /) -> AuditReport: ...
def audit_coriolis(
    coriolis: Any, mass_matrix: Any, frame: Any = None, q: ArrayLike | None = None, v: ArrayLike | None = None
) -> AuditReport:
    """Audit a Coriolis matrix from anywhere: C_ik = Gamma_ijk v^j, D_ijk = Gamma*_ijk - Gamma_ijk.

    Parameters
    ----------
    coriolis : (q (nq,), v (n,)) -> C (n, n); any function on NumPy arrays, called with one point at a time.
    mass_matrix : q (nq,) -> H (n, n), symmetric positive definite, likewise.
    frame : FrameField in which C, H and v are expressed, with qdot = X(q) v.
    q : (m, nq) sample configurations, or (nq,).
    v : (m, n) sample velocities, or (n,), none of them zero.

    A robot has H and a frame: ``audit_coriolis(robot, coriolis, q, v)`` is `multibody.audit_coriolis`.

    Returns
    -------
    AuditReport

    Raises
    ------
    ShapeError, NonFiniteError, PointError : samples are not points, or the black boxes return arrays of the
        wrong shape or with entries that are not finite.
    MetricError : H is not symmetric positive definite at a sample.
    ValueError : a sample velocity is zero, which would make its checks empty.

    Notes
    -----
    The black boxes are called about n + 40 and 60 n + 20 times per sample. Steps lie between 2^-13 and 2^-2
    of the distance in which H varies, along every field of the frame. If the mass matrix raises an error at
    such a distance, that step is left out.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> def H(q):
    ...     c = np.cos(q[1])
    ...     return np.array([[3 + 2 * c, 1 + c], [1 + c, 1.0]])
    >>> def C(q, v):
    ...     return -np.sin(q[1]) * np.array([[v[1], v[0] + v[1]], [-v[0], 0.0]])
    >>> report = cn.audit_coriolis(C, H, cn.CoordinateFrame(2), [0.3, 0.7], [0.5, -0.4])
    >>> report.kind, report.verdicts["skew"]
    ('riemannian', 'holds')

    Source: [W] Props. III.1, III.2, IV.1, IV.2, Cor. III.1, eq. (12) (D_ijk = -beta_ijk eps_ijk).
    """
    of_robot = function_of("audit_coriolis", coriolis)
    if of_robot is not None:
        found: AuditReport = of_robot(coriolis, mass_matrix, *((frame, q) if v is None else (q, v)))
        return found
    require_function("coriolis", coriolis, "(q, v) -> C (n, n)")
    require_function("mass_matrix", mass_matrix, "q -> H (n, n)")
    require_type("frame", frame, FrameField)
    q_samples, v_samples = _samples(frame, q, v)
    points = Argument("q", q_samples, (frame.ambient_dim,))
    at = evaluate(frame, PytreePartial(_point_and_structure_at, frame), points)
    q_samples, structure = (np.asarray(array) for array in at)
    boxes = ValidatedBlackBoxes(coriolis, mass_matrix, frame.dim)
    differences = FrameDifferences(frame)
    rng = np.random.default_rng(0)
    samples = [
        measure(boxes, differences, *sample, rng)
        for sample in zip(q_samples, v_samples, structure, strict=True)
    ]
    return _report(samples, frame.dim)


def _point_and_structure_at(frame: FrameField, q: jax.Array) -> tuple[jax.Array, jax.Array]:
    return q, frame.structure_functions_at(q)


def _samples(frame: FrameField, q: Any, v: Any) -> tuple[Array, Array]:
    """Samples as (m, nq) and (m, n)."""
    require_untraced(q=q, v=v)
    q_samples = np.atleast_2d(np.asarray(as_array("q", q, (frame.ambient_dim,))))
    v_samples = np.atleast_2d(np.asarray(as_array("v", v, (frame.dim,))))
    count = max(len(q_samples), len(v_samples))
    for name, value in (("q", q_samples), ("v", v_samples)):
        if value.ndim != 2 or len(value) not in (1, count) or not len(value):
            raise ShapeError(name, ("m", value.shape[-1]), value.shape)
        if not np.isfinite(value).all():
            raise NonFiniteError(f"{name}: every sample must be finite")
    zero = np.flatnonzero(~v_samples.any(axis=1))
    if zero.size:
        raise ValueError(f"v[{zero[0]}] is zero: its checks would be empty, give a velocity that is not")
    return np.repeat(q_samples, count // len(q_samples), 0), np.repeat(v_samples, count // len(v_samples), 0)


def _report(samples: list[AuditSample], n: int) -> AuditReport:
    """Verdicts over all samples, the kind of C, and its contorsion."""
    names = list(MEANING)
    results = {name: _verdict(name, [sample.measurements[name] for sample in samples]) for name in names}
    linear = results["linear"][1] == "holds"
    if not linear:
        for name in ("metric_compatible", "same_geodesics", "torsion_free"):
            results[name] = (Check(name, np.nan, np.nan, 0.0), "not applicable", np.nan)
    verdicts = {name: results[name][1] for name in names}
    D = np.stack([sample.contorsion for sample in samples]) if linear else None
    antisymmetric = linear and all(
        verdicts[name] == "holds" for name in ("metric_compatible", "same_geodesics")
    )
    beta = _beta(D, n) if antisymmetric and D is not None else None
    kind = _kind(verdicts)
    _, alternates, _ = _verdict("least", [sample.measurements["least"] for sample in samples])
    least = kind in ("riemannian", "torsion") and alternates == "holds"
    return AuditReport(
        MappingProxyType({name: results[name][0] for name in names}),
        MappingProxyType(verdicts),
        MappingProxyType({name: results[name][2] for name in names}),
        kind,
        D,
        beta,
        max(sample.derivative_noise for sample in samples),
        _summary(kind, verdicts, beta, n) + _LEAST * (least and kind == "torsion"),
        least,
    )


def _verdict(name: str, measurements: list[Measurement]) -> tuple[Check, str, float]:
    """Check, verdict and noise of the worst sample: one that fails, else undecided, else largest residual."""
    worst = worst_of(measurements)
    if worst.fails:
        return Check(name, worst.residual, worst.scale, worst.tolerance), "fails", worst.noise
    if worst.vague:
        return Check(name, MARGIN * worst.noise, worst.scale, LARGEST_TOLERANCE), "unknown", worst.noise
    return Check(name, worst.residual, worst.scale, worst.tolerance), "holds", worst.noise


def _kind(verdicts: Mapping[str, str]) -> str:
    """Name of the kind of C."""
    linear = verdicts["linear"] == "holds"
    names = ("bias", "same_geodesics"), ("skew", "metric_compatible")
    dynamics, skew = (
        _all_of([verdicts[direct], *([verdicts[through_D]] if linear else [])]) for direct, through_D in names
    )
    if "unknown" in (dynamics, skew, verdicts["linear"], verdicts["torsion_free"]):
        return (
            "inadmissible" if "fails" in (dynamics, skew) and verdicts["linear"] != "unknown" else "unknown"
        )
    if dynamics == skew == "holds":
        if not linear:
            return "nonlinear"
        return "riemannian" if verdicts["torsion_free"] == "holds" else "torsion"
    if dynamics == "holds":
        return "dynamics only"
    return "skew only" if skew == "holds" else "inadmissible"


def _all_of(verdicts: list[str]) -> str:
    """The conjunction: fails, else unknown, else holds."""
    return next((word for word in ("fails", "unknown") if word in verdicts), "holds")


def _summary(kind: str, verdicts: Mapping[str, str], beta: Array | None, n: int) -> str:
    """The verdicts in words."""
    nonlinear = (
        "" if verdicts["linear"] == "holds" else " C is not linear in v, so it belongs to no connection."
    )
    if kind == "riemannian":
        return "This is the Christoffel-consistent (Riemannian) Coriolis matrix: D = 0."
    if kind == "torsion":
        return f"Admissible, with torsion: D is totally antisymmetric, {_beta_text(beta, n)}."
    if kind == "nonlinear":
        return "Admissible at the given velocities: right C v and skew Hdot - 2 C." + nonlinear
    if kind == "dynamics only":
        shape = " Its connection is torsion-free." if verdicts["torsion_free"] == "holds" else ""
        verdict = "Correct dynamics, but Hdot - 2 C is not skew: not admissible."
        return verdict + shape + (nonlinear or _REMEDY)
    if kind == "skew only":
        verdict = f"Hdot - 2 C is skew, but C v is wrong: not the dynamics of this H{_HINT}."
        return verdict + (nonlinear or _REMEDY)
    if kind == "unknown":
        vague = ", ".join(name for name, verdict in verdicts.items() if verdict == "unknown")
        return f"Nothing can be said about {vague}: the black boxes are too noisy to be differentiated."
    wrong = [name for name in ("bias", "skew") if verdicts[name] == "fails"]
    words = {"bias": "C v is wrong", "skew": "Hdot - 2 C is not skew"}
    found = " and ".join(words[name] for name in wrong) or "D has the wrong symmetry"
    hint = _HINT if "bias" in wrong else ""
    return f"Not admissible: {found}{hint}." + (nonlinear or _REMEDY)


def _beta(D: Array, n: int) -> Array:
    """beta_ijk = -D_ijk for i < j < k, averaged over the six signed permutations; (m, C(n, 3))."""
    average = alternated(D)
    triples = np.array(list(combinations(range(n), 3)), dtype=int).reshape(-1, 3)
    return -average[:, triples[:, 0], triples[:, 1], triples[:, 2]]


def _beta_text(beta: Array | None, n: int) -> str:
    """The largest betas with their indices, counted from zero, like all indices in code."""
    if beta is None or not beta.size:
        return "with no beta to report"
    triples = list(combinations(range(n), 3))
    order = np.argsort(-np.max(np.abs(beta), axis=0))[:3]
    parts = [f"beta_{'_'.join(map(str, triples[a]))} = {_range_text(beta[:, a])}" for a in order]
    more = f" and {len(triples) - 3} more, no larger" if len(triples) > 3 else ""
    return ", ".join(parts) + more


def _range_text(values: Array) -> str:
    """One number where all samples agree, else their range."""
    low, high = float(values.min()), float(values.max())
    return f"{values[0]:.6g}" if high - low <= 1e-6 * max(abs(low), abs(high)) else f"{low:.4g} .. {high:.4g}"


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.2e}"


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value
