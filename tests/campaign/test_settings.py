"""Values of settings: the accepted ones with their types, and whole messages of refusals."""

from __future__ import annotations

import dataclasses
import math

import pytest

from harness.campaign.errors import CampaignError
from harness.campaign.options import checked, count, positive, truth

REQUIRED = dataclasses.MISSING


@pytest.mark.parametrize(
    ("given", "defaults", "result"),
    [
        ({"a": 1}, {"a": 2}, {"a": 1}),
        ({}, {"a": 2}, {}),
        ({"a": 1}, {"a": 2.0}, {"a": 1.0}),
        ({"a": 17}, {"a": "x"}, {"a": "17"}),
        ({"a": 0.5}, {"a": "x"}, {"a": "0.5"}),
        ({"a": [1, 2]}, {"a": (3,)}, {"a": (1, 2)}),
        ({"a": "any"}, {"a": None}, {"a": "any"}),
        ({"a": True}, {"a": False}, {"a": True}),
        ({"a": 1}, {"a": REQUIRED}, {"a": 1}),
        ({"a": "q"}, {"b": 1, "a": "x"}, {"a": "q"}),
    ],
)
def test_values_take_the_types_of_their_defaults(given, defaults, result):
    found = checked("graph 'g'", "parameter", given, defaults)
    assert found == result
    assert [type(value) for value in found.values()] == [type(value) for value in result.values()]


@pytest.mark.parametrize(
    ("given", "defaults", "message"),
    [
        (
            {"sede": 1},
            {"seed": 2, "size": 3},
            "graph 'g' has no parameter 'sede'; did you mean 'seed'? (it has: seed, size)",
        ),
        ({"a": 1}, {}, "graph 'g' has no parameter 'a' (it has: none)"),
        ({"a": "x"}, {"a": 2}, "parameter 'a' of graph 'g' is 'x'; it must be an integer, like 2"),
        ({"a": True}, {"a": 2}, "parameter 'a' of graph 'g' is True; it must be an integer, like 2"),
        ({"a": True}, {"a": 2.0}, "parameter 'a' of graph 'g' is True; it must be a number, like 2.0"),
        ({"a": True}, {"a": "x"}, "parameter 'a' of graph 'g' is True; it must be text, like 'x'"),
        ({"a": 1}, {"a": False}, "parameter 'a' of graph 'g' is 1; it must be true or false"),
        ({"a": 2.5}, {"a": 2}, "parameter 'a' of graph 'g' is 2.5; it must be an integer, like 2"),
        ({"a": 1}, {"a": (3,)}, "parameter 'a' of graph 'g' is 1; it must be a list, like [3]"),
        ({"b": 1}, {"a": REQUIRED, "b": 1}, "graph 'g' needs a value for parameter 'a'"),
    ],
)
def test_other_values_are_refused(given, defaults, message):
    with pytest.raises(CampaignError) as met:
        checked("graph 'g'", "parameter", given, defaults)
    assert str(met.value) == message


def test_numbers_of_settings():
    assert (count("k", 1), count("k", 0, least=0), positive("t", 2), positive("t", 0.5), truth("b", False)) == (
        1,
        0,
        2.0,
        0.5,
        False,
    )
    assert type(positive("t", 2)) is float
    for value in (0, -1, True, 1.0, "1", None):
        with pytest.raises(CampaignError) as met:
            count("k", value, "auto")
        assert str(met.value) == f"k is {value!r}; it must be an integer of at least 1 or 'auto'"
    for value in (0, -0.5, math.inf, math.nan, True, "1", None):
        with pytest.raises(CampaignError) as met:
            positive("t", value)
        assert str(met.value) == f"t is {value!r}; it must be a number above 0"
    for value in (0, 1, "true", None):
        with pytest.raises(CampaignError) as met:
            truth("b", value)
        assert str(met.value) == f"b is {value!r}; it must be true or false"
    with pytest.raises(CampaignError, match="to sweep, write k=1,2 without brackets"):
        count("k", [1, 2])
