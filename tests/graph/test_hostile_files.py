"""Malformed files: each gives one GraphError that names it (see also tests/fuzz)."""

import gzip

import pytest

from harness.graph import GraphError, load_graph
from harness.graph.formats import FORMATS, format_of

SMALL = {
    "a.txt": "0 1\n",
    "a.mtx": "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n",
    "a.gr": "p sp 2 1\na 1 2 3\n",
    "a.graph": "2 1\n2\n1\n",
    "a.csv": "user,item,rating\n1,2,3\n",
    "a.uai": "MARKOV\n1\n2\n0\n",
}


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_the_examples_are_right(write, name, suffix):
    load_graph(write(name + suffix, SMALL[name])).validate()


@pytest.mark.parametrize("name", [*SMALL, "a.npz"])
class TestEveryFormat:
    def test_missing(self, tmp_path, name):
        with pytest.raises(GraphError, match=r"there is no such file; give the path"):
            load_graph(tmp_path / name)

    def test_empty(self, write, name):
        with pytest.raises(GraphError, match=r"the file is empty"):
            load_graph(write(name, b""))

    def test_folder(self, tmp_path, name):
        (tmp_path / name).mkdir()
        with pytest.raises(GraphError, match=r"is a folder"):
            load_graph(tmp_path / name)


@pytest.mark.parametrize("name", SMALL)
class TestEveryTextFormat:
    def test_cut_gzip(self, write, name):
        path = write(name + ".gz", SMALL[name] * 50)
        path.write_bytes(path.read_bytes()[:-9])
        with pytest.raises(GraphError, match=r"\.gz: the gzip data are truncated or damaged.*fetch the file again"):
            load_graph(path)

    def test_damaged_gzip(self, write, name):
        path = write(name + ".gz", SMALL[name] * 50)
        raw = bytearray(path.read_bytes())
        raw[-6] ^= 0xFF  # in the checksum
        path.write_bytes(raw)
        with pytest.raises(GraphError, match=r"truncated or damaged"):
            load_graph(path)

    def test_compressed_twice(self, write, name):
        with pytest.raises(GraphError, match=r"compressed twice: gzip inside gzip; unpack the outer layer"):
            load_graph(write(name + ".gz", gzip.compress(SMALL[name].encode())))

    def test_bomb(self, write, name):
        path = write(name + ".gz", SMALL[name] + "\n" * 2**23)
        with pytest.raises(
            GraphError, match=r"unpacks to more than \d+ bytes, 100 times its size; raise max_expansion"
        ):
            load_graph(path)
        if name != "a.graph":
            assert load_graph(path, max_expansion=10_000).num_vertices

    def test_gzip_without_the_suffix(self, write, name):
        with pytest.raises(GraphError, match=r"the file is gzip; name it with \.gz"):
            load_graph(write(name, gzip.compress(SMALL[name].encode())))

    def test_the_suffix_without_gzip(self, tmp_path, name):
        path = tmp_path / (name + ".gz")
        path.write_text(SMALL[name])
        with pytest.raises(GraphError, match=r"named \.gz but is not gzip"):
            load_graph(path)

    @pytest.mark.parametrize("other", ["a.mtx", "a.gr", "a.uai"])
    def test_another_format_is_recognised(self, write, name, other):
        if name != other:
            with pytest.raises(GraphError, match=rf"begins as {format_of(write(other, 'x'))} but is read as"):
                load_graph(write(name, SMALL[other]))

    def test_binary(self, write, name):
        with pytest.raises(GraphError, match=r"binary, not text"):
            load_graph(write(name, b"1 2\0\0\0\0"))

    @pytest.mark.parametrize("start", [b"PK\x03\x04", b"BZh9", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"\x89HDF\r\n"])
    def test_other_containers(self, write, name, start):
        with pytest.raises(GraphError, match=r"the file is (a zip archive|bzip2|xz|zstandard|HDF5)"):
            load_graph(write(name, start + b"rest of it"))

    def test_an_endless_header_line(self, write, name):
        with pytest.raises(GraphError):
            load_graph(write(name, b"%" * 2**17))


def test_a_suffix_without_a_format_lists_the_formats(write):
    with pytest.raises(GraphError, match=r"a\.xyz: the suffix names no known format; .*matrix_market \(\.mtx\)"):
        load_graph(write("a.xyz", "0 1\n"))
    assert load_graph(write("a.xyz", "0 1\n"), format="edge_list").num_edges == 1
    with pytest.raises(GraphError, match="'edgelist' is unknown; choose one of matrix_market"):
        load_graph(write("a.xyz", "0 1\n"), format="edgelist")


def test_an_npz_is_read_as_nothing_else(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(GraphError, match="cannot be read as edge_list"):
        load_graph(tmp_path / "a.npz", format="edge_list")


def test_no_two_formats_share_a_suffix():
    suffixes = [suffix for entry in FORMATS.values() for suffix in entry.suffixes]
    assert len(set(suffixes)) == len(suffixes)
