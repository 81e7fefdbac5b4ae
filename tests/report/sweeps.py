"""Sweeps as their records describe them, for tests of the report."""

from __future__ import annotations

import math

from tests.records.samples import record

SCRIPT = "<script>document.title='taken'</script>"
ENGINES = {"slow": 4.0, "fast": 1.0, "close": 4.1, "middling (width=2, direction=push)": 2.0}


def cell(engine, graph, algorithm, k, seconds, **changes):
    """Return a record of an engine with the median ``seconds`` and an interval of five per cent on either side."""
    labels = {"engine": engine, "algorithm": algorithm, "graph": graph}
    config = {"engine": engine.split()[0], "features": k, "max_supersteps": None, "device": {"kind": "cpu"}}
    phases = {"open": 0.1, "trace": 0.02, "compile": 0.8, "my_own": 0.1, "warm_up": seconds, "validate": 0.3}
    steps = [
        [math.ceil(1000 * 0.8**n), math.ceil(20_000 * 0.8**n), "push"] for n in range(12 if engine == "fast" else 30)
    ]
    given = {"config": config, "labels": labels, "features": k, "phases": phases, "supersteps": steps, **changes}
    return record(engine, (seconds, 0.95 * seconds, 1.05 * seconds), **given)


def failed(engine, graph, algorithm, k, outcome, reason, output=""):
    """Return a record without a time."""
    empty = {"solve": None, "supersteps": [], "validation": None, "metrics": {}, "settled": None}
    return cell(engine, graph, algorithm, k, 1.0, outcome=outcome, reason=reason, output=output, **empty)


def sweep():
    """Return 28 cells: four engines, two algorithms, three numbers of features, and a graph with a hostile name."""
    records = [
        cell(engine, "ring", algorithm, k, factor * k * 1e-3 * (2 if algorithm == "flood" else 1))
        for algorithm in ("flood", "drain")
        for k in (1, 8, 32)
        for engine, factor in ENGINES.items()
    ]
    output = "\n".join(f"line {number}" for number in range(100)) + "\n<b>the last</b>"
    return [
        *records,
        cell("slow", SCRIPT, "flood", 8, 0.004),
        failed("fast", SCRIPT, "flood", 8, "crashed", "died by SIGSEGV", output),
        failed("close", SCRIPT, "flood", 8, "unsupported", "stage 'x' has no delta form"),
        failed("middling (width=2, direction=push)", SCRIPT, "flood", 8, "wrong", f"x of {SCRIPT} is off by 3"),
    ]


LONG_ENGINE = "middling (width=2, direction=push, worklist=bucketed-by-degree, compaction=warp-aggregated)"
LONG_GRAPH = "Wikipedia-hyperlinks-2018-largest-connected-component-without-multi-edges.mtx"


def long_names():
    """Return 25 cells with long names: metrics over the run, equal curves, a warm run, a caveat and a failure."""
    factors = {"slow": 4.0, "fast": 1.0, "close": 4.1, LONG_ENGINE: 2.0}
    records = [
        cell(
            engine,
            graph,
            algorithm,
            k,
            factor * k * 1e-3,
            marks=["busy"] if engine == "slow" else [],
            **_falling(engine),
        )
        for graph, algorithm in (("ring", "flood"), (LONG_GRAPH, "label_propagation_with_ties"))
        for k in (1, 8, 32)
        for engine, factor in factors.items()
    ]
    reason = "died by SIGSEGV in /a/folder/with/a/long/name/and/no/space/" + "x" * 80
    return [*records, failed("fast", LONG_GRAPH, "flood", 64, "crashed", reason, "output " + "y" * 300)]


def _falling(engine):
    rate = 0.7 if engine == "fast" else 0.8
    return {"metrics_by_superstep": {"rmse": [0.2 + 3.0 * rate**n for n in range(12)]}}
