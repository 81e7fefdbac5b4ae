"""The emulator's compiler, with a compiler that notes its commands; and the order of writes, copies and launches."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from harness.emulation import arrays, compiler
from harness.emulation.arrays import EmulatedDevice, Event, Order, Runtime, Stream, allocated
from harness.emulation.compiler import EmulationError

SOURCE = 'extern "C" __global__ void nothing(float* x)\n{\n}\n'


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Return the commands of a compiler that writes what it is given into its output."""
    made = []

    def called(arguments):
        made.append([str(one) for one in arguments])
        inputs = [Path(one) for one in made[-1] if one.startswith(str(tmp_path))]
        text = "|".join(one.read_text(encoding="utf-8") for one in inputs[:-1] if one.suffix not in (".h",))
        inputs[-1].write_text(text)

    monkeypatch.setattr(compiler, "_folder", lambda: tmp_path)
    monkeypatch.setattr(compiler, "_called", called)
    monkeypatch.setattr(compiler, "_version", lambda: "g++ 12.2.0")
    return made


@pytest.mark.parametrize("kind", [{}, {"counting": True}, {"racing": True}], ids=str)
def test_a_module_is_compiled_with_the_built_ins_and_linked_with_the_runtime_once(commands, tmp_path, kind):
    path = compiler.library(SOURCE, {}, **kind)
    runtime, header, module, link = commands
    assert [Path(one[-1]).suffix for one in commands] == [".o", ".gch", ".o", ".so"]
    assert "-c" in runtime
    assert header[-5:-3] == ["-x", "c++-header"]
    included = Path(module[module.index("-include") + 1])
    assert (included.name, included.read_text()) == ("cuda_on_cpu.h", compiler._text("cuda_on_cpu.h"))
    assert included.with_name("cuda_on_cpu.h.gch").exists(), "beside the header that is included"
    assert link[:3] == ["-shared", *compiler.LINKED]
    assert Path(link[3]).name == "module.o"
    linked = Path(link[4])
    assert (linked.parent, linked.suffix) == (tmp_path, ".o")
    assert path.parent == tmp_path
    assert "nothing" in path.read_text()
    assert path.read_text().endswith(f"|{linked.read_text()}")
    options = {"counting": compiler.COUNTING, "racing": compiler.RACING}.get(next(iter(kind), ""), compiler.PLAIN)
    assert [one for one in module if one in options] == list(options)
    assert compiler.library(SOURCE, {}, **kind) == path
    assert len(commands) == 4
    other = compiler.library(SOURCE.replace("nothing", "something"), {}, **kind)
    assert len(commands) == 6, "the runtime and the built-ins are compiled once"
    assert (other.exists(), path.exists(), other != path) == (True, True, True)
    assert sorted(one.suffix for one in tmp_path.iterdir() if one.is_file()) == [".o", ".so", ".so"]


def test_libraries_of_other_kinds_and_headers_are_others(commands):
    text = f'#include "size.cuh"\n{SOURCE}'
    given = [{"size.cuh": "#define SIZE 1"}, {"size.cuh": "#define SIZE 2"}]
    paths = {compiler.library(text, headers, **kind) for headers in given for kind in ({}, {"racing": True})}
    assert len(paths) == 4


def test_a_global_barrier_in_which_blocks_cannot_yield_is_an_error():
    with pytest.raises(EmulationError, match=r"does not have the text 'if \(\+\+looks =="):
        compiler.library(f"class GlobalBarrier {{}};\n{SOURCE}", {}, concurrent=True)


def test_a_compiler_that_fails_is_an_error_with_its_message():
    if shutil.which(compiler.COMPILER) is None:
        pytest.skip("no compiler")
    assert compiler._called(["--version"]) is None
    with pytest.raises(EmulationError, match="does not compile a generated module:\n.*no-such-file"):
        compiler._called(["no-such-file.cpp"])


@pytest.mark.parametrize(
    ("version", "least", "reason"),
    [
        ("g++ (Some) 9.4.0\nCopyright\nThere is NO warranty\n", 10, "the one on the PATH is g++ (Some) 9.4.0: install"),
        ("g++ (Some) 10.1.0\nCopyright\n", 10, ""), ("g++ (Some) 9.4.0\n", 0, ""),
        ("another\nsecond\nthird", 10, "the one on the PATH is another: install"),
        ("another\nsecond\nthird", 0, "the one on the PATH is another: install"),
    ],
)  # fmt: skip
def test_an_old_compiler_is_named_by_the_first_line_of_its_version(monkeypatch, version, least, reason):
    monkeypatch.setattr(compiler, "_version", lambda: version)
    monkeypatch.setattr(compiler.shutil, "which", lambda name: name)
    found = compiler.unavailable(least)
    assert bool(found) == bool(reason)
    assert reason in found
    assert "Copyright" not in found
    monkeypatch.setattr(compiler.shutil, "which", lambda name: None)
    assert f"with {compiler.COMPILER}, which is not installed: install" in compiler.unavailable(least)


# order ----------------------------------------------------------------------------------------------------------------
WRITES = {
    "an element": lambda array: array.__setitem__(0, 1.0), "all": lambda array: array.fill(2.0),
    "from the host": lambda array: array.set(np.zeros(4, np.float32)),
}  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
def test_a_launch_on_a_stream_may_begin_before_what_the_host_has_written(write):
    array = allocated(np.zeros(4, np.float32))
    EmulatedDevice().synchronize()
    with Stream():
        assert not Order.unordered()
        WRITES[write](array)
        assert not Order.unordered(), "the write is on the stream itself"
    WRITES[write](array)
    assert not Order.unordered(), "the default stream waits for its own writes"
    with Stream():
        assert Order.unordered()
        WRITES[write](array)
        assert Order.unordered(), "a later write on the stream does not wait for the earlier one"
    EmulatedDevice().synchronize()
    with Stream():
        assert not Order.unordered()
    assert not Order.streams


def test_copies_are_made_once_when_they_are_waited_for():
    source, target = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    stream, other, event = Stream(), Stream(), Event()
    copy = partial(Runtime.memcpyAsync, target.ctypes.data, source.ctypes.data, source.nbytes, 1)
    copy(stream.ptr)
    event.record(stream)
    source[:] = 7.0
    copy(stream.ptr)
    assert not target.any()
    other.wait_event(event)
    assert target.tolist() == [7.0] * 4, "a copy reads its source when it is made"
    assert len(stream.pending) == 1, "what was queued behind the event stays"
    source[:] = 8.0
    event.synchronize()
    assert target.tolist() == [7.0] * 4, "it is made once"
    stream.synchronize()
    assert target.tolist() == [8.0] * 4
    source[:] = 9.0
    stream.synchronize()
    event.synchronize()
    assert target.tolist() == [8.0] * 4
    assert not stream.pending


def test_arrays_of_the_device_are_guarded_and_copied():
    given = np.arange(6, dtype=np.int16).reshape(2, 3)
    array = allocated(given, np.float32)
    assert (array.dtype, array.shape, array.data.ptr % arrays.GUARD) == (np.float32, (2, 3), 0)
    copy, out = array.get(), np.zeros((2, 3), np.float32)
    copy[:] = -1.0
    assert array.get(out) is out
    assert out.tolist() == given.tolist()
    for place in (-1, array.nbytes):
        guarded = allocated(given, np.float32)
        guarded.guarded[arrays.GUARD + place] ^= 1
        assert not guarded.unharmed()
    assert array.unharmed()
    assert array[1:].unharmed()
    with pytest.raises(TypeError, match=r"Only numpy\.ndarray can be set"):
        array.set(array)
