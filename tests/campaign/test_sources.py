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
