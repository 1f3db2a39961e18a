"""Results that `python -O` and `-OO` have to give, too; printed as JSON."""

import contextlib
import importlib
import io
import json
import pkgutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import connections as cn
from connections import control, verify
from connections import multibody as mb
from connections.cli import main
from connections.engines.source_fingerprint import fingerprint
from connections.multibody.program.compiled_functions import compiled
from connections.verify.report import _row, applicable

#: Of a tree: kernels that read, factorize, and step; of a closed chain: with loops that are closed before.
GENERATED = {
    "arm": ["mass_matrix", "forward_dynamics", "gravity", "frame_jacobian:tool"],
    "four_bar": ["mass_matrix", "inverse_dynamics_derivatives"],
    "pendulum": ["variational_step", "discrete_momentum"],
}
EQUIPPED = "connections.interop.geomstats.equipped"


def results() -> dict[str, Any]:
    """All of it."""
    return {
        "modules": modules(),
        "C": generated({"arm": ["coriolis_matrix"]}),
        # Each is compiled, too, and for -OO, which has machine code of its own, it would be once more.
        "more C": generated(GENERATED) if sys.flags.optimize < 2 else {},
        "texts": [printed(cn.citation, used) for used in (mb.coriolis_matrix, cn.LeviCivita, control)]
        + [printed(main, ["verify", "--help"]), repr(mb.example("arm"))],
        "numbers": numbers(),
        "fingerprint": fingerprint(compiled.function("mass_matrix_at")),
    }


def modules() -> list[str]:
    """The names of all modules; each is imported, but for programs and what geomstats is found for first."""
    names = [each.name for each in pkgutil.walk_packages(cn.__path__, "connections.")]
    for name in names:
        if name not in ("connections.interop.adaptors.runner", "connections.cli.__main__", EQUIPPED):
            importlib.import_module(name)
    return names


def pendulum() -> mb.Model:
    mechanism = mb.Mechanism()
    mechanism.add_body("bob", 2.0, (0, 0, -0.5), np.eye(3) / 100)
    mechanism.add_joint("pivot", "world", "bob", mb.Revolute((0, 1, 0)))
    return mechanism.build()


def generated(functions: dict[str, list[str]]) -> dict[str, str]:
    """Name of a file of C -> its text."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for robot, names in functions.items():
            model = pendulum() if robot == "pendulum" else mb.example(robot)
            mb.codegen.generate_c(model, names, Path(folder) / robot, name=robot)
            for path in (Path(folder) / robot).rglob("*"):
                if path.is_file():
                    found[f"{robot}/{path.name}"] = path.read_text()
    return found


def printed(function: Any, *arguments: Any) -> str:
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream), contextlib.suppress(SystemExit):
        function(*arguments)
    return stream.getvalue()


def numbers() -> dict[str, Any]:
    """Of a robot, a connection, a motion, a row of verify and wrong arguments."""
    robot, q = pendulum(), np.array([0.3])
    nabla = cn.LeviCivita(cn.ConstantMetric(cn.SO3Frame(), np.diag([1.0, 2.0, 3.0])))
    subject = verify.system_subject("sphere", samples=1)
    row = _row(subject, applicable(subject)[4], 1e-9).to_dict()
    at, v = [0.0, 0.0, 0.0, 1.0], [0.3, 0.1, 0.2]
    return {
        "robot": mb.mass_matrix(robot, q).tolist(),
        "connection": np.asarray(nabla.curvature(at)).tolist(),
        "motion": np.asarray(cn.geodesic(nabla, at, v, [0.0, 1.0]).q).tolist(),
        "row": {name: value for name, value in row.items() if name != "seconds"},
        "errors": [error_of(mb.mass_matrix, robot, [np.nan]), error_of(nabla.torsion, [1.0, 2.0])],
    }


def error_of(function: Any, *arguments: Any) -> str:
    try:
        return repr(function(*arguments))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    json.dump(results(), sys.stdout)
