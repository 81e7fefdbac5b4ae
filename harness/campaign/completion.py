"""Completion of a command line in a shell: commands, names, keys, values of options, several values of one key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import hydra
from hydra._internal.core_plugins.bash_completion import BashCompletion
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException

from harness.campaign.command_line import COMMANDS
from harness.campaign.config_keys import VALUES, config_keys
from harness.campaign.discovery import GROUPS, Names
from harness.campaign.errors import CampaignError
from harness.options import Option

_FLAGS = ("--help", "--version", "--cfg", "--config-dir", "--shell-completion")
_KEYS_WITH_OPTIONS = ("engine", "algorithm", "graph")


def complete(line: str, names: Names) -> list[str]:
    """Return the words that may replace the last word of a command line, sorted.

    ``line``: the command line without the name of the command. A blank at its end begins a new word.
    """
    words = line.split()
    word = words.pop() if words and not line[-1].isspace() else ""
    return sorted(found for found in set(_candidates(words, word, names)) if found.startswith(word))


def _candidates(words: Sequence[str], word: str, names: Names) -> Iterable[str]:
    """Return words that may stand where ``word`` does, after ``words``."""
    if words[:1] == ["list"]:
        return GROUPS
    if words[:1] == ["describe"]:
        keys = [item.name for item in config_keys()]
        return [*keys, *(name for group in names.files for name in names.of(group))]
    if word.startswith("-"):
        return _FLAGS
    key, equals, value = word.partition("=")
    if equals:
        begun = value[: value.rfind(",") + 1]  # values of a sweep that are complete
        return [f"{key}={begun}{last}" for last in _values(words, key, value[len(begun) :], names)]
    return [*(COMMANDS if not words else ()), *_by_hydra(words, word)]


def _values(words: Sequence[str], key: str, last: str, names: Names) -> Iterable[str]:
    """Return the values that a key may have."""
    group, dot, option = key.partition(".")
    if dot and group in _KEYS_WITH_OPTIONS:
        return [value for item in _options(words, group, names) if item.name == option for value in _accepted(item)]
    if key in VALUES:
        return VALUES[key]
    return [found.partition("=")[2] for found in _by_hydra(words, f"{key}={last}")]


def _options(words: Sequence[str], group: str, names: Names) -> Iterable[Option]:
    """Return the options of all choices of a group in the command line."""
    chosen = [word.partition("=")[2] for word in words if word.startswith(f"{group}=")]
    try:
        return [item for text in chosen for name in text.split(",") for item in names.options(group, name)]
    except CampaignError:  # the code of an algorithm cannot be loaded: there is nothing to complete
        return []


def _accepted(item: Option) -> list[str]:
    if item.type.startswith("bool"):
        return ["true", "false"]
    values = [str(value) for value in item.values]
    return values or ([] if item.default in (None, "") else [str(item.default)])


def _by_hydra(words: Sequence[str], word: str) -> list[str]:
    """Return what Hydra completes: groups, their choices, and keys of the configuration that the words compose."""
    single = [re.sub(r"(?<==)([^,\[{'\"]*),.*", r"\1", one) for one in words]  # Hydra composes one value a key
    GlobalHydra.instance().clear()
    with hydra.initialize(config_path=None, version_base="1.3"):
        state = GlobalHydra.instance()
        try:
            return BashCompletion(state.config_loader())._query("config", " ".join([*single, word]) or " ")
        except (HydraException, CampaignError):  # the words before do not compose
            return []
