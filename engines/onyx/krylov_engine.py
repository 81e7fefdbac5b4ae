"""Krylov plans of Onyx on the CPU: ``solver=bicgstab``, ``cg`` or ``auto`` for affine programs.

If a superstep is x -> A x + b, its fixed point solves (I - A) x = b. A run alternates between two parts. A few
supersteps smooth the state and measure the program's own criterion. Then a solver computes the correction of the state
from the residual. A correction may have a relative error, because the next one starts from the residual of the
corrected state. The run is not bulk-synchronous, so that supersteps are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engines.onyx import cpu_plan
from engines.onyx.krylov_kernels import kernels
from engines.onyx.krylov_solvers import REDUCTION, SOLVERS
from engines.onyx.krylov_symmetry import bytes_needed, weights
from engines.onyx.krylov_system import VECTORS, System, Vector, buffer_of
from engines.onyx.policy import DEFAULT
from engines.onyx.schedule import OnyxSchedule
from harness.api import (
    Criterion,
    Device,
    DeviceFacts,
    Graph,
    GraphFacts,
    Inputs,
    No,
    Phases,
    Program,
    RunStatistics,
    Unsupported,
    Yes,
)
from harness.api.cpu import CpuBuffer, CpuEngine, CpuPlan, Holds, Movement, Run, Step, compiled_kernel
from harness.api.linear import independent_features, not_affine, state_of, symmetry

STORED = (*VECTORS, "weight")
SUPERSTEPS = 4  # between corrections: they smooth what float32 leaves, which the criterion measures in every entry
TIGHTER = 0.01  # of a tolerance that is not relative to every entry; as the harness's own reference
ALWAYS = 3  # a superstep whose movement is measured from its own start (harness.language.criterion)


@dataclass
class Iterations:
    """The counts of a run. A product is a superstep of the program, also between corrections."""

    solver: str
    iterations: int
    products: int
    edges: int


class KrylovLoop:
    """The loop of a run: supersteps, and corrections by a solver.

    ``stride`` to ``kernels``: see :class:`System`. ``solver``, ``weight``: likewise, set by a reset. ``done``: what the
    latest run did.
    """

    def __init__(
        self, state: str, stride: int, width: int, limit: int, kernels: Sequence[Callable[..., int]], movement: Movement
    ) -> None:
        self._shape, self._movement = (state, stride, width, limit, kernels), movement
        self.solver, self.weight = "bicgstab", np.ones(0, np.float32)
        self.done: Iterations | None = None

    def __call__(
        self, run: Run, steps: Sequence[Step], movement: Movement | None, max_supersteps: int
    ) -> RunStatistics:
        """Run until one superstep meets the program's criterion; ``max_supersteps`` has no meaning for a solver.

        Raises EngineFailure beyond as many products as the program has supersteps.
        """
        if run.settled:
            return RunStatistics(settled=True)
        system = System(run, steps, *self._shape, self.weight)
        before: Vector = run.memory.arrays[f"before_{self._shape[0]}"]
        if not self._within(system):
            system.find_right_side()
            while True:
                system.begin(before)
                system.end(before, SOLVERS[self.solver](system))
                if self._within(system):
                    break
        self.done = Iterations(self.solver, system.iterations, system.products, system.edges)
        run.settled = True
        return RunStatistics(settled=True)

    def _within(self, system: System) -> bool:
        """Run a few supersteps; return whether one of them, the last one that ran, met the criterion."""
        for _ in range(SUPERSTEPS):
            self._movement.note(ALWAYS)
            system.superstep()
            if self._movement.within(ALWAYS):
                return True
        return False


class KrylovCpuEngine(CpuEngine):
    """Onyx on the CPU with a solver for the linear system of an affine program."""

    schedule: OnyxSchedule
    stepwise = False
    _first: Iterations | None = None

    def plan_on(self, program: Program, graph: Graph, features: int, device: Device) -> CpuPlan | No:
        """Return the plan for the threads of a device; No for a GPU."""
        if device.kind != "cpu":
            return No(f"solver={self.schedule.solver} is built for the CPU only; leave it unset")
        return super().plan_on(program, graph, features, device)

    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts) -> CpuPlan | No:
        """Return the plan of one superstep that visits all edges, with the vectors of the solver."""
        reason = refusal(program, self.schedule)
        if reason:
            return No(reason)
        schedule = replace(self.schedule, change_driven=False, solver=None)  # of the matrix's kernels
        plan = cpu_plan.plan(program, schedule, graph, features, device, self.runs, DEFAULT)
        if isinstance(plan, No):
            return plan
        state = program.properties[state_of(program)]
        layout, count = plan.layout, graph.num_vertices
        names = [f"before_{state.name}", *(buffer_of(one) for one in STORED)]
        vectors = [CpuBuffer.of_values(name, Holds.WORK, state, count, layout) for name in names]
        others = tuple(buffer for buffer in plan.buffers if buffer.name not in names)
        return replace(plan, title="KrylovCpuEngine", buffers=(*others, *vectors))

    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return whether the program can run, with the memory that a reset takes to compute an inner product."""
        answer = super().supports(program, graph, features, device)
        form = symmetry(program) if isinstance(answer, Yes) and self.schedule.solver != "bicgstab" else ""
        if isinstance(answer, No) or isinstance(form, str):
            return answer
        return Yes(answer.bytes_needed + bytes_needed(form, program, graph.facts, features))

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Plan; nothing is compiled. Raises EngineFailure if the program is refused."""
        super().generate(program, graph, features, device)
        self._program = program

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Prepare the plan of a superstep, and the kernels of the vectors."""
        super().prepare(program, graph, features, device, phases)
        assert self.planned is not None
        state, layout = program.properties[state_of(program)], self.planned.layout
        width = features if state.shape else 1
        with phases("compile"):
            functions = [compiled_kernel(kernel) for kernel in kernels(width)]
        self._posed = program, graph, features
        self._form, self._first = symmetry(program), None
        self._known: Inputs | None = None  # the inputs whose weights are known
        criterion, rules = Criterion.of(program), self.planned.rules
        assert criterion is not None
        movement = Movement(
            criterion, program, layout, self.executor.memory, graph.num_vertices, rules.threads, share_of(criterion)
        )
        stride, limit = layout.stride(state.shape), program.max_supersteps
        self._loop = KrylovLoop(state.name, stride, width, limit, functions, movement)
        self.executor.loop = self._loop

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Set the state to the start of a run; choose the solver. Raises Unsupported if ``cg`` has no symmetric
        matrix."""
        super().reset(inputs, state)
        if inputs is self._known:
            return
        self._loop.solver = "bicgstab"
        if self.schedule.solver != "bicgstab":
            found = self._form if isinstance(self._form, str) else weights(self._form, *self._posed, inputs)
            if not isinstance(found, str):
                self._loop.solver, self._loop.weight = "cg", self._packed(found)
            elif self.schedule.solver == "cg":
                raise Unsupported(f"solver=cg needs a symmetric matrix: {found}; give bicgstab or auto")
        self._known = inputs

    def _packed(self, found: NDArray[np.float32]) -> Vector:
        """Return the weights in the layout of the state; one row if all are equal."""
        if (found == found.flat[0]).all() if found.size else True:
            return np.ones(1, np.float32)  # a factor changes no coefficient
        program, _, _ = self._posed
        weight: Vector = self.executor.memory.arrays[buffer_of("weight")]
        assert self.planned is not None
        weight[:] = self.planned.layout.pack(found, program.properties[state_of(program)].shape)
        return weight

    def run(self, max_supersteps: int) -> RunStatistics:
        """Solve, with at most as many products as the program has supersteps."""
        statistics = super().run(max_supersteps)
        self._first = self._first or self._loop.done
        return statistics

    def explain(self) -> str:
        """Return the plan of the solver, and that of the superstep which is its operator."""
        assert self.planned is not None, "prepare() or generate() comes first"
        form = symmetry(self._program)
        may = "bicgstab" if isinstance(form, str) else "cg if the inputs are symmetric, else bicgstab"
        solver = f"auto: {may}" if self.schedule.solver == "auto" else self.schedule.solver
        own = {buffer_of(one) for one in STORED}
        vectors = [buffer for buffer in self.planned.buffers if buffer.name in own]
        lines = [
            "Krylov plan: leaves bulk-synchronous order; supersteps are not counted",
            f"solver: {solver}, for corrections of {state_of(self._program)!r}, each to {REDUCTION:g} of the residual",
            f"between corrections: {SUPERSTEPS} supersteps, each measured; the run ends when one meets the criterion",
            f"memory: {len(vectors)} vectors of {vectors[0].nbytes:,} bytes",
        ]
        if isinstance(form, str):
            lines.append(f"missed: cg: {form}")
        return "\n".join([*lines, super().explain()])

    def resolved_options(self) -> Mapping[str, Any]:
        """Return the options, the solver that ran, and what its first run after :meth:`prepare` did."""
        options = {name: value for name, value in super().resolved_options().items() if name != "dense_share"}
        if self._first is None:
            return {**options, "solver": self.schedule.solver}
        done = self._first
        counts = (("iterations", done.iterations), ("products", done.products), ("edges", done.edges))
        return {**options, "solver": done.solver, "solved": counts}


def share_of(criterion: Criterion) -> float:
    """Return the share of the program's tolerance by which the last superstep of a run may move the state.

    It is 1 if the tolerance is relative to every entry. Any other criterion lets small entries move by as much as large
    ones. Supersteps from the program's start leave their error mostly in the large entries, a solver does not.
    """
    return 1.0 if criterion.norm == "max" and criterion.relative else TIGHTER


def refusal(program: Program, schedule: OnyxSchedule) -> str:
    """Return why no solver can run a program; empty if one can.

    The columns must be independent systems, since each has its own coefficients. For ``cg`` the program must have a
    symmetric form.
    """
    reason = not_affine(program)
    if not reason and program.properties[state_of(program)].shape:
        reason = independent_features(program)
    if reason:
        return f"solver={schedule.solver} needs a program whose superstep is A x + b for each feature: {reason}"
    form = symmetry(program)
    if schedule.solver == "cg" and isinstance(form, str):
        return f"solver=cg needs a symmetric matrix: {form}; give bicgstab or auto"
    return ""
