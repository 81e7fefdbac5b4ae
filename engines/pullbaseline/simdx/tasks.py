"""Programs with active vertices in CUDA C++: the functions of ACC, and the kernels that call them (secs. 3 to 5)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engines.pullbaseline.simdx.resolve import BIN_SIZE
from harness.api.cuda import NEVER, CudaKernel, Function, Parameter, combine_threads, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engines.pullbaseline.schedules import SimdxSchedule
    from engines.pullbaseline.simdx.activity import Activity
    from harness.api.cuda import CudaKernelBuilder

    MakeBuilder = Callable[[str, str, Sequence[tuple[str, str]]], CudaKernelBuilder]

OPERATION = {"sum": "Add", "min": "Min", "max": "Max"}

PUSH = """
    @kernel
    const Share<Worker> share(length);
    for (Id i = share.first; i < length; i += share.step) {
        const Id u = list[i];
        const EdgeId end = out_offsets[u + 1];
        for (EdgeId e = out_offsets[u] + share.member; e < end; e += share.size) {
            const Id v = out_neighbours[e];
            @edge
        }
    }
"""
PULL = """
    @kernel
    for (Id i = Worker::number(); i < length; i += Worker::all()) {
        const Id v = list[i];
        const EdgeId end = in_offsets[v + 1];
        @vertex
        for (EdgeId e = in_offsets[v] + Worker::member(); e < end; e += Worker::SIZE) {
            const Id u = in_neighbours[e];
            @edge
        }
        @combine
        if (Worker::member() == 0) {
            @store
        }
    }
"""
# Vote: a vertex that has received a message needs no more, and one message ends the search of all threads that share
# the vertex.
VOTE = """
    @kernel
    for (Id i = Worker::number(); i < length; i += Worker::all()) {
        const Id v = list[i];
        @known
        const EdgeId end = in_offsets[v + 1];
        @vertex
        for (EdgeId base = in_offsets[v]; base < end; base += Worker::SIZE) {
            const EdgeId e = base + Worker::member();
            if (e < end) {
                const Id u = in_neighbours[e];
                @edge
                ++visited;
            }
            @vote
        }
        @combine
        if (Worker::member() == 0) {
            @store
        }
    }
"""
STEP = """
    @kernel
    {
        @vertex
    }
"""
LISTED = (("list", "ids"), ("length", "Id"))
PUSH_OWN = {"list": "const Id*", "length": "Id", "bin": "Bin&", "superstep": "Count", "votes": "bool"}
PULL_OWN = {**PUSH_OWN, "visited": "Count&"}
STEP_OWN = {"v": "Id", "moved": "bool&"}


class TaskFunctions:
    """The functions of a program; ``make`` creates their builders.

    ``push`` and ``pull`` process a list with one kind of worker. ``step`` runs a vertex's steps and returns whether it
    is active.
    """

    def __init__(self, activity: Activity, schedule: SimdxSchedule, make: MakeBuilder) -> None:
        self.activity, self.make, self.filter = activity, make, schedule.filter
        self.all = (self._push(), self._pull(), self._step())

    def _push(self) -> Function:
        stage = self.activity.reduction
        builder = self.make("push_messages", PUSH, (*LISTED, ("out_offsets", "offsets"), ("out_neighbours", "ids")))
        builder.bind("src", "edge", "u")
        builder.bind("sent", "edge", "u", "sent_")
        builder.bind_edge(stage, "edge", "csr")
        builder.bind("dst", "edge", "v")
        builder.comment("edge", stage)
        message = builder.mapping.kept(self.activity.message)
        target = builder.mapping.start(builder.argument(f"vertex_{stage.into}", "f32"), "v", stage.message)
        applied = f"applied<{OPERATION[stage.reducer]}>({target}, {message.text})"
        if self.filter != "ballot":
            marks = builder.argument("marks", "list")
            add = f"bin.add_first(v, {marks}, superstep)"
            if self.activity.votes and message.length <= 1:  # of equal messages, only one changes the value
                add = f"votes ? bin.add(v) : {add}"
            applied = f"if ({applied}) {add}"
        builder.blocks["edge"].line(f"{applied};")
        return Function.of(builder.finish(unless=NEVER), template="class Worker, class Bin", own=PUSH_OWN)

    def _pull(self) -> Function:
        stage, votes = self.activity.reduction, self.activity.votes
        listed = (*LISTED, ("in_offsets", "offsets"), ("in_neighbours", "ids"))
        builder = self.make("pull_messages", VOTE if votes else PULL, listed)
        builder.bind("src", "edge", "u")
        builder.bind_edge(stage, "edge", "csc")
        builder.bind("dst", "vertex", "v")
        decided = f"decided<{OPERATION[stage.reducer]}>"
        if votes:
            builder.bind("known", "known", "v")
            known = builder.mapping.kept(builder.reading("known", self.activity.metadata)).text
            builder.blocks["known"].line(f"if (votes && {decided}({known})) continue;")
        builder.comment("edge", stage)
        total = builder.accumulator("total", stage.message, stage.reducer, "vertex")
        builder.accumulate(total, stage.message, stage.reducer, "edge")
        if votes and total.length <= 1:  # with several features, each thread would find different ones
            builder.blocks["vote"].line(f"if (votes && Worker::any({decided}({total.text}))) break;")
        combine_threads(builder, total, stage.message, stage.reducer, "combine", "Worker::template combined")
        if self.filter == "online":
            builder.bind("before", "store", "v")
            changed = builder.moved("before", stage.into, total, "store", exact=True)
            marks = builder.argument("marks", "list")
            builder.blocks["store"].line(f"if ({changed}) bin.add_first(v, {marks}, superstep);")
        builder.store(f"vertex_{stage.into}", "v", stage.message, total, "store")
        return Function.of(builder.finish(unless=NEVER), template="class Worker, class Bin", own=PULL_OWN)

    def _step(self) -> Function:
        builder = self.make("take_steps", STEP, ())
        builder.bind("v", "vertex", "v")
        builder.bind("old", "vertex", "v")
        at = builder.blocks["vertex"]
        new = {name: builder.mapping.kept(value) for name, value in self.activity.writes}
        for name, value in self.activity.writes:
            changed = builder.moved("old", name, new[name], "vertex", exact=True)
            at.line(f"if ({changed}) {{")
            if name == self.activity.metadata:
                at.line("moved = true;")
                if self.activity.adds:
                    old = builder.reading("old", name)
                    builder.store(f"sent_{name}", "v", old, builder.mapping.kept(old), "vertex")
            builder.store(f"vertex_{name}", "v", value, new[name], "vertex")
            at.line("}")
        return Function.of(builder.finish(unless=NEVER), own=STEP_OWN)


# kernels --------------------------------------------------------------------------------------------------------------
WORKERS = {"large": "Block", "middle": "Warp", "small": "Thread"}  # the longest work begins first
SIZES = ("small", "middle", "large")
LISTS = ["bins", "bin_counts", "bits", "found"]
LISTS += [f"{size}_{what}" for size in SIZES for what in ("active", "vertices")]
MANAGED = (
    Parameter.of("run", "run"), Parameter("tasks", "TaskManager*"), *(Parameter.of(name, "list") for name in LISTS)
)  # fmt: skip
RESIDENT = (Parameter.of("past", "past"), Parameter.of("lock", "arrivals"))  # of fused kernels
ACC = """
struct Acc {{
    {members}

    template <class Worker, class Bin>
    __device__ void push(const Id* list, Id length, Bin& bin, Count superstep, bool votes) const
    {{
        {push}
    }}
    template <class Worker, class Bin>
    __device__ void pull(const Id* list, Id length, Bin& bin, Count superstep, bool votes, Count& visited) const
    {{
        {pull}
    }}
    __device__ bool active(Id v) const
    {{
        bool moved = false;
        {step}
        return moved;
    }}
}};
typedef Superstep<Acc, Filter::{filter}, {bin}> Steps;
"""
STEPS = """
    const Steps steps{{
        {{{members}}}, run, tasks,
        {{small_active, middle_active, large_active, {degrees}}},
        {{small_vertices, middle_vertices, large_vertices, {degrees}}},
        {{bits, found, Id(tasks->vertices)}}, bins, bin_counts,
    }};
"""
ALONE = {
    **{f"push_{size}": f"push_alone<{worker}>({SIZES.index(size)})" for size, worker in WORKERS.items()},
    **{f"pull_{size}": f"pull_alone<{worker}>({SIZES.index(size)})" for size, worker in WORKERS.items()},
    "ballot_scan": "scan_alone()", "ballot_write": "write_alone()", "online_join": "join_alone()",
}  # fmt: skip
BY_ONE_BLOCK = {"note_superstep": "end_alone()"}  # the last step of a superstep
# Positions in the struct TaskManager of filters.cuh, in 64-bit words.
VOTES, FAILED, VERTICES, EDGES, PULLED, WORDS = 18, 19, 20, 21, 22, 25
FUSED = {"push_pull": {"fused_push": "PUSH", "fused_pull": "PULL"}, "all": {"fused_all": "ALL"}}


def task_kernels(functions: TaskFunctions, schedule: SimdxSchedule) -> tuple[tuple[CudaKernel, bool], ...]:
    """Return the kernels of a program with active vertices, in launch order, and whether one block runs each.

    All take the same arguments; the source of the first one contains the shared definitions. ``schedule``: resolved.
    """
    push, pull, step = functions.all
    arrays = joined(replace(one, restricted=False) for function in functions.all for one in function.arrays)
    members = {**arrays, "out_offsets": Parameter("out_offsets", "const EdgeId*")}
    fusion = schedule.fusion
    managed = MANAGED if fusion == "none" else (*MANAGED, *RESIDENT)
    parameters = tuple({**members, **{one.name: one for one in managed}}.values())
    shared = "\n".join(function.definition for function in functions.all) + ACC.format(
        members="\n    ".join(f"{one.plain};" for one in members.values()),
        push=push.call("Worker"), pull=pull.call("Worker"), step=step.call(), filter=functions.filter.upper(),
        bin=schedule.bin_size or BIN_SIZE,
    )  # fmt: skip
    given = ", ".join(one.identifier for one in members.values())
    made = STEPS.format(members=given, degrees=f"{schedule.warp_degree}, {schedule.block_degree}")
    bodies = {name: f"    steps.{call};" for name, call in {**ALONE, **BY_ONE_BLOCK}.items() if fusion == "none"}
    if functions.filter == "ballot":
        bodies.pop("online_join", None)
    for i, (name, kind) in enumerate(FUSED.get(str(fusion), {}).items()):
        bodies[name] = f"    fused<Fused::{kind}>(steps, GlobalBarrier(lock + {i} * 2 * GlobalBarrier::LOCK), past);"
    kernels = []
    for name, body in bodies.items():
        kernel = CudaKernel(name, parameters, f"{made}{body}\n".removeprefix("\n"), before=shared)
        kernels.append((kernel, name in BY_ONE_BLOCK))
        shared = ""
    return tuple(kernels)
