"""Names of users' programs in CUDA C++: reserved names are changed, ordinary names stay."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from harness.device.compilation import compiled
from harness.language import K
from harness.lowering.cuda.names import RESERVED, in_ascii, kernel_name
from tests.engines.cuda_modules import Module, module_of
from tests.engines.cuda_resources import recorded, resources
from tests.engines.cuda_schedules import cuda_engine, plan_of
from tests.engines.names import STAGES, awkward, quartets
from tests.engines.programs import edges_and_loops, traced

linux = pytest.mark.skipif(sys.platform != "linux", reason="the CUDA compiler is installed on Linux only")
SCHEDULES = ("pull", "changes-push-edges", "changes-pull", "push-loops", "gunrock", "tigr", "simdx")
CASES = [
    pytest.param(schedule, stages, marks=() if i % len(quartets()) == j else (pytest.mark.full,))
    for i, schedule in enumerate(SCHEDULES)
    for j, stages in enumerate(quartets())
]


@linux
@pytest.mark.parametrize(("schedule", "stages"), CASES)
def test_programs_of_awkward_names_compile(schedule, stages):
    module = module_of(cuda_engine(schedule), traced(awkward(stages), "awkward"), edges_and_loops().facts, 5)
    assert isinstance(module, Module)
    assert resources(module, "sm_90")


@linux
def test_every_reserved_name_becomes_a_kernel():
    names = sorted({kernel_name(name) for name in (*RESERVED, *STAGES, "threadIdx", "float4", "uint32_t", "cudaError")})
    source = "\n".join(f'extern "C" __global__ void {name}(float* x) {{ x[0] = 1.0f; }}' for name in names)
    assert set(compiled(source, {}, "sm_90").resources()) == set(names)


def test_ordinary_names_stay():
    tabled = {kernel for engine in ("onyx", "gunrock", "tigr", "simdx") for _, _, kernel in recorded(engine)}
    assert {"visit", "share_changes", "gather_log"} <= tabled
    assert all(kernel_name(name) == name for name in tabled - {"end_of_superstep"})


def test_letters_that_are_not_ascii_are_spelt_but_in_comments():
    assert kernel_name("größe") == "gr_u00f6__u00df_e"
    assert in_ascii("x = größe;  // größe\ny = é;") == "x = gr_u00f6__u00df_e;  // größe\ny = _u00e9_;"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_kernels_of_one_module_have_distinct_names(schedule):
    """A stage has the name of the kernel that clears another one's accumulator; there is a stage for each tile."""
    stages = ("messages", "messages_tiles", "clear_got", "clear_template")
    engine = cuda_engine(schedule)
    plan = plan_of(engine, traced(awkward(stages), "awkward"), edges_and_loops(), 5)
    launched = [launch.kernel for launch in plan.launches]
    assert len({kernel.name for kernel in launched}) == len({kernel.source for kernel in launched})
    assert all(f" {kernel.name}(" in kernel.source.split("\n")[0] or kernel.name == "fused_pull" for kernel in launched)


def test_a_continued_line_does_not_continue_its_comment():
    def build(p, self):
        p.vertex("x", K, start=1.0)
        p.over_vertices(lambda v: {"x": v.x \
            * np.float32(0.5)})  # fmt: skip
        p.repeat(1)
        p.output("x", bound=1e-5)

    engine = cuda_engine("pull")
    source = plan_of(engine, traced(build, "continued"), edges_and_loops(), 5).source
    comments = [line for line in source.splitlines() if "lambda v" in line]
    assert comments
    assert not any(line.endswith("\\") for line in source.splitlines())
