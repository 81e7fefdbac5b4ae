"""Memory counts of kernels: sums, multiples, and the form of a record."""

from __future__ import annotations

from dataclasses import astuple, fields

import pytest

from harness.transactions import Atomics, Behaviour, Loads
from harness.transactions.behaviour import KernelBehaviour

LOADS, ATOMICS = (Loads(2.0, 16.0, 128.0), Loads(3.0, 5.0, 70.0)), (Atomics(7.0, 11.0, 13.0), Atomics(1.0, 4.0, 9.0))


@pytest.mark.parametrize(("one", "other"), [LOADS, ATOMICS], ids=["loads", "atomics"])
def test_every_count_is_added_and_multiplied_and_begins_at_zero(one, other):
    assert astuple(type(one)()) == (0.0,) * len(fields(one)) == (0.0, 0.0, 0.0)
    assert astuple(one + other) == tuple(a + b for a, b in zip(astuple(one), astuple(other), strict=True))
    assert astuple(one.times(2.5)) == tuple(2.5 * a for a in astuple(one))


def test_a_superstep_is_the_sum_of_its_kernels():
    one, other = (KernelBehaviour(loads, atomics) for loads, atomics in zip(LOADS, ATOMICS, strict=True))
    assert KernelBehaviour() == KernelBehaviour(Loads(), Atomics())
    assert one.times(3.0) == KernelBehaviour(LOADS[0].times(3.0), ATOMICS[0].times(3.0))
    whole = KernelBehaviour(LOADS[0] + LOADS[1], ATOMICS[0] + ATOMICS[1])
    assert one + other == Behaviour("model", {"a": one, "b": other}).whole == whole
    assert Behaviour("model").whole == KernelBehaviour()
    assert Behaviour("model").share == 1.0


def test_a_record_has_the_counts_of_every_kernel_and_of_all():
    one, loads_only = KernelBehaviour(LOADS[0], ATOMICS[0]), KernelBehaviour(LOADS[1])
    plain = Behaviour("counters", {"a": one, "b": loads_only}, share=0.25).plain()
    nothing = {"requests": 0.0, "sectors": 0.0, "transactions": 0.0}
    first = {
        "load_efficiency": 128 / (32 * 16), "loads": {"requests": 2.0, "sectors": 16.0, "bytes": 128.0},
        "atomics": {"requests": 7.0, "sectors": 11.0, "transactions": 13.0},
    }  # fmt: skip
    second = {
        "load_efficiency": 70 / (32 * 5), "loads": {"requests": 3.0, "sectors": 5.0, "bytes": 70.0},
        "atomics": nothing,
    }  # fmt: skip
    assert plain == {
        "source": "counters", "share": 0.25, "load_efficiency": 198 / (32 * 21),
        "loads": {"requests": 5.0, "sectors": 21.0, "bytes": 198.0}, "atomics": first["atomics"],
        "kernels": {"a": first, "b": second},
    }  # fmt: skip
    assert Behaviour("counters", {"c": KernelBehaviour()}).plain()["kernels"]["c"]["load_efficiency"] is None
