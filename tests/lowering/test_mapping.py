"""Generated source: deterministic, readable, vectorised by rows and never by edges; temporaries and scopes of
values."""

import ast
import functools
import re
import sys

import pytest

from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.pagerank import PageRank
from harness.contract import Device, Phases
from harness.graph.generators import grid
from harness.language import Inputs, trace
from harness.lowering.accumulators import separated
from harness.lowering.cpu import modules
from harness.lowering.cpu.code import Block, Value
from harness.lowering.cpu.mapping import far, literal
from harness.lowering.cpu.module_source import module_source
from harness.lowering.layout import Layout
from harness.per_device import PerDevice
from tests.engines.problems import LIBRARIES, STRATEGIES, new_engine
from tests.engines.programs import edges_and_loops, program_named

GENERATED = {name: value for name, value in STRATEGIES.items() if value[0] not in LIBRARIES}
FEATURE_AWARE_KERNELS = [("pull", 4), ("pull-all", 8), ("push-all", 5), ("simdx", 7), ("tigr", 32), ("gunrock", 33)]


@functools.cache
def road():
    return grid(rows=9, columns=9)


def generated(strategy, program, features, graph=None):
    """Return the plan of a program, without compiling anything."""
    name, options = STRATEGIES[strategy]
    return generated_by(name, options, program, graph or road(), features).planned


def generated_by(name, options, program, graph, features):
    """Return the engine of the CPU behind one that runs on several devices; it has a plan, but nothing compiled."""
    engine = new_engine(name, options)
    engine.generate(program, graph, features, Device(threads=1))
    return engine.prepared if isinstance(engine, PerDevice) else engine


def prepared(strategy, program, features):
    """Return the engine of the CPU, compiled."""
    engine = new_engine(*STRATEGIES[strategy])
    engine.prepare(program, road(), features, Device(threads=1), Phases())
    return engine.prepared if isinstance(engine, PerDevice) else engine


@pytest.mark.parametrize(("strategy", "features"), FEATURE_AWARE_KERNELS)
def test_no_kernel_gathers_features_of_many_edges(strategy, features, tmp_path):
    """LLVM must not vectorise over edges, which would need a gather instruction (on x86)."""
    planned = generated(strategy, trace(LabelPropagation()), features)
    edge_kernels = [kernel for kernel in planned.kernels if "neighbours" in kernel.source and "src_lp" in kernel.source]
    # compiled again, in a module of another title: Numba does not show the assembly of cached modules
    module = modules.load_module(module_source(f"fresh, {tmp_path}", edge_kernels), "fresh")
    assert edge_kernels
    for kernel in edge_kernels:
        (assembly,) = getattr(module, f"run_{kernel.name}").inspect_asm().values()
        assert len(assembly) > 1000
        assert "gather" not in assembly, kernel.name
        if re.search(r"%[yz]mm|%xmm", assembly):  # x86
            assert re.search(r"vfn?madd\d+ps|vmulps|mulps", assembly), kernel.name


@pytest.mark.parametrize("strategy", GENERATED)
def test_source_is_deterministic_and_valid(strategy):
    sources = [generated(strategy, trace(PageRank()), 4, graph).source for graph in (road(), road(), edges_and_loops())]
    assert sources[0] == sources[1] == sources[2], "the graph does not shape the source"
    ast.parse(sources[0])
    assert generated(strategy, trace(PageRank()), 5).source != sources[0]


@pytest.mark.parametrize("strategy", GENERATED)
def test_source_is_readable(strategy):
    """Stages, properties and parameters keep their names."""
    planned = generated(strategy, trace(LabelPropagation()), 4)
    for word in ("spread", "vertex_lp", "vertex_seed", "weight", "alpha", "clamp", "labelled"):
        assert word in planned.source, word
    assert (
        max(len(line) for line in planned.source.splitlines() if not line.startswith(("def ", "@njit", "    return ")))
        < 400
    )


FEW, MANY = LabelPropagation(alpha=0.5, tolerance=1e-3, clamp=False), LabelPropagation(alpha=0.9)


@pytest.mark.parametrize("strategy", GENERATED)
def test_parameters_are_no_part_of_the_source(strategy):
    few, many = (generated(strategy, trace(algorithm), 3) for algorithm in (FEW, MANY))
    assert few.source == many.source


@pytest.mark.parametrize(
    "strategy", [pytest.param(name, marks=() if name == "pull" else (pytest.mark.full,)) for name in GENERATED]
)
def test_parameters_do_not_recompile(strategy):
    few, many = FEW, MANY
    first = prepared(strategy, trace(few), 3)
    loaded = set(sys.modules)
    second = prepared(strategy, trace(many), 3)
    assert set(sys.modules) == loaded
    assert first.planned.source == second.planned.source
    answers = []
    for alpha in (0.5, 0.9):
        inputs = few.inputs(road(), 3)
        first.reset(Inputs(inputs.properties, {**inputs.parameters, "alpha": alpha}))
        first.run(3)
        answers.append(first.values("lp"))
    assert abs(answers[0] - answers[1]).max() > 1e-3


def test_scratch_of_workers_does_not_overlap():
    planned = generated("pull-all", program_named("solves"), 4, edges_and_loops())
    needed = max(kernel.scratch_floats for kernel in planned.kernels)
    assert needed > 0
    assert needed % 16 == 0, "every worker starts on a cache line"
    for kernel in planned.kernels:
        starts = [int(number) for number in re.findall(r"scratch_start \+ (\d+)", kernel.source)]
        assert all(start < kernel.scratch_floats for start in starts)
    assert f"worker * {needed}" in planned.source


def test_every_operand_is_computed_in_its_own_scope():
    """Operands that depend only on the source of an edge are computed before the loop over its edges."""
    planned = generated("push-all", trace(PageRank()), 4)
    (kernel,) = [k for k in planned.kernels if k.name == "share"]
    before, loop = kernel.source.split("for e in range(first, stop):")
    assert "vertex_out_degree" in before.split('"""')[-1]
    assert "/" in before
    assert "/" not in loop.split("@njit")[0]


# accumulators of their own ----------------------------------------------------------------------------------------
def test_programs_without_separate_accumulators_stay():
    for algorithm in (LabelPropagation(), PageRank()):
        program = trace(algorithm)
        assert separated(program) is program


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("power_iteration", {"x_reduced"}),
        ("own_aggregate", {"aggr_reduced"}),
        ("aggregate_rewritten", {"aggr_reduced"}),
        ("chained_reductions", {"near_reduced"}),
        ("several_reductions", set()),
    ],
)
def test_reductions_that_others_read_or_write_get_accumulators(name, own):
    program = program_named(name)
    apart = separated(program)
    assert set(apart.properties) - set(program.properties) == own
    assert len(apart.stages) == len(program.stages) + len(own)
    assert len({stage.name for stage in apart.stages}) == len(apart.stages)
    assert apart.outputs == program.outputs


def test_stages_of_one_name_are_distinguished():
    names = [stage.name for stage in program_named("one_name").stages]
    assert len(set(names)) == len(names) == 4


# small parts -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, 1e-30, float("inf"), float("-inf"), float("nan")])
def test_literals_are_float32(value):
    text = literal(value)
    assert text.startswith("float32(")
    assert ast.parse(text)


@pytest.mark.parametrize(
    ("old", "new", "tolerance", "relative", "differs"),
    [
        (1.0, 1.0, None, False, False), (1.0, 1.5, None, False, True), (1.0, 1.5, 0.6, False, False),
        (1.0, 1.5, 0.4, False, True), (1.0, 2.0, 0.5, True, False), (1.0, 2.0, 0.49, True, True),
        (float("inf"), float("inf"), 0.1, False, False), (float("nan"), float("nan"), 0.1, False, True),
        (1.0, float("nan"), None, False, True), (0.0, float("inf"), 0.5, False, True),
    ],
)  # fmt: skip
def test_the_definition_of_moved(old, new, tolerance, relative, differs):
    text = far("old", "new", None if tolerance is None else "tolerance", relative)
    code = compile(ast.parse(text, mode="eval"), "far", "eval")
    names = {"old": old, "new": new, "tolerance": tolerance, "abs": abs}
    assert bool(eval(code, {"__builtins__": {}}, names)) is differs  # noqa: S307 - the text under test


def test_blocks_reuse_values_of_enclosing_blocks():
    outer = Block("outer")
    inner = Block("inner", outer)
    beside = Block("beside", outer)
    value = Value("scalar", "x_1")
    outer.known["x"] = value
    inner.known["y"] = value
    assert inner.find("x") is value
    assert beside.find("y") is None
    assert (outer.depth, inner.depth) == (0, 1)


def test_layout_of_a_program_with_matrices():
    layout = Layout(33)
    assert layout.dims(()) == ()
    with pytest.raises(ValueError, match="more than two"):
        layout.stride((1, 2, 3))


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("onyx", {"dense_share": 0.1}, {"dense_share": 0.7}), ("tigr", {"degree_bound": 2}, {"degree_bound": 8}),
        ("onyx", {"direction": "push", "rebuild": 0}, {"direction": "push", "rebuild": 9}),
        ("simdx", {"warp_degree": 2}, {"warp_degree": 3}), ("gunrock", {"rebuild": 1}, {"rebuild": 2}),
    ],
)  # fmt: skip
def test_options_that_do_not_shape_code_do_not_recompile(name, one, other):
    sources = []
    for options in (one, other):
        engine = generated_by(name, options, trace(PageRank()), road(), 4)
        sources.append(engine.planned.source)
        for option, value in options.items():
            assert f"{option}={value!r}" in engine.explain()
    assert sources[0] == sources[1]
