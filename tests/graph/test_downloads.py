"""Published graphs are downloaded once and checked; a local server substitutes for the public ones."""

import gzip
import hashlib
import io
import os
import tarfile
import tempfile
import threading
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from harness.cache import CacheError, cache_folder
from harness.graph import GraphError
from harness.graph.catalogue.downloads import extracted, fetch
from harness.graph.catalogue.publications import PUBLICATIONS, Publication, open_publication, published

MATRIX = b"%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n"


def archive_of(**files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def server(monkeypatch):
    """Start a web server on 127.0.0.1: `files` by path; `cut` bytes of each are withheld; `requests` lists the
    requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.server.requests.append(self.path)
            content = self.server.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) - self.server.cut])

        def log_message(self, *arguments):
            """Print nothing."""

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.files, server.requests, server.cut = {}, [], 0
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_archive_is_fetched_and_parsed_once(server):
    server.files["/g.tar.gz"] = archive_of(**{"g/g_names.mtx": b"other", "g/g.mtx": MATRIX})
    publication = Publication(server.url + "/g.tar.gz", "g.mtx", "help")
    first = open_publication("made", publication)
    first.validate()
    assert (first.num_vertices, first.num_edges, first.name) == (3, 4, "made")
    assert open_publication("made", publication).content_hash == first.content_hash
    assert server.requests == ["/g.tar.gz"]


def test_an_archive_is_read_as_its_publication_says(server):
    directed = MATRIX.replace(b"symmetric", b"general")
    server.files["/g.tar.gz"] = archive_of(**{"g/g.mtx": directed})
    url = server.url + "/g.tar.gz"
    found = [
        open_publication("made", Publication(url, "g.mtx", "help", symmetrize=symmetrize))
        for symmetrize in (False, True)
    ]
    assert [(graph.num_edges, graph.directed) for graph in found] == [(2, True), (4, False)]
    with pytest.raises(GraphError, match="the checksum of the file fetched is not 0000"):
        open_publication("made", Publication(url, "g.mtx", "help", sha256="0" * 64))


def test_a_new_version_of_a_graph_is_not_taken_for_the_old_one(server):
    publication = Publication(server.url + "/g.tar.gz", "g.mtx", "help")
    edges = []
    for matrix in (MATRIX, MATRIX.replace(b"\n3 2\n", b"\n3 1\n")):
        server.files["/g.tar.gz"] = archive_of(**{"g.mtx": matrix})
        edges.append(open_publication("made", publication).csr.neighbours.tolist())
        for path in (cache_folder() / "downloads").iterdir():
            path.unlink()
    assert edges == [[1, 0, 2, 1], [1, 2, 0, 0]]


def test_a_graph_file_itself_is_fetched(server):
    server.files["/e.txt.gz"] = gzip.compress(b"# head\n5 7\n7 9\n")
    graph = open_publication("made", Publication(server.url + "/e.txt.gz", None, "help", symmetrize=True))
    assert (graph.num_edges, graph.directed) == (4, False)


def test_a_known_checksum_is_kept_to(server):
    server.files["/f"] = b"content"
    right = hashlib.sha256(b"content").hexdigest()
    assert fetch(server.url + "/f", "f", right)[1] == right
    with pytest.raises(GraphError, match="the checksum of the file fetched is not 0000"):
        fetch(server.url + "/f", "other", "0" * 64)
    assert not (cache_folder() / "downloads" / "other").exists()


def test_the_first_checksum_is_recorded_and_kept_to(server):
    server.files["/f"] = b"content"
    path, digest = fetch(server.url + "/f", "f")
    path.unlink()
    server.files["/f"] = b"another content"
    with pytest.raises(
        GraphError, match=f"the checksum of the file fetched is not {digest}; if a new version was published, delete"
    ):
        fetch(server.url + "/f", "f")
    server.files["/f"] = b"content"
    assert fetch(server.url + "/f", "f")[1] == digest


def test_a_file_changed_in_the_cache_is_fetched_again(server):
    server.files["/f"] = b"content"
    path, digest = fetch(server.url + "/f", "f")
    path.write_bytes(b"meddled with")
    again, same = fetch(server.url + "/f", "f")
    assert (again.read_bytes(), same) == (b"content", digest)
    assert len(server.requests) == 2


def test_a_missing_page_is_one_error(server):
    with pytest.raises(GraphError, match=r"127\.0\.0\.1.*/none: it cannot be fetched \(404"):
        fetch(server.url + "/none", "none")


def test_no_server_is_one_error(server):
    url = server.url
    server.shutdown()
    server.server_close()
    with pytest.raises(GraphError, match="it cannot be fetched"):
        fetch(url + "/f", "f")


def test_a_transfer_cut_short_is_one_error_and_leaves_nothing(server):
    server.files["/f"] = b"content" * 1000
    server.cut = 500
    with pytest.raises(GraphError, match="it cannot be fetched"):
        fetch(server.url + "/f", "f")
    assert not [path for path in (cache_folder() / "downloads").iterdir() if path.is_file()]


def test_no_member_leads_out_of_the_folder(tmp_path):
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(archive_of(**{"../../escaped": b"x", "/etc/g.mtx": MATRIX}))
    with extracted(archive, "g.mtx") as path:
        assert path.read_bytes() == MATRIX
        assert path.resolve().is_relative_to(tmp_path)
    assert not path.exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.tar.gz"]


def test_links_are_not_followed(tmp_path):
    archive = tmp_path / "a.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        link = tarfile.TarInfo("g/g.mtx")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(GraphError, match=r"it contains no file g\.mtx"), extracted(archive, "g.mtx"):
        pass


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (archive_of(**{"g/other.mtx": MATRIX}), r"it contains no file g\.mtx"),
        (archive_of(**{"g/g.mtx": bytes(2**22)}), r"unpacks to more than"),
        (archive_of(**{f"g/{i}": b"" for i in range(1001)}), r"1000 files"),
        (archive_of(**{"g/g.mtx": MATRIX * 100})[:-20], r"damaged"),
        (b"no archive", r"damaged"),
    ],
)
def test_bad_archives_are_one_error(tmp_path, content, message):
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(content)
    with pytest.raises(GraphError, match=rf"a\.tar\.gz: .*{message}"), extracted(archive, "g.mtx"):
        pass


def test_publications_name_public_places():
    assert len(PUBLICATIONS) == 8
    for publication in PUBLICATIONS.values():
        assert publication.url.startswith(("https://sparse.tamu.edu/MM/", "https://snap.stanford.edu/data/"))
    with pytest.raises(GraphError, match="choose one of cit_patents"):
        published("none")


def test_a_full_disk_is_not_a_fault_of_the_archive(tmp_path, monkeypatch):
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(archive_of(**{"graph.mtx": MATRIX}))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "graph.mtx").symlink_to("/dev/full")
    monkeypatch.setattr(tempfile, "TemporaryDirectory", lambda **_: nullcontext(str(tmp_path / "full")))
    with pytest.raises(CacheError, match="No space left on device"), extracted(archive, "graph.mtx"):
        pass


def test_a_file_with_its_recorded_size_and_time_is_neither_hashed_nor_fetched_again(server, monkeypatch):
    server.files["/f"] = b"content"
    path, digest = fetch(server.url + "/f", "f")
    with monkeypatch.context() as patch:
        for name in ("retrieve", "file_hash"):
            patch.setattr(f"pooch.{name}", lambda *_, name=name, **__: pytest.fail(f"{name} was called"))
        assert fetch(server.url + "/f", "f") == fetch(server.url + "/f", "f", digest) == (path, digest)
    os.utime(path, ns=(1, 1))
    assert fetch(server.url + "/f", "f") == (path, digest), "it is hashed again"
    assert server.requests == ["/f"]
    with pytest.raises(GraphError, match="the checksum of the file fetched is not 0000"):
        fetch(server.url + "/f", "f", "0" * 64)
