"""What claims compare with the link to the host: rates, times of the longer of two, bytes that the GPU counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.records import Record
from harness.report.claims import Claim
from harness.report.comparison import disturbed, sufficient

Numbers = tuple[float, float, float, bool]  # a value, its interval, and whether it allows a verdict
SLACK = 0.05  # of a cache: its time may exceed the uncached share of the time by this share
# Bytes of a packet of PCIe besides its payload: 12 of the header of a completion, 8 of framing, number and checksum. A
# GPU counts them: reads of 32 bytes each as 52, lines of 128 bytes as 148, and copies as 276 for every 256 (H200).
HEADER, PAYLOAD = 20, 256


def measure(claim: Claim, own: Record, others: Sequence[Record]) -> Numbers | str:
    """Return the number that a claim bounds; a text: why there is none. All records are ok.

    - *rate*: useful bytes a second over the rate of plain copies over the link of the run; on the CPU of reads of the
      file. Useful are the bytes of visited edges, or those moved if these are fewer (packed ids).
    - *overlap*: the time over the longer of two: that of copying the moved bytes, and that of the fastest other run.
    - *counted*: bytes moved, with the headers of their packets, over those that the GPU counts on its link in another
      run. A packet is a request, or at most 256 bytes where requests are not counted.
    - *parts*: the share of the time of the ``parts`` of the claim.
    - *cached*: the time over the share of the other run's that a cache of a share c of the edges leaves, 1.05 - c.
    """
    if own["solve"] is None or not own["solve"]["low"]:
        return "no time"
    match claim.what:
        case "rate":
            return _rate(own)
        case "overlap":
            return _overlap(own, others)
        case "counted":
            return _counted(own)
        case "parts":
            return _parts(own, claim.parts)
    return _cached(own, others)


def _rate(own: Record) -> Numbers | str:
    nbytes, rate = _bytes(own), _link_rate(own)
    if not nbytes or not rate:
        return _unknown(nbytes, rate)
    return _of_time(own, lambda seconds: nbytes / seconds / rate, [own])


def _overlap(own: Record, others: Sequence[Record]) -> Numbers | str:
    nbytes, rate = _moved(own), _link_rate(own)
    timed = [record["solve"] for record in others if record["solve"]]
    if not nbytes or not rate or not timed:
        return _unknown(nbytes, rate) if timed else "no time to compare with"
    computing = min(timed, key=lambda solve: solve["median"])
    longer = {name: max(nbytes / rate, computing[name]) for name in ("median", "low", "high")}
    solve = own["solve"]
    assert solve is not None
    return (
        solve["median"] / longer["median"], solve["low"] / longer["high"], solve["high"] / longer["low"],
        _conclusive([own, *others]),
    )  # fmt: skip


def _counted(own: Record) -> Numbers | str:
    nbytes, link = _moved(own), own["link"]
    if not nbytes:
        return "bytes moved are not counted"
    if link is None or not link["run_bytes"]:
        return "the GPU does not count the bytes of its link"
    requests = own["transfers"]["requests"] if own["transfers"] else {}
    packets = sum(requests.values()) or nbytes / PAYLOAD
    value = (nbytes + HEADER * packets) / link["run_bytes"]
    return value, value, value, True


def _parts(own: Record, parts: Sequence[str]) -> Numbers | str:
    seconds = own["transfers"]["seconds"] if own["transfers"] else {}
    found = [seconds[name] for name in parts if name in seconds]
    if not found:
        return f"no part of the time: {', '.join(parts)}"
    return _of_time(own, lambda whole: sum(found) / whole, [own])


def _cached(own: Record, others: Sequence[Record]) -> Numbers | str:
    visited, edges = _visited(own), sum(step[1] for step in own["supersteps"])
    cache_mb, stored = own["schedule"].get("cache_mb"), own["graph"]["edges"]
    if not visited or not edges or not cache_mb or not stored:
        return "the cached share of the edges is not known"
    share = min(1.0, 1e6 * cache_mb * edges / visited / stored)
    timed = [record["solve"] for record in others if record["solve"]]
    if not timed:
        return "no time to compare with"
    solve, whole = own["solve"], min(timed, key=lambda one: one["median"])
    assert solve is not None
    left = 1 + SLACK - share
    return (
        solve["median"] / whole["median"] / left, solve["low"] / whole["high"] / left,
        solve["high"] / whole["low"] / left, _conclusive([own, *others]),
    )  # fmt: skip


def _of_time(own: Record, number: Callable[[float], float], records: Sequence[Record]) -> Numbers:
    """Return a number that falls with the time of a run, with its interval."""
    solve = own["solve"]
    assert solve is not None
    return number(solve["median"]), number(solve["high"]), number(solve["low"]), _conclusive(records)


def _conclusive(records: Sequence[Record]) -> bool:
    return all(one["solve"] and sufficient(one["solve"]) and not disturbed(one) for one in records)


def _moved(record: Record) -> float:
    return float(sum(record["transfers"]["moved_bytes"].values())) if record["transfers"] else 0.0


def _visited(record: Record) -> float:
    return float(record["transfers"]["visited_bytes"]) if record["transfers"] else 0.0


def _bytes(record: Record) -> float:
    """Return the bytes of the visited edges, or those that the run moved if they are counted and fewer."""
    return min(filter(None, (_moved(record), _visited(record))), default=0.0)


def _link_rate(record: Record) -> float:
    """Return the bytes a second of plain copies over the link of a run; 0: not measured."""
    link = record["link"]
    return 0.0 if link is None else link["copy"] or link["read"] or 0.0


def _unknown(nbytes: float, rate: float) -> str:
    return "the rate of the link is not recorded" if nbytes or not rate else "bytes are not counted"
