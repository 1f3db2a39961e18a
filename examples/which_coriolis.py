"""Which Coriolis matrix does your library compute? The audit of other libraries, as a table.

Run: python examples/which_coriolis.py           one library on a quadruped, one on three types of joints
     python examples/which_coriolis.py --all     every library that is installed, on every robot and type of
                                                 joint; writes which_coriolis_table.md (for docs/)

The robots are those of the package example-robot-data. Every row can be had alone, by the command line:
connections audit ROBOT.urdf --library NAME, or connections audit --joints TYPE --library NAME.
"""

import sys
from importlib.metadata import files
from pathlib import Path

from connections.interop.libraries import KINDS, LIBRARIES, installed_libraries
from connections.interop.library_runs import Request, audits_apart

ROBOTS = {  # title: (path below robots/, floating base)
    "UR5, an arm": ("ur_description/urdf/ur5_robot.urdf", False),
    "Panda, an arm whose fingers mimic": ("panda_description/urdf/panda.urdf", False),
    "Solo 12, a quadruped": ("solo_description/robots/solo12.urdf", True),
    "Talos, a humanoid": ("talos_data/robots/talos_reduced.urdf", True),
}
VARIANTS = ("pinocchio:untied", "idyntree:mixed", "idyntree:inertial", "jaxsim:mixed", "jaxsim:inertial")
HEADER = "---\norphan: true\n---\n\n# Which Coriolis matrix: all results\n\n<!-- table -->\n\n"
PROPERTIES = ("linear", "bias", "skew", "metric_compatible", "same_geodesics", "torsion_free")


def robot_file(name):
    """Where example-robot-data keeps a URDF."""
    for file in files("example-robot-data") or ():
        if file.as_posix().endswith(f"robots/{name}"):
            return str(Path(str(file.locate())).resolve())
    raise SystemExit('the robots are in a package of their own: pip install "affine-connections[robots]"')


def audits(libraries, titles, kinds):
    """{(library, title of a robot or type of joint): result}."""
    found = {}
    for library in libraries:
        for title in titles:
            path, floating_base = ROBOTS[title]
            request = Request(library, (robot_file(path),), False, floating_base, 2, 0)
            (found[library, title],) = audits_apart(request)
        request = Request(library, tuple(kinds), True, False, 2, 0)
        for kind, result in zip(kinds, audits_apart(request), strict=True):
            found[library, kind] = result
        print(f"audited: {library}", file=sys.stderr)
    return found


def word(result):
    """What a library computes, in a word or two."""
    if "error" in result:
        return "-"
    other = "" if result["same_robot"]["ok"] else ", of another robot"
    untied = " \\*" if any("mimic" in note for note in result["notes"]) else ""
    return result["kind"] + other + untied


def grid(found, libraries, rows):
    """A table of words, libraries across."""
    lines = ["| | " + " | ".join(libraries) + " |", "|---" * (len(libraries) + 1) + "|"]
    for row in rows:
        results = [found.get((library, row)) for library in libraries]
        lines.append(f"| {row} | " + " | ".join(word(result) if result else "" for result in results) + " |")
    return lines


def numbers(found):
    """A table of all residuals relative to their scales, and what fails in bold."""
    lines = [
        "| library | on | H | C v | " + " | ".join(PROPERTIES) + " | fails where only these joints move |",
        "|---" * (len(PROPERTIES) + 5) + "|",
    ]
    for (library, title), result in found.items():
        if "error" in result:
            continue
        cells = [library, title]
        for name in ("same_robot", "recursion"):
            cells.append(number(result[name]["relative"], result[name]["ok"]))
        for name in PROPERTIES:
            check = result["checks"].get(name)
            cells.append("" if check is None else number(check["relative"], check["verdict"] != "fails"))
        cells.append("; ".join(dict.fromkeys(" and ".join(fault["kinds"]) for fault in result["faults"])))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def number(value, ok):
    """A relative residual."""
    text = "n/a" if value is None else f"{value:.0e}"
    return text if ok else f"**{text}**"


def refusals(found):
    """What could not be audited, and why; types of joints that a library lacks on one line."""
    lacking, rows = {}, {}
    for (library, title), result in found.items():
        if "error" in result and title in KINDS and "no " in result["error"]:
            lacking.setdefault(library, []).append(title)
        elif "error" in result:
            rows.setdefault((library, result["error"]), []).append(title)
    lines = [f"- {library} has no joints of type {', '.join(kinds)}" for library, kinds in lacking.items()]
    return lines + [f"- {library}, {'; '.join(titles)}: {error}" for (library, error), titles in rows.items()]


def page(found, libraries, variants, titles, kinds):
    """The table as Markdown."""
    versions = ", ".join(f"{name} {LIBRARIES[name].version}" for name in libraries)
    notes = dict.fromkeys(
        f"- {library}: {note}"
        for (library, _), result in found.items()
        for note in result.get("notes", ())
        if "mimic" not in note
    )
    return [
        f"Versions: {versions}. Two random configurations and velocities each, seed 0.",
        "",
        "**Robots**",
        "",
        *grid(found, libraries, titles),
        "",
        "\\* joints that mimic move on their own there, and ours do so, too, in the comparison.",
        "",
        *(["**Variants**", "", *grid(found, variants, titles), ""] if variants else []),
        "**Types of joints**, each in a small mechanism on a fixed base",
        "",
        *grid(found, libraries, kinds),
        "",
        "**Residuals** relative to their scales; bold: fails",
        "",
        *numbers(found),
        "",
        "**Not audited**",
        "",
        *refusals(found),
        *(["", "**Notes**", "", *notes] if notes else []),
    ]


def main():
    """Audit, print, write."""
    everything = "--all" in sys.argv[1:]
    installed = installed_libraries()
    if everything:
        libraries, titles, kinds = installed, list(ROBOTS), list(KINDS)
        variants = [name for name in VARIANTS if name.partition(":")[0] in installed]
        found = audits(libraries, titles, kinds) | audits(variants, titles, [])
    else:
        libraries, variants = [name for name in ("pinocchio", "idyntree") if name in installed], []
        titles, kinds = ["Solo 12, a quadruped"], ["revolute", "universal", "mimic"]
        found = audits(libraries[1:], titles, []) | audits(libraries[:1], [], kinds)
    if not libraries:
        raise SystemExit("no library to audit is installed: pip install 'affine-connections[audit]'")
    text = HEADER + "\n".join(page(found, libraries, variants, titles, kinds)) + "\n"
    print(text)
    if everything:
        Path("which_coriolis_table.md").write_text(text)  # and then: python docs/referee_table.py
        print("written: which_coriolis_table.md", file=sys.stderr)


main()
