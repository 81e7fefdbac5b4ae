"""The variants of engines in ``conf/engine``: each plans a program, with resolved options that the harness accepts."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import yaml

from harness.algorithms.sgd_mf import SGDMatrixFactorisation
from harness.campaign.guarded_engine import GuardedEngine
from harness.contract import Device, Yes
from harness.language import trace
from tests.engines.problems import ALGORITHMS, SPECS, new_engine, small

FILES = {path.stem: path for path in sorted((Path(__file__).parents[2] / "conf/engine").glob("*.yaml"))}
READ = {name: yaml.safe_load(path.read_text()) for name, path in FILES.items()}
VARIANTS = {name: given.get("engine", given) for name, given in READ.items()}
BY_DEVICE = "${"  # begins a value that another key gives
CHOSEN = {name: ALGORITHMS[name] for name in ("multimodal", "sssp", "components", "pagerank")} | {
    "sgd_mf": SGDMatrixFactorisation(conflicts="lossy")
}
FEATURES = 3


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_harness_accepts_the_resolved_options_of_a_variant(variant):
    options = {key: value for key, value in VARIANTS[variant].items() if not str(value).startswith(BY_DEVICE)}
    name = options.pop("name")
    for kind, (algorithm, chosen) in product(SPECS[name].devices, CHOSEN.items()):
        engine = GuardedEngine(new_engine(name, options))
        graph = chosen.prepare_graph(small("ratings" if algorithm == "sgd_mf" else "grid"))
        answer = engine.supports(trace(chosen), graph, FEATURES, Device(kind))
        if isinstance(answer, Yes):
            engine.generate(trace(chosen), graph, FEATURES, Device(kind))
            assert engine.resolved_options().keys() >= {key for key, value in options.items() if value is not None}
            assert engine.explain()
            return
        if answer.reason.startswith("no CUDA device"):
            pytest.skip(f"{name} asks the device: {answer.reason}")
    pytest.fail(f"{variant} plans none of {', '.join(CHOSEN)}")
