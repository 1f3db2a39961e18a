"""The rows of a referee's report: what was measured, what would have been noticed, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from connections._words import no_such
from connections.checks import CheckError, html_table

MEANING = {
    "symmetric": "H is symmetric",
    "definite": "H is positive definite, scaled to a diagonal of ones",
    "quadratic": "bias(q, v) is quadratic in v, and nothing at rest",
    "bias": "bias(q, v) is the one that H itself implies (Hamel)",
    "product": "C(q, v) v is the bias",
    "linear": "C(q, v) is linear in v, so it is a connection",
    "skew": "Hdot - 2 C is skew",
    "torsion_free": "no torsion: C(q, e_j) e_k - C(q, e_k) e_j = H [X_j, X_k]",
    "gravity": "gravity(q) is the differential of a potential",
    "d_mass_matrix": "derivatives of H against differences",
    "d_bias_q": "derivatives of the bias along the configuration against differences",
    "d_bias_v": "derivatives of the bias by v against differences",
    "d_gravity": "derivatives of gravity against differences",
    "galilean": "in water that moves steadily, the equation is that of the relative velocity",
    "same_mass_matrix": "H is the reference's",
    "same_bias": "bias(q, v) is the reference's",
    "same_gravity": "gravity(q) is the reference's",
}
#: Properties that are not faults where they fail.
INFORMATIVE = ("linear", "torsion_free")

_COLUMNS = ("row", "verdict", "residual", "tolerance", "control", "noise", "sample", "meaning")


@dataclass(frozen=True)
class Row:
    """One property: numbers are relative to the scale of the component with the largest error.

    Parameters
    ----------
    name : a key of the table of meanings.
    verdict : "holds", "fails", "unknown" (differences are too noisy), "empty" (the control does not fail, so
        these samples could not tell), "not applicable" (C is not linear), "not given".
    residual : the largest deviation over all samples.
    tolerance : what counts as zero there.
    control : the residual of a version that is wrong on purpose.
    noise : error expected of the differences.
    sample : number of the sample with the largest deviation; None without one.
    meaning : in words.

    Examples
    --------
    >>> from connections import referee
    >>> row = referee.Row("bias", "holds", 1e-12, 1e-6, 1.2, 1e-13, 0, "the bias is right")
    >>> row.verdict, row.given
    ('holds', True)
    """

    name: str
    verdict: str
    residual: float = np.nan
    tolerance: float = np.nan
    control: float = np.nan
    noise: float = np.nan
    sample: int | None = None
    meaning: str = ""

    @property
    def given(self) -> bool:
        """Whether there was anything to judge."""
        return self.verdict not in ("not given", "not applicable")

    def to_dict(self) -> dict[str, Any]:
        """A dictionary for JSON; what is not finite becomes None."""
        return {
            key: None if isinstance(value, float) and not np.isfinite(value) else value
            for key, value in asdict(self).items()
        }


@dataclass(frozen=True, eq=False)
class RefereeReport:
    """The results of a referee: `print` them, read their rows, or `require` them.

    Parameters
    ----------
    rows : one for each property.
    kind : as of `AuditReport` if there is a C; else "vector only", "wrong vector" or "mass matrix only".
    precision : "float64" or "float32", in which the functions compute.
    subject : the robot or the layout.
    notes : hints in words.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import referee
    >>> def H(q):
    ...     c = np.cos(q[1])
    ...     return np.array([[3 + 2 * c, 1 + c], [1 + c, 1.0]])
    >>> def bias(q, v):
    ...     return -np.sin(q[1]) * np.array([2 * v[0] * v[1] + v[1] ** 2, -v[0] ** 2])
    >>> report = referee.audit_functions(H, bias, frame=referee.fixed(), q=[0.3, 0.7], v=[0.5, -0.4])
    >>> report.kind, report["bias"].verdict, report.failing
    ('vector only', 'holds', ())
    """

    rows: tuple[Row, ...]
    kind: str
    precision: str
    subject: str = ""
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(no_such("row", str(name), [row.name for row in self.rows]))

    @property
    def verdicts(self) -> dict[str, str]:
        """Name -> verdict."""
        return {row.name: row.verdict for row in self.rows}

    @property
    def failing(self) -> tuple[str, ...]:
        """Names of the rows that fail, without properties that are not faults ("linear", "torsion_free")."""
        return tuple(r.name for r in self.rows if r.verdict == "fails" and r.name not in INFORMATIVE)

    def require(self, names: Iterable[str] | None = None) -> RefereeReport:
        """The report itself, if rows hold.

        Parameters
        ----------
        names : which; None for all that were given and could be judged, but "linear" and "torsion_free".

        Raises
        ------
        CheckError : a row fails; or was asked for by name and was not given or could not be judged.
        KeyError : there is no such row.
        """
        if names is None:
            bad = [self[name] for name in self.failing]
        else:
            bad = [row for row in map(self.__getitem__, sorted(set(names))) if row.verdict != "holds"]
        if bad:
            words = "; ".join(f"{row.name} {_verdict_in_words(row)}" for row in bad)
            raise CheckError(f"{self.subject}: {words}\n{self}")
        return self

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python objects for JSON; NaN and infinity become None."""
        return {
            "subject": self.subject,
            "kind": self.kind,
            "precision": self.precision,
            "verdicts": self.verdicts,
            "failing": list(self.failing),
            "rows": [row.to_dict() for row in self.rows],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        texts = [_COLUMNS, *self._texts()]
        wide = [max(len(text[column]) for text in texts) for column in range(len(_COLUMNS) - 1)]
        lines = [
            "  ".join([*(cell.ljust(size) for cell, size in zip(text[:-1], wide, strict=True)), text[-1]])
            for text in texts
        ]
        return "\n".join([*lines, "", self.summary, *self.notes])

    @property
    def summary(self) -> str:
        """One sentence."""
        found = f"fails: {', '.join(self.failing)}" if self.failing else "nothing fails"
        return f"{self.subject or 'black box'} ({self.precision}): {self.kind}; {found}."

    def _repr_html_(self) -> str:
        return html_table(self.summary, self._texts(), _COLUMNS, self.notes)

    def _texts(self) -> list[tuple[str, ...]]:
        return [
            (
                row.name,
                row.verdict,
                *map(_number, (row.residual, row.tolerance, row.control, row.noise)),
                "-" if row.sample is None else str(row.sample),
                row.meaning,
            )
            for row in self.rows
            if row.verdict != "not given"
        ]


def _verdict_in_words(row: Row) -> str:
    where = "" if row.sample is None else f" at sample {row.sample}"
    if row.verdict == "fails":
        return f"fails{where}: {row.residual:.2g} of its scale, tolerance {row.tolerance:.2g}"
    reasons = {
        "unknown": f"is unknown: the differences have noise of {row.noise:.2g}{where}",
        "empty": "cannot be judged: a wrong version would not be noticed at these samples",
        "not given": "was not given",
        "not applicable": "is not applicable, because C is not linear in v",
    }
    return reasons[row.verdict]


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.1e}"
