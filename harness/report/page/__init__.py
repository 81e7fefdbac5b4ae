"""The page of a sweep: one self-contained HTML file, readable without a network and without its script."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.atomic_write import write_whole
from harness.records import Record
from harness.report.page.drawing import AREA
from harness.report.page.inlined import policy_hash, script, style_sheet
from harness.report.page.strokes import look

if TYPE_CHECKING:
    from jinja2 import Environment

    from harness.report.layout import Layout
    from harness.report.page.links import Links

_HERE = Path(__file__).parent
PAGE_FILE = "report.html"


def write_page(
    path: Path, records: Sequence[Record], baseline: str | None, cells: int | None = None, *, across: bool = False,
    layout: Layout | None = None,
) -> Path:  # fmt: skip
    """Write the page for ``records`` and return ``path``.

    ``cells``: the number of cells that the sweep requested; None: that of the records. ``across``: also compare records
    of different sweeps and machines. ``layout``: that of a preset, whose table or figure comes first. Files of cells
    below the page's folder are linked. Raises OSError if the file cannot be written.
    """
    from harness.report.page.links import Links

    links = Links.beside(path.parent, records)
    write_whole(path, render_page(records, baseline, cells, across=across, layout=layout, links=links))
    return path


def render_page(
    records: Sequence[Record], baseline: str | None, cells: int | None = None, *, across: bool = False,
    layout: Layout | None = None, links: Links | None = None,
) -> str:  # fmt: skip
    """Render the page. Names from files and plugins are escaped; its content security policy allows only our script."""
    from harness.report.page.links import NO_LINKS
    from harness.report.page.model import page_model

    model = page_model(
        records, baseline, len(records) if cells is None else cells, across=across, layout=layout,
        links=NO_LINKS if links is None else links,
    )  # fmt: skip
    style, code = style_sheet(model["columns"], plots=True), script("table")
    template = environment_of_templates().get_template("page.html")
    return template.render(
        model, style=style, script=code, style_hash=policy_hash(style), script_hash=policy_hash(code)
    )


def environment_of_templates() -> Environment:
    """Return the environment of the templates, which escapes every value."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # a slow import that only pages need

    made = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.globals.update(look=look, area=AREA)
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return made
