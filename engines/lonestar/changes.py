"""Steps whose new values are the old ones plus a change, so that changes made at the same time can be added up."""

from __future__ import annotations

from harness.api import EdgeStep, Expression


def changes(step: EdgeStep) -> list[Expression] | None:
    """Return what the step adds to each of its values, in their order; None if a new value has another form.

    The form is x + change, change + x or x - change, where x is the value's own property at its own end, and the change
    has its shape.
    """
    found = [_change(end, name, value) for end, name, value in step.values]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else None


def _change(end: str, name: str, value: Expression) -> Expression | None:
    if value.op not in ("add", "sub"):
        return None
    first, second = value.args
    if _is_own(first, end, name):
        change = second if value.op == "add" else -second
    elif value.op == "add" and _is_own(second, end, name):
        change = first
    else:
        return None
    return change if change.shape == value.shape else None


def _is_own(node: Expression, end: str, name: str) -> bool:
    return node.op == "read" and bool(node.attribute == (end, name))
