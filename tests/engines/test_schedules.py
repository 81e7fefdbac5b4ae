"""The options of schedules: their defaults, and which of them exclude each other, with the reasons."""

from pathlib import Path

import pytest
import yaml

from harness.contract import ScheduleError, schedule_from_options
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
        "rounds": 1, "order": "index",
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
