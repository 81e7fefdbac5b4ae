"""When the host allows the pauses of tracking on a GPU, and queues the launches of untracked supersteps."""

from types import SimpleNamespace

import pytest

from engines.onyx.cuda_tracking_policy import ENDLESS, TRIAL, Pauses, Pausing
from harness.lowering.cuda.run_extension import RunStart


def made(patience=2, *, begin):
    notes = []
    return Pauses(SimpleNamespace(note=lambda **fields: notes.append(fields)), patience, begin=begin), notes


def news(superstep, crowded=0, untracked=0, resuming=0):
    return {"superstep": superstep, "crowded": crowded, "untracked": untracked, "resuming": resuming}


def test_a_pause_is_allowed_after_enough_crowded_supersteps():
    pauses, notes = made(begin=False)
    assert pauses.fields() == {"may_pause": 0}
    pauses.update(news(5, crowded=1), 9)
    assert (pauses.allowed, pauses.omits, notes) == (False, True, [])
    pauses.update(news(6, crowded=2), 9)
    assert (pauses.allowed, pauses.omits, notes) == (True, False, [{"may_pause": 1}])
    assert pauses.fields() == {"may_pause": 1}


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        (news(9 + TRIAL - 1), True), (news(9 + TRIAL), False), (news(9 + TRIAL, crowded=1), True),
        (news(9 + TRIAL, untracked=1), True), (news(9 + TRIAL, resuming=1), True),
    ],
)  # fmt: skip
def test_quiet_supersteps_end_the_permission_unless_a_pause_lasts(given, allowed):
    pauses, notes = made(begin=False)
    pauses.update(news(6, crowded=2), 9)
    pauses.update(given, 30)
    assert pauses.allowed is allowed
    assert notes == [{"may_pause": 1}] + ([] if allowed else [{"may_pause": 0}])
    assert not pauses.omits, "a pause may have begun among the supersteps that are queued"


def test_launches_are_omitted_after_a_superstep_in_which_no_pause_could_begin():
    pauses, _ = made(begin=True)
    assert (pauses.allowed, pauses.omits) == (True, False)
    pauses.update(news(TRIAL), 20)
    assert (pauses.allowed, pauses.omits) == (False, False)
    for one, omits in (
        (news(20), False),
        (news(21, untracked=3), False),
        (news(21, resuming=3), False),
        (news(21), True),
    ):
        pauses.update(one, 25)
        assert pauses.omits is omits


@pytest.mark.parametrize(
    ("begins_untracked", "cold", "endless"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, False)],
)
def test_the_fields_of_a_run_by_hand(begins_untracked, cold, endless):
    """Two of three groups reduce. A run whose edges change begins without tracking, for as long as everything moves."""
    pausing = Pausing(begins_untracked=begins_untracked, share=0.25, patience=3, reductions=0b101, at_once=0b100)
    found = pausing.start_fields(RunStart(edges=1000, sides=2, visited=(1100, 1200), cold=cold))
    wanted = {
        "untracked_edges": 500, "lasting_edges": 1000, "reductions": 5, "at_once": 4, "may_pause": 1, "patience": 3,
        "full": 1100, "full_odd": 1200,
    }  # fmt: skip
    begun = {"untracked": ENDLESS, "stretch": ENDLESS, "entered": 2000, "usual": 1000}
    assert found == wanted | (begun if endless else {})
    none = pausing.start_fields(RunStart(edges=1, sides=1, visited=(1, 1), cold=cold))
    assert none["untracked_edges"] == 1, "no source that moves is not crowded"
