"""The device's own functions at extreme values, emulated."""

from __future__ import annotations

import numpy as np
import pytest

from harness.emulation.arrays import allocated
from harness.emulation.compiler import Module, library, unavailable
from tests.engines.device_functions import BLOCK, FOUND, SOURCE, arguments, check, headers_of_teams

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=unavailable())


def test_minima_maxima_and_logarithms():
    a, b = arguments()
    found = allocated(np.zeros((FOUND, len(a)), np.float32))
    module = Module()
    module.load(str(library(SOURCE, headers_of_teams())).encode())
    blocks = -(-len(a) // BLOCK)
    given = (allocated(a), allocated(b), found, np.uint32(len(a)))
    module.get_function("functions")((blocks,), (BLOCK,), given, shared_mem=0)
    check(a, b, found)
