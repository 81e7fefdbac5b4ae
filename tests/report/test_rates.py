"""Rates of edges outside of the device's memory, by hand."""

from __future__ import annotations

import pytest

from harness.contract import Transfers
from harness.report.rates import rate, rates_legend
from tests.records.samples import record

MOVED = Transfers(10, {"zero_copy": 6, "copied": 2}).plain()


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"transfers": MOVED}, 4.0), ({"transfers": MOVED, "outcome": "wrong"}, None), ({"transfers": None}, None),
        ({"transfers": Transfers(10, {}).plain()}, None), ({"transfers": Transfers(10, {"copied": 0}).plain()}, 0.0),
    ],
)  # fmt: skip
def test_a_rate_is_of_all_moved_bytes_of_an_ok_run_over_its_median_time(changes, found):
    assert rate(record(times=(2.0, 1.0, 5.0), **changes)) == found
    assert rate(None) is None


def linked(copy, **in_place):
    sizes = {name.removeprefix("of_"): rate for name, rate in in_place.items()}
    return record(link={"copy": copy, "in_place": sizes, "read": None, "run_bytes": None})


def test_rates_of_the_link_are_medians_of_the_cells_that_measured_them_by_ascending_sizes():
    records = [linked(3e9, of_128=9e9, of_32=1e9), linked(1e9, of_32=2e9), linked(2e9, of_32=6e9), record()]
    [_, note] = rates_legend(None, [*records, linked(None, of_32=50e9), linked(0.0)])
    assert note == (
        "the link, medians of 3 cells: plain copies 2 GB/s, reads of 32 bytes 2 GB/s, reads of 128 bytes 9 GB/s"
    )
    assert len(rates_legend(None, [record(), linked(None)])) == len(rates_legend(None, [])) == 1
