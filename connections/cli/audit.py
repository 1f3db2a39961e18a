"""connections audit: which Coriolis matrix other libraries compute."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from connections._distribution import how_to_install
from connections.cli import options as arguments
from connections.cli.printing import WIDE, cell, console, new_table, print_paragraph, write_output
from connections.cli.progress import progress

if TYPE_CHECKING:
    from connections.interop.library_runs import Request

_MOST_NAMES = 4  # of joints in a line

_DESCRIPTION = """\
Which Coriolis matrix does a library compute? Its C(q, v) is audited as an
affine connection, on a robot or on a small mechanism per type of joint.

  connections audit ROBOT.urdf --library pinocchio --floating-base
  connections audit ROBOT.urdf                     all libraries installed
  connections audit --joints --library pinocchio   all types of joints
  connections audit --joints universal mimic       two types, all libraries

  connections audit --corpus --library dartpy --python VENV/bin/python
      the robots of the corpus, in the interpreter that has the library

Libraries: pinocchio, idyntree, jaxsim, roboticstoolbox (C), mujoco, drake (the
vector C v only). Variants: pinocchio:untied (joints that mimic move on their
own), idyntree:mixed, idyntree:inertial, jaxsim:mixed, jaxsim:inertial (velocity
representations). Each runs in a process of its own.

With --corpus also newton, brax, mjx, mujoco_warp, frax, adam, dartpy, dynibo,
placo, urdf2casadi; or the path of an adaptor of your own (docs/referee.md).

Types of joints: revolute, continuous, prismatic, helical, cylindrical, planar,
translation, spherical, spherical-zyx, universal, composite, free, mimic.

Where a property fails, the joint types are named with which it fails when all
other joints are locked. Exit status: 0 if every H is that of the robot, every
C v is right and every Hdot - 2 C skew, 1 if not, 2 if a library that was named
cannot be audited.
"""


def add(commands: Any) -> None:
    """Register the command."""
    audit = commands.add_parser(
        "audit",
        help="which Coriolis matrix other libraries compute",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    audit.add_argument("robot", nargs="?", type=arguments.robot, metavar="ROBOT.urdf")
    audit.add_argument(
        "--library",
        action="append",
        metavar="NAME[:VARIANT]",
        help="may be repeated; all installed if absent",
    )
    audit.add_argument(
        "--joints", nargs="*", metavar="TYPE", help="types of joints instead of a robot; all if none"
    )
    audit.add_argument(
        "--corpus", nargs="*", metavar="ROBOT", help="robots of the corpus, for any library; all if none"
    )
    audit.add_argument(
        "--python",
        type=arguments.file_name,
        metavar="PATH",
        help="interpreter that has the library of --corpus (default: this one)",
    )
    audit.add_argument("--floating-base", action="store_true", help="free the root link")
    audit.add_argument("--samples", type=arguments.count, default=2, metavar="N", help="points (default 2)")
    audit.add_argument("--seed", type=arguments.seed, default=0, help="of the points (default 0)")
    audit.add_argument(
        "--json", type=arguments.result, metavar="FILE", help="write everything to FILE; - is standard output"
    )
    audit.add_argument(
        "--markdown", type=arguments.result, metavar="FILE", help="write the table of --corpus to FILE"
    )
    audit.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Audit, print, and write."""
    if options.corpus is not None or options.python is not None or options.markdown is not None:
        from connections.cli.audit_corpus import run_corpus

        return run_corpus(options)
    from connections.interop.libraries import LIBRARIES
    from connections.interop.library_runs import Request

    robots = _robots(options)
    names = _libraries(options.library)
    output = arguments.output(options.json)
    results: list[dict[str, Any]] = []
    for name in names:
        request = Request(
            name, robots, options.joints is not None, options.floating_base, options.samples, options.seed
        )
        for result in _audited(request):
            if options.joints is None:
                _print(result)
            results.append(result | {"library": name})
    if options.joints is not None or len(results) > 1:
        _print_table(results)
    if not options.library:
        for library in LIBRARIES.values():
            if not library.installed:
                print_paragraph(f"Not audited, as it is not installed: {library.name}. {library.how_to_get}")
    if output is not None:
        write_output(output, json.dumps(results, indent=1, allow_nan=False) + "\n")
    return _status(results, bool(options.library), options.joints is not None)


def _audited(request: Request) -> list[dict[str, Any]]:
    """The audits of a library, with progress on stderr."""
    from connections.interop.library_runs import audits_apart

    results = []
    with progress(len(request.robots), "audits", request.library) as steps:
        for result in audits_apart(request):
            results.append(result)
            steps.advance()
    return results


def _status(results: Sequence[dict[str, Any]], named: bool, joints: bool) -> int:
    """0, 1 or 2, see the description; a type of joint that a library lacks is not an error."""
    audited = [result for result in results if "error" not in result]
    if not audited or (named and not joints and len(audited) < len(results)):
        return 2
    return 0 if all(result["admissible"] and result["same_robot"]["ok"] for result in audited) else 1


def _robots(options: argparse.Namespace) -> tuple[str, ...]:
    """The robots to audit: a readable file, or known types of joints."""
    from connections.interop import joint_example
    from connections.interop.libraries import KINDS
    from connections.interop.library_runs import require_readable

    if (options.robot is None) == (options.joints is None):
        raise ValueError("give a robot or --joints: connections audit ROBOT.urdf, connections audit --joints")
    if options.robot is None:
        for kind in options.joints:
            joint_example(kind)
        return tuple(options.joints or KINDS)
    require_readable([str(options.robot)], options.floating_base)
    return (str(options.robot),)


def _libraries(given: list[str] | None) -> list[str]:
    """The libraries to audit, each known and installed, each variant known."""
    from connections.interop import LibraryError
    from connections.interop.libraries import installed_libraries, library_named

    if not given:
        names = installed_libraries()
        if not names:
            raise LibraryError(f"no other library is installed: {how_to_install('audit')}")
        return names
    for name in given:
        library, variant = library_named(name)
        library.require_variant(variant)
    return given


# --- printing -------------------------------------------------------------------------------------


def _print(result: dict[str, Any]) -> None:
    """The audit of one library on one robot."""
    print()
    if "error" in result:
        print_paragraph(f"{result['library']} on {result['subject']}: not audited. {result['error']}")
        return
    variant = f", {result['variant']}" if result["variant"] else ""
    print_paragraph(
        f"{result['library']} {result['version']}{variant}: {result['function']} on {result['subject']}, "
        f"{result['dofs']} velocities"
    )
    for note in result["notes"]:
        _print_indented(f"note: {note}")
    _print_comparison(result["same_robot"], "H is that of this library", "H is of ANOTHER ROBOT than ours")
    _print_comparison(result["recursion"], "C v is that of the recursion", "C v is NOT that of the recursion")
    _print_properties(result["checks"])
    _print_indented(result["summary"])
    for text in fault_lines(result["faults"]):
        _print_indented(text)


def _print_indented(text: str) -> None:
    print_paragraph(text, "  ", "    ")


def _print_comparison(check: dict[str, Any], holds: str, fails: str) -> None:
    _print_indented(f"{holds if check['ok'] else fails}: {_number(check['relative'])} relative")


def _print_properties(checks: dict[str, Any]) -> None:
    """Property, verdict and meaning; in many columns also residual, scale and noise, which --json writes."""
    output = console()
    numbers = ("residual", "scale", "noise") if output.width >= WIDE else ()
    table = new_table()
    for name in ("property", "verdict"):
        table.add_column(name, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("meaning")
    for name, check in checks.items():
        table.add_row(
            name, check["verdict"], *(_number(check[key]) for key in numbers), cell(check["meaning"])
        )
    from rich.padding import Padding

    output.print(Padding(table, (0, 0, 0, 2)), markup=False)


def fault_lines(faults: Sequence[dict[str, Any]]) -> list[str]:
    """The joint types for which properties fail; properties with the same types share a line."""
    by_kinds: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for fault in faults:
        by_kinds.setdefault(tuple(fault["kinds"]), []).append(fault)
    lines = []
    for kinds, group in by_kinds.items():
        joints = group[0]["joints"]
        names = ", ".join(joints) if len(joints) <= _MOST_NAMES else f"{len(joints)} of them"
        properties = ", ".join(f"{fault['property']} ({fault['relative']:.1e})" for fault in group)
        lines.append(f"fails where only joints of type {' and '.join(kinds)} move ({names}): {properties}")
    return lines


def _print_table(results: Sequence[dict[str, Any]]) -> None:
    table = new_table()
    for name in ("library", "subject", "kind", "fails", "where only joints of these types move"):
        table.add_column(name, overflow="fold")
    for result in results:
        cells = [result["library"], result["subject"]]
        if "error" in result:
            cells += ["-", "", result["error"]]
        else:
            faults = result["faults"]
            kinds = dict.fromkeys(" and ".join(fault["kinds"]) for fault in faults)
            names = dict.fromkeys(fault["property"] for fault in faults)
            other = [] if result["same_robot"]["ok"] else ["(H is of another robot)"]
            other += [f"({note})" for note in result["notes"] if "mimic" in note]
            cells += [result["kind"], ", ".join(names), "; ".join([*kinds, *other])]
        table.add_row(*map(cell, cells))
    print()
    console().print(table)
    print()


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2e}"
