"""The results of an engine's timed runs of a cell, for validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from harness.campaign.measurement import Timing
    from harness.campaign.ordered_check import Ordered
    from harness.campaign.sampled_check import Checked
    from harness.campaign.scrutiny import Evidence
    from harness.campaign.warm_cell import ColdRun
    from harness.language.sampled import Sample
    from harness.records import Mark


@dataclass(frozen=True)
class Solved:
    """The outputs and times of a cell's runs.

    ``settled``, ``supersteps``: the engine's report of the last run; None: it counts no supersteps.
    ``checked``: supersteps checked on a ``sample``. ``cold``: the cold run for comparison with a warm one. ``marks``:
    the caveats of ``timing``. ``evidence``: for the answer and the times. ``ordered``: a run of known order, for
    programs with steps in place.
    """

    values: Mapping[str, NDArray[Any]]
    settled: bool
    supersteps: int | None
    checked: Checked | None
    cold: ColdRun | None
    timing: Timing
    marks: list[Mark]
    sample: Sample | None
    evidence: Evidence
    ordered: Ordered | None
