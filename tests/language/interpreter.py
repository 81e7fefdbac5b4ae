"""A change-driven interpreter made of nothing but ``change_driven(program)``: accumulators that are kept, and for every
reduction the values it sent last. Slow and plain, it shows what a change-driven engine may do."""

from __future__ import annotations

import numpy as np

from harness.language.analysis import change_driven
from harness.language.evaluation import Evaluator
from harness.language.program import EdgeReduce, GraphReduce
from harness.language.reference import ReferenceRun, moved

UFUNC = {"sum": np.add, "min": np.minimum, "max": np.maximum, "prod": np.multiply}


class ChangeDrivenInterpreter:
    def __init__(self, program, graph, features, inputs, tolerance=0.0):
        start = ReferenceRun(program, graph, features)
        start.reset(inputs)
        self.value = {name: start.values(name) for name in program.properties}
        self.parameters = dict(program.parameters) | dict(inputs.parameters)
        self.program, self.graph, self.features, self.tolerance = program, graph, features, tolerance
        forms = change_driven(program)
        assert not isinstance(forms, str), forms
        self.forms = {delta.reduction.name: delta for delta in forms}
        self.sources = np.repeat(np.arange(graph.num_vertices), graph.out_degrees)
        self.kept, self.sent = {}, {}
        self.supersteps = self.arcs_visited = 0

    def superstep(self):
        for stage in self.program.stages:
            if isinstance(stage, EdgeReduce):
                self.reduce(stage)
            elif isinstance(stage, GraphReduce):
                values = np.broadcast_to(self.at_vertices(stage.value), (self.graph.num_vertices, *self.shape(stage)))
                self.value[stage.into] = UFUNC[stage.reducer].reduce(values, axis=0)[None]
            else:
                fresh = {name: self.at_vertices(value) for name, value in stage.values}
                for name, value in fresh.items():
                    self.write(name, np.broadcast_to(value, self.value[name].shape))
        self.supersteps += 1

    def reduce(self, stage):
        delta = self.forms[stage.name]
        now = {name: self.value[name] for name in delta.sources}
        if stage.name not in self.kept:
            identity = {"sum": 0.0, "min": np.inf, "max": -np.inf}[stage.reducer]
            self.kept[stage.name] = np.full(self.value[stage.into].shape, identity)
            self.push(stage, stage.message, np.ones(self.graph.num_vertices, bool))
            self.sent[stage.name] = {name: value.copy() for name, value in now.items()}
        else:
            sent = self.sent[stage.name]
            active = np.zeros(self.graph.num_vertices, bool)
            for name, value in now.items():
                active |= moved(sent[name], value, self.tolerance, self.program.control.relative)
            self.push(stage, delta.message, active)
            for name, value in now.items():
                sent[name][active] = value[active]
        self.write(stage.into, self.kept[stage.name])

    def push(self, stage, message, active):
        arcs = np.flatnonzero(active[self.sources])
        u, v = self.sources[arcs], self.graph.csr.neighbours[arcs]
        places = {"src": u, "sent": u, "dst": v, "edge": arcs, "graph": slice(None)}

        def read(space, name):
            return (self.sent[stage.name] if space == "sent" else self.value)[name][places[space]]

        values = Evaluator(read, self.parameters, self.features)(message)
        UFUNC[stage.reducer].at(
            self.kept[stage.name], v, np.broadcast_to(values, (len(arcs), *self.kept[stage.name].shape[1:]))
        )
        self.arcs_visited += len(arcs)

    def at_vertices(self, expression):
        return Evaluator(lambda space, name: self.value[name], self.parameters, self.features)(expression)

    def shape(self, stage):
        return self.value[stage.into].shape[1:]

    def write(self, name, value):
        left = self.graph.bipartite[0] if self.program.control.alternate else 0
        even = slice(0, left) if self.program.control.alternate else slice(None)
        side = even if self.supersteps % 2 == 0 else (slice(left, None) if self.program.control.alternate else even)
        result = self.value[name].copy()
        result[side] = value[side]
        self.value[name] = result
