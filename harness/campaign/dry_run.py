"""Predict for a dry run whether a cell would be run."""

from __future__ import annotations

from harness.campaign.plan import Plan, Planned
from harness.campaign.preflight import refusal
from harness.records import Record
from harness.report.summary import DryRunCell


def dry_run_cell(plan: Plan, planned: Planned, record: Record | None) -> DryRunCell:
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
    return DryRunCell(cell.labels, cell.features, cell.round, wanted and not refused, why)
