"""Claims of a layout: ratios between its columns, with bounds.

A layout of the kind *ratios* lists them as plain data::

    ratios:
    - claim: what should hold
      of: NAME                  # a column
      over: NAME                # or [NAME, NAME]: the best of them
      what: speed               # or moved, requests (of all sizes), or what harness/report/link_measures.py computes:
                                # overlap, cached; or harness/report/step_measures.py: prepared, sooner; of one column,
                                # without `over`: amplification, rate, counted, parts, edges (a second), copies
      parts: [values, queue]    # of the time, for parts
      edge_bytes: 12            # of an edge, and for each feature, for copies
      feature_bytes: 16
      metric: rmse              # for sooner
      at_least: 1.15            # or at_most
      mean: true                # bound the geometric mean, not the ratio of every cell
      share: 0.9                # of the cells, for which the bound must hold; 1 without it
      algorithms: [bfs]         # only cells of these algorithms, as configurations name them
      graphs: [rmat]            # only cells on these graphs
      features: [32]            # only cells with these numbers of features
      device: cuda              # only cells on this kind of device
    - claim: what cannot be measured
      missing: the reason
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.report.units import count

OF_ONE = ("amplification", "rate", "counted", "parts", "edges", "copies")  # without another column
OF_LINK = ("rate", "overlap", "counted", "parts", "cached")
OF_STEPS = ("edges", "copies", "prepared", "sooner")
WHAT = ("speed", "moved", "requests", *dict.fromkeys(("amplification", *OF_LINK)), *OF_STEPS)
_KEYS = (
    "claim", "of", "over", "what", "at_least", "at_most", "mean", "share", "algorithms", "graphs", "features", "device",
    "parts", "edge_bytes", "feature_bytes", "metric", "missing",
)  # fmt: skip


class ClaimError(ValueError):
    """A claim is invalid; the message names the key."""


@dataclass(frozen=True)
class Claim:
    """A claim; the module documents the fields. ``least``: the bound is a lower one."""

    text: str
    missing: str = ""
    of: str = ""
    over: tuple[str, ...] = ()
    what: str = "speed"
    bound: float = 1.0
    least: bool = True
    mean: bool = False
    share: float = 1.0
    algorithms: tuple[str, ...] = ()
    graphs: tuple[str, ...] = ()
    features: tuple[int, ...] = ()
    device: str = ""
    parts: tuple[str, ...] = ()
    edge_bytes: float = 0.0
    feature_bytes: float = 0.0
    metric: str = ""

    def number(self, value: float) -> str:
        """Return a measured number, or the bound, with its unit."""
        return f"{count(round(value))} edges/s" if self.what == "edges" else f"{value:.3g}x"

    @property
    def bound_text(self) -> str:
        """The bound, such as ``>= 1.15x in the mean``; empty for a claim that cannot be measured."""
        if self.missing:
            return ""
        cells = " in the mean" if self.mean else f" in {100 * self.share:.0f} % of cells" if self.share < 1 else ""
        return f"{'>=' if self.least else '<='} {self.number(self.bound)}{cells}"


def claims_of(data: Any, columns: Collection[str]) -> tuple[Claim, ...]:
    """Read claims about ``columns`` from plain data. Raises ClaimError if one is invalid."""
    if not isinstance(data, Sequence) or isinstance(data, str) or not data:
        raise ClaimError("layout.ratios lists no claim; give [{claim: TEXT, of: NAME, over: NAME, at_least: NUMBER}]")
    return tuple(_claim(one, f"layout.ratios[{number}]", columns) for number, one in enumerate(data))


def _claim(data: Any, place: str, columns: Collection[str]) -> Claim:
    if not isinstance(data, Mapping) or set(data) - set(_KEYS) or not data.get("claim"):
        raise ClaimError(f"{place} is {data!r}; it must have a claim, and no keys but {', '.join(_KEYS)}")
    if data.get("missing"):
        if len(data) != 2:
            raise ClaimError(f"{place} has missing, the reason why nothing is measured, and other keys; omit one")
        return Claim(str(data["claim"]), missing=str(data["missing"]))
    over = data.get("over") or ()
    over, what = (over,) if isinstance(over, str) else tuple(over), data.get("what", "speed")
    if what not in WHAT:
        raise ClaimError(f"{place}.what is {what!r}; it is one of {', '.join(WHAT)}")
    if (what in OF_ONE) == bool(over):
        raise ClaimError(
            f"{place}.over is {list(over)}; {what} is {'of one column' if over else 'over another column'}"
        )
    if (what == "parts") != bool(data.get("parts")):
        raise ClaimError(f"{place}.parts lists the parts of the time of what: parts, and of no other")
    needed = {"copies": ("edge_bytes", "feature_bytes"), "sooner": ("metric",)}
    for key in ("edge_bytes", "feature_bytes", "metric"):
        if (key in needed.get(what, ())) != bool(data.get(key)):
            raise ClaimError(f"{place}.{key} belongs to what: {'sooner' if key == 'metric' else 'copies'} and no other")
    for name in (data.get("of"), *over):
        if name not in columns:
            raise ClaimError(f"{place} names {name!r}, not one of the columns: {', '.join(columns)}")
    bounds = [(key, data[key]) for key in ("at_least", "at_most") if data.get(key) is not None]
    share = data.get("share", 1.0)
    if len(bounds) != 1 or not all(_positive(number) for number in (bounds[0][1], share)) or share > 1:
        raise ClaimError(f"{place} needs one of at_least and at_most, a number above 0; share is at most 1")
    [(key, bound)] = bounds
    return Claim(
        str(data["claim"]), "", data["of"], over, what, float(bound), key == "at_least", bool(data.get("mean", False)),
        float(share), tuple(data.get("algorithms") or ()), tuple(data.get("graphs") or ()),
        tuple(data.get("features") or ()), str(data.get("device") or ""), tuple(data.get("parts") or ()),
        float(data.get("edge_bytes") or 0), float(data.get("feature_bytes") or 0), str(data.get("metric") or ""),
    )  # fmt: skip


def _positive(number: Any) -> bool:
    return isinstance(number, (int, float)) and not isinstance(number, bool) and number > 0
