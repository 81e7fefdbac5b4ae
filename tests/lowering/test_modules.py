"""Generated modules: one file per content, machine code shared between processes."""

import gc
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.cache import CACHE_VARIABLE, CacheError
from harness.lowering.cpu import modules
from harness.lowering.cpu.modules import load_module

SOURCE = """
from numba import njit, float32, void
from harness.lowering.cpu.parallel_for import launch
from harness.lowering.cpu.rows import row_ops, store

load = row_ops(5).load

@njit(nogil=True, error_model="numpy")
def part(t, worker, x):
    store(x, t * 5, load(x, t * 5) * 2)

@njit("int64(int64, int64, float32[::1])", nogil=True, cache=True, error_model="numpy")
def double(parts, threads, x):
    return launch(part, parts, threads, (x,))
"""

SECOND_PROCESS = f"""
import numpy as np
from harness.lowering.cpu.modules import load_module
module = load_module({SOURCE!r}, "doubling")
x = np.arange(10, dtype=np.float32)
assert module.double(2, 1, x) == 0
assert (x == 2 * np.arange(10)).all(), x
stats = module.double.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    return tmp_path / "cpu"


def run_process():
    run = subprocess.run([sys.executable, "-c", SECOND_PROCESS], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    hits, misses = map(int, run.stdout.split())
    return hits, misses


def test_a_second_process_compiles_nothing(folder):
    assert run_process() == (0, 1)
    (path,) = folder.glob("*.py")
    stamp = path.stat().st_mtime_ns
    assert run_process() == (1, 0)
    assert path.stat().st_mtime_ns == stamp


def test_of_processes_that_start_at_once_one_compiles(folder):
    with ThreadPoolExecutor(3) as pool:
        assert sorted(pool.map(lambda _: run_process(), range(3))) == [(0, 1), (1, 0), (1, 0)]
    assert len(list(folder.glob("*.py"))) == 1
    assert not list(folder.glob(".*"))
    assert run_process() == (1, 0)


def test_the_same_source_is_one_module_and_another_source_another():
    first = load_module("value = 1\n", "numbers")
    assert load_module("value = 1\n", "numbers") is first
    other = load_module("value = 2\n", "numbers")
    assert (first.value, other.value) == (1, 2)
    assert first.__name__ != other.__name__
    assert first.__name__.startswith("numbers_")


def test_the_name_depends_on_the_toolchain(monkeypatch):
    first = load_module("value = 3\n", "numbers")
    monkeypatch.setattr(modules, "toolchain_fingerprint", lambda: "another processor")
    assert load_module("value = 3\n", "numbers").__name__ != first.__name__


def test_a_damaged_file_is_replaced(folder):
    module = load_module("value = 4\n", "numbers")
    path = folder / f"{module.__name__}.py"
    path.write_text("value = ")
    del sys.modules[module.__name__]
    assert load_module("value = 4\n", "numbers").value == 4
    assert path.read_text() == "value = 4\n"


@pytest.mark.short_run(rows=1)
@pytest.mark.parametrize("content", [b"", b"\xf0damaged"], ids=["empty", "garbage"])
def test_damaged_machine_code_is_compiled_again(folder, content):
    assert run_process() == (0, 1)
    stored = [path for path in (folder / "__pycache__").iterdir() if path.suffix in (".nbi", ".nbc")]
    assert len(stored) == 2
    for path in stored:
        path.write_bytes(content)
    assert run_process() == (0, 1)
    assert run_process() == (1, 0)


@pytest.mark.parametrize("damaged", ["*.nbc", pytest.param("*.digest", marks=pytest.mark.full)])
def test_machine_code_with_a_changed_byte_is_not_run(folder, damaged):
    """Numba would load it, and the process would crash or compute something else."""
    assert run_process() == (0, 1)
    (path,) = (folder / "__pycache__").glob(damaged)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert run_process() == (0, 1)
    assert run_process() == (1, 0)


def test_machine_code_that_another_process_is_storing_is_waited_for(folder, monkeypatch, caplog):
    """Until it has stored all of it, its files differ from the digest."""
    module = load_module(SOURCE, "doubling")
    (path,) = (folder / "__pycache__").glob("*.nbc")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    del sys.modules[module.__name__]
    waited, lock = [], modules.fcntl.flock

    def stored_meanwhile(handle, operation):
        waited.append(handle.name)
        path.write_bytes(whole)
        lock(handle, operation)

    monkeypatch.setattr(modules.fcntl, "flock", stored_meanwhile)
    again = load_module(SOURCE, "doubling")
    assert waited == [str(folder / f"{module.__name__}.py")]
    assert not caplog.records
    assert again.double.stats.cache_hits, "it is not compiled again"
    del sys.modules[module.__name__]
    load_module(SOURCE, "doubling")
    assert len(waited) == 1, "nobody waits for code that has its digest"


def test_a_damaged_compiled_module_is_replaced(folder, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    module = load_module("value = 6\n", "numbers")
    (path,) = (folder / "__pycache__").glob("*.pyc")
    path.write_bytes(path.read_bytes()[:20])
    del sys.modules[module.__name__]
    assert load_module("value = 6\n", "numbers").value == 6
    assert path.stat().st_size > 20


@pytest.mark.full
def test_machine_code_without_a_digest_gets_one(folder):
    assert run_process() == (0, 1)
    (path,) = (folder / "__pycache__").glob("*.digest")
    recorded = path.read_bytes()
    path.unlink()
    assert run_process() == (1, 0)
    assert path.read_bytes() == recorded


def test_a_file_that_another_process_is_writing_is_kept(folder, monkeypatch):
    path, seen = folder / "late.py", []

    def waited(*_):
        path.write_text("value = 5\n")
        seen.append(path.stat())

    monkeypatch.setattr(modules.fcntl, "flock", waited)
    modules.write_once(path, "value = 5\n")
    assert [(one.st_ino, one.st_mtime_ns) for one in seen] == [(path.stat().st_ino, path.stat().st_mtime_ns)]


def test_errors_in_the_source_leave_no_module():
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            load_module("value = 1 / 0\n", "failing")
    assert not [name for name in sys.modules if name.startswith("failing_")]


def test_a_stem_must_be_an_identifier():
    with pytest.raises(ValueError, match="identifier"):
        load_module("", "../escape")


def test_source_and_machine_code_that_cannot_be_kept_are_the_caches_fault(folder):
    folder.touch()
    with pytest.raises(CacheError, match="the cache cannot be written"):
        load_module("value = 1\n", "plain")
    folder.unlink()
    refused = "raise OSError(28, 'No space left on device')\n"  # as Numba does while it stores compiled modules
    with pytest.raises(CacheError, match=r"cannot be written \(\[Errno 28\] No space left on device\)"):
        load_module(refused, "plain")


def test_garbage_is_collected_rarely_while_a_module_is_compiled_only():
    before = gc.get_threshold()
    try:
        gc.set_threshold(700, 10, 10)
        module = load_module("import gc\nfound = gc.get_threshold()\n", "collecting")
        assert module.found[0] > 10_000
        assert gc.get_threshold() == (700, 10, 10)
        with pytest.raises(ZeroDivisionError):
            load_module("1 / 0", "failing")
        assert gc.get_threshold() == (700, 10, 10)
    finally:
        gc.set_threshold(*before)
