"""Systems solved in the buffers in which their matrices were summed, emulated."""

from __future__ import annotations

import pytest

from tests.engines import test_solved_in_place as on_cuda


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("build", on_cuda.TILES, ids=[build.__name__ for build in on_cuda.TILES])
@pytest.mark.parametrize(("schedule", "features"), [("pull", 33), ("pull-single-features", on_cuda.FEATURES)])
def test_answers(schedule, features, build, emulated):
    on_cuda.test_answers(schedule, features, build, emulated)
