"""The disk cache: what it returns, when graphs are built, and damaged files."""

import contextlib
import json
import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import harness
from harness.cache import CacheError, cache_folder
from harness.graph import Graph, GraphError, cached
from harness.graph import cache as graph_cache
from harness.graph.cache import _open_entry, fill, open_stored, store
from harness.graph.digest import array_digest, array_digests, text_digest


def example(**more):
    return Graph.from_edges(
        [0, 2, 1, 0], [1, 0, 2, 3], weights=[1, 2, 3, 4], labels=[0, 1, -1, 2], name="example",
        vertex_data={"a/b ?": np.arange(8).reshape(4, 2)}, edge_data={"flag": np.array([True, False, True, False])},
        bipartite=None, meta={"origin": "here"}, **more,
    )  # fmt: skip


def forbidden():
    raise AssertionError("the graph was built again")


def assert_same(one, other):
    assert [place for place, _ in one.arrays()] == [place for place, _ in other.arrays()]
    for (_, ours), (_, theirs) in zip(one.arrays(), other.arrays(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(one.csc.edge_ids, other.csc.edge_ids)
    assert (one.name, one.meta, one.directed, one.bipartite) == (
        other.name,
        other.meta,
        other.directed,
        other.bipartite,
    )
    assert one.content_hash == other.content_hash


def test_a_cached_graph_is_built_once_and_comes_back_the_same():
    first = cached(["k", 1], example)
    second = cached(["k", 1], forbidden)
    assert_same(first, example())
    assert_same(second, example())
    second.validate()
    assert "in_weights" in vars(second), "not sorted again"
    np.testing.assert_array_equal(second.in_weights, example().in_weights)
    assert not second.csr.neighbours.flags.writeable
    assert type(second.csr.neighbours) is np.ndarray


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12), st.booleans())
def test_any_graph_survives_the_round_trip(edges, symmetrize):
    u, v = (np.array([edge[i] for edge in edges], dtype=int) for i in (0, 1))
    graph = Graph.from_edges(u, v, num_vertices=6, name="any", duplicates="keep", symmetrize=symmetrize)
    opened = open_stored(store(graph), name="any", meta={})
    known = {"facts", "has_self_loops", "has_reverse_edges", "csc", "content_hash"}
    assert known <= set(vars(opened)), "not computed again"
    assert_same(opened, graph)
    assert opened.facts == graph.facts
    assert opened.has_self_loops == graph.has_self_loops == bool((u == v).any())
    assert opened.has_reverse_edges == graph.has_reverse_edges


def test_a_graph_that_is_in_the_cache_is_not_opened_to_fill_it(monkeypatch):
    fill(["k"], example)
    with monkeypatch.context() as patched:
        patched.setattr("harness.graph.cache.open_stored", lambda *_, **__: forbidden())
        fill(["k"], forbidden)
    assert_same(cached(["k"], forbidden), example())


def test_different_keys_are_different_entries_of_one_content():
    cached(["k", 1], example)
    cached(["k", {"b": 2, "a": 1}], lambda: example().with_weights([4, 3, 2, 1]))
    cached(["other name"], example)
    assert len(list((cache_folder() / "graphs").iterdir())) == 2
    assert cached(["k", {"a": 1, "b": 2}], forbidden).weights.tolist() != example().weights.tolist()


@pytest.mark.parametrize("damage", ["cut", "json", "missing", "shape", "entry", "values", "head", "name"])
def test_damage_is_noticed_and_built_again(damage, caplog):
    graph = cached(["k"], example)
    folder = cache_folder() / "graphs" / graph.content_hash
    if damage == "cut":
        (folder / "1.npy").write_bytes((folder / "1.npy").read_bytes()[:-3])
    elif damage == "json":
        (folder / "graph.json").write_text("{")
    elif damage == "missing":
        (folder / "0.npy").unlink()
    elif damage == "shape":
        np.save(folder / "1.npy", np.arange(3, dtype=np.uint32))
    elif damage == "values":  # a process that writes through its own mapping
        np.load(folder / "1.npy", mmap_mode="r+")[0] = 3
    elif damage == "head":
        (folder / "graph.json").write_text((folder / "graph.json").read_text().replace("true", "false", 1))
    elif damage == "name":
        entry = next((cache_folder() / "entries").glob("*.json"))
        entry.write_text(entry.read_text().replace('"example"', '"another"'))
    else:
        entry = next((cache_folder() / "entries").glob("*.json"))
        entry.write_text(json.dumps({"content_hash": "../../elsewhere", "name": "x", "meta": {}}))
    with caplog.at_level(logging.WARNING):
        again = cached(["k"], example)
    assert "building it again" in caplog.text
    assert_same(again, example())
    assert_same(cached(["k"], forbidden), example())


@pytest.mark.parametrize("graph", [example, lambda: cached(["k"], example)], ids=["built", "cached"])
def test_no_array_of_a_graph_can_be_made_writeable(graph):
    graph = graph()
    for name, array in [*graph.arrays(), ("csc", graph.csc.neighbours), ("in_weights", graph.in_weights)]:
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.setflags(write=True)
        with pytest.raises(ValueError, match="read-only"):
            array[:1] = 0
        assert type(array) is np.ndarray, name


@pytest.mark.parametrize("shape", [(0,), (0, 3), (5,), (2, 3, 3), (10_000_000,)])
def test_a_digest_tells_values_shapes_and_dtypes_apart(shape):
    array = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    known = array_digest(array)
    assert array_digest(array.copy()) == array_digests({"a": array})["a"] == known
    assert array_digest(array.reshape(-1, 1, 1, 1)) != known
    assert array_digest(array.view(np.uint32)) != known
    if array.size:
        array.flat[-1] += 1
        assert array_digest(array) != known


def test_pickles_are_not_opened(caplog):
    graph = cached(["k"], example)
    target = cache_folder() / "graphs" / graph.content_hash / "1.npy"
    np.save(target, np.array([print], dtype=object), allow_pickle=True)
    assert_same(cached(["k"], example), example())
    assert "building it again" in caplog.text


def test_nothing_is_left():
    cached(["k"], example)
    names = [path.name for path in cache_folder().rglob("*")]
    assert not [name for name in names if name.startswith(("writing-", ".")) or name == "damaged"]


def test_a_key_is_plain_data():
    with pytest.raises(GraphError, match="give plain numbers and text"):
        cached(["k", object()], example)


def test_processes_that_build_the_same_graph_at_once_agree():
    code = """
from harness.graph import cached
from harness.graph.generators import rmat
for seed in range(20):
    print(cached(["race", seed], lambda: rmat(scale=6, seed=seed)).content_hash)
"""
    root = Path(harness.__file__).parents[1]
    racers = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", code], cwd=root, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    outputs = {racer.communicate()[0] for racer in racers}
    assert [racer.returncode for racer in racers] == [0, 0, 0]
    assert len(outputs) == 1
    assert len(outputs.pop().split()) == 20
    assert not [*cache_folder().rglob("writing-*"), *cache_folder().rglob(".*")]


def test_a_cache_that_cannot_be_written_is_an_error(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(blocked))
    with pytest.raises(CacheError, match=r"file: the cache cannot be written .* or set ONYX_HARNESS_CACHE"):
        cached(["k"], example)


def test_another_process_opens_the_same_content():
    graph = cached(["k"], example)
    code = "from harness.graph import cached; print(cached(['k'], None).content_hash)"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(harness.__file__).parents[1], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == graph.content_hash


def test_a_layout_of_another_version_is_not_read(cache):
    folder = store(example())
    head = json.loads((folder / "graph.json").read_text())
    (folder / "graph.json").write_text(json.dumps(head | {"layout": head["layout"] + 1}))
    with pytest.raises(ValueError, match=f"layout {head['layout'] + 1}, not {head['layout']}"):
        open_stored(folder, name="example", meta={})
    assert_same(open_stored(store(example()), name="example", meta={"origin": "here"}), example())


def test_an_entry_names_a_folder_of_the_cache_only(cache):
    cached(["k"], example)
    (entry,) = (cache / "entries").glob("*.json")
    described = json.loads(entry.read_text())
    del described["digest"]
    described["content_hash"] = f"../graphs/{described['content_hash']}"
    entry.write_text(json.dumps(described | {"digest": text_digest(described)}))
    with pytest.raises(ValueError, match=r"'\.\./graphs/.*' is not a content hash"):
        _open_entry(entry)
    built = []
    assert_same(cached(["k"], lambda: built.append(1) or example()), example())
    assert built == [1]


PLACES = ("offsets", "neighbours", "weights", "labels", "vertex_data/a/b ?", "edge_data/flag", "csc.offsets",
          "csc.neighbours", "csc.edge_ids", "csc.weights")  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_a_change_of_any_array_is_noticed(place):
    folder = store(example())
    files = json.loads((folder / "graph.json").read_text())["arrays"]
    assert set(files) == set(PLACES)
    array = np.load(folder / files[place]["file"], mmap_mode="r+")
    array.flat[0] = not array.flat[0]
    del array
    with pytest.raises(ValueError, match=rf"\({place.replace('?', '.')}\) has changed since it was written"):
        open_stored(folder, name="example", meta={})
    assert_same(open_stored(store(example()), name="example", meta={"origin": "here"}), example())


def test_an_older_layout_is_not_read():
    folder = store(example())
    head = json.loads((folder / "graph.json").read_text())
    (folder / "graph.json").write_text(json.dumps(head | {"layout": head["layout"] - 1}))
    with pytest.raises(ValueError, match=f"layout {head['layout'] - 1}, not {head['layout']}"):
        open_stored(folder, name="example", meta={})


@pytest.mark.parametrize("other", ["LAYOUT", "_code_digest"])
def test_another_layout_or_code_is_another_key(monkeypatch, other):
    cached(["k"], example)
    changed = {"LAYOUT": graph_cache.LAYOUT + 1, "_code_digest": lambda: "other code"}[other]
    monkeypatch.setattr(graph_cache, other, changed)
    built = []
    cached(["k"], lambda: built.append(1) or example())
    assert built == [1]


def test_the_code_of_a_graph_is_that_of_the_modules_that_build_it(monkeypatch):
    read = []
    content = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path.name) or content(path))
    known = graph_cache._code_digest.__wrapped__()
    assert sorted(read) == ["adjacency.py", "edges.py", "graph.py"]
    for name in read[:3]:
        monkeypatch.setattr(Path, "read_bytes", lambda path, name=name: content(path) + b"#" * (path.name == name))
        assert graph_cache._code_digest.__wrapped__() != known, name


def test_a_graph_that_another_process_builds_meanwhile_is_not_built_again(monkeypatch):
    building = graph_cache._building

    @contextlib.contextmanager
    def after_another(entry):
        graph_cache._built(entry, ["k"], example)
        with building(entry):
            yield

    monkeypatch.setattr(graph_cache, "_building", after_another)
    assert_same(cached(["k"], forbidden), example())


@pytest.mark.parametrize("edges", [([0, 1], [1, 0]), ([0, 1], [0, 2]), ([0, 0, 1], [0, 1, 0]), ([0, 1], [1, 2])])
def test_loops_and_reverse_edges_are_kept_apart(edges):
    graph = Graph.from_edges(*edges, num_vertices=3, weights=np.arange(1, 1 + len(edges[0])), name="g")
    opened = open_stored(store(graph), name="g", meta={})
    assert vars(opened)["has_self_loops"] == any(u == v for u, v in zip(*edges, strict=True))
    assert vars(opened)["has_reverse_edges"] == (
        sorted(zip(*edges, strict=True)) == sorted(zip(*edges[::-1], strict=True))
    )
    assert vars(opened)["in_weights"].tolist() == graph.weights[graph.csc.edge_ids].tolist()
    opened.validate()
