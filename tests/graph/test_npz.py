"""NumPy archives of CSR arrays."""

import io
import json
import zipfile

import numpy as np
import pytest

from harness.graph import GraphError, load_graph

ARRAYS = {"indptr": np.array([0, 2, 3, 4], dtype=np.int32), "indices": np.array([1, 2, 0, 0], dtype=np.int32)}


def save(path, **arrays):
    np.savez_compressed(path, **{key: value for key, value in (ARRAYS | arrays).items() if value is not None})
    return path


def test_all_arrays_find_their_place(tmp_path):
    path = save(
        tmp_path / "g.npz", weight=np.array([1, 2, 3, 4], dtype=np.int8), labels=np.array([0, 1, 1], dtype=np.int8),
        pixels=np.zeros((3, 5), dtype=np.uint8), kind=np.arange(4), elsewhere=np.arange(9),
        feat_indptr=np.array([0, 1, 1, 3]), feat_indices=np.array([3, 0, 1]), feat_shape=np.array([3, 4]),
        meta=json.dumps({"name": "made", "directed": False, "origin": "here"}),
    )  # fmt: skip
    graph = load_graph(path)
    graph.validate()
    assert (graph.name, graph.directed, graph.meta["origin"]) == ("made", False, "here")
    assert graph.weights.tolist() == [1, 2, 3, 4]
    assert graph.labels.tolist() == [0, 1, 1]
    assert sorted(graph.vertex_data) == ["features", "pixels"]
    assert graph.vertex_data["features"].tolist() == [[0, 0, 0, 1], [0, 0, 0, 0], [1, 1, 0, 0]]
    assert graph.edge_data["kind"].tolist() == [0, 1, 2, 3]


def test_two_sides_come_from_meta(tmp_path):
    arrays = {"indptr": np.array([0, 1, 2, 2]), "indices": np.array([2, 2])}
    assert load_graph(save(tmp_path / "g.npz", **arrays, meta=json.dumps({"bipartite": [2, 1]}))).bipartite == (2, 1)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"indptr": None}, "indptr missing"),
        ({"indices": np.array([1, 2, 0, 9])}, "edge 3, 2 -> 9, is outside the 3 vertices"),
        ({"indices": np.array([1, 2, 0, -1])}, "is outside the 3 vertices"),
        ({"indices": np.array([1, 2, 0])}, "indptr runs from 0 to 4; it must rise from 0 to the number of indices, 3"),
        ({"indptr": np.array([0, 3, 2, 4])}, "indptr runs"),
        ({"indptr": np.array([0.0, 2, 3, 4])}, "must be lists of integers"),
        ({"weight": np.array([1, 2, np.nan, 4])}, "weight of edge 2 is nan"),
        ({"weight": np.array([1, 2])}, "one real number for each of 4 edges"),
        ({"labels": np.array([1])}, "labels has shape"),
        ({"meta": "no json"}, "meta is not JSON"),
        ({"meta": "[1]"}, "meta is JSON but not an object"),
        ({"meta": '{"bipartite": [1, 1]}'}, "bipartite is"),
        ({"meta": '{"directed": false}', "indices": np.array([1, 2, 0, 1])}, "no reverse edge"),
        ({"feat_shape": np.array([3, 3])}, "features need"),
        (
            {"feat_shape": np.array([3, 2**40]), "feat_indptr": np.zeros(4, int), "feat_indices": np.zeros(0, int)},
            "features of 3 x 1099511627776 would take",
        ),
        (
            {"feat_shape": np.array([2, 3]), "feat_indptr": np.zeros(4, int), "feat_indices": np.zeros(0, int)},
            "inconsistent",
        ),
        ({"labels": np.array([0.5, np.nan, 1])}, "labels are float64"),
        ({"labels": np.array([0, 2**31, 1])}, "integers below 2\\^31"),
        ({"meta": "[" * 100_000}, "meta is not JSON"),
        ({"weight": np.array([1, "a"], dtype=object)}, "nothing pickled"),
    ],
)
def test_each_fault_is_one_error_that_names_the_file(tmp_path, arrays, message):
    with pytest.raises(GraphError, match=rf"g\.npz: .*{message}"):
        load_graph(save(tmp_path / "g.npz", **arrays))


def test_a_shape_that_the_file_does_not_hold_is_refused_before_it_is_allocated(tmp_path):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<i8", "fortran_order": False, "shape": (2**45,)})
    with zipfile.ZipFile(tmp_path / "g.npz", "w") as archive:
        archive.writestr("indptr.npy", buffer.getvalue() + bytes(64))
    with pytest.raises(GraphError, match=r"indptr\.npy announces \(35184372088832,\)"):
        load_graph(tmp_path / "g.npz")


def test_a_bomb_is_refused_unless_trusted(tmp_path):
    path = save(tmp_path / "g.npz", more=np.zeros(2**22, dtype=np.int8))
    with pytest.raises(GraphError, match=r"unpacks to .* more than 100 times its size; raise max_expansion"):
        load_graph(path)
    assert load_graph(path, max_expansion=5000).num_edges == 4


@pytest.mark.parametrize("kept", [0.5, 0.98])
def test_a_cut_archive_is_named(tmp_path, kept):
    path = save(tmp_path / "g.npz")
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * kept)])
    with pytest.raises(GraphError, match="damaged"):
        load_graph(path)


def test_text_in_an_npz_is_not_an_archive(tmp_path):
    (tmp_path / "g.npz").write_text("0 1\n")
    with pytest.raises(GraphError, match="damaged"):
        load_graph(tmp_path / "g.npz")


def written(path, method=zipfile.ZIP_STORED, **members):
    """Write an archive whose members are given bytes, or arrays in the format of NumPy."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in (ARRAYS | members).items():
            buffer = io.BytesIO()
            if isinstance(content, bytes):
                buffer.write(content)
            else:
                np.save(buffer, content)
            archive.writestr(f"{name}.npy", buffer.getvalue())
    return path


def header(text, version=b"\x01\x00"):
    """Return an array's beginning with a header of this text."""
    size = len(text).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + size + text.encode()


def described(dtype, length=4):
    """Return the beginning of an array of this type and length."""
    return header(f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({length},), }}")


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (b"no array", r"has no valid header; save an array with numpy\.savez"),
        (header("{'descr': '<f4', 'fortran_order': False}\n"), "no valid header"),
        (b"\x92" + described("<f4")[1:] + bytes(16), "no valid header"),
        (described("<f4") + bytes(15), r"announces \(4,\) of float32"),
        (described("<f4") + bytes(17), r"announces \(4,\) of float32"),
        (described("<f3") + bytes(12), "contains '<f3'; only numbers"),
        (described("<U0"), "contains '<U0'; only numbers"),
        (described("|S4") + bytes(16), r"contains '\|S4'; only numbers"),
        (described("<U1", 1) + b"\xff" * 4, "contains invalid text"),
    ],
)  # fmt: skip
def test_faulty_members_are_named(tmp_path, weight, message):
    with pytest.raises(GraphError, match=rf"g\.npz: weight\.npy .*{message}"):
        load_graph(written(tmp_path / "g.npz", weight=weight))


@pytest.mark.parametrize("version", [b"\x01\x00", b"\x02\x00"])
@pytest.mark.parametrize("fortran", [True, False])
def test_headers_of_all_versions_and_orders_are_read(tmp_path, version, fortran):
    text = f"{{'descr': '<f4', 'fortran_order': {fortran}, 'shape': (3, 2), }}\n"
    table = np.arange(6, dtype=np.float32)
    graph = load_graph(written(tmp_path / "g.npz", table=header(text, version) + table.tobytes()))
    assert graph.vertex_data["table"].tolist() == ([[0, 3], [1, 4], [2, 5]] if fortran else [[0, 1], [2, 3], [4, 5]])


def test_other_compressions_are_refused(tmp_path):
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        assert load_graph(written(tmp_path / "g.npz", method)).num_edges == 4
    with pytest.raises(GraphError, match=r"indptr\.npy is compressed by method 14; save it with numpy\.savez"):
        load_graph(written(tmp_path / "g.npz", zipfile.ZIP_LZMA))


def test_a_changed_byte_is_damage(tmp_path):
    path = written(tmp_path / "g.npz", weight=np.array([1, 2, 3, 4], np.int16))
    data = path.read_bytes()
    path.write_bytes(data.replace(b"\x01\x00\x02\x00\x03\x00", b"\x01\x00\x02\x00\x07\x00"))
    with pytest.raises(GraphError, match=r"weight\.npy is damaged \(.*CRC"):
        load_graph(path)


@pytest.mark.parametrize("arrays", [{"indptr": np.zeros((1, 2), int)}, {"indices": np.zeros((4, 1), int)},
                                    {"indptr": np.zeros(0, int)}])  # fmt: skip
def test_structure_is_two_lists(tmp_path, arrays):
    with pytest.raises(GraphError, match="indptr and indices must be lists of integers; save CSR arrays"):
        load_graph(save(tmp_path / "g.npz", **arrays))


@pytest.mark.parametrize(
    "features",
    [
        {"feat_indptr": [0, 1, 1]}, {"feat_indptr": [0, 2, 1, 3]}, {"feat_indptr": [1, 1, 1, 3]},
        {"feat_indptr": [0, 1, 1, 2]}, {"feat_indices": [3, 0, 4]}, {"feat_indices": [3, -1, 1]},
        {"feat_shape": [3, 4, 1]}, {"feat_shape": [4, 4]}, {"feat_shape": [3, -1]}, {"feat_shape": [3, 3]},
    ],
)  # fmt: skip
def test_features_are_a_matrix_with_a_row_per_vertex(tmp_path, features):
    whole = {"feat_indptr": [0, 1, 1, 3], "feat_indices": [3, 0, 1], "feat_shape": [3, 4]}
    load_graph(save(tmp_path / "g.npz", **{key: np.array(value) for key, value in whole.items()}))
    wrong = {key: np.array(value) for key, value in (whole | features).items()}
    with pytest.raises(GraphError, match="the sparse features are inconsistent; save a CSR matrix with one row per"):
        load_graph(save(tmp_path / "g.npz", **wrong))
