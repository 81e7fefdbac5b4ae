"""The options of schedules: their defaults, and which of them exclude each other, with the reasons."""

from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from harness.contract import ScheduleError, schedule_from_options
from tests.engines.cuda_schedules import loaded
from tests.engines.problems import SPECS

ROWS = [
    line.partition(": ")
    for line in Path(__file__).with_name("schedule_rows.txt").read_text().splitlines()
    if not line.startswith("#")
]
# Options that are not listed are None.
DEFAULTS = {
    "onyx": {"feature_aware": True, "fold": True, "rebuild": 64},
    "gunrock": {"rebuild": 64},
    "tigr": {"degree_bound": 8},
    "simdx": {"warp_degree": 32, "block_degree": 1024},
    "emogi": {"rebuild": 64},
    "scaph": {
        "edges": "streamed", "values": "measured", "low": "extract", "rule": "paper", "alpha": 0.5, "beta": 0.3,
        "rounds": 1, "low_rounds": 1, "order": "index",
    },
    "lonestar": {
        "order": "el", "seed": 0, "nodes": 1024, "block_rows": 2, "block_columns": 2, "batch": 256,
    },
    "cusparse": {"algorithm": 0, "order": "auto", "preprocess": "auto", "split": "auto"},
    "libmf": {"build": "any"},
}  # fmt: skip
DEFAULTS |= {
    name: {"way": "auto"}
    for name in ("networkit", "scikit_network", "networkx", "igraph", "graphblas", "scipy_graph", "krylov")
}
DEFAULTS |= {name: {} for name in ("scipy", "torch", "surprise")}


@pytest.mark.parametrize(("given", "reason"), [(given, reason) for given, _, reason in ROWS])
def test_options_that_exclude_each_other(given, reason):
    engine, *options = given.split()
    named = {name: yaml.safe_load(value) for name, _, value in (one.partition("=") for one in options)}
    if reason == "-":
        found = schedule_from_options(SPECS[engine], named)
        assert {name: getattr(found, name) for name in named} == named
        return
    with pytest.raises(ScheduleError) as error:
        schedule_from_options(SPECS[engine], named)
    assert str(error.value) == reason


@pytest.mark.parametrize("engine", SPECS)
def test_defaults(engine):
    found = vars(schedule_from_options(SPECS[engine], {}))
    assert {name: value for name, value in found.items() if value is not None} == DEFAULTS[engine]


EDGES = {
    "edges": ("resident", "mapped", "streamed", "managed"),
    "window_mb": "(0, inf)",
    "advice": ("read_mostly", "accessed_by", "prefetch", "none"),
    "cache_mb": "(0, inf)",
    "codes": ("plain", "packed"),
    "panel": "[1, inf)",
}
NEAR_FAR = {"order": ("near_far",), "delta": "(0, inf)"}
ACCESS = ("naive", "merged", "aligned", "chunk", "tiled")
# The values of each option or their range, of those that have any.
LIMITS = {
    "onyx": EDGES | NEAR_FAR | {
        "order": ("supersteps", "near_far", "adaptive"),
        "rebuild": "[0, inf)", "dense_share": "[0, 1]", "balance": ("warp", "edge", "parts"),
        "vector_width": (1, 2, 4), "block_size": (32, 64, 128, 256, 512), "share_by": ("fitted", "estimated"),
        "tune_s": "(0, inf)", "solver": ("auto", "bicgstab", "cg"),
    },
    "gunrock": EDGES | NEAR_FAR | {"rebuild": "[0, inf)", "balance": ("block", "merge_path")},
    "tigr": EDGES | {"degree_bound": "[1, inf)"},
    "simdx": EDGES | NEAR_FAR | {
        "warp_degree": "[0, inf)", "block_degree": "[0, inf)", "filter": ("jit", "online", "ballot"),
        "bin_size": "[1, 1024]", "pull_share": "[0, 1]", "fusion": ("none", "push_pull", "all"),
        "resident_blocks": "[1, inf)",
    },
    "emogi": EDGES | {
        "edges": ("mapped", "managed", "resident"), "access": ACCESS, "frontier": ("flags", "list"),
        "rebuild": "[0, inf)", "kept_share": "[0, 1]",
    },
    "scaph": EDGES | {
        "edges": ("streamed",), "values": ("measured", "high", "low"), "low": ("extract", "stream", "zero_copy"),
        "rule": ("paper", "chosen", "throughput"), "alpha": "[0, 1]", "beta": "[0, 1]", "rounds": "[1, inf)",
        "low_rounds": "[1, inf)", "order": ("index", "value", "zigzag"), "slots": "[2, inf)",
        "extract_threads": "[1, inf)", "access": ACCESS,
    },
}  # fmt: skip


def outside(limit, kind):
    """Return values of an option just beyond its limits."""
    if isinstance(limit, tuple):
        return ["none of these"] if isinstance(limit[0], str) else [max(limit) + 1]
    least, most = limit.strip("[]()").split(", ")
    step = 1 if "int" in kind else 1e-6
    found = [float(least) - (step if limit[0] == "[" else 0.0)]
    found += [float(most) + step] if most != "inf" else []
    return [int(one) if "int" in kind else one for one in found]


@pytest.mark.parametrize("engine", LIMITS)
def test_values_beyond_the_limits_of_an_option_are_refused(engine):
    options = {one.name: one for one in fields(SPECS[engine].schedule)}
    limits = {name: one.metadata["values"] or one.metadata["within"] for name, one in options.items()}
    assert {name: limit for name, limit in limits.items() if limit} == LIMITS[engine]
    for name, limit in LIMITS[engine].items():
        for value in outside(limit, str(options[name].type)):
            with pytest.raises(ScheduleError, match=f"^{name}=.*: give (one of|a number in) "):
                schedule_from_options(SPECS[engine], {name: value})


@pytest.mark.parametrize("engine", [*LIMITS, "lonestar"])
def test_engines_with_code_for_cpus_and_gpus_are_offered_on_both(engine):
    assert SPECS[engine].devices == ("cpu", "cuda")
    assert {"cpu", "cuda"} == set(loaded(SPECS[engine].factory).engines)
