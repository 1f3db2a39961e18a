"""Subjects that a Python file defines: ``connections verify my_system.py:top``."""

from __future__ import annotations

from pathlib import Path

from connections.checks import require_draws, require_path, require_text
from connections.verify.nonholonomic_subjects import NonholonomicSubject
from connections.verify.python_files import Wanted, explained, object_from_file
from connections.verify.subjects import Subject
from connections.verify.subjects_from_objects import ACCEPTED, as_subject, is_acceptable

_SUBJECT = Wanted(
    is_acceptable, "verify", f"Expected {ACCEPTED}, or a function without arguments that returns one."
)


def subject_from_file(
    path: str | Path, attribute: str, samples: int = 2, seed: int = 0
) -> Subject | NonholonomicSubject:
    """The subject that a Python file defines.

    The file is run as a module with a private name. Its folder is put first in ``sys.path``, as
    ``python FILE`` does, and stays there, because functions may import when they are called.

    Parameters
    ----------
    path : the file, which ends in ``.py``.
    attribute : an object that `as_subject` accepts, or a function without arguments that returns one.
    samples, seed : as for `as_subject`; a subject has its own samples and seed.

    Raises
    ------
    SubjectError : there is no such file or attribute, the attribute is of another type, or the file's code
        raises an error, which is the cause.

    Examples
    --------
    >>> from pathlib import Path
    >>> from connections import verify
    >>> code = "import connections as cn; metric = cn.ConstantMetric(cn.CoordinateFrame(1), [[2]])"
    >>> size = Path("line.py").write_text(code)
    >>> verify.subject_from_file("line.py", "metric").q.shape
    (2, 1)
    """
    path = require_path("path", path)
    require_text("attribute", attribute)
    require_draws(samples, seed)
    found = object_from_file(path, attribute, _SUBJECT)
    with explained(path, f"{found.name} cannot be verified"):
        return as_subject(found.thing, attribute, samples, seed)
