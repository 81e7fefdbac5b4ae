"""The page of a sweep: one self-contained HTML file, readable without a network and without its script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from harness.atomic_write import write_whole
from harness.records import Record

_HERE = Path(__file__).parent
PAGE_FILE = "report.html"


def write_page(
    path: Path, records: Sequence[Record], baseline: str | None, cells: int | None = None, *, across: bool = False
) -> Path:
    """Write the page for ``records`` and return ``path``.

    ``cells``: the number of cells that the sweep requested; None: that of the records. ``across``: also compare records
    of different sweeps and machines. Raises OSError if the file cannot be written.
    """
    write_whole(path, render_page(records, baseline, cells, across=across))
    return path


def render_page(
    records: Sequence[Record], baseline: str | None, cells: int | None = None, *, across: bool = False
) -> str:
    """Render the page. Names from files and plugins are escaped; its content security policy allows only our script."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # a slow import that only pages need

    from harness.report.page.model import page_model

    model = page_model(records, baseline, len(records) if cells is None else cells, across=across)
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style, script = _style(model["columns"]), (_HERE / "script.js").read_text(encoding="utf-8")
    template = environment.get_template("page.html")
    return template.render(
        model, style=style, script=script, style_hash=_policy_hash(style), script_hash=_policy_hash(script)
    )


def _style(columns: Sequence[object]) -> str:
    """Return the style sheet. On a phone a row of the table is a card whose cells show their column titles."""
    titles = (getattr(column, "title", "") for column in columns)
    labels = "\n".join(
        f'  .cells td:nth-child({place})::before {{ content: "{title}"; }}' for place, title in enumerate(titles, 1)
    )
    return (_HERE / "style.css").read_text(encoding="utf-8").replace("/* card labels */", labels)


def _policy_hash(text: str) -> str:
    """Return the hash by which a content security policy names an inline block."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
