"""Tables of a terminal as Markdown: alignment, emphasis and signs that have a meaning there."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from harness.report.markdown import escaped, markdown_rows, markdown_table


def test_a_table_keeps_its_alignment_its_emphasis_and_its_lines():
    table = Table()
    for name, justify in (("", "left"), ("graph", "left"), (Text("a|time"), "right"), ("ratio", "right")):
        table.add_column(name, justify=justify)
    partly = Text("x ").append("4", "bold green")
    table.add_row(Text("FL"), "ring\n10 vertices", Text("1 ms", "dim"), partly)
    table.add_row("", Text("a_b*"), Text("[2, 3]").append("", "bold"), Text("", "bold"))
    assert markdown_table(table).splitlines() == [
        r"| | graph | a\|time | ratio |",
        "| --- | --- | ---: | ---: |",
        "| FL | ring<br>10 vertices | 1 ms | **x 4** |",
        r"| | a\_b\* | \[2, 3\] | |",
    ]


def test_a_table_without_rows_has_its_headings():
    table = Table("one", "two")
    assert markdown_table(table).splitlines() == ["| one | two |", "| --- | --- |"]
    assert markdown_rows([["a", ""], ["", "b"]]) == "| a | |\n| | b |"


def test_signs_of_markdown_lose_their_meaning_and_text_stays_on_a_line():
    assert escaped("a\n b\t c") == "a b c"
    assert escaped(r"\ ` * _ [ ] < > | # x") == r"\\ \` \* \_ \[ \] \< \> \| # x"
