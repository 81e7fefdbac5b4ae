"""The keys of ``conf/config.yaml``, described by its comments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from omegaconf import OmegaConf

from harness.campaign.answers import SAVED
from harness.campaign.cell import CHANGES, DEVICE_KINDS, MEMORY
from harness.campaign.configuration import configuration_folder
from harness.options import Option

# The values of keys that have few of them, besides true and false.
VALUES: dict[str, tuple[str, ...]] = {
    "device.kind": DEVICE_KINDS,
    "memory": MEMORY,
    "rerun": ("failed", "all", "none"),
    "save": SAVED,
    "validate": ("true", "false", "sampled"),
    "warm.kind": CHANGES,
}
_INNER = ("defaults", "hydra", "round", "sweep")  # set by the sweeper and by Hydra
_LINE = re.compile(r"(?P<indent> *)(?P<key>\w+):(?P<rest>.*)")
_DEVICE = "device"  # a group whose files have the same keys


def config_keys() -> tuple[Option, ...]:
    """Return every key that a user sets, in the order of the file; a section has the help of its own comment."""
    text = (configuration_folder() / "config.yaml").read_text(encoding="utf-8")
    values: Any = OmegaConf.to_container(OmegaConf.create(text))
    device = (configuration_folder() / _DEVICE / "cpu.yaml").read_text(encoding="utf-8")
    values[_DEVICE] = OmegaConf.to_container(OmegaConf.create(device))
    helps = _comments(text) | {f"{_DEVICE}.{key}": comment for key, comment in _comments(device).items()}
    helps |= {_DEVICE: "The device: device=cpu or device=cuda.", f"{_DEVICE}.kind": "set by device=cpu and device=cuda"}
    return tuple(
        Option(key, _type(value), value, helps.get(key, ""), VALUES.get(key, ()))
        for key, value in _flat(values)
        if key.partition(".")[0] not in _INNER
    )


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return sections, with the value {}, and the keys in them."""
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        inner = isinstance(value, Mapping)
        found.append((f"{prefix}{key}", {} if inner else value))
        found += _flat(value, f"{prefix}{key}.") if inner else []
    return found


def _comments(text: str) -> dict[str, str]:
    """Return the comment of each key: the lines above it, or the end of its line."""
    found: dict[str, str] = {}
    above: list[str] = []
    section = ""
    for line in text.splitlines():
        read = _LINE.fullmatch(line)
        if line.startswith("# "):
            above.append(line.removeprefix("# "))
            continue
        if read is not None and len(read["indent"]) <= len("  "):
            section = section if read["indent"] else read["key"]
            key = f"{section}.{read['key']}" if read["indent"] else read["key"]
            beside = read["rest"].partition(" # ")[2].strip()
            found[key] = beside or ("" if read["indent"] else " ".join(above))
        above = []
    return found


def _type(value: Any) -> str:
    if isinstance(value, dict):
        return "section"
    return {bool: "bool", str: "text", type(None): "any"}.get(type(value), type(value).__name__)
