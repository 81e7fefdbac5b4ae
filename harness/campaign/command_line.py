"""Check a command line before Hydra reads it, so that a mistake is one line that says what to write."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from harness.campaign.errors import CampaignError
from harness.plugins import closest

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

FLAGS = ("--help", "--version", "--cfg", "--multirun", "--config-dir", "--shell-completion", "--hydra-help")
COMMANDS = ("bisect", "degrees", "describe", "doctor", "explain", "list")
# Each of these groups takes one choice; Hydra would merge a list of choices into one configuration.
_ONE_CHOICE = ("engine", "algorithm", "graph", "device", "scale")
_SWEEPER = "harness"


def expand_home(arguments: Sequence[str]) -> list[str]:
    """Expand ``KEY=~/...``, which no shell expands and Hydra's grammar refuses."""
    home = str(Path.home()).replace("\\", "\\\\")
    return [re.sub(r"(?<=[=,])~(?=/|,|$)", home, argument) for argument in arguments]


def check_arguments(arguments: Sequence[str]) -> None:
    """Raise CampaignError for arguments that Hydra would misread or report in its own terms."""
    parsed, unknown = get_args_parser().parse_known_args(list(arguments))
    for flag in unknown:
        name = flag.partition("=")[0]
        key = name.lstrip("-").replace("-", "_")
        hint = closest(name, FLAGS) or f"; a key has no dashes: {key}=VALUE"
        raise CampaignError(f"there is no flag {name!r}{hint} (see --help)")
    check_overrides(parsed.overrides)


def shows_job(arguments: Sequence[str]) -> bool:
    """Return whether arguments show the whole configuration of a job (``--cfg job``)."""
    parsed = get_args_parser().parse_args(list(arguments))
    return bool(parsed.cfg == "job" and not parsed.package)


def check_overrides(texts: Sequence[str]) -> None:
    """Raise CampaignError for the first text that is not an override, or not one that a sweep can honour."""
    parser = OverridesParser.create()
    for text in texts:
        if "=" not in text and not text.startswith("~"):
            raise CampaignError(
                f"{text!r} is neither KEY=VALUE nor a command{closest(text, COMMANDS)} (commands: "
                f"{', '.join(COMMANDS)}, each the first word; see --help)"
            )
        if text.endswith(","):
            raise CampaignError(f"{text!r} ends with a comma; remove it, or add another value")
        try:
            override = parser.parse_override(text)
        except HydraException as error:
            raise CampaignError(
                f"{text!r} cannot be read: {_cause(error)}; quote text, as in \"key='a, b'\""
            ) from error
        _check(override, text)


def _check(override: Override, text: str) -> None:
    """Raise CampaignError for an override that would be merged, ignored or passed to another sweeper."""
    key = override.key_or_group
    value = None if override.is_sweep_override() or override.is_delete() else override.value()
    if key in _ONE_CHOICE and isinstance(value, list):
        every = ",".join(str(choice) for choice in value)
        raise CampaignError(f"{text} would merge its choices into one; write {key}={every} to run each")
    if key == "hydra.mode" and value != "MULTIRUN":
        raise CampaignError(f"every command is a sweep, even of one cell; omit {text} and give every key one value")
    if key == "hydra/sweeper" and value != _SWEEPER:
        raise CampaignError(
            f"{text} cannot run cells: only the sweeper {_SWEEPER!r} checks, resumes and shows them; omit it "
            "(values with commas are swept)"
        )


def _cause(error: HydraException) -> str:
    """Return the parser's message without its exception name, the repeated text, and links."""
    lines = str(error).splitlines()
    cause = next((line for line in lines if " at " in line or "token" in line), lines[0])
    return re.sub(r"^\w+Exception: ", "", cause).strip()
