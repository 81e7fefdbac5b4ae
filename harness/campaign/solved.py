"""What an engine's timed runs of a cell have given, for the judgement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from harness.campaign.change import ColdRun
    from harness.campaign.measurement import Timing
    from harness.campaign.scrutiny import Evidence
    from harness.campaign.transitions import Checked
    from harness.language.sampled import Sample
    from harness.records import Mark


@dataclass(frozen=True)
class Solved:
    """The outputs, whether the run claims to be settled, how many supersteps it reports, what was checked on a sample,
    the cold run beside a warm one, the times with their marks, and the evidence for the answer and the times."""

    values: Mapping[str, NDArray[Any]]
    settled: bool
    supersteps: int
    checked: Checked | None
    cold: ColdRun | None
    timing: Timing
    marks: list[Mark]
    sample: Sample | None
    evidence: Evidence
