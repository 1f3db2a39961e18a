"""A fixture for pytest, `referee`: the dynamics of your library, judged in five lines.

    def test_dynamics(referee):
        lib = load(referee.robot("hard_floating").urdf)
        layout = referee.floating("vw", "mixed")
        referee.check(mass_matrix=lib.H, bias=lib.c, layout=layout, robot="hard_floating", require={"bias"})

pytest imports this module in every project of an environment, so it imports nothing else until a test uses
the fixture. JAX stays as the project has set it: importing `connections` elsewhere switches float64 on, and
names a folder for compiled functions, for the whole process.

Of a distribution that has a plugin, pytest rewrites the assertions of all modules, with a loader of its own.
None of this package is a test, so Python loads them as in any other program: the same code, compiled once.
"""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

import pytest

#: Whether this module is importing `connections`, which then leaves JAX as it is (`connections._jax`).
AS_GUEST: ContextVar[bool] = ContextVar("as_guest", default=False)


class _AsAlways:
    """The package's modules as Python itself finds them; another package of this name is left to pytest."""

    _package = os.path.join(os.path.dirname(os.path.abspath(__file__)), "connections", "")

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] != "connections":
            return None
        spec = PathFinder.find_spec(name, path, target)
        ours = spec is not None and spec.origin is not None and spec.origin.startswith(cls._package)
        return spec if ours else None


sys.meta_path.insert(0, _AsAlways)


class Referee:
    """`connections.referee`, imported at the first use of one of its names, and `check`."""

    def __getattr__(self, name: str) -> Any:
        import jax

        token = AS_GUEST.set(True)
        try:
            with jax.enable_x64(True):  # in this thread, for arrays that are made by the import
                from connections import referee
        finally:
            AS_GUEST.reset(token)
        return getattr(referee, name)

    def check(
        self,
        mass_matrix: Any,
        bias: Any = None,
        coriolis: Any = None,
        gravity: Any = None,
        derivatives: Any = None,
        *,
        layout: Any = None,
        robot: Any = None,
        q: Any = None,
        v: Any = None,
        require: Any = None,
        **options: Any,
    ) -> Any:
        """The report on functions of a library, if what is required holds; otherwise the test fails with it.

        Parameters
        ----------
        mass_matrix, bias, coriolis, gravity, derivatives, options : as of `connections.referee.audit_robot`.
        layout : how the library writes q and v, such as ``referee.floating("vw", "mixed")``.
        robot : of the corpus, by name; or none, and `q` and `v`, samples in the layout of another robot.
        require : names of rows that have to hold; by default no row may fail.
        """
        __tracebackhide__ = True
        functions = (mass_matrix, bias, coriolis, gravity, derivatives)
        if (robot is None) == (q is None and v is None):
            raise ValueError("referee.check takes a robot of the corpus, or samples q and v of another one")
        if robot is not None:
            report = self.audit_robot(robot, *functions, layout=layout, **options)
        else:
            report = self.audit_functions(*functions, frame=layout or self.fixed(), q=q, v=v, **options)
        from connections.checks import CheckError

        try:
            return report.require(require)
        except CheckError as error:
            pytest.fail(str(error))  # the traceback ends in the line of the test


@pytest.fixture(scope="session")
def referee() -> Referee:
    """A library's dynamics, judged by `referee.check`; with the layouts and the corpus of robots."""
    return Referee()
