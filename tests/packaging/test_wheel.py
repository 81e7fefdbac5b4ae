"""The source distribution builds the wheel; installed from it, the command works in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from harness.records import read_records
from tests.conftest import FAKES, ROOT

pytestmark = [pytest.mark.packaging, pytest.mark.slow]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory) -> Path:
    """Build the source distribution, and the wheel from it; return their folder."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def wheel(distributions) -> Path:
    [built] = distributions.glob("*.whl")
    return built


def test_the_source_distribution_has_the_tests_and_the_site(distributions):
    [built] = distributions.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"README.md", "LICENSE", "constraints.txt", "mkdocs.yml", "docs/site_hooks.py", "conf/config.yaml"}
    assert wanted <= names
    assert {name.split("/")[0] for name in names} - {""} == {
        "harness", "engines", "hydra_plugins", "onyx_harness", "conf", "docs", "tests", "README.md", "CHANGELOG.md",
        "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "constraints.txt", "mkdocs.yml", "pyproject.toml", "PKG-INFO",
        ".gitignore",
    }  # fmt: skip
    tracked = subprocess.run(["git", "ls-files", "tests", "docs"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(tracked.stdout.split()) <= names


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """Return a folder with the files that the wheel installs; the libraries are those of the running environment."""
    site = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check",
         "--target", str(site), str(wheel)],
        check=True, capture_output=True,
    )  # fmt: skip
    return site


@pytest.fixture
def run(installed, tmp_path):
    """Run the installed command in an empty folder, from which the checkout cannot be imported."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        # The checkout may be installed in this environment for development; an earlier path takes precedence.
        path = os.pathsep.join([str(installed), str(FAKES)])
        return subprocess.run(
            [sys.executable, str(installed / "bin" / "onyx-harness"), *arguments],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run


def test_the_wheel_holds_the_packages_and_the_configuration_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "harness",
        "engines",
        "hydra_plugins",
        "onyx_harness",
    }
    for wanted in (
        "harness/conf/config.yaml",
        "harness/conf/experiment/stereo.yaml",
        "hydra_plugins/onyx_harness_sweeper.py",
        "harness/report/page/page.html",
        "harness/report/page/script/plot.js",
        *(f"harness/report/page/vendor/uplot/{file}" for file in ("uPlot.iife.min.js", "uPlot.min.css", "LICENSE")),
    ):
        assert wanted in names
    for licence in ("LICENSE", "harness/report/page/vendor/uplot/LICENSE"):
        assert any(name.endswith(f".dist-info/licenses/{licence}") for name in names)
    assert not [name for name in names if name.endswith((".pyc", ".nbi", ".nbc"))]


def test_the_metadata_name_licence_python_and_plugins(wheel):
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        text = archive.read(metadata).decode()
        points = archive.read(metadata.replace("METADATA", "entry_points.txt")).decode()
    for entry in ("Name: onyx-harness", "License-Expression: Apache-2.0", "Requires-Python: >=3.11"):
        assert entry in text
    assert "Requires-Dist: cupy" not in "".join(
        line for line in text.splitlines(keepends=True) if "extra ==" not in line
    )
    for plugin in ("onyx", "pushbaseline", "pullbaseline", "libraries", "outofmemory", "algorithms", "graphs"):
        assert f"{plugin} = " in points


def test_a_cell_runs_from_the_installed_command(run, installed, tmp_path):
    finished = run("engine=fake_right", "algorithm=pagerank", "graph=fake_ring", "features=2", "measure.budget_s=0.01")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    [(_, record)] = read_records(tmp_path / "results")
    assert record["outcome"] == "ok"
    assert record["environment"]["commit"] is None  # it ran from the installed files, not from the checkout


def test_a_third_party_engine_runs_the_installed_suite(installed, tmp_path):
    site, folder = tmp_path / "site", tmp_path / "empty"
    folder.mkdir()
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
         "--disable-pip-version-check", "--target", str(site), str(ROOT / "tests" / "thirdparty")],
        check=True, capture_output=True,
    )  # fmt: skip
    finished = subprocess.run(
        [sys.executable, "-m", "harness.conformance", "example", "--", "-k", "test_specification or test_protocol"],
        cwd=folder, env={**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), str(site)])},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert f"rootdir: {installed / 'harness' / 'conformance'}" in finished.stdout
    assert "it declares itself deterministic" in finished.stdout
    assert not list(folder.iterdir())


def test_help_and_version_work(run):
    assert run("--version").stdout.startswith("onyx-harness ")
    assert "label_propagation" in run("--help").stdout


def test_the_source_distribution_builds_the_same_wheel(tmp_path, wheel):
    """One wheel is built from the checkout, the other from the source distribution."""
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)],
        check=True, capture_output=True,
    )  # fmt: skip
    [direct] = tmp_path.glob("*.whl")
    assert sorted(zipfile.ZipFile(direct).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())


@pytest.mark.full
def test_the_python_api_is_installed(installed, tmp_path):
    source = "import onyx_harness as o; print(o.__file__, o.run('scipy', 'pagerank', ([0, 1], [1, 0])).by_vertex()[0])"
    finished = subprocess.run(
        [sys.executable, "-c", source], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert finished.stdout == f"{installed / 'onyx_harness' / '__init__.py'} 0.5\n"
