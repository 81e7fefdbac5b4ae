"""A file as a source of text: what it may announce, unpack to and contain, and the numbers of its lines."""

import pytest

from harness.graph import GraphError, load_graph
from harness.graph.formats import FORMATS, format_of, source
from harness.graph.formats.source import Block, Source, TextStream, non_negative_integer, text_kind


@pytest.fixture
def ten(write):
    """Return a source of ten bytes."""
    return Source(write("a.txt", b"0123456789"), 100.0)


@pytest.mark.parametrize(("count", "least", "fits"), [(6, 2, True), (7, 2, False), (0, 5, True), (-1, 5, False)])
def test_a_promise_fits_into_the_file_with_one_more_line(ten, count, least, fits):
    if fits:
        ten.refuse_promise(count, "edges", least, 1)
        return
    message = rf"a\.txt:3: the header announces {count} edges, more than fit in its 10 bytes; correct the header"
    with pytest.raises(GraphError, match=message):
        ten.refuse_promise(count, "edges", least, 3)


@pytest.mark.parametrize(("always", "most"), [(0, 80), (100, 100)])
def test_vertices_without_text_are_limited(ten, monkeypatch, always, most):
    monkeypatch.setattr(source, "ALWAYS_ALLOWED_VERTICES", always)
    ten.refuse_vertices(most, 10, 1)
    message = rf"announces {most + 1} vertices in 10 bytes of text; correct the header \(at most 8 vertices per byte"
    with pytest.raises(GraphError, match=message):
        ten.refuse_vertices(most + 1, 10, 1)


@pytest.mark.parametrize(("always", "most"), [(0, 640), (1000, 1000)])
def test_padded_tables_are_limited(ten, monkeypatch, always, most):
    monkeypatch.setattr(source, "ALWAYS_ALLOWED_TABLE_BYTES", always)
    ten.refuse_table(most, 10, "a table")
    with pytest.raises(GraphError, match=rf"a table would take {most + 1} bytes, from 10 bytes of file; at most 64"):
        ten.refuse_table(most + 1, 10, "a table")


def test_a_compressed_file_may_unpack_to_a_multiple_of_its_size(write, monkeypatch):
    plain, packed = write("a.txt", "0 1\n" * 100), write("a.txt.gz", "0 1\n" * 100)
    size = packed.stat().st_size
    assert Source(plain, 3.0).text_limit == 400
    assert Source(packed, 3.0).text_limit == 2**20
    monkeypatch.setattr(source, "SMALLEST_LIMIT", 5)
    assert Source(packed, 3.5).text_limit == int(3.5 * size)
    assert Source(packed, 0.01).text_limit == 5


@pytest.mark.parametrize("limit", [399, 400])
def test_no_byte_beyond_the_limit_is_read(write, monkeypatch, limit):
    monkeypatch.setattr(source, "SMALLEST_LIMIT", limit)
    with TextStream(Source(write("a.txt.gz", "0 1\n" * 100), 0.0)) as text:
        if limit == 400:
            assert b"".join(block.data for block in text.blocks()) == b"0 1\n" * 100
            return
        with pytest.raises(GraphError, match=r"unpacks to more than 399 bytes, 0 times its size; raise max_expansion"):
            list(text.blocks())


@pytest.mark.parametrize("content", [b"0 1\n\x00", b"\x000 1\n"])
def test_a_byte_of_zero_in_the_first_bytes_is_binary(write, content):
    with pytest.raises(GraphError, match="the file is binary, not text; give a text format"):
        Source(write("a.txt", content), 1.0)


@pytest.mark.parametrize("size", [1, 4, 7, 100])
@pytest.mark.parametrize("end", ["", "\n"])
def test_blocks_know_their_lines_and_the_stream_the_last_one(write, monkeypatch, size, end):
    monkeypatch.setattr(source, "BLOCK", size)
    lines = [f"line {number}" for number in range(1, 9)]
    with TextStream(Source(write("a.txt", "\n".join(lines) + end), 1.0)) as text:
        assert (text.readline(), text.line) == ("line 1", 1)
        assert (text.readline(), text.line) == ("line 2", 2)
        text.unread()
        assert text.line == 1
        blocks = list(text.blocks())
        assert text.line == 8
        assert text.readline() is None
    found = [line for block in blocks for line in enumerate(block.data.decode().splitlines(), block.line)]
    assert found == list(enumerate(lines[1:], 2))
    assert all(block.data.endswith(b"\n") for block in blocks[:-1])
    assert b"".join(block.data for block in blocks).decode() == "\n".join(lines[1:]) + end


def test_lines_end_with_or_without_a_carriage_return(write):
    with TextStream(Source(write("a.txt", "one\r\n\r\ntwo"), 1.0)) as text:
        assert [text.readline() for _ in range(4)] == ["one", "", "two", None]
    with TextStream(Source(write("b.txt", "one\n"), 1.0)) as text:
        assert list(text.blocks()) == [Block(1, b"one\n")]


@pytest.mark.parametrize("length", [2**16, 2**16 + 1])
def test_a_header_line_has_at_most_64_kilobytes(write, length):
    with TextStream(Source(write("a.txt", "%" * length + "\nx"), 1.0)) as text:
        if length == 2**16:
            assert text.readline() == "%" * length
            return
        with pytest.raises(GraphError, match=r"a\.txt:1: a header line is too long; check its format"):
            text.readline()


@pytest.mark.parametrize(
    ("word", "number"),
    [
        ("0", 0), (b"0042", 42), ("9" * 18, 10**18 - 1), ("1" + "0" * 18, None), ("-1", None), ("+1", None),
        ("1.0", None), ("", None), ("1\n", None), ("٣", None),
    ],
)  # fmt: skip
def test_numbers_of_headers_have_up_to_18_plain_digits(word, number):
    assert non_negative_integer(word) == number


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"%%MatrixMarket matrix", "matrix_market"), (b"\n MARKOV\n3", "uai"), (b"BAYES 3", "uai"), (b"MARKOVS", None),
        (b"c a comment\np sp 3 4\na 1 2 3", "dimacs"), (b"p sp 3\n", None), (b"p sp 3 4 5\n", None), (b"0 1\n", None),
    ],
)  # fmt: skip
def test_the_first_bytes_tell_some_formats(start, kind):
    assert text_kind(start) == kind


SUFFIXES = {
    ".mtx": "matrix_market", ".txt": "edge_list", ".tsv": "edge_list", ".el": "edge_list", ".edges": "edge_list",
    ".csv": "csv", ".gr": "dimacs", ".graph": "metis", ".dat": "ratings", ".data": "ratings", ".uai": "uai",
    ".npz": "npz",
}  # fmt: skip


def test_each_suffix_has_its_format(tmp_path):
    assert {suffix: entry.name for entry in FORMATS.values() for suffix in entry.suffixes} == SUFFIXES
    for suffix, name in SUFFIXES.items():
        for file in (f"a{suffix}", f"a.b{suffix.upper()}", f"a{suffix}.gz", f"a{suffix}.GZ"):
            assert format_of(tmp_path / file) == name
        assert format_of(tmp_path / f"a{suffix}", "metis") == "metis"
    for file in ("a", "a.gz", "a.txt.bz2", "a.txt.gz.gz"):
        with pytest.raises(GraphError, match="the suffix names no known format"):
            format_of(tmp_path / file)


@pytest.mark.parametrize("file", ["road.txt", "road.v2.TXT", "road.v2.txt.gz"])
def test_a_graph_is_called_by_its_file_without_any_suffix(write, file):
    graph = load_graph(write(file, "0 1\n"))
    assert (graph.name, graph.meta) == ("road", {"origin": file, "format": "edge_list"})


@pytest.mark.parametrize("start", [b"0 1\n", b"PK\x03\x04", b"\x1f"])
def test_a_file_named_as_compressed_is_compressed(tmp_path, start):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(start)
    with pytest.raises(GraphError, match="it is named .gz but is not gzip; rename it, or compress it"):
        Source(path, 1.0)
