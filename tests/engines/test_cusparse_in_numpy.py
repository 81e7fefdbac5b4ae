"""The engine *cusparse* on a stand-in for CuPy and cuSPARSE in NumPy: products in every way, the choice, programs."""

from __future__ import annotations

import contextlib
import dataclasses
import gc

import numpy as np
import pytest
import scipy.sparse

from engines.libraries.cusparse_ways import Way, all_ways
from harness.contract import Device, Phases, Unsupported
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.engines.numpy_cusparse import cusparse, on_device
from tests.engines.problems import new_engine, outputs_of, problem, program
from tests.engines.programs import PROGRAMS, graph_for, inputs_for, program_named
from tests.engines.test_operations import NO_PRODUCT

__all__ = ["cusparse"]
EVERY_WAY = [(way, n) for n in (1, 3) for way in all_ways(n)]


def matrix_of(cusparse, shape=(5, 7), index=np.int32, seed=1, choices=None, unused=(2, 6), negative=True):
    """Return a matrix on the device with columns without entries, and the same in SciPy in float64."""
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    values = values if negative else abs(values)
    values[np.random.default_rng(seed).random(shape) < 0.4] = 0.0
    values[:, list(unused)] = 0.0
    plain = scipy.sparse.csr_array(values)
    parts = plain.data, plain.indices.astype(index), plain.indptr.astype(index)
    made = cusparse.modules.cusparse_matrix.CsrMatrix(*map(on_device, parts), shape, choices)
    return made, plain.astype(np.float64)


def dense_of(rows, n, seed=2):
    return on_device(np.random.default_rng(seed).normal(size=(rows, n)).astype(np.float32))


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize(("way", "n"), EVERY_WAY, ids=str)
def test_a_product_in_every_way(cusparse, way, n, index):
    made, plain = matrix_of(cusparse, index=index)
    dense = dense_of(7, n)
    kept = dense.copy()
    for _ in range(2):
        found = made.product(dense, way)
        np.testing.assert_allclose(found, plain @ dense.astype(np.float64), rtol=1e-5, atol=1e-6)
        assert found.flags.c_contiguous
    assert np.array_equal(dense, kept)
    routine = f"s{way.routine[1:]}"
    assert cusparse.multiplied == [(routine, way.algorithm, way.order, way.preprocess)] * 2
    assert cusparse.calls.count(f"{routine}_bufferSize") == 1, "prepared once"
    strided = on_device(np.asfortranarray(np.repeat(np.asarray(dense), 2, axis=1)))[:, ::2]
    np.testing.assert_allclose(made.product(strided, way), found)
    assert [one[0] for one in cusparse.alive.values()] == ["csr"], "operands are released"
    del made
    gc.collect(1)
    assert not cusparse.alive


@pytest.mark.parametrize(("way", "n"), EVERY_WAY, ids=str)
@pytest.mark.parametrize(("unused", "guard"), [((0, 4), "first"), ((0, 4), "all"), ((3, 4), "all")])
def test_rows_that_no_entry_multiplies_have_no_effect(cusparse, way, n, unused, guard):
    made, plain = matrix_of(cusparse, unused=unused)
    assert np.array_equal(made.unused, [c for c in range(7) if not plain[:, [c]].nnz])
    assert np.array_equal(made.columns, plain.indices)
    dense = dense_of(7, n)
    dense[0 if guard == "first" else made.unused] = np.nan
    kept = dense.copy()
    cusparse.spilled = dict.fromkeys([(f"s{way.routine[1:]}", way.algorithm, way.order)], guard)
    assert np.isnan(made.product(dense, way)).any()
    found = made.product(dense, way, guard)
    np.testing.assert_allclose(found, plain @ np.nan_to_num(dense).astype(np.float64), rtol=1e-5, atol=1e-6)
    assert np.array_equal(dense, kept, equal_nan=True)


@pytest.mark.parametrize(("entries", "n"), [(True, 0), (False, 2), (False, 0)])
def test_products_without_entries_or_columns_are_zero(cusparse, entries, n):
    made, _ = matrix_of(cusparse, unused=() if entries else range(7))
    made.ready(n)
    found = made @ dense_of(7, n)
    assert found.shape == (5, n)
    assert not found.any()
    assert not cusparse.calls


# the choice -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("way", "n"), EVERY_WAY, ids=str)
def test_the_fastest_way_is_chosen_and_kept(cusparse, monkeypatch, way, n):
    module = cusparse.modules.cusparse_matrix
    monkeypatch.setattr(module, "FEW_ENTRIES", 0)
    cusparse.cost = lambda *given: 1.0 if given == timed_way(way) else 3.0
    cusparse.spilled = {("spMM", 1, "row"): "first", ("spMM", 2, "column"): "all", ("spMV", 1, "row"): "all"}
    choices = module.Choices()
    made, plain = matrix_of(cusparse, choices=choices, unused=(0, 3))
    made.ready(n)
    choice = choices.of(made, n)
    assert (choice.way, choice.entries, set(choice.ms), choice.refused) == (way, plain.nnz, set(all_ways(n)), {})
    assert choice.ms == {one: 1.0 if one == way else 3.0 for one in all_ways(n)}
    assert choice.guards == {one: cusparse.spilled.get(timed_way(one)[:3], "none") for one in all_ways(n)}
    assert str(choice).startswith(f"{way} (tried: {way} 1 ms, ")
    before = len(cusparse.calls)
    dense = dense_of(7, n)
    dense[made.unused] = np.nan
    np.testing.assert_allclose(made @ dense, plain @ np.nan_to_num(dense), rtol=1e-5, atol=1e-6)
    assert len(cusparse.calls) == before + 1, "nothing is prepared or timed again"
    assert cusparse.multiplied[-1] == timed_way(way)


def timed_way(way):
    return f"s{way.routine[1:]}", way.algorithm, way.order, way.preprocess


def test_a_sample_is_a_queue_of_calls_and_its_time_that_of_one(cusparse):
    module = cusparse.modules.cusparse_matrix
    calls = []

    def work(name):
        calls.append(name)
        cusparse.clock += {"short": 0.5, "long": 80.0}[name] * (10 if calls.count(name) == 1 else 1)

    assert module.timed(("short", "long"), work) == {"short": 0.5, "long": 80.0}
    assert calls.count("short") == 2 + 5 * 10, "two single calls, and five queues of 5 ms"
    assert calls.count("long") == 2
    cusparse.cost = None
    assert module._milliseconds(lambda: work("short"), 4) == 0.5


def test_choices_belong_to_a_structure_a_shape_and_a_number_of_features(cusparse):
    module = cusparse.modules.cusparse_matrix
    choices = module.Choices()
    (first, _), (second, _) = matrix_of(cusparse, choices=choices), matrix_of(cusparse, choices=choices, seed=5)
    for n in (1, 3):
        for made in (first, second):
            made.ready(n)
            assert choices.of(made, n) is choices.of(made, n)
    assert [(key[1:], choice.entries) for key, choice in choices.made.items()] == [
        (((5, 7), n), made.entries) for n in (1, 3) for made in (first, second)
    ]
    held = [id(columns) for columns in choices._structures.values()]
    assert held == [id(first.columns), id(second.columns)], "so that no other array gets their addresses"
    choices.forget(first.columns)
    assert [choice.entries for choice in choices.made.values()] == [second.entries] * 2
    assert all(kept is second.columns for kept in choices._structures.values())
    choices.forget(first.columns)
    assert len(choices._structures) == 1
    choices.clear()
    assert (choices.made, choices._structures) == ({}, {})
    assert module.Choices().made is not choices.made
    alone, plain = matrix_of(cusparse)
    dense = dense_of(7, 2)
    np.testing.assert_allclose(alone @ dense, plain @ dense, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", [1, 2])
def test_few_entries_are_multiplied_by_the_plain_ways_unless_others_are_wanted(cusparse, monkeypatch, n):
    module = cusparse.modules.cusparse_matrix
    made, plain = matrix_of(cusparse)
    tried = {}
    for limit in (plain.nnz, plain.nnz + 1):
        monkeypatch.setattr(module, "FEW_ENTRIES", limit)
        tried[limit] = set(module.Choices()._chosen(made, n).ms)
    assert tried[plain.nnz] == set(all_ways(n))
    assert tried[plain.nnz + 1] == {way for way in all_ways(n) if way.order == "row" and not way.preprocess}
    wanted = module.Choices(lambda way, features: way.preprocess and features == n)
    assert set(wanted._chosen(made, n).ms) == {way for way in all_ways(n) if way.preprocess}
    columns = module.Choices(lambda way, features: way.algorithm == 2 and way.order == "column")
    if n > 1:
        assert set(columns._chosen(made, n).ms) == {Way("SpMM", 2, "column")}
    else:
        with pytest.raises(Unsupported, match="none of the ways that the schedule allows: it has none of them"):
            columns._chosen(made, n)


def test_ways_that_cusparse_refuses_are_recorded_with_the_reason(cusparse, monkeypatch):
    module = cusparse.modules.cusparse_matrix
    monkeypatch.setattr(module, "FEW_ENTRIES", 0)
    cusparse.refused = {("spMM", 1, "row"), ("spMM", 3, "column")}
    made, _ = matrix_of(cusparse)
    choice = module.Choices()._chosen(made, 3)
    refused = {way for way in all_ways(3) if timed_way(way)[:3] in cusparse.refused}
    assert set(choice.refused) == refused
    assert set(choice.ms) == set(choice.guards) == set(all_ways(3)) - refused
    assert "; SpMM algorithm 1, by rows refused: ('spMM', 1, 'row') is not supported" in str(choice)
    with pytest.raises(
        Unsupported, match="supports none of the ways that the schedule allows: SpMM algorithm 1, by rows: "
    ):
        module.Choices(lambda way, _: timed_way(way)[:3] in cusparse.refused)._chosen(made, 3)
    cusparse.refused = {("spMM", 2, "row")}
    with pytest.raises(Unsupported, match="SpMM algorithm 2, by rows, with which all ways are compared"):
        module.Choices()._chosen(made, 3)


@pytest.mark.parametrize(
    ("found", "message"),
    [({}, "has no cusparseSpMM_preprocess"), ({"cusparseSpMM_preprocess": lambda *_: 7}, "failed with status 7")],
)
def test_a_matrix_that_cannot_be_analysed_is_multiplied_without(cusparse, monkeypatch, found, message):
    module = cusparse.modules.cusparse_matrix
    monkeypatch.setattr(module, "FEW_ENTRIES", 0)
    monkeypatch.setattr(module, "_library", lambda: type("Library", (), found)())
    made, _ = matrix_of(cusparse)
    choice = module.Choices()._chosen(made, 3)
    assert set(choice.refused) == {way for way in all_ways(3) if way.preprocess}
    assert all(message in reason for reason in choice.refused.values())


@pytest.mark.parametrize(
    "paths", [["/opt/lib of CUDA/libcusparse.so.12"], [], ["/a/libcusparse.so", "/b/libcusparse.so"]]
)
def test_the_library_that_cupy_has_loaded_is_found_among_the_maps(cusparse, monkeypatch, paths):
    module = cusparse.modules.cusparse_matrix
    lines = [
        f"7f{n}0-7f{n}1 r-xp 0000 08:01 {n}      {path}\n" for n, path in enumerate([*paths, *paths, "/lib/libc.so"])
    ]
    opened = []

    def maps(name, encoding):
        assert cusparse.loaded, "the library is loaded with its handle"
        opened.append(name)
        return contextlib.nullcontext(lines)

    monkeypatch.setattr(module, "open", maps, raising=False)
    monkeypatch.setattr("ctypes.CDLL", lambda path: ("loaded", path))
    if len(paths) == 1:
        assert cusparse.library() == ("loaded", paths[0])
    else:
        with pytest.raises(module.PreprocessUnavailable, match=f"found {'none' if not paths else '.*/a/.*/b/'}"):
            cusparse.library()
    assert opened == ["/proc/self/maps"]


# the engine -----------------------------------------------------------------------------------------------------------
def prepared(posed, graph, features, options=None):
    engine = new_engine("cusparse", options)
    engine.prepare(posed, graph, features, Device("cuda", threads=1), Phases())
    return engine


def check(engine, posed, run, inputs, supersteps):
    run.reset(inputs)
    engine.reset(inputs)
    for superstep in range(supersteps):
        run.run(1)
        engine.run(1)
        found = compare(posed, outputs_of(engine, posed), outputs_of(run, posed))
        assert found.ok, f"after superstep {superstep}: {found.detail}"


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in NO_PRODUCT | {"inverse_of_a_destination"}])
def test_operations(cusparse, name):
    posed, graph = program_named(name), graph_for(name)
    features = (1, 3, 4)[list(PROGRAMS).index(name) % 3]
    engine = prepared(posed, graph, features)
    inputs = inputs_for(posed, graph, features)
    check(engine, posed, ReferenceRun(posed, graph, features), inputs, 3)
    assert np.array_equal(engine.rows(posed.outputs[0], np.array([1, 0])), engine.values(posed.outputs[0])[[1, 0]])
    engine.close()


@pytest.mark.parametrize("split", ["auto", "yes", "no"])
@pytest.mark.parametrize("whole_is_faster", [True, False])
def test_rows_of_a_hub_are_cut_into_runs_where_that_is_faster(cusparse, split, whole_is_faster):
    graph, inputs = problem("pagerank", "hub", 2)
    posed = program("pagerank")
    hub_rows = graph.num_vertices

    def cost(*way):
        rows = len(next(one[1].indptr for one in reversed(cusparse.alive.values()) if one[0] == "csr")) - 1
        return (1.0 if whole_is_faster else 9.0) if rows == hub_rows else 3.0

    cusparse.cost = cost
    engine = prepared(posed, graph, 2, {"split": split})
    expected = split if split != "auto" else engine.split[0]
    pattern = engine._patterns[0]
    assert (pattern.runs is None) == (expected == "no")
    options = engine.resolved_options()
    assert list(options) == ["algorithm", "order", "preprocess", "split"]
    assert options["split"] == expected
    structures = {int(one.data.ptr) for one in pattern.structures()}
    assert {key[0] for key in engine.choices.made} == structures, "choices for the other pattern are dropped"
    text = engine.explain()
    assert f"rows of more than 512 entries cut into runs: {expected} (" in text
    assert text.count(" entries times 2 columns: SpMM algorithm ") == len(structures)
    assert f"{graph.num_vertices:,} x {graph.num_vertices:,} with " in text
    assert "CuPy generates" in text
    assert "cuSPARSE CSR of" in text
    assert text.startswith("CusparseEngine\n")
    engine.reset(inputs)
    cusparse.calls.clear()
    check(engine, posed, ReferenceRun(posed, graph, 2), inputs, 2)
    assert not [one for one in cusparse.calls if one.endswith(("Size", "preprocess"))], "all is prepared before a run"
    engine.close()
    assert not engine.choices.made


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"algorithm": 2},
        {"order": "column"},
        {"preprocess": "yes"},
        {"algorithm": 3, "order": "row", "preprocess": "no"},
    ],
    ids=str,
)
@pytest.mark.parametrize("features", [1, 3])
def test_options_restrict_the_ways_that_they_affect(cusparse, monkeypatch, options, features):
    monkeypatch.setattr(cusparse.modules.cusparse_matrix, "FEW_ENTRIES", 0)
    graph, inputs = problem("pagerank", "rmat", features)
    engine = prepared(program("pagerank"), graph, features, options)
    (choice,) = engine.choices.made.values()
    wanted = {
        way
        for way in all_ways(features)
        if way.algorithm == options.get("algorithm", way.algorithm)
        and (features == 1 or way.order == options.get("order", way.order))
        and (
            (way.routine, way.algorithm) == ("SpMM", 2)
            or way.preprocess == (options.get("preprocess", "yes" if way.preprocess else "no") == "yes")
        )
    }
    assert set(choice.ms) == wanted != set()
    assert engine.resolved_options() == {
        "algorithm": choice.way.algorithm, "order": choice.way.order, "split": "no",
        "preprocess": "yes" if choice.way.preprocess else "no",
    }  # fmt: skip
    check(engine, program("pagerank"), ReferenceRun(program("pagerank"), graph, features), inputs, 2)
    engine.close()


def test_two_sides_have_a_choice_each_and_share_options_that_are_equal(cusparse):
    graph, inputs = problem("als", "ratings", 2)
    engine = prepared(program("als"), graph, 2)
    check(engine, program("als"), ReferenceRun(program("als"), graph, 2), inputs, 2)
    assert engine.split == ["no", "no"]
    assert engine.resolved_options()["split"] == "no"
    assert {key[1] for key in engine.choices.made} == {
        (len(side.offsets) - 1, graph.num_vertices) for side in engine.sides
    }
    first, last = next(iter(engine.choices.made)), next(reversed(engine.choices.made))
    for place, number in ((first, 1), (last, 3)):
        choice = engine.choices.made[place]
        engine.choices.made[place] = dataclasses.replace(choice, way=choice.way._replace(algorithm=number))
    found = engine.resolved_options()["algorithm"]
    assert (found[0], found[-1], len(found)) == (1, 3, len(engine.choices.made))
    engine.close()


def test_without_edges_nothing_is_timed_and_only_given_options_are_resolved(cusparse):
    graph, inputs = problem("pagerank", "no edges", 2)
    for options in ({}, {"algorithm": 2, "split": "no"}):
        engine = prepared(program("pagerank"), graph, 2, options)
        assert engine.resolved_options() == options
        check(engine, program("pagerank"), ReferenceRun(program("pagerank"), graph, 2), inputs, 2)
        assert not cusparse.multiplied
        engine.close()
        engine.close()


def unwritten(csr, dense, result, before):
    result[1] = before[1]


def multiplied_by_0(csr, dense, result, before):
    result += 0 * before


def lost(csr, dense, result, before):
    """Leave out the last entry of the second row."""
    start, stop = csr.indptr[1:3]
    assert start < stop
    result[1] -= csr.data[stop - 1] * dense[csr.indices[stop - 1]]


def doubled(csr, dense, result, before):
    result[-1] *= 2


@pytest.mark.parametrize("spoiled", [unwritten, multiplied_by_0, lost, doubled])
@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize(("way", "n"), [way for way in EVERY_WAY if way[0] != Way("SpMM", 2)], ids=str)
def test_a_way_whose_product_is_wrong_is_refused(cusparse, monkeypatch, way, n, negative, spoiled):
    module = cusparse.modules.cusparse_matrix
    monkeypatch.setattr(module, "FEW_ENTRIES", 0)
    cusparse.spoiled[timed_way(way)] = spoiled
    cusparse.cost = lambda *given: 0.1 if given == timed_way(way) else 1.0
    choices = module.Choices()
    made, plain = matrix_of(cusparse, choices=choices, negative=negative)
    choice = choices.of(made, n)
    assert set(choice.ms) == set(choice.guards) == set(all_ways(n)) - {way}
    rows = "5 of 5 rows of a product are wrong, row 0 first" if spoiled is multiplied_by_0 else "1 of 5 rows"
    assert choice.refused[way].startswith(rows)
    np.testing.assert_allclose(made @ dense_of(7, n), plain @ dense_of(7, n), rtol=1e-5, atol=1e-6)
