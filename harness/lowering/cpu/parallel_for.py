"""Run the parts of one superstep on all threads, from compiled code, through Numba's own thread pool.

Usage, in a generated module (a template; the kernel has any further arguments)::

    from numba import njit, int64, uint32, float32, void
    from harness.lowering.cpu.parallel_for import launch

    @njit(nogil=True, error_model="numpy", _nrt=False)
    def part(t, worker, bounds, offsets, neighbours, x, y):
        for v in range(bounds[t], bounds[t + 1]):
            ...

    @njit(int64(int64, int64, int64[::1], int64[::1], uint32[::1], float32[::1], float32[::1]),
          nogil=True, cache=True, error_model="numpy", _nrt=False)
    def superstep(parts, threads, bounds, offsets, neighbours, x, y):
        return launch(part, parts, threads, (bounds, offsets, neighbours, x, y))

`launch` calls part(t, worker, *arguments) once for every t in 0 .. parts - 1 and returns when all have ended.
`worker` is in 0 .. threads - 1, and no two concurrent calls share it: it indexes private scratch space. `launch` gives
each worker a run of consecutive parts, the same in each superstep. With `launch_dynamic`, a worker takes the next part
when it is free (divide the work into 8 to 16 parts per thread, of equal numbers of edges). The result is the number of
parts that raised an exception: 0 unless the kernel contains `raise`. A worker continues with its other parts.

Only the driver needs `cache=True` and a signature: the kernel is compiled into it. `_nrt=False` omits reference counts,
which a kernel that allocates no array does not need. `threads` is at most `numba.get_num_threads()`.

Measured with 20 array arguments: compiled in 0.35 s (`parallel=True` and `prange`: 0.58 s), read from the cache in 14
ms (15 ms), a whole call from Python 2.0 us (2.2 us) on one thread and, on two that are otherwise idle, 3.0 us, or 2.4
us dynamic (3.4 us). If other programs use the processors, a launch can wait for a time slice of some ms.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, no-warn-return-any
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.compiler import Flags, compile_internal
from numba.core.cpu import CPUTargetOptions
from numba.core.errors import TypingError
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from harness.lowering.cpu.row_types import NumbaType

numba.get_num_threads()  # starts the pool and registers its entry point with the linker, which cached code needs too

Typed = tuple[Signature, Callable[..., ir.Value]]
INT64 = ir.IntType(64)
POINTER = cgutils.voidptr_t
FAILED, NEXT, PARTS, THREADS, ARGUMENTS = range(5)  # members of the memory that the workers share


def shared_block(context: Any, arguments: NumbaType) -> ir.Type:
    """Return the LLVM type of the shared memory: failures, next part, parts, threads, the kernel's arguments."""
    return ir.LiteralStructType([INT64] * 4 + [context.get_value_type(argument) for argument in arguments])


def emit_call(
    context: Any, builder: ir.IRBuilder, kernel: Any, block: ir.Value, part: ir.Value, worker: ir.Value
) -> None:
    """Call the kernel for one part, and count a failure."""
    sig = kernel.signature
    values = [builder.load(cgutils.gep_inbounds(builder, block, 0, ARGUMENTS + i)) for i in range(len(sig.args) - 2)]
    status, _ = context.call_internal_no_propagate(builder, kernel.fndesc, sig, [part, worker, *values])
    with builder.if_then(status.is_error, likely=False):
        builder.atomic_rmw("add", cgutils.gep_inbounds(builder, block, 0, FAILED), INT64(1), "monotonic")


def emit_claims(builder: ir.IRBuilder, counter: ir.Value, parts: ir.Value, call: Callable[[ir.Value], None]) -> None:
    """Claim and call the next part until none is left."""
    claim, body, done = (builder.append_basic_block(name) for name in ("claim", "body", "done"))
    builder.branch(claim)
    builder.position_at_end(claim)
    part = builder.atomic_rmw("add", counter, INT64(1), "monotonic")
    builder.cbranch(builder.icmp_signed("<", part, parts), body, done)
    builder.position_at_end(body)
    call(part)
    builder.branch(claim)
    builder.position_at_end(done)


def emit_worker(context: Any, module: ir.Module, kernel: Any, block_type: ir.Type, dynamic: bool) -> ir.Function:
    """Return the pool's function of one thread: void(char **arguments, int64 *dimensions, int64 *steps, void *data).

    The pool advances a dummy argument, whose address is 0, by one byte per worker: arguments[0] is the number of the
    first worker, and dimensions[0] is the number of workers that this call executes.
    """
    pointers = [POINTER.as_pointer(), INT64.as_pointer(), INT64.as_pointer(), POINTER]
    name = module.get_unique_name(f"worker.{kernel.fndesc.mangled_name}")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), pointers), name)
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    first = builder.ptrtoint(builder.load(function.args[0]), INT64)
    turns = builder.load(function.args[1])
    block = builder.bitcast(function.args[3], block_type.as_pointer())
    member = {name: cgutils.gep_inbounds(builder, block, 0, name) for name in (NEXT, PARTS, THREADS)}
    parts = builder.load(member[PARTS])
    with cgutils.for_range(builder, turns) as turn:
        worker = builder.add(first, turn.index)

        def call(part: ir.Value, worker: ir.Value = worker) -> None:
            emit_call(context, builder, kernel, block, part, worker)

        if dynamic:
            emit_claims(builder, member[NEXT], parts, call)
        else:
            threads = builder.load(member[THREADS])
            start = builder.sdiv(builder.mul(worker, parts), threads)
            stop = builder.sdiv(builder.mul(builder.add(worker, INT64(1)), parts), threads)
            with cgutils.for_range_slice(builder, start, stop, INT64(1), inc=True) as (part, _):
                call(part)
    builder.ret_void()
    return function


def compile_part(context: Any, dispatcher: Any, arguments: tuple[NumbaType, ...]) -> Any:
    """Compile the kernel as a part of the function that launches it; return Numba's result of the compilation.

    Nothing else calls the kernel, so it has no wrappers, and no library of its own: that would be optimised and
    translated to machine code before it is linked into this one. Measured on 40 kernels of programs: 0.42 s each with
    such a library and reference counts, 0.33 s without them.
    """
    flags: Any = Flags()
    CPUTargetOptions.parse_as_flags(flags, dispatcher.targetoptions)
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    library = context.active_code_library
    kernel = compile_internal(
        context.typing_context, context.subtarget(enable_nrt=bool(flags.nrt)), library,
        dispatcher.py_func, arguments, None, flags, {},
    )  # fmt: skip
    library.get_function(kernel.fndesc.mangled_name).linkage = "linkonce_odr"  # inlined, or removed if unused
    return kernel


def emit_launch(
    context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value], dynamic: bool
) -> ir.Value:
    """Fill the shared block and pass the worker function to the pool; return the number of failures."""
    kernel_type, _, _, tuple_type = sig.args
    kernel = compile_part(context, kernel_type.dispatcher, (types.int64, types.int64, *tuple_type.types))
    block_type = shared_block(context, tuple_type.types)
    block = cgutils.alloca_once(builder, block_type)
    _, parts, threads, packed = args
    members = [INT64(0), INT64(0), parts, threads, *cgutils.unpack_tuple(builder, packed, len(tuple_type.types))]
    for i, value in enumerate(members):
        builder.store(value, cgutils.gep_inbounds(builder, block, 0, i))
    worker = emit_worker(context, builder.module, kernel, block_type, dynamic)

    def in_memory(value: ir.Value) -> ir.Value:
        return builder.bitcast(cgutils.alloca_once_value(builder, value), POINTER)

    pool_type = ir.FunctionType(ir.VoidType(), [POINTER] * 5 + [INT64] * 3)
    pool = cgutils.get_or_insert_function(builder.module, pool_type, "numba_parallel_for")
    fake_argument = in_memory(ir.Constant(POINTER, None))
    leading = [builder.bitcast(worker, POINTER), fake_argument, in_memory(threads), in_memory(INT64(1))]
    builder.call(pool, [*leading, builder.bitcast(block, POINTER), INT64(1), INT64(1), threads])
    return builder.load(cgutils.gep_inbounds(builder, block, 0, FAILED))


def launching(kernel: NumbaType, arguments: NumbaType, dynamic: bool) -> Typed:
    """Return the typing and code of a launch."""
    if not isinstance(kernel, types.Dispatcher):
        raise TypingError(f"launch() takes a compiled function first, not {kernel}")
    if not isinstance(arguments, types.BaseTuple):
        raise TypingError(f"launch() takes the kernel's arguments as a tuple, not {arguments}")

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        return emit_launch(context, builder, sig, args, dynamic)

    return types.int64(kernel, types.int64, types.int64, arguments), codegen


@intrinsic
def launch(typingctx: Any, kernel: NumbaType, parts: NumbaType, threads: NumbaType, arguments: NumbaType) -> Typed:
    """Run kernel(t, worker, *arguments) for t in 0 .. parts - 1, consecutive parts on the same worker each time."""
    return launching(kernel, arguments, dynamic=False)


@intrinsic
def launch_dynamic(
    typingctx: Any, kernel: NumbaType, parts: NumbaType, threads: NumbaType, arguments: NumbaType
) -> Typed:
    """Run kernel(t, worker, *arguments) for t in 0 .. parts - 1, each on the worker that is free first."""
    return launching(kernel, arguments, dynamic=True)
