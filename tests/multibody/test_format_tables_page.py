"""The pages of the readers' tables are those that the tables give, and name each element that is not read."""

import importlib.util

from pages import ROOT

from connections.multibody.description.format_table import FATES, table_of

DOCS = ROOT / "docs"
_spec = importlib.util.spec_from_file_location("format_tables", DOCS / "format_tables.py")
assert _spec is not None and _spec.loader is not None
pages = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pages)


def test_the_pages_are_up_to_date():
    for file, make in ((pages.PAGE, pages.elements), (pages.OTHERS, pages.coming_from)):
        text = file.read_text(encoding="utf8")
        assert make(text) == text, "run: python docs/format_tables.py"
        assert make(text.replace("`body`", "`bodies`")) != text.replace("`body`", "`bodies`")


def test_every_row_is_on_the_page():
    text = (DOCS / "elements.md").read_text(encoding="utf8")
    for name in ("urdf", "mjcf"):
        for path, entry in table_of(name).entries.items():
            assert f"| `{path}` | {pages.NAMES[entry.row.fate]} |" in text
            assert all(f"`{attribute}`" in text for attribute in entry.attributes)
            assert entry.row.fate in FATES


def test_what_others_read_is_on_the_page_of_others():
    text = (DOCS / "coming_from.md").read_text(encoding="utf8")
    for name in ("urdf", "mjcf"):
        for entry in table_of(name).entries.values():
            for row in (entry.row, *entry.attributes.values()):
                if row.fate not in ("read", "none"):
                    assert f"{pages.NAMES[row.fate]}: {row.words.replace('<', '&lt;')} |" in text


def test_what_is_no_part_of_a_model_is_on_that_page_too():
    rows = [line for line in pages._unread("urdf")] + [line for line in pages._unread("mjcf")]
    rows = [row for row in rows if row.endswith("| nothing: no part of a model |")]
    text = (DOCS / "coming_from.md").read_text(encoding="utf8")
    assert rows and all(row in text for row in rows)
    for name in ("urdf", "mjcf"):
        table = table_of(name)
        for path, entry in table.entries.items():
            above, _, tag = path.rpartition("/")
            if above and table.entries[above].row.fate != "read":
                continue  # the element around it is on the page
            section = path.partition("/")[0]
            own = [row for row in rows if f"`{section}" in row or "a file" in row]
            for each, row in {tag: entry.row, **entry.attributes}.items():
                if row.fate == "none" and entry.row.fate in ("read", "none"):
                    assert any(f"`{each}`" in row or f"`{tag}`" in row.replace("`: ", "") for row in own)
