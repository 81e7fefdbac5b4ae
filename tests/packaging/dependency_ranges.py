"""Install the lowest and the newest allowed version of every dependency and run the harness with them.

    python -m tests.packaging.dependency_ranges                 both, each in a fresh environment that is deleted
    python -m tests.packaging.dependency_ranges lowest --record  and write lowest_tested.txt

Needs uv on the path (pip install uv). An environment takes 1.4 GB and some minutes. A check fails when a command fails,
when it writes to stderr, or when one of the tests fails.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("lowest_tested.txt")
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}
NOT_TESTED = {  # extras whose ranges are not installed here
    "cuda12": "needs a driver for CUDA 12; the kernels are compiled with cuda13",
    "torch": "2 GB; the engine is tested with the version of constraints.txt",
    "ray": "its launcher needs cloudpickle < 3, which excludes the other extras",
    "docs": "builds the site only; tested with the versions of constraints.txt",
    "sgd": "built from source; the engines are tested with the versions of constraints.txt",
    "fuzz": "a tool for developers, run by hand",
}
CELL = ("algorithm=pagerank", "graph=rmat", "graph.scale=8", "features=2")
COMMANDS = (
    ("list",),
    ("--help",),
    ("explain", "engine=onyx", *CELL),
    ("engine=onyx,scipy", *CELL, "measure.budget_s=0.1"),
    ("engine=scipy", "graph=digits,photo", "algorithm=label_propagation", "dry_run=true"),
)
TESTS = (
    "tests/language/test_tracing.py", "tests/language/test_numpy_calls.py", "tests/graph/test_edge_list.py",
    "tests/graph/test_scipy_sparse.py", "tests/graph/test_catalogue.py", "tests/campaign/test_experiments.py",
    "tests/campaign/test_command_line.py", "tests/campaign/test_preflight.py", "tests/records/test_compaction.py",
    "tests/records/test_schema.py",
)  # fmt: skip


def requirements() -> Iterator[Requirement]:
    """Yield the requirements of the project and of the tested extras, without those on the project itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    texts = [*project["dependencies"], *(text for name in extras if name not in NOT_TESTED for text in extras[name])]
    found = [Requirement(text) for text in texts]
    yield from (one for one in found if canonicalize_name(one.name) != "onyx-harness")


def lowest(requirement: Requirement) -> str:
    """Return the lower bound of a requirement; empty if it has none."""
    return next((one.version for one in requirement.specifier if one.operator in (">=", "==", "~=")), "")


def check(which: str, folder: Path) -> dict[str, str]:
    """Install and test one end of the ranges in ``folder``; return the installed versions by canonical name."""
    python = folder / "env" / "bin" / "python"
    _run(["uv", "venv", "--quiet", "--python", sys.executable, str(folder / "env")])
    _run(["uv", "pip", "install", "--quiet", "--python", str(python), "--resolution", RESOLUTIONS[which],
          f"{ROOT}[test]"])  # fmt: skip
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {"ONYX_HARNESS_CACHE": str(folder / "cache")}
    for arguments in COMMANDS:
        done = _run([str(python), "-m", "harness", *arguments], cwd=folder, env=environment)
        if done.stderr:
            raise SystemExit(f"{which}: onyx-harness {' '.join(arguments)} wrote to stderr:\n{done.stderr[:2000]}")
    _run([str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS], cwd=ROOT, env=environment)
    listed = _run(["uv", "pip", "list", "--quiet", "--python", str(python), "--format", "json"]).stdout
    return {canonicalize_name(package["name"]): package["version"] for package in json.loads(listed)}


def _run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    print("$", " ".join(command), flush=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise SystemExit(f"exit status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command; ``which``: the requested ends."""
    parser = argparse.ArgumentParser(prog="python -m tests.packaging.dependency_ranges", description=__doc__)
    parser.add_argument("which", nargs="?", choices=[*RESOLUTIONS, "both"], default="both")
    parser.add_argument("--record", action="store_true", help=f"write {RECORD.name} after testing the lowest versions")
    given = parser.parse_args(arguments)
    given.which = list(RESOLUTIONS) if given.which == "both" else [given.which]
    return given


def main() -> None:
    """Check the requested ends."""
    given = parsed()
    if shutil.which("uv") is None:
        raise SystemExit("uv is not on the path: pip install uv")
    for which in given.which:
        with tempfile.TemporaryDirectory(prefix="onyx-harness-ranges-") as folder:
            versions = check(which, Path(folder))
        names = sorted({canonicalize_name(one.name) for one in requirements()} & set(versions))
        lines = [f"{name}=={versions[name]}" for name in names]
        print(f"{which}: ok with", *lines)
        if given.record and which == "lowest":
            RECORD.write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
