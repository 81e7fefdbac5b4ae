"""Engines that run the reference, with one fault each."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from typing import ClassVar

import numpy as np

from harness.api import Engine, Inputs, No, Yes, concrete
from harness.language.program import edge_steps
from harness.language.reference import ReferenceRun

KEPT = []


class Right(Engine):
    """Keeps every promise."""

    deterministic = True

    def supports(self, program, graph, features, device):
        elements = sum(int(np.prod(concrete(p.shape, features))) for p in program.properties.values())
        return Yes(8 * elements * (graph.num_vertices + graph.num_edges))

    def prepare(self, program, graph, features, device, phases):
        self.program, self.features, self.edges = program, features, graph.num_edges
        self.inner = ReferenceRun(program, graph, features)

    def reset(self, inputs, state=None):
        self.inner.reset(inputs, state)

    def run(self, max_supersteps):
        return self.inner.run(max_supersteps)

    def ordered_superstep(self):
        self.run(1)
        return {step.name: np.arange(self.edges) for step in edge_steps(self.program)}

    def values(self, name):
        values = self.inner.values(name)
        return np.array(values, np.bool_ if values.dtype == np.bool_ else np.float32)

    def close(self):
        self.inner = None


# answers --------------------------------------------------------------------------------------------------------------
class WrongColumn(Right):
    """Is wrong by a per cent in one column of eight."""

    def values(self, name):
        values = super().values(name)
        if values.ndim > 1 and values.shape[1] == 8:
            values[:, 5] *= 1.01
        return values


class Float64(Right):
    def values(self, name):
        return np.array(self.inner.values(name))


class Padded(Right):
    """Returns the k columns together with padding up to a multiple of four."""

    def values(self, name):
        values = super().values(name)
        if values.ndim == 1:
            return values
        return np.pad(values, [(0, 0), (0, -values.shape[1] % 4), *[(0, 0)] * (values.ndim - 2)])


class SaysYesThenFails(Right):
    def prepare(self, program, graph, features, device, phases):
        if program.name == "products":
            raise NotImplementedError("products are not implemented")
        super().prepare(program, graph, features, device, phases)


class Unsettled(Right):
    def run(self, max_supersteps):
        statistics = super().run(max_supersteps)
        statistics.settled = False
        return statistics


class Vague(Right):
    def supports(self, program, graph, features, device):
        return No("no") if program.name == "products" else super().supports(program, graph, features, device)


class RefusesAll(Right):
    def supports(self, program, graph, features, device):
        return No("this engine runs nothing at all")


class Fickle(Right):
    """Supports a program only at the second call."""

    calls = 0

    def supports(self, program, graph, features, device):
        self.calls += 1
        return super().supports(program, graph, features, device) if self.calls > 1 else No("come back later please")


# protocol -------------------------------------------------------------------------------------------------------------
class Remembers(Right):
    def reset(self, inputs, state=None):
        self.first = getattr(self, "first", inputs)
        super().reset(self.first, state)


class KeepsParameters(Right):
    def reset(self, inputs, state=None):
        self.first = getattr(self, "first", inputs)
        super().reset(Inputs(inputs.properties, self.first.parameters), state)


class IgnoresState(Right):
    def reset(self, inputs, state=None):
        super().reset(inputs)


class StartsAgain(Right):
    def reset(self, inputs, state=None):
        self.start = inputs, state
        super().reset(inputs, state)

    def run(self, max_supersteps):
        super().reset(*self.start)
        return super().run(max_supersteps)


class IgnoresLimit(Right):
    """Ignores the limit of supersteps and reports that it stopped there."""

    def run(self, max_supersteps):
        statistics = super().run(self.program.max_supersteps)
        statistics.supersteps = statistics.supersteps[:max_supersteps]
        return statistics


class Lenient(Right):
    """Substitutes ones for missing inputs."""

    def reset(self, inputs, state=None):
        count = self.inner.graph.num_vertices
        made = {
            name: np.ones((count, *concrete(prop.shape, self.features)), np.float32)
            for name, prop in self.program.properties.items()
            if prop.role == "input" and prop.place == "vertex" and prop.dtype != "bool"
        }
        super().reset(Inputs({**made, **inputs.properties}, inputs.parameters), state)


class WritesInputs(Right):
    def reset(self, inputs, state=None):
        super().reset(inputs, state)
        self.given = inputs

    def run(self, max_supersteps):
        for array in self.given.properties.values():
            array[:1] = 0
        return super().run(max_supersteps)


class Views(Right):
    """Returns the engine's own array from ``values``."""

    def run(self, max_supersteps):
        statistics = super().run(max_supersteps)
        self.kept = {name: super(Views, self).values(name) for name in self.program.outputs}
        return statistics

    def values(self, name):
        return self.kept[name] if hasattr(self, "kept") else super().values(name)


class Silent(Right):
    def explain(self):
        return "an engine"


# determinism ----------------------------------------------------------------------------------------------------------
class Random(Right):
    """Differs slightly between runs and claims not to."""

    def reset(self, inputs, state=None):
        super().reset(inputs, state)
        self.noise = 1.0 + (1e-6 * np.random.default_rng().random() if self.program.bound else 0.0)

    def values(self, name):
        values = super().values(name)
        return values if values.dtype == np.bool_ else values * np.float32(self.noise)


class HonestNoise(Random):
    """Differs between runs within the bound, and does not deny it."""

    deterministic = False


# release --------------------------------------------------------------------------------------------------------------
class LeaksStarted(Right):
    """Leaks a thread, a process with a pipe, and another file."""

    def prepare(self, program, graph, features, device, phases):
        super().prepare(program, graph, features, device, phases)
        KEPT.append(threading.Event())
        threading.Thread(target=KEPT[-1].wait, daemon=True).start()
        KEPT.append(subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE))
        KEPT.append(tempfile.TemporaryFile())  # noqa: SIM115


class LeaksMemory(Right):
    """Leaks its arrays."""

    def close(self):
        KEPT.append(self.inner)
        super().close()


class Undead(Right):
    """Stays referenced after ``close``."""

    def close(self):
        KEPT.append([self])


class Litters(Right):
    def prepare(self, program, graph, features, device, phases):
        super().prepare(program, graph, features, device, phases)
        with open("generated.c", "w") as file:
            file.write("int main;")


class Shouts(Right):
    """Changes a process-wide setting."""

    def prepare(self, program, graph, features, device, phases):
        super().prepare(program, graph, features, device, phases)
        os.environ["OMP_NUM_THREADS"] = str(1 + int(os.environ.get("OMP_NUM_THREADS", "0")))


class ClosesOthers(Right):
    """Shares its resources with all engines, so closing one closes all."""

    shared: ClassVar = {}

    def prepare(self, program, graph, features, device, phases):
        super().prepare(program, graph, features, device, phases)
        self.shared["inner"] = self.inner

    def values(self, name):
        self.inner = self.shared["inner"]
        return super().values(name)

    def close(self):
        self.shared.clear()


# memory ---------------------------------------------------------------------------------------------------------------
class DiesWithoutMemory(Right):
    def reset(self, inputs, state=None):
        try:
            super().reset(inputs, state)
        except MemoryError:
            os.abort()


class HidesMemory(Right):
    def reset(self, inputs, state=None):
        try:
            super().reset(inputs, state)
        except MemoryError as error:
            raise RuntimeError("something went wrong") from error


class WrongAfterwards(Right):
    """Continues silently with less memory."""

    broken = False

    def reset(self, inputs, state=None):
        try:
            super().reset(inputs, state)
        except MemoryError:
            WrongAfterwards.broken = True

    def run(self, max_supersteps):
        return None if self.broken else super().run(max_supersteps)

    def values(self, name):
        return np.zeros(1, np.float32) if self.broken else super().values(name)


def clean_up():
    """End and drop what was leaked."""
    for kept in KEPT:
        if isinstance(kept, subprocess.Popen):
            kept.communicate()
        elif hasattr(kept, "close"):
            kept.close()
        elif isinstance(kept, threading.Event):
            kept.set()
    KEPT.clear()
    WrongAfterwards.broken = False
