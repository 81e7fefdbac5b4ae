"""Run engines and compare their answers with the oracle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from harness.contract import Device, No, Phases
from harness.language import Inputs, trace
from tests.oracle.answers import OUTPUTS, Answers
from tests.oracle.schedules import Run, installed, made

SHORT = 6  # supersteps of the run without a tolerance; even, so that both sides of a graph are updated equally often


@dataclass(frozen=True)
class Verdict:
    """One answer and its comparison.

    kind: "fixed length", a few supersteps with a tolerance of 0; "iterate", a whole run compared with as many
    supersteps of the oracle; "settled", a settled run compared with the fixed point; "unsupported". ratio: the
    largest error over its bound; None if nothing was run. text: the worst entry, or the reason.
    """

    schedule: str
    kind: str
    ratio: float | None
    text: str

    @property
    def agrees(self) -> bool:
        return self.ratio is None or self.ratio <= 1.0


def verdicts(algorithm, given, features: int, runs: Iterable[Run], threads: int = 1) -> Iterator[Verdict]:
    """Run ``algorithm`` on the graph ``given`` under every schedule, and compare each answer with the right one.

    ``threads``: of the engines. Threads that wait for each other are very slow on a busy machine, so only few graphs
    use more than one.
    """
    device = Device(threads=threads)
    graph = algorithm.prepare_graph(given)
    program, inputs = trace(algorithm), algorithm.inputs(graph, features)
    answers, specs = Answers(algorithm, graph, inputs, program.control.norm), installed()
    ended = []
    for run in runs:
        engine = made(run, specs)
        refused = engine if isinstance(engine, str) else engine.supports(program, graph, features, device)
        if isinstance(refused, (str, No)):
            yield Verdict(run.label, "unsupported", None, getattr(refused, "reason", str(refused)))
            continue
        try:
            engine.prepare(program, graph, features, device, Phases())
            if answers.has_iterates:
                yield _fixed_length(run, engine, program, inputs, answers, OUTPUTS[algorithm.name])
            engine.reset(inputs)
            done = engine.run(program.control.max_supersteps)
            ended.append((run, done.settled, len(done.supersteps), engine.values(OUTPUTS[algorithm.name])))
        finally:
            engine.close()
    for left_out in (False, True):
        answers.prepare([count for run, _, count, _ in ended if run.leaves_out == left_out], left_out)
    for run, settled, count, values in sorted(ended, key=lambda end: end[2]):
        how = f"{'settled' if settled else 'stopped'} after {count} supersteps; "
        if answers.has_iterates:
            expected = answers.after(count, run.leaves_out)
            yield Verdict(run.label, "iterate", expected.ratio(values), how + expected.place(values))
        if answers.has_fixed and settled:
            expected = answers.fixed(run.leaves_out)
            yield Verdict(run.label, "settled", expected.ratio(values), how + expected.place(values))
        elif not answers.has_iterates:
            yield Verdict(run.label, "settled", float("inf"), how + "which gives no answer")


def _fixed_length(run, engine, program, inputs, answers, output) -> Verdict:
    """Run a few supersteps in two calls, with a tolerance of 0: every change must be propagated, so only rounding is
    allowed."""
    parameters = dict(inputs.parameters)
    if program.control.tolerance:
        parameters[program.control.tolerance] = 0.0
    engine.reset(replace(inputs, parameters=parameters) if isinstance(inputs, Inputs) else inputs)
    done = len(engine.run(2).supersteps)
    done += len(engine.run(SHORT - done).supersteps)
    values = engine.values(output)
    expected = answers.after(SHORT, False, run.keeps_sums)  # a run that has settled does not change
    return Verdict(
        run.label, "fixed length", expected.ratio(values), f"after {done} supersteps; {expected.place(values)}"
    )
