"""What every algorithm offers: options with defaults and ranges, outputs with bounds, and the rule that ends a run.

Published results depend on these values; a change of one is a change of the algorithm.
"""

from __future__ import annotations

import inspect

import pytest

from harness.campaign.cell import load
from harness.campaign.discovery import options_of
from harness.graph.named import resolve
from harness.language import InvalidInput, trace
from harness.plugins import load_plugins

OPTIONS = {
    "als": {
        "lam": (0.1, "(0, inf)"),
        "weighted": (True, ""),
        "sides": ("alternate", ("alternate", "all")),
        "ratings": ("given", ("given", "drawn")),
        "holdout": (0.0, "[0, 1)"),
        "tolerance": (1e-05, "[0, inf)"),
        "supersteps": (30, "[1, inf)"),
        "seed": (0, ""),
    },
    "belief_propagation": {
        "rule": ("sum", ("sum", "max")),
        "potentials": ("shared", ("shared", "edge")),
        "vertices": ("given", ("given", "drawn")),
        "damping": (0.0, "[0, 1)"),
        "smoothness": (1.0, "[0, inf)"),
        "truncation": (2.0, "(0, inf)"),
        "noise": (1.0, ""),
        "tolerance": (1e-05, "[0, inf)"),
        "supersteps": (100, "[1, inf)"),
        "seed": (0, ""),
    },
    "bfs": {
        "sources": ("drawn", ""),
        "seed": (0, ""),
        "supersteps": (1000000, "[1, inf)"),
    },
    "components": {
        "supersteps": (1000000, "[1, inf)"),
    },
    "feature_diffusion": {
        "hops": (4, "[1, inf)"),
        "seed": (0, ""),
    },
    "hits": {
        "tolerance": (1e-05, "[0, inf)"),
        "supersteps": (200, "[1, inf)"),
        "focus": ("auto", ("auto", "all", "vertices")),
        "seed": (0, ""),
    },
    "kcore": {
        "core": (16, "[1, inf)"),
        "supersteps": (1000000, "[1, inf)"),
    },
    "label_propagation": {
        "alpha": (0.85, "(0, 1]"),
        "clamp": (True, ""),
        "tolerance": (1e-05, "[0, inf)"),
        "supersteps": (200, "[1, inf)"),
        "seeds": ("auto", ("auto", "labels", "colour", "random")),
        "fraction": (0.1, "(0, 1]"),
        "seed": (0, ""),
    },
    "manifold_ranking": {
        "alpha": (0.99, "(0, 1)"),
        "tolerance": (1e-06, "[0, inf)"),
        "supersteps": (2000, "[1, inf)"),
        "views": ("auto", ""),
        "neighbours": (10, "[1, inf)"),
        "queries": ("drawn", ""),
        "at": (50, "[1, inf)"),
        "seed": (0, ""),
    },
    "mf_gd": {
        "alpha": (0.2, "(0, inf)"),
        "lam": (0.05, "[0, inf)"),
        "bias": ("none", ("none", "both")),
        "rates": ("constant", ("constant", "adagrad")),
        "supersteps": (100, "[1, inf)"),
        "holdout": (0.0, "[0, 1)"),
        "seed": (0, ""),
    },
    "mst": {
        "jumps": (4, "[1, 32]"),
        "supersteps": (1000000, "[1, inf)"),
    },
    "multimodal": {
        "alpha": (0.9, "(0, 1)"),
        "tolerance": (1e-06, "[0, inf)"),
        "supersteps": (500, "[1, inf)"),
        "views": ("auto", ""),
        "shares": ("", ""),
        "neighbours": (10, "[1, inf)"),
        "seeds": ("auto", ("auto", "labels", "colour", "random")),
        "fraction": (0.1, "(0, 1]"),
        "seed": (0, ""),
    },
    "pagerank": {
        "alpha": (0.85, "(0, 1)"),
        "tolerance": (0.0001, "[0, inf)"),
        "supersteps": (200, "[1, inf)"),
        "personalise": ("auto", ("auto", "uniform", "vertices")),
        "seed": (0, ""),
    },
    "sgd_mf": {
        "alpha": (0.02, "(0, inf)"),
        "beta": (0.015, "[0, inf)"),
        "lam": (0.05, "[0, inf)"),
        "epochs": (20, "[1, inf)"),
        "bias": ("none", ("none", "both")),
        "rates": ("power", ("power", "adagrad", "twin")),
        "normalise": ("centre", ("centre", "largest", "deviation")),
        "sides": ("ratings", ("ratings", "double")),
        "ratings": ("given", ("given", "drawn")),
        "order": ("any", ("any", "given")),
        "conflicts": ("serial", ("serial", "lossy")),
        "holdout": (0.0, "[0, 1)"),
        "seed": (0, ""),
    },
    "sssp": {
        "sources": ("drawn", ""),
        "seed": (0, ""),
        "supersteps": (1000000, "[1, inf)"),
    },
}
RULES = {
    "als": ({"lf": (0.0015, 0.01)}, (30, True, "tolerance", False, True, "max"), "several", False, True, None, None),
    "belief_propagation": (
        {"belief": (0.0002, 0.0)},
        (100, True, "tolerance", False, False, "max"),
        "several",
        False,
        False,
        None,
        None,
    ),
    "bfs": ({"level": (0.0, 0.0)}, (1000000, True, None, False, False, "max"), "unknown", True, False, None, None),
    "components": (
        {"label": (0.0, 0.0)},
        (1000000, True, None, False, False, "max"),
        "unknown",
        True,
        False,
        None,
        None,
    ),
    "feature_diffusion": (
        {"x": (4e-06, 0.0)},
        (4, False, None, False, False, "max"),
        "unknown",
        False,
        False,
        None,
        None,
    ),
    "hits": (
        {"hub": (0.00112, 0.01), "authority": (0.00112, 0.01)},
        (200, True, "tolerance", True, False, "sum"),
        "unknown",
        False,
        False,
        None,
        None,
    ),
    "kcore": ({"alive": (0.0, 0.0)}, (1000000, True, None, False, False, "max"), "unknown", True, False, None, None),
    "label_propagation": (
        {"lp": (0.00202, 0.0)},
        (200, True, "tolerance", False, False, "max"),
        "one",
        False,
        False,
        None,
        None,
    ),
    "manifold_ranking": (
        {"mm": (0.0006999999999999999, 0.0)},
        (2000, True, "tolerance", True, False, "max"),
        "one",
        False,
        False,
        None,
        None,
    ),
    "mf_gd": ({"x": (2e-05, 0.1)}, (100, False, None, False, False, "max"), "unknown", False, True, None, None),
    "mst": (
        {"root": (0.0, 0.0), "cost": (0.0, 0.0), "lower": (0.0, 0.0), "upper": (0.0, 0.0)},
        (1000000, True, None, False, False, "max"),
        "unknown",
        True,
        False,
        None,
        None,
    ),
    "multimodal": (
        {"mmode": (0.000145, 0.0)},
        (500, True, "tolerance", True, False, "max"),
        "one",
        False,
        False,
        None,
        None,
    ),
    "pagerank": (
        {"rank": (0.0013453333333333334, 0.0)},
        (200, True, "tolerance", True, False, "sum"),
        "one",
        False,
        False,
        None,
        None,
    ),
    "sgd_mf": ({"x": (2e-05, 0.1)}, (20, False, None, False, False, "max"), "unknown", False, False, 0.02, 10.0),
    "sssp": (
        {"distance": (1e-05, 0.0)},
        (1000000, True, None, False, False, "max"),
        "unknown",
        True,
        False,
        None,
        None,
    ),
}


@pytest.fixture(scope="module")
def registry():
    return load_plugins()


def test_the_tables_name_every_algorithm(registry):
    assert set(OPTIONS) == set(RULES) == set(registry.algorithms)


@pytest.mark.parametrize("name", OPTIONS)
def test_options_have_these_defaults_and_ranges(registry, name):
    options = options_of(registry.algorithm(name))
    assert {item.name: (item.default, item.within or item.values or "") for item in options} == OPTIONS[name]


@pytest.mark.parametrize("name", RULES)
def test_programs_have_these_outputs_and_this_end(registry, name):
    made = load(registry.algorithm(name).factory)()
    program = trace(made)
    outputs = {one.name: (pytest.approx(one.bound), one.floor) for one in program.results}
    control = program.control
    end = (
        control.max_supersteps, control.settles, control.tolerance, control.relative, control.alternate, control.norm
    )  # fmt: skip
    rating = (
        made.fixed_points(),
        made.rated_when_settled,
        made.metrics_by_superstep,
        made.interval_slack,
        made.diverged_over,
    )
    assert (outputs, end, *rating) == RULES[name]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (name, {option: 0})
        for name in sorted(OPTIONS)
        for option in ("supersteps", "epochs", "hops")
        if option in OPTIONS[name]
    ],
)
def test_a_run_has_at_least_one_superstep(registry, name, options):
    with pytest.raises(InvalidInput, match=rf"{name}: {next(iter(options))}=0: give a number in \[1, inf\)"):
        load(registry.algorithm(name).factory)(**options)


def test_parameters_of_graphs_are_those_of_their_factories(registry):
    """A variant has the defaults of its specification; only names and paths have none in the factory."""
    for spec in registry.graphs.values():
        known = inspect.signature(resolve(spec.factory)).parameters
        assert list(spec.parameters) == list(known), spec.name
        for name, value in spec.parameters.items():
            own = known[name].default
            if not spec.name.startswith("like_") and own is not inspect.Parameter.empty:
                assert (value, type(value)) == (own, type(own)), (spec.name, name)


LIKE = {
    "like_cit_patents": (3_774_768, 16_518_948), "like_hollywood_2009": (1_139_905, 56_375_710),
    "like_kron_g500_l21": (2**21, 91_042_010), "like_soc_live_journal1": (4_847_571, 68_475_390),
    "like_soc_orkut": (2_997_166, 106_349_208),
}  # fmt: skip


@pytest.mark.parametrize("name", LIKE)
def test_stand_ins_have_the_sizes_of_the_published_graphs(registry, name):
    parameters = registry.graph(name).parameters
    assert (parameters["num_vertices"], parameters["num_edges"]) == LIKE[name]
    assert parameters["symmetric"] is True
    assert 2 ** (parameters["scale"] - 1) < parameters["num_vertices"] <= 2 ** parameters["scale"]
