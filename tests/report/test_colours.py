"""The colours of series for people with each kind of colour blindness, in the light and the dark scheme."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest

from harness.report.page.inlined import style_sheet

# Machado, Oliveira and Fernandes (2009), table 1, at full severity, for linear RGB.
DEFECTS = {
    "none": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
TO_XYZ = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
WHITE = np.array([0.9505, 1.0, 1.089])
APART = 14  # CIE76; about 2 is just noticeable
FIRST = 4  # colours of series; further ones are distinguished by their dashes and markers


def lab(colour, defect):
    """Return a colour of the style sheet in CIE L*a*b*, as seen with a defect."""
    parts = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    xyz = np.array(TO_XYZ) @ np.clip(np.array(DEFECTS[defect]) @ linear, 0, 1) / WHITE
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def schemes():
    colours = re.findall(r"--c(\d): (#[0-9a-f]{6});", style_sheet(plots=True))
    assert [int(place) for place, _ in colours] == [*range(8), *range(8)]
    return {"light": [colour for _, colour in colours[:8]], "dark": [colour for _, colour in colours[8:]]}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("defect", DEFECTS)
def test_the_first_series_are_told_apart_by_colour_alone(scheme, defect):
    seen = [lab(colour, defect) for colour in schemes()[scheme][:FIRST]]
    assert min(np.linalg.norm(one - other) for one, other in combinations(seen, 2)) >= APART


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_colours_differ_without_a_defect(scheme):
    seen = [lab(colour, "none") for colour in schemes()[scheme]]
    assert min(np.linalg.norm(one - other) for one, other in combinations(seen, 2)) >= 20
