from __future__ import annotations

import os

from harness.device.spinning import SPIN_COUNT, SPIN_VARIABLE, short_spins


def test_the_spin_count_is_set_only_meanwhile(monkeypatch):
    monkeypatch.delenv(SPIN_VARIABLE, raising=False)
    with short_spins():
        assert os.environ[SPIN_VARIABLE] == SPIN_COUNT
    assert SPIN_VARIABLE not in os.environ


def test_a_given_spin_count_is_kept(monkeypatch):
    monkeypatch.setenv(SPIN_VARIABLE, "7")
    with short_spins():
        assert os.environ[SPIN_VARIABLE] == "7"
    assert os.environ[SPIN_VARIABLE] == "7"
