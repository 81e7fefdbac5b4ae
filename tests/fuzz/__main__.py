"""Coverage-guided fuzzing of the loaders: ``python -m tests.fuzz [TARGET...] [--seconds 600] [--corpus FOLDER]``.

Only this needs atheris (Linux; the extra ``fuzz``). Every target has a separate process and its share of the
seconds. A loader that breaks a promise (``files.read_or_refused``) stops, and its input is left in the corpus folder
as TARGET-crash-...: add it to ``files.FOUND``, so that the tests read it from then on.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.files import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz the loaders of graph files.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"{', '.join(TARGETS)}; all if none is named")
    parser.add_argument("--seconds", type=int, default=600, help="for all targets together")
    parser.add_argument("--corpus", type=Path, help="folder of the files that reached new code, to resume from")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.targets) - set(TARGETS))
    if unknown:
        parser.error(f"there is no target {unknown[0]!r}; choose of {', '.join(TARGETS)}")
    if importlib.util.find_spec("atheris") is None:
        parser.error("atheris is missing; pip install -e '.[fuzz]' (Linux)")
    targets = arguments.targets or list(TARGETS)
    corpus = arguments.corpus or Path(tempfile.mkdtemp(prefix="corpus-"))
    each = arguments.seconds // len(targets)
    failed = [name for name in targets if _fuzz(name, corpus, each).returncode]
    print(f"failed: {', '.join(failed) or 'none'}; corpus: {corpus}")
    return int(bool(failed))


def _fuzz(name: str, corpus: Path, seconds: int) -> subprocess.CompletedProcess[bytes]:
    print(f"== {name}, {seconds} s", flush=True)
    command = [sys.executable, "-m", "tests.fuzz.target", name, str(corpus), str(seconds)]
    return subprocess.run(command, check=False)


if __name__ == "__main__":
    sys.exit(main())
