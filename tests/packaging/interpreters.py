"""Build the wheel and the source distribution, and install and run each with every checked version of Python.

    python -m tests.packaging.interpreters          every checked version
    python -m tests.packaging.interpreters 3.13     one of them
    python -m tests.packaging.interpreters --tests  and run tests of the checkout with each of them

Each installation is a fresh environment without extras, with the versions of constraints.txt. In an empty folder it
lists the names, examines the machine, runs a sweep on the CPU, compares and merges its records, and uses the API.
A version without an interpreter on this machine is skipped with that reason. An installation takes about a minute, and
needs the network.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.packaging.dependency_ranges import TESTS

ROOT = Path(__file__).parents[2]
KINDS = {"wheel": "*.whl", "source distribution": "*.tar.gz"}
CLASSIFIER = "Programming Language :: Python :: 3."
SWEEP = ("algorithm=pagerank", "graph=rmat", "graph.scale=8", "features=2", "measure.budget_s=0.05")
ENGINES = 2
# Tests that have failed with one version of Python or of its packages and passed with another.
VERSION_TESTS = ("tests/graph/test_matrix_market.py",)
COMMANDS = (
    ("onyx-harness", "list"),
    ("onyx-harness", "doctor"),
    ("onyx-harness", "engine=onyx,scipy", *SWEEP),
    # History needs no GPU library: compare turns of the sweep, and merge and list its records.
    ("python", "-m", "harness.records", "regressions", "--before", "results", "--after", "results"),
    ("python", "-m", "harness.records", "merge", "all", "results"),
    ("python", "-m", "harness.report", "index", "all"),
)
# Run by the environment's Python: what was recorded, what a CPU installation lacks, and the API.
CHECK = f"""
import importlib.util
from pathlib import Path

import onyx_harness
from harness.records import read_records

assert importlib.util.find_spec("cupy") is None
outcomes = [record["outcome"] for _, record in read_records(Path("results"))]
assert outcomes == {ENGINES * ["ok"]}, outcomes
assert Path("all", "index.html").stat().st_size
result = onyx_harness.run("onyx", "pagerank", ([0, 1, 2], [1, 2, 0]))
assert all(abs(rank - 1 / 3) < 1e-6 for rank in result.by_vertex("rank").values()), result.by_vertex("rank")
assert Path(onyx_harness.__file__).is_relative_to(Path({{prefix!r}})), onyx_harness.__file__
"""


def checked_versions() -> list[str]:
    """Return the versions of Python that the metadata of the package names, such as 3.12."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [line.removeprefix("Programming Language :: Python :: ") for line in project["classifiers"]
            if line.startswith(CLASSIFIER)]  # fmt: skip


def interpreter(version: str) -> Path | None:
    """Return an interpreter of this version: the running one, one on the path, or one of pyenv; None without one."""
    return next((path for path in _candidates(version) if _version_of(path) == version), None)


def _candidates(version: str) -> Iterator[Path]:
    yield Path(sys.executable)
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield Path(on_path)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"))


def _version_of(python: Path) -> str:
    """Return the version of an interpreter; empty if it does not start, as a shim of pyenv without its version."""
    code = "import sys; print('.'.join(map(str, sys.version_info[:2])))"
    return subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False).stdout.strip()


def build(folder: Path) -> dict[str, Path]:
    """Build the source distribution, and the wheel from it, in ``folder``; return both by kind."""
    _run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)])
    return {kind: next(folder.glob(pattern)) for kind, pattern in KINDS.items()}


def check(python: Path, distribution: Path, folder: Path, *, tests: bool) -> None:
    """Install a distribution in a fresh environment and run it. Raises SystemExit if a command fails.

    ``tests``: then also install the extra ``test``, and run tests of the checkout in that environment.
    """
    bin_folder, work = folder / "environment" / "bin", folder / "empty"
    work.mkdir(parents=True)
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    environment |= {"ONYX_HARNESS_CACHE": str(folder / "cache"), "ONYX_HARNESS_LOCKS": str(folder / "locks")}
    _run([str(python), "-m", "venv", str(folder / "environment")])
    install = [str(bin_folder / "python"), "-m", "pip", "install", "--quiet", "--no-compile",
               "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt")]  # fmt: skip
    _run([*install, str(distribution)])
    for program, *arguments in COMMANDS:
        _run([str(bin_folder / program), *arguments], cwd=work, env=environment)
    code = CHECK.format(prefix=str(folder / "environment"))
    _run([str(bin_folder / "python"), "-c", code], cwd=work, env=environment)
    if tests:
        _run([*install, f"{distribution}[test]"])
        _run([str(bin_folder / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS, *VERSION_TESTS],
             cwd=ROOT, env=environment)  # fmt: skip


def _run(command: Sequence[str], **options: object) -> None:
    print("$", " ".join(line for line in command if "\n" not in line), flush=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise SystemExit(f"exit status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of the command; ``versions``: the requested versions of Python."""
    parser = argparse.ArgumentParser(prog="python -m tests.packaging.interpreters", description=__doc__)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="such as 3.13 (default: all checked versions)")
    parser.add_argument("--tests", action="store_true", help="also run tests of the checkout, with the extra 'test'")
    given = parser.parse_args(arguments)
    given.versions = given.versions or checked_versions()
    return given


def main(arguments: Sequence[str] | None = None) -> None:
    """Check the requested versions. Raises SystemExit if a command fails or no interpreter is found."""
    given = parsed(arguments)
    found = {version: interpreter(version) for version in given.versions}
    with tempfile.TemporaryDirectory(prefix="onyx-harness-interpreters-") as base:
        built = build(Path(base, "dist")) if any(found.values()) else {}
        for version, python in found.items():
            if python is None:
                print(f"Python {version}: skipped: this machine has no interpreter of this version")
                continue
            for kind, distribution in built.items():
                folder = Path(base, f"{version}-{kind.replace(' ', '-')}")
                check(python, distribution, folder, tests=given.tests and kind == "wheel")
                print(f"Python {version}, {kind}: ok", flush=True)
                shutil.rmtree(folder)
    if not built:
        raise SystemExit("no distribution was checked: this machine has none of the interpreters")


if __name__ == "__main__":
    main()
