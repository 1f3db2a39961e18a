"""Descriptions of robots with a mistake in them, made from files that are right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

DATA = Path(__file__).parents[1] / "data"
MJCF = """<mujoco model="m">
  <compiler angle="radian"/>
  <worldbody>
    <body name="a" pos="0 0 1">
      <joint name="j" type="hinge" axis="0 1 0" armature="0.01"/>
      <inertial pos="0 0 -0.1" mass="1" diaginertia="0.1 0.1 0.1"/>
      <body name="b" pos="0 0 -0.5">
        <joint name="k" type="slide" axis="0 0 1"/>
        <geom type="capsule" size="0.05 0.2" density="500"/>
      </body>
    </body>
    <body name="c"><freejoint/><geom type="sphere" size="0.1"/></body>
  </worldbody>
  <equality><joint joint1="k" joint2="j" polycoef="0 0.5 0 0 0"/></equality>
</mujoco>
"""

#: What a number or a word of the file becomes.
WORDS = [
    "",
    " ",
    "nan",
    "inf",
    "-1",
    "0",
    "1e400",
    "1e-320",
    "1e200",
    "abc",
    "1 2",
    "0 0 0",
    "1 1 1 1 1 1 1",
    "1,5",
    "true",
    "\u0661",
    "&lt;",
    "../../etc/passwd",
    "world",
    "x" * 10_000,
]
_VALUE = re.compile(r'"[^"]*"')
_ELEMENT = re.compile(r"<[A-Za-z_]+[^<>]*/>")
_TAG = re.compile(r"</?[A-Za-z_]+")
_ATTRIBUTE = re.compile(r'\s[A-Za-z_0-9]+="[^"]*"')


def originals() -> dict[str, str]:
    """File name: text that is right."""
    files = [DATA / "branched.urdf", DATA / "wheeled_arm.urdf", *sorted((DATA / "urdf_plus").glob("*.urdf"))]
    small = [path for path in files if path.stat().st_size < 8_000]
    return {path.name: path.read_text() for path in small} | {"m.xml": MJCF}


@st.composite
def broken(draw: Any, text: str) -> bytes:
    """`text` with one to three mistakes."""
    for _ in range(draw(st.integers(1, 3))):
        text = draw(st.sampled_from([_word, _removed, _doubled, _renamed, _attribute]))(draw, text)
    data = text.encode()
    how = draw(st.sampled_from(["whole"] * 6 + ["cut", "bytes", "declared", "bom"]))
    if how == "cut":
        return data[: draw(st.integers(0, len(data)))]
    if how == "bytes":
        at = draw(st.integers(0, len(data) - 1))
        return data[:at] + draw(st.binary(min_size=1, max_size=4)) + data[at + 1 :]
    if how == "declared":
        name = draw(st.sampled_from(["shift_jis", "utf-7", "idna", "utf-16", "no-such", "ascii"]))
        return f'<?xml version="1.0" encoding="{name}"?>\n'.encode() + data.split(b"?>", 1)[-1].lstrip()
    return b"\xef\xbb\xbf" + data if how == "bom" else data


def _place(draw: Any, pattern: re.Pattern[str], text: str) -> tuple[int, int]:
    places = [match.span() for match in pattern.finditer(text)]
    return draw(st.sampled_from(places)) if places else (0, 0)


def _word(draw: Any, text: str) -> str:
    begin, end = _place(draw, _VALUE, text)
    return f'{text[:begin]}"{draw(st.sampled_from(WORDS))}"{text[end:]}'


def _removed(draw: Any, text: str) -> str:
    begin, end = _place(draw, _ELEMENT, text)
    return text[:begin] + text[end:]


def _doubled(draw: Any, text: str) -> str:
    begin, end = _place(draw, _ELEMENT, text)
    return text[:end] + text[begin:end] + text[end:]


def _renamed(draw: Any, text: str) -> str:
    _, end = _place(draw, _TAG, text)
    return text[:end] + "x" + text[end:]


def _attribute(draw: Any, text: str) -> str:
    begin, end = _place(draw, _ATTRIBUTE, text)
    return text[:begin] + text[end:]
