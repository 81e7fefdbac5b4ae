"""CUDA C++ to machine code without a device: parsing of the compiler's output, the cache, errors."""

from __future__ import annotations

import re
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the CUDA compiler is installed on Linux only")

CHIPS = ("sm_80", "sm_90", "sm_100")
SMALL = """
extern "C" __global__ void __launch_bounds__(128) nothing() {}
extern "C" __global__ void __launch_bounds__(128) shares(float* out)
{
    __shared__ float kept[128];
    kept[threadIdx.x] = out[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = kept[127 - threadIdx.x];
}
extern "C" __global__ void __launch_bounds__(128) local(float* out, const int* order)
{
    float mine[64];
    for (int i = 0; i < 64; ++i) mine[order[i]] = out[i];
    for (int i = 0; i < 64; ++i) out[i] = mine[order[64 + i]];
}
"""
# All 96 values are live between the two loops, and 1,024 threads of a block leave 64 registers each.
SPILLING = """
extern "C" __global__ void __launch_bounds__(BLOCK) many(float* out)
{
    float kept[96];
    _Pragma("unroll") for (int i = 0; i < 96; ++i) kept[i] = out[i * 4096 + threadIdx.x];
    __syncthreads();
    _Pragma("unroll") for (int i = 0; i < 96; ++i) out[i * 4096 + threadIdx.x] = kept[95 - i] * kept[i / 2];
}
"""


@pytest.mark.parametrize("chip", CHIPS)
def test_resources_of_known_kernels(chip):
    from harness.device.compilation import compiled

    found = compiled(SMALL, {}, chip).resources()
    assert set(found) == {"nothing", "shares", "local"}
    assert {name: kernel["shared"] for name, kernel in found.items()} == {"nothing": 0, "shares": 512, "local": 0}
    assert {name: kernel["stack"] for name, kernel in found.items()} == {"nothing": 0, "shares": 0, "local": 256}
    assert all(kernel["spills"] == 0 for kernel in found.values())
    assert found["nothing"]["registers"] < found["shares"]["registers"] <= 32


@pytest.mark.parametrize("chip", CHIPS)
def test_spills_show(chip):
    from harness.device.compilation import compiled

    roomy = compiled(f"#define BLOCK 256\n{SPILLING}", {}, chip).resources()["many"]
    assert roomy["registers"] > 96
    assert roomy["spills"] == 0
    tight = compiled(f"#define BLOCK 1024\n{SPILLING}", {}, chip).resources()["many"]
    assert tight["registers"] <= 64
    assert tight["spills"] >= 4 * (96 - 64)


@pytest.mark.parametrize(("version", "expected"), [((12, 8), False), ((12, 9), True), ((13, 0), True)])
def test_code_from_the_cache_of_the_driver_is_not_taken(version, expected, tmp_path, monkeypatch):
    """It has no log, and takes the time of no compilation."""
    from cupy.cuda import nvrtc

    from harness.device import compilation

    taken = []
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path))
    monkeypatch.setattr(nvrtc, "getVersion", lambda: version)
    monkeypatch.setattr(nvrtc, "compileProgram", lambda _, options: taken.extend(options))
    monkeypatch.setattr(nvrtc, "getProgramLog", lambda _: "")
    monkeypatch.setattr(nvrtc, "getCUBIN", lambda _: b"\x7fELF0000")
    compilation.compiled(SMALL, {}, "sm_90")
    assert ("--no-cache" in taken) == expected
    assert set(taken) - {"--no-cache"} == {*compilation.OPTIONS, "--gpu-architecture=sm_90"}


def test_machine_code_is_a_whole_elf_file():
    from harness.device.compilation import compiled

    code = compiled(SMALL, {}, "sm_90").code
    assert code[:4] == b"\x7fELF"
    sections, size, count = (
        int.from_bytes(code[at : at + width], "little") for at, width in ((40, 8), (58, 2), (60, 2))
    )
    programs, length, number = (
        int.from_bytes(code[at : at + width], "little") for at, width in ((32, 8), (54, 2), (56, 2))
    )
    assert len(code) == max(sections + size * count, programs + length * number)


def test_headers_are_part_of_the_cache_key(tmp_path, monkeypatch):
    from harness.device import compilation

    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path))
    source = f'#include "size.cuh"\n{SMALL}'.replace("kept[128]", "kept[SIZE]")
    one = compilation.compiled(source, {"size.cuh": "#define SIZE 128"}, "sm_90")
    two = compilation.compiled(source, {"size.cuh": "#define SIZE 256"}, "sm_90")
    assert (one.resources()["shares"]["shared"], two.resources()["shares"]["shared"]) == (512, 1024)
    assert len(list((tmp_path / "cuda").glob("*.compiled"))) == 2
    monkeypatch.setattr(compilation, "_compile", lambda *_: pytest.fail("compiled again"))
    again = compilation.compiled(source, {"size.cuh": "#define SIZE 256"}, "sm_90")
    assert again == two


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Return the results of the next compilations, and use an empty cache."""
    from harness.device import compilation

    made = [compilation.Compiled(b"\x7fELF\n code", "a log"), compilation.Compiled(b"\x7fELF\n code", "another\nlog")]
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path))
    monkeypatch.setattr(compilation, "_compile", lambda *_: made.pop(0))
    return made


@pytest.mark.parametrize("at", [0, 40, -1])
def test_damaged_machine_code_is_compiled_again(at, tmp_path, results):
    from harness.device import compilation

    first = compilation.compiled(SMALL, {}, "sm_90")
    assert compilation.compiled(SMALL, {}, "sm_90") == first
    (path,) = (tmp_path / "cuda").iterdir()
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    second = compilation.compiled(SMALL, {}, "sm_90")
    assert second.log == "another\nlog"
    assert compilation.compiled(SMALL, {}, "sm_90") == second
    assert not results


def test_a_result_that_two_processes_store_is_whole_at_any_moment(results, monkeypatch, caplog):
    """The logs of two compilations differ."""
    from harness import digests
    from harness.device import compilation

    both, inner, other, read = list(results), digests.write_whole, [], []

    def compile_here(*_):
        found = results.pop()
        if results:  # another process begins later, and stores its result first
            other.append(compilation.compiled(SMALL, {}, "sm_90"))
        return found

    def write(*arguments):
        inner(*arguments)
        if other:
            read.append(compilation.compiled(SMALL, {}, "sm_90"))

    monkeypatch.setattr(compilation, "_compile", compile_here)
    monkeypatch.setattr(digests, "write_whole", write)
    monkeypatch.setattr(compilation, "write_whole", write)
    assert compilation.compiled(SMALL, {}, "sm_90") == both[1]
    assert other == [both[0]]
    assert read
    assert set(read) <= {*both}
    assert not caplog.records


def test_an_error_shows_the_line_of_the_source():
    from harness.device.compilation import compiled
    from harness.device.errors import CompilationFailed

    with pytest.raises(CompilationFailed, match=re.escape("__global__ void wrong() { unknown_name = 1; }")):
        compiled('extern "C" __global__ void wrong() { unknown_name = 1; }', {}, "sm_90")


def test_a_kernel_that_does_not_compile_shows_the_users_line_and_the_generated_source(tmp_path, monkeypatch):
    from harness.algorithms.label_propagation import LabelPropagation
    from harness.contract import Device
    from harness.device.errors import CompilationFailed
    from harness.graph.generators import rmat
    from harness.language import trace
    from harness.lowering.cuda.modules import compiled_module, headers
    from tests.engines.cuda_modules import DECLARED

    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path))
    engine, program = DECLARED["onyx"].build((("change_driven", False),)), trace(LabelPropagation())
    engine.generate(program, rmat(scale=5, symmetric=True, max_weight=2), 8, Device("cuda"))
    (message,) = [line for line in engine.planned.source.splitlines() if "aggr_total[f] +=" in line]
    source = engine.planned.source.replace(message, message.replace("+=", "+= wrong *"))
    with pytest.raises(CompilationFailed) as caught:
        compiled_module(source, headers(engine.planned.templates), "sm_90", engine.planned.program)
    error_text = str(caught.value)
    assert 'identifier "wrong" is undefined' in error_text
    assert message.strip().replace("+=", "+= wrong *") in error_text
    (spread,) = [stage for stage in program.stages if stage.name == "spread"]
    assert f"spread is from {spread.line.file}:{spread.line.line}\n    {spread.line.text}" in error_text
    assert error_text.count("is from") == 1
    (kept,) = tmp_path.glob("cuda/*.failed.cu")
    assert str(kept) in error_text
    assert kept.read_text() == source


@pytest.mark.parametrize(
    ("file", "kernels"),
    [("rates.cu", {"read", "copy", "add", "add4", "nothing"}), ("link.cu", {"read_in_place"})],
)
@pytest.mark.parametrize("chip", CHIPS)
def test_the_kernels_that_measure_rates_compile_without_spills(chip, file, kernels):
    from harness.device.compilation import compiled
    from harness.device.cuda_rates import SOURCE

    resources = compiled(SOURCE.with_name(file).read_text(encoding="utf-8"), {}, chip).resources()
    assert set(resources) == kernels
    assert all(one["spills"] == one["stack"] == 0 and one["registers"] <= 64 for one in resources.values())
