"""Arguments of the command line: negative numbers in every notation, and names of files that are empty."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from connections import cli

#: What stands for the name of a file or a folder in the help.
PATHS = ("FILE", "DIR", "PATH", "STORE", ".urdf", ".zarr", ".py:NAME")


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser, and those of its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from parsers(command)


NAMED = [
    pytest.param(action, id=f"{parser.prog} {action.dest}")
    for parser in parsers(cli._parser())
    for action in parser._actions
    if str(action.metavar).endswith(PATHS)
]


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as end:
        cli.main(words)
    assert end.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("text", ["-1", "-1.5", "-1e1", "-.5e-3", "-5.E+0", "-1_0.0", "-1e-400"])
@pytest.mark.parametrize(
    "words", [["explore", "--beta"], ["sweep", "contorsion", "--output", "s", "--gamma"]]
)
def test_negative_numbers_are_no_options(words: list[str], text: str) -> None:
    options = cli._parser().parse_args([*words, "0", text, text])
    assert getattr(options, words[-1][2:]) == [0.0, float(text), float(text)]


@pytest.mark.parametrize("text", ["-inf", "-Infinity", "-nan", "-1e400"])
def test_negative_numbers_that_are_not_finite_are_refused_in_words(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(["explore", "--beta", "0", text], capsys)
    assert f"--beta: expected a finite number, got '{text}'" in said


@pytest.mark.parametrize("text", ["-1e", "-x", "--1e1", "-e1"])
def test_other_words_with_a_hyphen_are_options(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"unrecognized arguments: {text}" in refused(["explore", "--beta", "0", text], capsys)


@pytest.mark.parametrize("action", NAMED)
def test_a_file_or_a_folder_without_a_name_is_refused(action: argparse.Action) -> None:
    kind = "folder" if str(action.metavar).endswith(("DIR", "STORE", ".zarr")) else "file"
    assert callable(action.type)
    with pytest.raises(argparse.ArgumentTypeError, match=f"^expected the name of a {kind}, got ''$"):
        action.type("")


def test_an_empty_name_stops_a_command_before_its_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--json: expected the name of a file, got ''" in refused(
        ["verify", "--system", "sphere", "--json", ""], capsys
    )
    assert "FILE: expected the name of a file, got ''" in refused(["verify", ""], capsys)
