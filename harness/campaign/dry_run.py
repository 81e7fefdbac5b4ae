"""The forecast of a cell for a dry run."""

from __future__ import annotations

from harness.campaign.plan import Plan, Planned
from harness.campaign.preflight import refusal
from harness.records import Record
from harness.report.summary import Forecast


def forecast(plan: Plan, planned: Planned, record: Record | None) -> Forecast:
    """Return whether the cell would be run, and why not or why again."""
    cell = planned.cell
    wanted = plan.due(record)
    if record is not None:
        policy = f"rerun={plan.rerun} {'runs it again' if wanted else 'leaves it'}"
        why = f"{record['outcome']} is on record, {policy}"
    else:
        why = "only if other work disturbs a time of round 1" if planned.on_demand else ""
    refused = refusal(plan.registry.engine(cell.engine), cell) if wanted else ""
    if refused:
        why = f"unsupported: {refused}"
    return Forecast(cell.labels, cell.features, cell.round, wanted and not refused, why)
