"""Links from the page to the files of a cell and to the figure of a preset."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from harness.records import Record
from harness.records.store import RECORD_FILE

LAYOUT_FIGURE = "layout.svg"


@dataclass(frozen=True)
class Links:
    """The files that a page links, with their texts, by the cell's folder name.

    ``picture``: the preset's figure as a data URI; empty if there is none.
    """

    files: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    picture: str = ""

    @classmethod
    def beside(cls, folder: Path, records: Sequence[Record]) -> Links:
        """Return the files that lie below ``folder``, the folder of a page, and belong to the records."""
        files = {record["cell"]: found for record in records if (found := _files(folder, record))}
        figure = folder / LAYOUT_FIGURE
        picture = ""
        if figure.is_file():
            picture = f"data:image/svg+xml;base64,{base64.b64encode(figure.read_bytes()).decode()}"
        return cls(files, picture)


def _files(folder: Path, record: Record) -> tuple[tuple[str, str], ...]:
    """Return the text and the address of the record's own file, and of its artefacts that exist."""
    for place in (Path(record["cell"]), Path(record["sweep"], record["cell"])):
        if (folder / place / RECORD_FILE).is_file():
            names = [RECORD_FILE, *(name for name in record["artefacts"] if (folder / place / name).is_file())]
            return tuple((Path(name).stem, quote((place / name).as_posix())) for name in names)
    return ()


NO_LINKS = Links()
