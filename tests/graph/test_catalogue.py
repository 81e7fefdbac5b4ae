"""Named graphs and how they are opened."""

import gzip
import importlib.metadata
import inspect
import os
import sys

import numpy as np
import pytest
import scipy.sparse

from harness.cache import cache_folder
from harness.graph import GraphError, load_graph, named, open_graph
from harness.graph.catalogue import BUILTIN_GRAPHS, onyx_graphs
from harness.graph.catalogue.stand_ins import REMOVED, ROADS, SOCIAL
from harness.graph.named import build_graph, not_cached, resolve, source_digest

SPECS = {spec.name: spec for spec in BUILTIN_GRAPHS}
TABLE_7_1 = {  # millions of vertices and edges
    "cit_patents": "3.8/16.5", "road_central": "14.1/16.9", "road_usa": "23.9/28.9", "hollywood_2009": "1.1/56.4",
    "soc_live_journal1": "4.8/68.5", "kron_g500_l21": "2.1/91.0", "soc_orkut": "3.0/106.3",
}  # fmt: skip


def test_every_factory_takes_the_parameters_listed():
    assert onyx_graphs() == BUILTIN_GRAPHS
    assert len(SPECS) == len(BUILTIN_GRAPHS)
    for spec in BUILTIN_GRAPHS:
        assert spec.help
        defaults = {name: value.default for name, value in inspect.signature(resolve(spec.factory)).parameters.items()}
        own = spec.factory.endswith(("file", "published")) or spec.name.startswith("like_")
        given = {} if own else spec.parameters
        assert dict(spec.parameters).keys() == defaults.keys()
        assert defaults | dict(given) == defaults
        with pytest.raises(GraphError, match="no parameter 'nonesuch'"):
            open_graph(spec, {"nonesuch": 1})


def test_a_file_is_read_without_changes_unless_options_ask_for_them():
    assert dict(SPECS["file"].parameters) == {
        "path": "", "format": None, "duplicates": "error", "symmetrize": False, "max_expansion": 100.0,
    }  # fmt: skip


def test_the_thesis_graphs_are_there():
    names = "cit_patents road_central road_usa delaunay_n24 hollywood_2009 soc_live_journal1 kron_g500_l21 soc_orkut"
    assert set(names.split()) <= set(SPECS)


def test_stand_ins_have_the_sizes_of_the_thesis():
    sizes = {name: spec.parameters for name, spec in SPECS.items() if name.startswith("like_")}
    assert set(sizes) == {f"like_{name}" for name in [*SOCIAL, *ROADS]}
    for name, (vertices, _) in {**SOCIAL, **{name: (r * c, 0) for name, (r, c) in ROADS.items()}}.items():
        wanted = float(TABLE_7_1[name].split("/")[0])
        assert vertices / 1e6 == pytest.approx(wanted, abs=0.06), name
    for name, (rows, columns) in ROADS.items():
        edges = (1 - REMOVED) * (2 * rows * columns - rows - columns)
        assert edges / 1e6 == pytest.approx(float(TABLE_7_1[name].split("/")[1]), rel=0.01)
    small = open_graph(SPECS["like_soc_orkut"], {"scale": 8, "num_vertices": 200, "num_edges": 3000})
    assert (small.num_vertices, small.num_edges) == (200, 3000)


@pytest.mark.parametrize("name", ["digits", "rmat", "delaunay", "grid", "ratings_random"])
def test_a_graph_opens_and_comes_from_the_cache_again(name, monkeypatch):
    first = open_graph(SPECS[name])
    first.validate()
    monkeypatch.setattr("harness.graph.Graph.from_edges", None)  # nothing is built again
    assert open_graph(SPECS[name].factory).content_hash == first.content_hash


@pytest.mark.short_run(rows=1)
@pytest.mark.parametrize("name", ["rmat_rows", "urand_rows"])
def test_graphs_made_by_rows_are_not_cached(name):
    before = sorted(cache_folder().rglob("*"))
    first, second = open_graph(SPECS[name]), open_graph(SPECS[name])
    build_graph(SPECS[name])
    assert first.content_hash == second.content_hash
    assert first is not second
    assert sorted(cache_folder().rglob("*")) == before


def test_graphs_that_are_not_cached_are_not_made_ahead(monkeypatch):
    made = []
    monkeypatch.setattr(named, "resolve", lambda factory: not_cached(lambda size=3: made.append(size)))
    build_graph("somewhere:made", {"size": 4})
    assert made == []
    open_graph("somewhere:made", {"size": 4})
    assert made == [4]


def test_label_propagation_on_the_digits_finds_the_digits():
    graph = open_graph(SPECS["digits"])
    assert graph.num_vertices == 1797
    assert 17970 <= graph.num_edges <= 2 * 17970
    assert (graph.weights > 0).all()
    np.testing.assert_array_equal(graph.weights, graph.weights[graph.reverse_edges])
    known = np.random.default_rng(0).random(1797) < 0.1
    truth = np.eye(10)[graph.labels]
    shape = (1797, 1797)
    incoming = scipy.sparse.csr_array((graph.in_weights, graph.csc.neighbours, graph.csc.offsets), shape=shape)
    lp = np.where(known[:, None], truth, 0.1)
    for _ in range(200):
        gathered = incoming @ lp
        lp = 0.85 * gathered / gathered.sum(axis=1, keepdims=True) + 0.15 * lp
        lp = np.where(known[:, None], truth, lp / lp.sum(axis=1, keepdims=True))
    assert (lp.argmax(axis=1) == graph.labels)[~known].mean() > 0.965


def test_digits_are_joined_with_their_nearest():
    graph = open_graph(SPECS["digits"], {"neighbours": 5})
    pixels = graph.vertex_data["pixels"].astype(int)
    squared = np.array([((pixels - image) ** 2).sum(axis=1) for image in pixels])
    farthest = np.sort(squared, axis=1)[:, 5]  # the first is the image itself
    u, v = graph.csr.row_of_edge, graph.csr.neighbours
    assert (squared[u, v] <= np.maximum(farthest[u], farthest[v])).all()
    joined = np.eye(1797, dtype=bool)
    joined[u, v] = True
    assert joined[squared < farthest[:, None]].all()
    assert (joined.sum(axis=1) > 5).all()
    np.testing.assert_allclose(graph.weights, np.exp(-squared[u, v] / graph.meta["sigma"] ** 2), rtol=1e-5)


def test_the_digits_are_the_published_ones(data):
    published, ours = load_graph(data / "digits-knn10.npz"), open_graph(SPECS["digits"])
    np.testing.assert_array_equal(ours.vertex_data["pixels"], published.vertex_data["pixels"])
    np.testing.assert_array_equal(ours.labels, published.labels)


@pytest.mark.parametrize(
    ("parameters", "height", "width", "edges"),
    [
        ({}, 512, 512, 1_046_528),
        ({"image": "coins", "neighbours": 8}, 303, 384, 2 * (2 * 303 * 384 - 303 - 384 + 2 * 302 * 383)),
        ({"image": "horse"}, 328, 400, 2 * (2 * 328 * 400 - 328 - 400)),
    ],
)
def test_a_photograph_is_a_pixel_graph(parameters, height, width, edges):
    graph = open_graph(SPECS["photo"], parameters)
    graph.validate()
    assert (graph.meta["height"], graph.meta["width"]) == (height, width)
    assert (graph.num_vertices, graph.num_edges) == (height * width, edges)
    colour = graph.vertex_data["colour"]
    assert (colour.shape, colour.dtype) == ((height * width, 3), np.float32)
    assert 0 <= colour.min() <= colour.max() <= 1
    assert graph.weights.min() > 0
    difference = (colour[graph.csr.row_of_edge] - colour[graph.csr.neighbours]).astype(float)
    expected = np.maximum(np.exp(-graph.meta["beta"] * (difference**2).sum(axis=1)), 1e-6)
    np.testing.assert_allclose(graph.weights, expected, rtol=1e-4)


def test_a_photograph_is_the_image():
    import skimage.data

    graph = open_graph(SPECS["photo"], {"image": "coffee", "beta": 10.0})
    picture = (graph.vertex_data["colour"].reshape(graph.meta["height"], graph.meta["width"], 3) * 255).round()
    np.testing.assert_array_equal(picture, skimage.data.coffee())
    assert graph.meta["beta"] == 10
    with pytest.raises(GraphError, match="images are astronaut"):
        open_graph(SPECS["photo"], {"image": "../../etc/passwd"})


def test_the_highways_are_the_published_ones(data):
    ours, published = open_graph(SPECS["highways"]), load_graph(data / "world-highways.npz")
    np.testing.assert_array_equal(ours.csr.offsets, published.csr.offsets)
    np.testing.assert_array_equal(ours.csr.neighbours, published.csr.neighbours)
    np.testing.assert_allclose(ours.weights, published.weights, rtol=1e-6)
    np.testing.assert_allclose(ours.vertex_data["lat_lon"], published.vertex_data["lat_lon"], rtol=1e-6)


@pytest.mark.parametrize("name", ["digits", "photo", "highways"])
def test_a_missing_package_names_the_extra(name, monkeypatch):
    def missing(package):
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(GraphError, match=r"pip install 'onyx-harness\[data\]'"):
        open_graph(SPECS[name])
    with pytest.raises(GraphError, match=r"pip install 'onyx-harness\[data\]'"):
        resolve(SPECS[name].factory)()


def test_wrong_parameters_and_factories_are_named():
    with pytest.raises(GraphError, match="no parameter 'scal'; did you mean 'scale'"):
        open_graph(SPECS["rmat"], {"scal": 4})
    with pytest.raises(GraphError, match="needs the parameter 'graph'"):
        open_graph("harness.graph.catalogue:published")
    with pytest.raises(GraphError, match="published graph 'atlantis' is unknown"):
        open_graph("harness.graph.catalogue:published", {"graph": "atlantis"})
    for factory in ("harness.graph.catalogue:atlantis", "no.such.module:x", "nothing", "harness.graph:__all__"):
        with pytest.raises(GraphError, match="it must be 'package.module:function'"):
            open_graph(factory)
    with pytest.raises(GraphError, match="no path is given"):
        open_graph(SPECS["file"])


def test_a_file_is_parsed_again_only_when_it_changed(write, monkeypatch):
    path = write("a.txt", "0 1\n1 2\n")
    first = open_graph(SPECS["file"], {"path": str(path)})
    entries = len(list((cache_folder() / "entries").iterdir()))
    assert open_graph(SPECS["file"], {"path": str(path)}).content_hash == first.content_hash
    assert len(list((cache_folder() / "entries").iterdir())) == entries
    assert open_graph(SPECS["file"], {"path": str(path), "symmetrize": True}).num_edges == 4
    write("a.txt", "0 1\n1 2\n2 0\n")
    assert open_graph(SPECS["file"], {"path": str(path)}).num_edges == 3
    status = path.stat()
    path.write_text("0 1\n1 2\n2 1\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert open_graph(SPECS["file"], {"path": str(path)}).csr.neighbours.tolist() == [1, 2, 1]


@pytest.mark.parametrize("packed", [False, True])
def test_evidence_counts_as_part_of_a_network_file(packed, write):
    path = write("n.uai", "MARKOV\n1\n2\n0\n")
    if packed:
        path = path.with_name("n.uai.gz")
        path.write_bytes(gzip.compress(b"MARKOV\n1\n2\n0\n"))
    assert open_graph(SPECS["file"], {"path": str(path)}).vertex_data["evidence"].tolist() == [-1]
    write("n.uai.evid", "1 0 1")
    assert open_graph(SPECS["file"], {"path": str(path)}).vertex_data["evidence"].tolist() == [1]


def test_another_generator_code_is_another_key(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    text = (
        "from harness.graph import Graph\ndef make(n=2): return Graph.from_edges([0], [{}], num_vertices=n, name='x')\n"
    )
    module = tmp_path / "factory_of_a_test.py"
    module.write_text(text.format(1))
    assert open_graph("factory_of_a_test:make").csr.neighbours.tolist() == [1]
    before = source_digest(resolve("factory_of_a_test:make"))
    module.write_text(text.format("0 + 0"))
    del sys.modules["factory_of_a_test"]
    assert source_digest(resolve("factory_of_a_test:make")) != before
    assert open_graph("factory_of_a_test:make", {"n": 2}).csr.neighbours.tolist() == [0]
