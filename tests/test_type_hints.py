"""Annotations of all public names can be evaluated, as editors, `pydantic` and pages of documentation do."""

import inspect
from typing import get_type_hints

from names import called


def annotated():
    """Names of public functions, classes and their methods, and what has the annotations."""
    for name, thing in called().items():
        yield name, thing
        for part in dir(thing) if inspect.isclass(thing) else ():
            found = inspect.getattr_static(thing, part)
            found = getattr(found, "fget", None) or getattr(found, "func", None) or found
            found = getattr(found, "__func__", found)
            if inspect.isfunction(found) and (not part.startswith("_") or part in ("__init__", "__call__")):
                yield f"{name}.{part}", found


def test_annotations_can_be_evaluated():
    wrong, count = {}, 0
    for count, (name, thing) in enumerate(annotated(), start=1):  # noqa: B007
        try:
            get_type_hints(thing)
        except NameError as error:
            wrong[name] = str(error)
    assert count > 2000 and wrong == {}
