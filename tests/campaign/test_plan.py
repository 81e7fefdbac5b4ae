from __future__ import annotations

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from harness.campaign.plan import linked_overrides, with_defaults

LINKS = [{"when": {"graph": "photo"}, "set": {"features": 8, "max_supersteps": 100}}]


def parse(*overrides):
    return OverridesParser.create().parse_overrides(list(overrides))


def keys(overrides):
    return [f"{o.get_key_element()}={o.get_value_element_as_str()}" for o in overrides]


def test_a_key_on_the_command_line_replaces_the_default():
    overrides, _ = with_defaults(parse("engine=mine"), parse("engine=a", "graph=photo"), [])
    assert keys(overrides) == ["graph=photo", "engine=mine"]


@pytest.mark.parametrize(
    ("given", "in_force"), [([], True), (["engine=x"], True), (["graph=photo"], False), (["features=3"], False)]
)
def test_a_link_is_in_force_until_one_of_its_keys_is_said(given, in_force):
    _, links = with_defaults(parse(*given), parse("graph=photo"), LINKS)
    assert bool(links) is in_force


def test_linked_settings_go_with_their_value_alone():
    assert linked_overrides(["graph=photo"], LINKS) == ["graph=photo", "features=8", "max_supersteps=100"]
    assert linked_overrides(["graph=digits"], LINKS) == ["graph=digits"]
