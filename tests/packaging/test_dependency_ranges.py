"""The lower bounds of pyproject.toml are tested versions, and upper bounds exclude versions known to break."""

from __future__ import annotations

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.packaging.dependency_ranges import NOT_TESTED, RECORD, lowest, parsed, requirements

TESTED = dict(line.split("==") for line in RECORD.read_text().splitlines())
# Not installed with every version of Python or on every system, and therefore not in the record of one machine.
CONDITIONAL = {"python-graphblas", "scikit-network"}


@pytest.mark.parametrize("requirement", sorted(requirements(), key=str), ids=str)
def test_a_lower_bound_is_a_version_that_was_tested(requirement):
    name = canonicalize_name(requirement.name)
    if not lowest(requirement):
        return
    assert name in TESTED or name in CONDITIONAL, "run python -m tests.packaging.dependency_ranges lowest --record"
    if name in TESTED:
        # A dependency of another dependency may need a later version than the bound.
        assert Version(TESTED[name]) >= Version(lowest(requirement))
        assert requirement.specifier.contains(TESTED[name])


def test_bounds_that_nothing_else_raises_are_tested_themselves():
    raised = {
        canonicalize_name(one.name): TESTED.get(canonicalize_name(one.name))
        for one in requirements()
        if lowest(one) and canonicalize_name(one.name) in TESTED
        and Version(TESTED[canonicalize_name(one.name)]).release[:2] != Version(lowest(one)).release[:2]
        and len(Version(lowest(one)).release) > 1
    }  # fmt: skip
    assert not raised, "another dependency needs a later version: raise the bound"


def test_the_omegaconf_that_warns_at_every_command_is_excluded():
    [omegaconf] = [one for one in requirements() if one.name == "omegaconf"]
    assert not omegaconf.specifier.contains("2.4.0")
    assert omegaconf.specifier.contains("2.3.1")


def test_every_extra_is_tested_or_says_why_not():
    assert all(NOT_TESTED.values())
    assert Requirement("x>=1.2,<2").specifier.contains(lowest(Requirement("x>=1.2,<2")))


@pytest.mark.parametrize(("arguments", "ends"), [([], ["lowest", "newest"]), (["newest"], ["newest"])])
def test_both_ends_are_checked_unless_one_is_named(arguments, ends):
    assert parsed(arguments).which == ends
