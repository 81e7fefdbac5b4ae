"""Any misbehaviour of an engine in any method leaves exactly one record of its cell."""

from __future__ import annotations

import json
import math
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.contract import EngineFailure, No, RunStatistics, Superstep, Yes
from harness.device.errors import DeviceUnavailable
from harness.language import InvalidInput, LanguageError
from harness.plain_text import printable
from harness.records.outcome import Outcome
from tests.campaign.one_cell import record_of  # noqa: F401  a fixture
from tests.campaign.test_guarded_engine import Right
from tests.campaign.test_plausibility import Working, clock  # noqa: F401  a fixture

METHODS = ("__init__", "supports", "prepare", "reset", "run", "values", "explain", "resolved_options", "close")
HARMLESS = ("print", "thread", "close", "attribute")
POSSIBLE = set(Outcome) - {Outcome.TIMEOUT, Outcome.CRASHED, Outcome.INTERRUPTED, Outcome.INVALID_INPUT}


class Mute(Exception):
    """Raises an exception without message or representation, with an unprintable name."""

    def __str__(self):
        raise SystemExit(1)

    __repr__ = __str__


Mute.__name__ = "Mu\x1bte"
ERRORS = [
    *(kind("text \x1b[31m \ud800 \u202e") for kind in (RuntimeError, KeyError, OSError, AssertionError, BaseException)),
    *(kind() for kind in (StopIteration, GeneratorExit, SystemExit, KeyboardInterrupt, MemoryError, Mute)),
    SystemExit("last words"), RecursionError("deep"), UnicodeDecodeError("utf-8", b"x", 0, 1, "no"),
    InvalidInput("x"), LanguageError("x"), EngineFailure("x"), DeviceUnavailable("x"), ExceptionGroup("g", [Mute()]),
]  # fmt: skip


class Odd:
    """Raises in every comparison, conversion and representation."""

    def fail(self, *_):
        raise Mute

    __eq__ = __repr__ = __str__ = __bool__ = __len__ = __iter__ = __float__ = __index__ = fail
    __hash__ = None


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(st.characters(), max_size=5),
    st.binary(max_size=3), st.just(np.float32("nan")), st.just(np.int8(-1)), st.builds(Odd), st.just(Outcome.OK),
)  # fmt: skip
arrays = st.builds(
    lambda dtype, shape: np.zeros(shape, dtype),
    st.sampled_from(["f4", "f8", "i4", "?", "O", "U3", "c8", "f2", "M8[s]"]),
    st.sampled_from([(), (12,), (12, 4), (4, 12), (11, 4), (12, 4, 1), (0, 4)]),
)
steps = st.one_of(
    st.builds(Superstep, scalars, scalars, scalars),
    st.builds(Superstep, st.integers(0, 20), st.integers(0, 20), st.sampled_from(["push", "pull", "dense", "up"])),
    scalars,
)
statistics = st.builds(
    RunStatistics, st.one_of(st.booleans(), scalars), st.one_of(st.lists(steps, max_size=12), scalars)
)
answers = {
    "supports": st.one_of(scalars, st.builds(Yes, scalars), st.builds(No, scalars), st.just(No("not this program"))),
    "run": st.one_of(statistics, statistics, scalars),
    "values": st.one_of(arrays, arrays, scalars),
}
clocks = st.sampled_from([-5.0, 1e-9, 1e6, 1e18])


@st.composite
def faults(draw):
    """Draw a method, the affected calls of it, and their effect."""
    kind = draw(st.sampled_from([*["raise"] * 2, *["return"] * 5, *["clock"] * 2, "phases", "nan", *HARMLESS]))
    methods = {
        "phases": ["prepare"],
        "nan": ["values"],
        "clock": ["run"],
        "return": [*answers, "explain", "resolved_options"],
    }
    method = draw(st.sampled_from(methods.get(kind, METHODS)))
    calls = range(draw(st.integers(0, 3)), draw(st.sampled_from([4, 99])))
    what = {
        "raise": st.sampled_from(ERRORS), "return": answers.get(method, scalars), "clock": clocks,
        "phases": st.tuples(scalars, scalars), "attribute": scalars,
    }.get(kind, st.none())  # fmt: skip
    return kind, method, calls, draw(what)


def misbehaving(plan, released):
    """Return an engine with faults; threads that it leaves behind wait until they are released."""
    counts = dict.fromkeys(METHODS, 0)

    def wrap(name):
        def call(self, *arguments):
            number, counts[name] = counts[name], counts[name] + 1
            result = None
            mine = [(kind, what) for kind, method, calls, what in plan if method == name and number in calls]
            for kind, what in mine:
                if kind == "raise":
                    raise what
                act(self, kind, what, arguments)
            result = getattr(Working, name)(self, *arguments)
            for kind, what in mine:
                if kind == "return" and name != "__init__":
                    result = what
                if kind == "nan" and name == "values":
                    result = result * np.float32("nan")
            return result

        return call

    def act(self, kind, what, arguments):
        if kind == "print":
            print("\x1b[2J", "x" * 500)
        elif kind == "thread":
            threading.Thread(target=released.wait, daemon=True).start()
        elif kind == "clock":
            self.clock.now += what
        elif kind == "close":
            Right.close(self)
        elif kind == "attribute":
            self.schedule = self.deterministic = what
        elif kind == "phases" and len(arguments) == 5:
            arguments[4].seconds = what[0] if what[1] is None else {what[0]: what[1]}

    return type("Misbehaving", (Working,), {name: wrap(name) for name in METHODS})


def check(record_of, clock, monkeypatch, tmp_path, plan):  # noqa: F811
    """Run a cell of an engine with the faults of a plan, and check its record."""
    clock.now = 0.0
    monkeypatch.setattr("os.fsync", lambda handle: None)  # no example needs to survive a power failure
    released = threading.Event()
    before = set(tmp_path.rglob("record.json"))
    try:
        record = record_of(misbehaving(plan, released))
    finally:
        released.set()
    [path] = set(tmp_path.rglob("record.json")) - before
    text = path.read_text(encoding="utf-8")
    json.loads(text, parse_constant=pytest.fail)  # strict JSON
    assert record["outcome"] in POSSIBLE, record["reason"]
    assert printable(record["reason"]) == record["reason"]
    if all(kind in HARMLESS and not isinstance(what, Odd) for kind, *_, what in plan):  # explain shows the schedule
        assert record["outcome"] == Outcome.OK
    assert bool(record["reason"]) == (record["outcome"] != Outcome.OK)
    if record["outcome"] == Outcome.OK:
        assert record["validation"]["ok"]
        assert all(sample > 0 and math.isfinite(sample) for sample in record["solve"]["samples"])


FEW, MANY = (
    settings(max_examples=examples, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
    for examples in (30, 400)
)
plans = given(plan=st.lists(faults(), min_size=1, max_size=3))


@pytest.mark.short_run(rows=1)
@pytest.mark.slow
@FEW
@plans
def test_any_engine_ends_as_one_record(record_of, clock, monkeypatch, tmp_path, plan):  # noqa: F811
    check(record_of, clock, monkeypatch, tmp_path, plan)


@pytest.mark.full
@MANY
@plans
def test_any_engine_ends_as_one_record_at_length(record_of, clock, monkeypatch, tmp_path, plan):  # noqa: F811
    check(record_of, clock, monkeypatch, tmp_path, plan)
