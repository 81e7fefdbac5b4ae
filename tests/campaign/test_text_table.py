"""Tables and paragraphs of a given width, by hand."""

from __future__ import annotations

import pytest

from harness.campaign.discovery import _default, _option_help, _values
from harness.campaign.text_table import table, wrapped
from harness.options import Option


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")


def test_the_last_column_is_wrapped_under_itself():
    text = "one two three four five six seven eight nine ten eleven"
    assert list(table([("a", "long", text), ("abc", "b", ""), ("", "", "short")])) == [
        "  a    long  one two three four five six",
        "             seven eight nine ten eleven",
        "  abc  b",
        "             short",
    ]
    assert list(table([("name", text)])) == [
        "  name  one two three four five six",
        "        seven eight nine ten eleven",
    ]


def test_many_lines_of_a_cell_are_all_kept(monkeypatch):
    words = [f"word{number:02}" for number in range(40)]
    for columns in ("30", "80", "400"):
        monkeypatch.setenv("COLUMNS", columns)
        found = list(table([("key", " ".join(words)), ("k", "v")]))
        assert " ".join(line[7:] for line in found[:-1]).split() == words
        assert all(line.startswith(" " * 7) for line in found[1:-1])
        assert max(map(len, found)) <= max(7 + 24, min(120, int(columns)))
        assert found[-1] == "  k    v"


def test_words_with_hyphens_stay_whole():
    """They may be commands."""
    command = "pip install onyx-harness and call onyx-harness doctor"
    assert wrapped(command).splitlines() == ["pip install onyx-harness and call", "onyx-harness doctor"]
    assert wrapped("x" * 30 + " a-hyphenated-word").splitlines() == ["x" * 30, "a-hyphenated-word"]
    assert list(table([("a", "one two three four onyx-harness five")])) == [
        "  a  one two three four onyx-harness",
        "     five",
    ]


@pytest.mark.parametrize(
    ("count", "listed", "help_text"),
    [
        (1, "v0", "help"), (5, "v0, v1, v2, v3, v4", "help"), (6, "text", "help; one of v0, v1, v2, v3, v4, v5"),
    ],
)  # fmt: skip
def test_up_to_five_values_of_an_option_are_listed_beside_it(count, listed, help_text):
    item = Option("way", "text", "v0", "help", tuple(f"v{number}" for number in range(count)))
    assert (_values(item), _option_help(item)) == (listed, help_text)


@pytest.mark.parametrize(
    ("type_", "within", "values", "shown"),
    [
        ("bool", "", (), "true, false"), ("int or null", "[1, inf)", (), "int in [1, inf)"), ("float", "", (), "float"),
        ("bool or null", "", (True, False), "true, false"), ("any", "", (), "any"),
    ],
)  # fmt: skip
def test_an_option_is_shown_with_its_range(type_, within, values, shown):
    assert _values(Option("way", type_, None, "", values, within)) == shown


@pytest.mark.parametrize(
    ("default", "shown"), [(None, "null"), ("", '""'), (True, "true"), (False, "false"), (0, "0"), ("True", "True")]
)
def test_defaults_are_shown_as_a_command_writes_them(default, shown):
    assert _default(Option("way", "any", default)) == shown
