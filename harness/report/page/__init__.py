"""The page of a sweep: one HTML file that needs nothing else, neither a network nor, to be read, its script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from harness.records import Record
from harness.whole_files import write_whole

_HERE = Path(__file__).parent
PAGE_FILE = "report.html"


def write_page(
    path: Path, records: Sequence[Record], baseline: str | None, cells: int | None = None, *, across: bool = False
) -> Path:
    """Write the page for ``records`` (of a sweep of ``cells`` cells, where more were asked for); ``path``.

    ``across``: compare records of different sweeps and machines, too. OSError when it cannot be written.
    """
    write_whole(path, render_page(records, baseline, cells, across=across))
    return path


def render_page(
    records: Sequence[Record], baseline: str | None, cells: int | None = None, *, across: bool = False
) -> str:
    """The page as text. Names from files and plugins are escaped, and its policy lets no other script run."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # only who writes a page waits for it

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
    """The style sheet; on a phone a row of the table is a card, and its cells say themselves what they are."""
    titles = (getattr(column, "title", "") for column in columns)
    labels = "\n".join(
        f'  .cells td:nth-child({place})::before {{ content: "{title}"; }}' for place, title in enumerate(titles, 1)
    )
    return (_HERE / "style.css").read_text(encoding="utf-8").replace("/* card labels */", labels)


def _policy_hash(text: str) -> str:
    """How a content security policy names an inline block."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
