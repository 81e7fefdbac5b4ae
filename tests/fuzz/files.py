"""Initial files of every format, and the properties that must hold for all of their mutations."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.graph import GraphError, load_graph

Mutate = Callable[[bytes], bytes]
# load_graph's promise: bytes of memory for each byte of text, and constant bytes.
MEMORY_PER_BYTE = 256
MEMORY_ALWAYS = 2**27
EXPANSION = 100  # of compressed data, from 1 MiB on
DAMAGE = (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error, struct.error)


@dataclass(frozen=True)
class Target:
    """A file `name` that is given to its loader; `beside` is the name of the fuzzed bytes if it differs."""

    name: str
    examples: tuple[bytes, ...]
    beside: str = ""


def archive(**arrays: object) -> bytes:
    """Return the bytes of an .npz of these arrays."""
    file = io.BytesIO()
    np.savez(file, **{key: np.asarray(value) for key, value in arrays.items()})
    return file.getvalue()


NETWORK = b"MARKOV\n3\n2 3 2\n3\n1 0\n2 0 1\n2 2 1\n2\n 0.25 0.75\n6\n 1 2 3 4 5 6\n6 1 2 3 4 5 6\n"
MATRIX = b"%%%%MatrixMarket matrix coordinate %s\n%% a comment\n%s\n"
CSR = {"indptr": np.array([0, 2, 3, 4], np.int32), "indices": np.array([1, 2, 0, 0], np.int32)}
TARGETS = {
    "edge_list": Target("a.txt", (b"# SNAP\n0\t1\n1 2\n0 7\n", b"0 1 0.5\n3 2 1e3\n# end\n9 9 -1\n")),
    "gzip": Target("a.txt.gz", (gzip.compress(b"0 1\n1 2\n" * 9), gzip.compress(b"# none\n0 1 2.5\n"))),
    "matrix_market": Target(
        "a.mtx",
        (
            MATRIX % (b"pattern general", b"3 3 2\n1 2\n3 1"),
            MATRIX % (b"real symmetric", b"3 3 2\n1 2 0.5\n3 3 -1"),
            MATRIX % (b"integer skew-symmetric", b"2 2 1\n2 1 4"),
            MATRIX % (b"real general", b"2 3 2\n1 3 1e-3\n2 1 7"),
        ),
    ),
    "dimacs": Target("a.gr", (b"c roads\np sp 3 2\na 1 2 10\na 3 1 4\n",)),
    "metis": Target("a.graph", (b"% a path\n3 2\n2\n1 3\n2\n", b"2 1 111 2\n1 5 6 2 9\n1 7 8 1 9\n")),
    "ratings": Target("a.dat", (b"user,movie,rating,time\n1,10,4.5,964\n2,10,3,965\n", b"1::10::5::9\n3::11::1::8\n")),
    "csv": Target(
        "a.csv", (b"user,movie,rating,time\n1,10,4.5,964\n2,10,3,965\n", b"src,dst,weight\n0,1,2.5\n7,0,1\n")
    ),
    "uai": Target("a.uai", (NETWORK, b"MARKOV 1 2 1 1 0 2 1 1")),
    "evidence": Target("a.uai", (b"1 1 2", b"1\n2 0 1 2 0\n", b"0\n"), beside="a.uai.evid"),
    "npz": Target(
        "a.npz",
        (
            archive(**CSR),
            archive(**CSR, weight=[1, 2, 3, 4.5], labels=[0, 1, -1], meta=json.dumps({"name": "made", "n": 1})),
            archive(
                **CSR, feat_indptr=[0, 1, 1, 3], feat_indices=[3, 0, 1], feat_shape=[3, 4], more=np.zeros((3, 2), "f4")
            ),
            archive(indptr=[0, 1, 2, 2], indices=[2, 2], meta=json.dumps({"bipartite": [2, 1], "directed": True})),
            archive(**CSR, data=[1.0, 2, 3, 4], format=b"csr", shape=[3, 3]),
            archive(row=[0, 1], col=[2, 0], data=[1, 2], format=b"coo", shape=[2, 3]),
        ),
    ),
}


def member(name: bytes, header: str, data: bytes = b"", method: int = zipfile.ZIP_STORED) -> bytes:
    """Return an archive of one array with this header, valid or not."""
    text = header.encode().ljust(117) + b"\n"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as packed:
        packed.writestr("x" * len(name), b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data)
    return file.getvalue().replace(b"x" * len(name), name)


HEADER = "{'descr': %s, 'fortran_order': False, 'shape': (%s), }"
_SOUND = member(b"indptr.npy", HEADER % ("'<i4'", "1,"), bytes(4))
NO_TEXT = _SOUND[:7] + b"\x08" + _SOUND[8:30] + b"\xff" + _SOUND[31:]  # the name of the member, declared as UTF-8
# Inputs that once ended in something other than a GraphError, and their present messages.
FOUND = [
    ("metis", b"9" * 5000 + b" 1\n", "the header is"),
    ("metis", b"2 1 111 2\n % 2a", "the file has 0 lines"),
    ("matrix_market", MATRIX % (b"pattern general", b"1 1 " + b"9" * 5000), "the size line is"),
    ("dimacs", b"p sp 1 " + b"9" * 5000, "is not a problem line"),
    ("uai", b"MARKOV\n" + b"0" * 20 + b"9" * 30, "the number of variables is"),
    ("uai", b"MARKOV\n1\n1\n1\n1 0\n1 " + b"9" * 5000, "an entry of table 0 is"),
    ("edge_list", b"0 1\n0 " + b"9" * 5000, "outside 0..2^63 - 1"),
    ("npz", member(b"indptr.npy", HEADER % ("'<i4'", "-2, -3"), bytes(24)), "indptr.npy has no valid header"),
    ("npz", member(b"indptr.npy", "-" * 9000 + "1"), "indptr.npy has no valid header"),
    ("npz", member(b"indptr.npy", "{[]: 1}"), "indptr.npy has no valid header"),
    ("npz", member(b"indptr.npy", HEADER % ("'<U0'", "1152921504606846976,")), "indptr.npy contains '<U0'"),
    ("npz", member(b"indptr.npy", HEADER % ("'<f3'", "1,"), bytes(3)), "indptr.npy contains '<f3'"),
    ("npz", member(b"indptr.npy", HEADER % ("[('a', '<i4')]", "1,"), bytes(4)), "only numbers and text are read"),
    ("npz", member(b"indptr.npy", HEADER % ("'<i4'", "1,"), bytes(4), zipfile.ZIP_LZMA), "compressed by method 14"),
    ("npz", archive(**CSR, meta="[" * 100_000), "meta is not JSON"),
    ("npz", archive(**CSR, meta='{"name": "\\ud800"}'), "meta is not JSON"),
    ("npz", member(b"meta.npy", HEADER % ("'<U1'", ""), b"\xff\xff\xff\x7f"), "meta.npy contains invalid text"),
    ("npz", NO_TEXT, "indptr.npy is damaged ('utf-8' codec"),
    ("npz", archive(**CSR, labels=["a", "b", "c"]), "labels are <U1[3]"),
    ("npz", archive(**CSR, labels=[0.5, np.nan, 1]), "labels are float64[3]"),
    ("npz", archive(**CSR, feat_indptr=["a"], feat_indices=[0], feat_shape=[3, 4]), "not a list of integers"),
]


def most_memory(target: Target, content: bytes) -> int:
    """Return the bytes of memory that loading `content` may take."""
    packed = target.name.endswith((".gz", ".npz"))
    return MEMORY_ALWAYS + MEMORY_PER_BYTE * (max(2**20, EXPANSION * len(content)) if packed else len(content))


def read_or_refused(target: Target, content: bytes, folder: Path) -> str:
    """Give `content` to the loader: it returns a graph that keeps its promises, or raises a GraphError that names the
    file, within the allowed memory. Other errors are raised, and an AssertionError if the latter two do not hold.

    Returns the message of the GraphError, or "".
    """
    path = folder / target.name
    if target.beside:
        path.write_bytes(NETWORK)
        (folder / target.beside).write_bytes(content)
    else:
        path.write_bytes(content)
    message = ""
    tracemalloc.start()
    try:
        graph = load_graph(path, duplicates="keep")
        graph.validate()
        json.dumps([graph.name, graph.meta], ensure_ascii=False).encode()
    except GraphError as error:
        message = str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert not message or message.startswith(str(path)), message
    assert peak <= most_memory(target, content), f"{peak} bytes of memory for {len(content)} bytes of file"
    return message


def inside(content: bytes, mutate: Mutate, turn: int) -> bytes:
    """Mutate the packed data in `content`: the text of a gzip file, or the turn-th member of an archive."""
    try:
        if content.startswith(b"\x1f\x8b"):
            return gzip.compress(mutate(gzip.decompress(content)), 1, mtime=0)
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            members = {member.filename: packed.read(member) for member in packed.infolist()}
    except DAMAGE:
        return mutate(content)
    if not members:
        return mutate(content)
    chosen = sorted(members)[turn % len(members)]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        for name, data in members.items():
            packed.writestr(zipfile.ZipInfo(name), mutate(data) if name == chosen else data)
    return file.getvalue()
