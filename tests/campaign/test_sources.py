from __future__ import annotations

import pytest

from harness.campaign import sources
from harness.campaign.errors import CampaignError


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "a_measured_package"
    (folder / "kernels").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "engine.py").write_text("x = 1")
    (folder / "kernels" / "push.cuh").write_text("// push")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    sources._hash_of.cache_clear()


def hashed() -> str:
    sources._hash_of.cache_clear()
    return sources.source_hash(["a_measured_package.engine:Engine"])


def test_the_hash_changes_with_any_source_file_of_the_package(package):
    before = hashed()
    assert hashed() == before
    (package / "kernels" / "push.cuh").write_text("// faster push")
    after = hashed()
    assert after != before
    (package / "other.py").write_text("")
    assert hashed() not in (before, after)


def test_vertices_without_out_edges_do_not_count(package):
    before = hashed()
    (package / "notes.txt").write_text("a note")
    assert hashed() == before


def test_a_module_that_does_not_exist_is_named():
    with pytest.raises(CampaignError, match="no_such_package_at_all"):
        sources.source_hash(["no_such_package_at_all.engine:Engine"])


@pytest.mark.parametrize("name", ["harness.contract", "harness.language", "harness.lowering", "harness.device"])
def test_every_cell_depends_on_the_code_below_the_engines(package, monkeypatch, tmp_path, name):
    before, files = hashed(), sources._files
    (tmp_path / "changed.py").write_text("changed")
    monkeypatch.setattr(
        sources, "_files", lambda package: [tmp_path / "changed.py"] if package == name else files(package)
    )
    assert hashed() != before


@pytest.mark.parametrize(
    ("module", "hashed_package"),
    [
        ("a_package.parts.engine", "a_package.parts"), ("alone", "alone"), ("engines.simple", "engines.simple"),
        ("engines.onyx.engine", "engines.onyx"), ("harness.algorithms.bfs", "harness.algorithms.bfs"),
        ("harness.contract", "harness.contract"), ("harness.graph.generators.rmat", "harness.graph.generators"),
    ],
)  # fmt: skip
def test_the_code_of_a_plugin_is_its_package_and_of_the_harness_its_module(monkeypatch, module, hashed_package):
    found = []
    monkeypatch.setattr(sources, "_hash_of", lambda package: found.append(package) or package)
    sources.source_hash([f"{module}:Name", f"{module}:Another"])
    assert sorted(found) == sorted({hashed_package, *sources.FOUNDATION})
