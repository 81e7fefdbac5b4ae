"""Presets and variants: the configuration files of the groups, and the comments that describe them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

PRESETS = "experiment"


@dataclass(frozen=True)
class ConfigFile:
    """A file ``GROUP/NAME.yaml`` of a configuration folder.

    ``comment``: the comment at its beginning, one paragraph. ``settings``: its values, unresolved.
    """

    group: str
    name: str
    comment: str
    settings: Mapping[str, Any]

    @property
    def summary(self) -> str:
        """The first sentence of the comment, without its full stop."""
        return re.split(r"[.:]\s+(?=[A-Z])|\.\s+(?=small:)|\.$", self.comment, maxsplit=1)[0]

    @property
    def of(self) -> str:
        """The name of the engine, algorithm or graph whose options a variant sets; "" if it names none."""
        section = self.settings.get(self.group, self.settings)
        return str(section.get("name", "")) if isinstance(section, Mapping) else ""

    @property
    def swept(self) -> dict[str, Any]:
        """The sweep parameters of a preset: key to choices, separated by commas."""
        sweeper = self.settings.get("hydra", {}).get("sweeper", {})
        return dict(sweeper.get("params") or {})


def config_files(group: str, folders: Sequence[str | Path]) -> dict[str, ConfigFile]:
    """Return the files of a group by name, sorted. The first of several folders that has a name provides it.

    Folders of packages (``pkg://``) are skipped. Raises the errors of OmegaConf for a file that is not YAML.
    """
    found: dict[str, ConfigFile] = {}
    for folder in folders:
        for path in [] if "://" in str(folder) else Path(folder, group).glob("*.yaml"):
            if path.stem not in found:
                text = path.read_text(encoding="utf-8")
                settings: Any = OmegaConf.to_container(OmegaConf.create(text)) or {}
                found[path.stem] = ConfigFile(group, path.stem, _comment(text), settings)
    return dict(sorted(found.items()))


def _comment(text: str) -> str:
    """Return the comment lines at the beginning, joined by blanks, without Hydra's own (``# @package``)."""
    lines: list[str] = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# @"):
            lines.append(line.removeprefix("#").strip())
    return " ".join(lines)
