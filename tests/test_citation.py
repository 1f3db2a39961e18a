"""BibTeX of the papers behind what was used: of every key of the page, of docstrings, and of nothing else."""

import re
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

import connections as cn
from connections import control
from connections import multibody as mb
from connections._citation import papers

PAGE = (Path(__file__).parents[1] / "docs" / "references.md").read_text()


def printed(capsys: pytest.CaptureFixture[str], *used: object) -> dict[str, str]:
    cn.citation(*used)
    entries = re.findall(
        r"^@\w+\{(?:connections-)?(\w+),\n(.*?)^\}$", capsys.readouterr().out, re.MULTILINE | re.DOTALL
    )
    return dict(entries)


def test_without_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(printed(capsys)) == ["connections", "W", "W2", "E", "B", "Z"]


def test_by_what_was_used(capsys: pytest.CaptureFixture[str]) -> None:
    metric = cn.ConstantMetric(cn.SO3Frame(), np.diag([1.0, 2.0, 3.0]))
    assert {"W", "E"} <= printed(capsys, mb.coriolis_matrix).keys()
    assert "F" in printed(capsys, mb.forward_dynamics)
    assert "W2" in printed(capsys, cn.coriolis_matrix)  # the second version beside the first
    assert "W" in printed(capsys, cn.LeviCivita(metric))
    assert {"LM", "Z"} <= printed(capsys, control.controllability.configuration_controllability).keys()
    assert "LM" not in printed(capsys, mb.coriolis_matrix)  # negative control
    assert list(printed(capsys, metric, metric)).count("connections") == 1

    class Own(cn.LeviCivita):
        """Of a user, who names no paper."""

    assert "W" in printed(capsys, Own)
    for foreign in (np.linalg.solve, 3.0, len):
        with pytest.raises(TypeError, match="not of connections"):
            cn.citation(foreign)


def test_entries_are_those_of_the_page() -> None:
    """The same keys, and of each the same title and year; every brace is closed."""
    rows = re.findall(r"^\*\*\[(\w+)\]\*\* (.*?)\n\n", PAGE + "\n\n", re.MULTILINE | re.DOTALL)
    lines = Path(cn.__file__).with_name("papers.bib").read_text("utf8").splitlines()
    assert {key for key, _ in rows} == set(papers()) and len(papers()) == sum(
        line[:1] == "@" for line in lines
    )
    assert sum(len(each.fields) + bool(each.words) for each in papers().values()) == sum(
        " = {" in line for line in lines
    )
    for key, text in rows:
        words = " ".join(text.split())
        fields = papers()[key].fields
        title = re.search(r"\*(.*?)\.?\*", words)
        assert title and title[1] == fields["title"].replace("{", "").replace("}", "")
        assert fields["year"] in words, key
        entry = papers()[key].bibtex(key)
        assert entry.count("{") == entry.count("}")
        for field in ("volume", "number", "journal", "booktitle", "publisher"):
            plain = re.sub(r"\{?\\[\"'v]\{?(\w)\}*", r"\1", fields.get(field, ""))
            assert plain.replace("fur", "für") in words, (key, field)
        dois = [unquote(doi) for doi in re.findall(r"\(https://doi\.org/(\S+)\)", words)]
        assert dois == [value for name, value in fields.items() if name == "doi"]
