"""Resume a sweep that is identified only by its id."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.campaign.errors import CampaignError

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

SWEEP_FILE = "sweep.json"  # in a sweep's folder: its cells, each with the overrides that requested it
# Keys that control how a sweep is run, not what its cells are.
_ONCE = {"sweep.id", "output", "rerun", "fail_fast", "dry_run", "allow_unsupported"}
_MANNER = {*_ONCE, "baseline", "rounds", "more_rounds"}


def continued(given: Sequence[Override], output: str) -> list[list[str]] | None:
    """Return the overrides of every cell of the sweep that ``sweep.id=SWEEP`` names, if the command names no cells.

    ``given``: the overrides of the command. ``output``: the default folder of records. None for a command that names
    cells, or for an unknown sweep.
    """
    said = {override.get_key_element(): override for override in given}
    if "sweep.id" not in said or not all(map(_of_manner, given)):
        return None
    folder = Path(str(said["output"].value() if "output" in said else output)).expanduser()
    requested = [cell["overrides"] for cell in described(folder / str(said["sweep.id"].value()) / SWEEP_FILE)]
    now = [str(override.input_line) for override in given]
    return [[*(line for line in cell if line not in now), *now] for cell in requested] or None


def lasting(overrides: Sequence[str]) -> list[str]:
    """Return the overrides without those that apply to a single command."""
    return [line for line in overrides if line.partition("=")[0] not in _ONCE]


def described(path: Path) -> list[dict[str, Any]]:
    """Return the cells in a description of a sweep, none if there is no such file.

    Raises CampaignError for a damaged file; the harness only ever replaces it as a whole.
    """
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        well_formed = [isinstance(cell["cell"], str) and isinstance(cell["overrides"], list) for cell in cells]
        if isinstance(cells, list) and all(well_formed):
            return cells
        met = "a cell without its name or its overrides"
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        met = f"{type(error).__name__}: {error}"
    raise CampaignError(f"{path} does not list the cells of a sweep ({met}); restore the file, or move it away")


def commands_of(path: Path) -> list[str]:
    """Return the arguments of the commands that requested the cells of a sweep; none without a description."""
    if not path.is_file():
        return []
    return [str(line) for line in json.loads(path.read_text(encoding="utf-8")).get("commands", ())]


def _of_manner(override: Override) -> bool:
    key = override.get_key_element()
    return (key in _MANNER or key.startswith("limits.")) and not override.is_sweep_override()
