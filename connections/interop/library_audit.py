"""Which Coriolis matrix does a library compute? The audit of another library on a robot.

The library's C is audited against the library's own H, so a verdict does not depend on our H. H is compared
with ours first, because a library may model another robot. If the library has only the vector, C v is
compared with Hamel's equations of its H. In both cases C v is also compared with our recursion.

Source: [W] Props. III.1, III.2, IV.1, IV.2, Thm V.1, eq. (17).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from connections import multibody as mb
from connections.checks import Check, require_bool, require_draws, require_path, require_text
from connections.coriolis import AuditReport, audit_coriolis
from connections.geometry.numerics.scales import worst_check
from connections.interop.libraries import (
    Description,
    JointExample,
    Library,
    LibraryError,
    LibraryRobot,
    library_named,
)
from connections.interop.libraries.library import Array
from connections.interop.library_faults import VECTOR, Fault, faults_of
from connections.interop.silence import without_output

#: Relative tolerance of H and of C v against our recursion.
TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class LibraryAudit:
    """The audit of a library's Coriolis matrix, or of its vector C v.

    Parameters
    ----------
    library, version, variant, function : names of the audited function.
    subject : name of the robot or of the joint type.
    dofs : number of velocity components.
    same_robot : the library's H against ours.
    recursion : the library's C v against our recursion.
    report : the audit; for a library with only the vector, only its row "bias" is meaningful.
    matrix : whether the library has a matrix.
    faults : the joint types for which properties fail.
    notes : differences between the library's model and the description.

    Examples
    --------
    >>> from connections import interop
    >>> audit = interop.audit_library(interop.joint_example("revolute"), "pinocchio")
    >>> audit.function, audit.same_robot.ok, audit.recursion.ok
    ('computeCoriolisMatrix', True, True)
    >>> audit.verdicts["skew"], audit.kind
    ('holds', 'riemannian')
    >>> audit.faults
    ()
    """

    library: str
    version: str
    variant: str
    function: str
    subject: str
    dofs: int
    same_robot: Check
    recursion: Check
    report: AuditReport
    matrix: bool
    faults: tuple[Fault, ...]
    notes: tuple[str, ...]

    @property
    def verdicts(self) -> dict[str, str]:
        """Property -> verdict, as in `AuditReport`; only "bias" if there is no matrix."""
        return {name: self.report.verdicts[name] for name in self._properties}

    @property
    def kind(self) -> str:
        """The kind of C, as in `AuditReport`; "vector only" or "wrong vector" if there is no matrix."""
        if self.matrix:
            return self.report.kind
        return {"holds": "vector only", "fails": "wrong vector"}.get(self.verdicts["bias"], "unknown")

    @property
    def admissible(self) -> bool:
        """Whether C v is right and, for a matrix, Hdot - 2 C skew."""
        return self.report.admissible if self.matrix else self.verdicts["bias"] == "holds"

    @property
    def summary(self) -> str:
        """One or two sentences."""
        if self.matrix:
            return self.report.summary
        if self.kind == "vector only":
            return "The vector C v is right; the library has no Coriolis matrix."
        return f"The vector C v is {'wrong' if self.kind == 'wrong vector' else 'too noisy to be judged'}."

    @property
    def _properties(self) -> tuple[str, ...]:
        return tuple(self.report.checks) if self.matrix else VECTOR

    def to_dict(self) -> dict[str, Any]:
        """Everything except the contorsion as plain Python objects for JSON."""
        checks = self.report.to_dict()["checks"]
        return {
            "library": self.library,
            "version": self.version,
            "variant": self.variant,
            "function": self.function,
            "subject": self.subject,
            "dofs": self.dofs,
            "kind": self.kind,
            "admissible": self.admissible,
            "summary": self.summary,
            "same_robot": self.same_robot.to_dict(),
            "recursion": self.recursion.to_dict(),
            "checks": {name: checks[name] for name in self._properties},
            "faults": [fault.to_dict() for fault in self.faults],
            "notes": list(self.notes),
        }


def audit_library(
    robot: str | os.PathLike[str] | JointExample,
    library: str,
    *,
    floating_base: bool = False,
    samples: int = 2,
    seed: int = 0,
) -> LibraryAudit:
    """Audit of a library's Coriolis matrix, or of its vector C v, on a robot.

    Parameters
    ----------
    robot : a URDF file, or a mechanism of `joint_example`.
    library : its name, such as "pinocchio", or "name:variant", such as "idyntree:mixed".
    floating_base : whether the root link of the URDF is free.
    samples : number of random configurations and velocities.
    seed : of the samples.

    Raises
    ------
    LibraryError : the library or its variant is unknown, it is not installed, or it cannot read the robot.
    ModelError : the file is not a valid description.
    NonFiniteError, MetricError : the library returns NaN, or a matrix H that is not positive definite.

    Examples
    --------
    >>> from connections import interop
    >>> audit = interop.audit_library(interop.joint_example("revolute"), "mujoco")
    >>> audit.summary
    'The vector C v is right; the library has no Coriolis matrix.'
    >>> audit.admissible
    True
    """
    with without_output():
        return audit_aloud(robot, library, floating_base=floating_base, samples=samples, seed=seed)


def audit_aloud(
    robot: str | os.PathLike[str] | JointExample,
    library: str,
    *,
    floating_base: bool = False,
    samples: int = 2,
    seed: int = 0,
) -> LibraryAudit:
    """`audit_library` without suppressing what the library prints."""
    require_text("library", library)
    require_bool("floating_base", floating_base)
    require_draws(samples, seed)
    known, variant = library_named(library)
    subject = robot.kind if isinstance(robot, JointExample) else require_path("robot", robot).stem
    with tempfile.TemporaryDirectory(prefix="connections_audit_") as folder:
        read, variant = _reader(known, variant)
        theirs = read(robot, floating_base, Path(folder))
        return _audited(theirs, known, variant, subject, samples, seed)


# --- reading --------------------------------------------------------------------------------------


def _reader(known: Library, variant: str) -> tuple[Callable[..., LibraryRobot], str]:
    """The function (robot, floating base, folder) -> `LibraryRobot`, and the variant by name."""
    adaptor, chosen = known.adaptor(), known.require_variant(variant)
    read_file: Callable[[Description, str], LibraryRobot] = adaptor.read

    def read(robot: Any, floating_base: bool, folder: Path) -> LibraryRobot:
        try:
            if not isinstance(robot, JointExample):
                return read_file(Description.read(Path(robot), floating_base, folder), chosen)
            if hasattr(adaptor, "build"):
                built: LibraryRobot = adaptor.build(robot, chosen)
                return built
            path = folder / "example.urdf"
            path.write_text(robot.urdf(known.name))
            return read_file(Description.read(path, robot.floating_base, folder), chosen)
        except (LibraryError, OSError):
            raise
        except ValueError as error:
            if type(error).__module__.startswith("connections"):
                raise
            raise _refused(known, error) from error
        except Exception as error:
            raise _refused(known, error) from error

    return read, chosen


def _refused(known: Library, error: Exception) -> LibraryError:
    """A library's own error as one line."""
    text = " ".join(str(error).split())
    return LibraryError(f"{known.name} refuses it: {text[:300] or type(error).__name__}")


# --- measuring ------------------------------------------------------------------------------------


def _audited(
    theirs: LibraryRobot, known: Library, variant: str, subject: str, samples: int, seed: int
) -> LibraryAudit:
    rng = np.random.default_rng(seed)
    model = theirs.model
    q = np.stack([model.random(rng) for _ in range(samples)])
    v = rng.standard_normal((samples, model.nv))
    matrix = theirs.coriolis is not None
    coriolis = _matrix_of(theirs)
    report = audit_coriolis(coriolis, theirs.mass_matrix, model.frame, q, v)
    return LibraryAudit(
        known.name,
        known.version,
        variant,
        theirs.function,
        subject,
        model.nv,
        _same_robot(theirs, q),
        _recursion(theirs, coriolis, q, v),
        report,
        matrix,
        tuple(faults_of(theirs, coriolis, report, q, v)),
        theirs.notes,
    )


def _matrix_of(theirs: LibraryRobot) -> Callable[[Array, Array], Array]:
    """The library's C, or c v^T / v^T v with its vector c: one of the matrices with C v = c."""
    if theirs.coriolis is not None:
        return theirs.coriolis
    bias = theirs.bias
    assert bias is not None

    def coriolis(q: Array, v: Array) -> Array:
        square = float(v @ v)
        return np.asarray(np.outer(bias(q, v), v / square if square else v))

    return coriolis


def _same_robot(theirs: LibraryRobot, q: Array) -> Check:
    """The library's H against ours, H_ij relative to (H_ii H_jj)^(1/2)."""
    residuals, scales = [], []
    for point in q:
        ours = mb.mass_matrix(theirs.model, point)
        length = np.sqrt(np.diag(ours))
        residuals.append(theirs.mass_matrix(point) - ours)
        scales.append(np.outer(length, length))
    return worst_check("same mass matrix", (np.stack(residuals), np.stack(scales)), TOLERANCE)


def _recursion(theirs: LibraryRobot, coriolis: Callable[[Array, Array], Array], q: Array, v: Array) -> Check:
    """The library's C v against our recursion, row i relative to the largest row times |X_i|."""
    residuals, scales = [], []
    for point, velocity in zip(q, v, strict=True):
        C, H = mb.coriolis_matrix(theirs.model, point, velocity), mb.mass_matrix(theirs.model, point)
        length = np.sqrt(np.diag(H))
        residuals.append(coriolis(point, velocity) @ velocity - C @ velocity)
        scales.append(length * np.max(np.abs(C) @ np.abs(velocity) / length))
    return worst_check("C v against the recursion", (np.stack(residuals), np.stack(scales)), TOLERANCE)
