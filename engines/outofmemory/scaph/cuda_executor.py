"""Runs of Scaph style on CUDA devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engines.outofmemory.scaph.activity import ActivityLog
from engines.outofmemory.scaph.cuda_packed_rows import HOLD, LATE, PLACED, RESTORE
from engines.outofmemory.scaph.cuda_plan import omits_decisions, probes_in_place
from engines.outofmemory.scaph.cuda_queue import solve
from engines.outofmemory.scaph.cuda_rates import ADJACENT, measured_rates
from engines.outofmemory.scaph.cuda_subgraphs import SubgraphStreamer
from engines.outofmemory.scaph.cuda_undecided import Decisions
from engines.outofmemory.scaph.cuda_windows import windows_of
from engines.outofmemory.scaph.queued import MOST_SUPERSTEPS
from engines.outofmemory.scaph.reading import Readings
from harness.api import RunStatistics
from harness.api.cuda import CudaExecutor, Transfers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engines.outofmemory.scaph.packing import Packer
    from harness.api import Inputs
    from harness.api.cuda import CudaPlan, Observer, Replayer


class ScaphCudaExecutor(CudaExecutor):
    """Run a plan of Scaph.

    ``readings`` chooses how each subgraph is read, and counts the bytes. ``packer`` packs active rows on the host; None
    if the plan needs none.
    """

    def __init__(self, plan: CudaPlan, *arguments: Any) -> None:
        super().__init__(plan, *arguments)
        self.readings = Readings(plan.schedule)
        self.packer: Packer | None = None
        self.log: ActivityLog | None = None
        if windows_of(plan).stagings:
            from engines.outofmemory.scaph.packing import Packer  # loads the compiler

            self.packer = Packer(plan.schedule.extract_threads)

    def compile(self) -> None:
        """Compile the plan's module for the device, and the functions that pack rows."""
        super().compile()
        if self.packer:
            self.packer.compile(self.store.graph.csr.offsets)

    def function_names(self) -> Iterable[str]:
        """Return the names of the functions of the module that are launched."""
        packed = (PLACED,) if self.packer else ()
        held = (HOLD, RESTORE) if LATE in self.plan.named else ()
        probes = (ADJACENT,) if probes_in_place(self.plan.schedule) else ()
        return (*super().function_names(), *packed, *held, *probes)

    def replayer(self, arrays: Mapping[str, Any]) -> Replayer:
        """Return the object that prepares the calls of a superstep; if edges are streamed, by subgraphs."""
        if not self.plan.windows.edges:
            return super().replayer(arrays)
        self.streamer = SubgraphStreamer(
            self.plan, self.store, self.functions, arrays, self.readings, self.packer,
            int(self.attributes["MultiProcessorCount"]),
        )  # fmt: skip
        if self.plan.schedule.counters:
            log = self.log = ActivityLog(self.store.graph.csr.offsets, self.streamer.edge_bytes)
            self.streamer.note = lambda rows: log.note(self.streamer.supersteps, rows)
        if self.plan.schedule.rule == "chosen":
            rates = measured_rates(self.streamer, self.readings.low)
            self.readings.chosen_by(rates)
            if omits_decisions(self.plan):
                self.streamer.decisions = Decisions(
                    rates, self.streamer.edge_bytes, len(self.streamer.rows), self.store.graph.num_edges,
                    self.store.graph.num_vertices, self.plan.windows.slot_bytes,
                )  # fmt: skip
        return self.streamer

    def observer(self, *, everything: bool) -> Observer | None:
        """Return the decisions of the run if some may be omitted."""
        return self.streamer.decisions if omits_decisions(self.plan) else super().observer(everything=everything)

    def reset(self, inputs: Inputs, state: Mapping[str, Any]) -> None:
        """Set the whole state to the start of a run."""
        super().reset(inputs, state)
        self.readings.reset()
        if omits_decisions(self.plan) and self.streamer.decisions:
            self.streamer.decisions.update(self.state.look().fields(), 0)

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run until settled, or for ``max_supersteps`` more supersteps if these are synchronous.

        If decisions were omitted, the statistics have the bytes of visited edges, and not those that were read.
        """
        self.readings.begin()
        may_omit = omits_decisions(self.plan)
        if may_omit:
            self.streamer.omitted = 0
        if self.log:
            self.log.begin()
            self.streamer.supersteps = -1
        statistics = super().run(max_supersteps) if not self.plan.schedule.repeats else self._solve()
        if may_omit and self.streamer.omitted:
            statistics.transfers = Transfers(
                self.plan.edge_bytes * statistics.edges, {}, seconds=dict(self.readings.times.seconds)
            )
            return statistics
        data = self.log.data(len(statistics.supersteps)) if self.log else {}
        statistics.transfers = Transfers(**self.readings.counted(), data=data)
        return statistics

    def _solve(self) -> RunStatistics:
        """Run until settled, with the queue of subgraphs in memory."""
        run = self.run_in_progress
        run.launches = 0
        if not run.settled:
            with self.stream:
                self.state.note(limit=MOST_SUPERSTEPS + 2, first=0)
                solve(run, self.plan, self.streamer)
                self.stream.synchronize()
            run.settled = True
        return RunStatistics(settled=True)
