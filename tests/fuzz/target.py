"""Fuzz one target until its time is over: ``python -m tests.fuzz.target NAME CORPUS SECONDS``."""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["harness.graph", "zipfile", "gzip", "json"]):
    import harness.graph.formats.comma_separated
    import harness.graph.formats.dimacs
    import harness.graph.formats.edge_list
    import harness.graph.formats.header
    import harness.graph.formats.matrix_market
    import harness.graph.formats.metis
    import harness.graph.formats.npz
    import harness.graph.formats.ratings
    import harness.graph.formats.scipy_sparse
    import harness.graph.formats.uai
    import harness.graph.validation  # noqa: F401
    from tests.fuzz.files import TARGETS, inside, read_or_refused

LARGEST = 2**16  # bytes of a file
PACKED = ("gzip", "npz")
NUMBERS = (b"0", b"-1", b"1e999", b"nan", b"4294967296", b"9223372036854775808", b"9" * 40, b"0.0000001", b"\xc2\xb2")


def mutated(content: bytes, most: int, seed: int) -> bytes:
    """Mutate `content`, mostly its packed data: checksums would reject nearly every other mutation."""
    draw = random.Random(seed)
    if draw.random() < 0.2:
        return bytes(atheris.Mutate(content, most))
    return inside(content, lambda data: bytes(atheris.Mutate(data, most)), draw.randrange(100))[:most]


def dictionary(examples: tuple[bytes, ...], file: Path) -> Path:
    """Return the dictionary in libFuzzer's form: the words of the examples, and numbers at limits."""
    words = {word for example in examples for word in example.split() if len(word) < 30} | set(NUMBERS)
    entries = ("".join(f"\\x{byte:02x}" for byte in word) for word in sorted(words))
    file.write_text("".join(f'"{entry}"\n' for entry in entries))
    return file


def main(name: str, corpus: Path, seconds: int) -> None:
    target = TARGETS[name]
    kept = corpus / name
    kept.mkdir(parents=True, exist_ok=True)
    for number, example in enumerate(target.examples):
        (kept / f"example-{number}").write_bytes(example)
    options = [f"-max_total_time={seconds}", f"-max_len={LARGEST}", f"-artifact_prefix={corpus / name}-"]
    options += ["-rss_limit_mb=4096", "-timeout=30", "-print_final_stats=1", "-verbosity=0"]
    packed = {"custom_mutator": mutated} if name in PACKED else {}
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        place = Path(folder)
        options.append(f"-dict={dictionary(target.examples, place / 'dictionary')}")

        def once(data: bytes) -> None:
            read_or_refused(target, data, place)

        atheris.Setup([sys.argv[0], *options, str(kept)], once, **packed)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
