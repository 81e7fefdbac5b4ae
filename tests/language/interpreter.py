"""A change-driven interpreter that only uses ``change_driven(program)``: it keeps accumulators, and for every edge
stage the values sent last. Slow and plain, it shows what a change-driven engine may do."""

from __future__ import annotations

import numpy as np

from harness.language.analysis import SENT, change_driven, last_sent, mutable
from harness.language.evaluation import Evaluator
from harness.language.products import LogProduct
from harness.language.program import EdgeReduce, EdgeUpdate, GraphReduce, reads
from harness.language.reference import ReferenceRun, moved, reads_reverse

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
        self.places = {"src": self.sources, "dst": graph.csr.neighbours, "edge": np.arange(graph.num_edges)}
        if reads_reverse(program):
            self.places["reverse"] = graph.reverse_edges
        self.kept, self.sent = {}, {}
        products = [s.into for s in program.stages if isinstance(s, EdgeReduce) and s.reducer == "prod"]
        self.product = {name: LogProduct.of(self.value[name]) for name in products}
        self.supersteps = self.edges_visited = 0

    def superstep(self):
        for stage in self.program.stages:
            if isinstance(stage, EdgeReduce):
                self.reduce(stage)
            elif isinstance(stage, EdgeUpdate):
                self.update(stage)
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
        edges = self.active(stage)
        if stage.name not in self.kept:
            identity = {"sum": 0.0, "prod": 1.0, "min": np.inf, "max": -np.inf}[stage.reducer]
            identities = np.full(self.value[stage.into].shape, identity)
            self.kept[stage.name] = LogProduct.of(identities) if stage.reducer == "prod" else identities
            self.push(stage, stage.message, edges)
        elif delta.kind == "factor":
            self.push(stage, last_sent(self.program, stage.message), edges, takes_out=True)
            self.push(stage, stage.message, edges)
        else:
            self.push(stage, delta.message, edges)
        self.edges_visited += len(edges)
        self.propagated(stage, edges)
        if stage.reducer == "prod":
            kept = self.kept[stage.name]
            self.product[stage.into] = (
                kept if stage.initial is None else kept.times(self.value[stage.initial.attribute[1]])
            )
            self.write(stage.into, self.product[stage.into].value())
        else:
            self.write(stage.into, self.kept[stage.name])

    def update(self, stage):
        edges = self.active(stage)
        result = self.value[stage.updates].copy()
        result[edges] = self.at_edges(stage, stage.value, edges)
        self.edges_visited += len(edges)
        self.propagated(stage, edges)
        self.value[stage.updates] = result

    def changing(self, stage):
        return [(space, name) for space, name in reads(stage) if space in self.places and mutable(self.program, name)]

    def active(self, stage):
        """Return the edges with an input that has moved since it was sent; at first all. The logarithms of a product
        count where it is read without a factor."""
        if stage.name not in self.sent:
            return np.arange(self.graph.num_edges)
        active = np.zeros(self.graph.num_edges, bool)
        for space, name in self.changing(stage):
            before, now = self.sent[stage.name][space, name], self.seen(name)
            for old, new in zip(before, now, strict=True):
                active |= moved(old, new, self.tolerance, self.program.control.relative)[self.places[space]]
        return np.flatnonzero(active)

    def seen(self, name):
        if name in self.product:
            product = self.product[name]
            return [product.log, product.zeros.astype(float), product.negative.astype(float)]
        return [self.value[name]]

    def propagated(self, stage, edges):
        first = stage.name not in self.sent
        sent = self.sent.setdefault(stage.name, {})
        for space, name in self.changing(stage):
            at = slice(None) if first else self.places[space][edges]
            before = [part.copy() for part in self.seen(name)] if first else sent[space, name]
            for old, new in zip(before, self.seen(name), strict=True):
                old[at] = new[at]
            sent[space, name] = before

    def at_edges(self, stage, expression, edges):
        sent_of = {new: old for old, new in SENT.items()}

        def read(space, name):
            if space == "graph":
                return self.value[name]
            own = sent_of.get(space, space)
            if space in sent_of:
                return self.sent[stage.name][own, name][0][self.places[own][edges]]
            return self.value[name][self.places[own][edges]]

        def without(space, name, factor):
            if name not in self.product:
                return read(space, name) - factor
            return self.product[name].at(self.places[space][edges]).without(factor).value()

        return Evaluator(read, self.parameters, self.features, without=without)(expression)

    def push(self, stage, message, edges, takes_out=False):
        v = self.graph.csr.neighbours[edges]
        kept = self.kept[stage.name]
        values = self.at_edges(stage, message, edges)
        if stage.reducer == "prod":
            one = LogProduct.of(np.broadcast_to(values, (len(edges), *kept.log.shape[1:])))
            for total, part in ((kept.log, one.log), (kept.zeros, one.zeros), (kept.negative, one.negative)):
                np.add.at(total, v, -part if takes_out else part)
        else:
            UFUNC[stage.reducer].at(kept, v, np.broadcast_to(values, (len(edges), *kept.shape[1:])))

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
