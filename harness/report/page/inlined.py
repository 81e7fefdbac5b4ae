"""The style sheets and the scripts that pages contain, and how pages name them in their content security policy."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

_HERE = Path(__file__).parent
_PLOTS = ("format", "look", "readout", "plot", "legend")  # files of the folder script, in the order of their use


def style_sheet(columns: Sequence[object] = (), *, plots: bool = False) -> str:
    """Return the style sheet. On a phone a row of the table is a card whose cells show their column titles.

    ``plots``: with the styles of interactive plots.
    """
    titles = (getattr(column, "title", "") for column in columns)
    labels = "\n".join(
        f'  .cells td:nth-child({place})::before {{ content: "{title}"; }}' for place, title in enumerate(titles, 1)
    )
    library = _read("vendor/uplot/uPlot.min.css") if plots else ""
    names = ("style.css", "plots.css") if plots else ("style.css",)
    return library + "".join(_read(name) for name in names).replace("/* card labels */", labels)


def script(*names: str) -> str:
    """Return the script of a page with plots: the library with its licence, ours, and then the files ``names``."""
    own = "\n".join(_read(f"script/{name}.js") for name in (*_PLOTS, *names, "start"))
    licence, library = _read("vendor/uplot/LICENSE"), _read("vendor/uplot/uPlot.iife.min.js")
    return f'/*\n{licence}*/\n{library}\n(() => {{\n"use strict";\n{own}\n}})();\n'


def policy_hash(text: str) -> str:
    """Return the hash by which a content security policy names an inline block."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
