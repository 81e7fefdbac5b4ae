from __future__ import annotations

import pytest

from harness.campaign import application


@pytest.fixture
def plan(monkeypatch):
    """What a command would run: ``plan("+experiment=stereo").cells``."""

    def compose(*arguments):
        plans = []
        monkeypatch.setattr("harness.campaign.sweep.run_plan", lambda made, *_: plans.append(made))
        assert application.main(arguments) == 0
        return plans[0]

    return compose
