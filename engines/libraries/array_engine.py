"""The base of the library peers: run a program stage by stage over whole arrays of a library, in float32.

A sum of ``c(dst, edge) * f(src)`` is ``A @ F``. A is the CSR matrix of in-edges with the values c; it is built once if
c is constant. F is f of every vertex. Vertex formulas and whole-graph reductions use the library's array functions.
Subclasses implement other messages. During a superstep only the number of vertices that moved is copied from the
device.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engines.libraries.array_stages import Array, ArrayStages, sides_of
from engines.libraries.matrix import RUN, HostPattern, Matrix, Pattern
from engines.libraries.products import Product, as_product
from harness.api import (
    Criterion,
    Device,
    EdgeReduce,
    EdgeUpdate,
    Engine,
    Expression,
    Graph,
    Inputs,
    No,
    Phases,
    Program,
    Property,
    RunStatistics,
    Stage,
    Superstep,
    Yes,
    concrete,
    mutable,
    reads,
    schedule_text,
    watched,
)
from harness.api.library import Start, bulk_refusal, names_vertices, places


class ArrayEngine(ArrayStages, Engine):
    """Runs every superstep over all vertices (of a side); a subclass chooses the library."""

    run_length: int | None = RUN
    on_host = True  # the library's arrays are in the memory of the host
    _inputs: Inputs | None = None  # those of the previous reset
    # what :meth:`build` computed for :meth:`prepare`
    _staged: Mapping[str, NDArray[Any]] | None = None
    _hosted: Sequence[HostPattern] = ()
    _given: dict[str, Array]  # the arrays of inputs, by property
    _built: tuple[Program, Graph, int, Device] | None = None  # for the next :meth:`prepare`

    # the library ----------------------------------------------------------------------------------------------------
    @abstractmethod
    def open(self, device: Device) -> None:
        """Load the library and choose the device; set ``arrays``."""

    def refused_device(self, device: Device) -> str:
        """Return why the engine cannot run on the device; empty if it can."""
        return "" if device.kind == "cpu" else f"{self.library} runs on the processor only"

    @abstractmethod
    def csr(self, values: Array, columns: Array, offsets: Array, shape: tuple[int, int]) -> Any:
        """Return the library's CSR matrix, float32 ``shape``, which supports ``@`` with a dense array."""

    def other_message(self, program: Program, stage: EdgeReduce, reason: str) -> str:
        """Return why a message that is not a product cannot be reduced; empty if it can.

        ``reason``: why the message is not a product.
        """
        return reason

    def other_stage(self, stage: EdgeUpdate) -> str:
        """Return why edge properties cannot be updated; empty if they can."""
        return f"{stage.name} updates an edge property, which is not a sparse product"

    def naming_stage(self, stage: Stage, graph: Graph) -> str:
        """Return why values cannot name vertices in a stage; empty if they can."""
        return f"{stage.name} names vertices by values, which is not a sparse product"

    def rewritten(self, program: Program) -> Program:
        """Return the program as this engine runs it."""
        return program

    # contract -------------------------------------------------------------------------------------------------------
    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return whether the engine can run the program, with the bytes needed: the operands of every stage exist at
        once."""
        refused = self.refused_device(device)
        if refused:
            return No(refused)
        if program.control.alternate and graph.bipartite is None:
            return No("the program alternates sides and the graph is not bipartite")
        reason = bulk_refusal(program)
        if reason:
            return No(reason)
        program = self.rewritten(program)
        for stage in program.stages:
            reason = self.naming_stage(stage, graph) if names_vertices(stage) else ""
            if isinstance(stage, EdgeUpdate):
                reason = self.other_stage(stage)
            elif isinstance(stage, EdgeReduce):
                product = as_product(program, stage)
                reason = self.other_message(program, stage, product) if isinstance(product, str) else ""
            if reason:
                return No(reason)
        return Yes(self.bytes_needed(program, graph, features))

    def bytes_needed(self, program: Program, graph: Graph, features: int) -> int:
        """Return the bytes of the matrix of every product, its operands, and every property."""
        elements = matrices = 0
        for stage in program.stages:
            product = as_product(program, stage) if isinstance(stage, EdgeReduce) else None
            if isinstance(product, Product):
                matrices += 1
                elements += int(np.prod(concrete(product.dense.shape, features), dtype=np.int64))
        sparse = (4 + 4 * matrices) * graph.num_edges + 8 * graph.num_vertices
        kept = sum(
            int(np.prod(concrete(p.shape, features), dtype=np.int64)) * (graph.num_edges if p.place == "edge" else 0)
            for p in program.properties.values()
        )
        dense = sum(
            int(np.prod(concrete(p.shape, features), dtype=np.int64))
            for p in program.properties.values()
            if p.place == "vertex"
        )
        return sparse + 4 * (kept + graph.num_vertices * (dense + 2 * elements))

    def build(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Recognise the products, and convert the structure of the graph on the host."""
        self.graph, self.features = graph, features
        self._inputs, self._given = None, {}
        self._watched = [name for _, name in watched(program)]
        self._criterion = Criterion.of(program)
        with phases("transform"):
            self.program = self.rewritten(program)
            found = {s.name: as_product(self.program, s) for s in self.program.stages if isinstance(s, EdgeReduce)}
            self.products = {name: product for name, product in found.items() if isinstance(product, Product)}
            self._constant = {
                stage.name
                for stage in self.program.stages
                if isinstance(stage, EdgeReduce) and not any(mutable(self.program, name) for _, name in reads(stage))
            }
            self.sides = sides_of(self.program, graph)
            self._staged = self._ends()
            self._hosted = self._host_patterns() if self.products else ()
        self._built = program, graph, features, device

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Upload the structure of the matrices, which is the graph's own CSC; nothing is compiled."""
        built, self._built = self._built, None
        if built is None or built[0] is not program or built[1] is not graph or built[2:] != (features, device):
            self.build(program, graph, features, device, phases)
            self._built = None
        with phases("load"):
            self.open(device)
        with phases("upload"):
            self._upload_graph()

    @property
    def index(self) -> type[np.generic]:
        """The integer type of vertex and edge numbers: int32, or int64 if there are 2**31 or more of either."""
        narrow = self.graph.num_edges < 2**31 and self.graph.num_vertices < 2**31
        return np.int32 if narrow else np.int64

    def _ends(self) -> dict[str, NDArray[Any]]:
        """Return what edges are gathered by, for the spaces that some function of an edge reads.

        Edge properties are stored in CSC order, so that in-edges are read without an index.
        """
        stages = [stage for stage in self.program.stages if isinstance(stage, (EdgeReduce, EdgeUpdate))]
        values = [value for stage in stages for value in self.functions_of_edges(stage)]
        spaces = {space for value in values for space, _ in reads(value)}
        csc = self.graph.csc
        made: dict[str, Callable[[], NDArray[Any]]] = {
            "src": lambda: csc.neighbours, "dst": lambda: csc.row_of_edge, "reverse": lambda: self.graph.in_edge_ids,
        }  # fmt: skip
        return {space: of().astype(self.index) for space, of in made.items() if space in spaces}

    def functions_of_edges(self, stage: EdgeReduce | EdgeUpdate) -> tuple[Expression, ...]:
        """Return what is evaluated at every edge for a stage: of a product with a matrix, its coefficient."""
        return (self.products[stage.name].coefficient,) if stage.name in self.products else stage.expressions()

    def _upload_graph(self) -> None:
        staged, self._staged = self._staged, None
        assert staged is not None, "build() comes first"
        self.ends = {space: self.arrays.upload(values) for space, values in staged.items()}
        self._patterns = [Pattern.uploaded(host, self.arrays, self.csr) for host in self._hosted]
        self._hosted = ()

    def _host_patterns(self) -> list[HostPattern]:
        """Return the positions of the entries of the matrices of in-edges, one for each side, on the host."""
        columns, width = self.graph.csc.neighbours.astype(self.index), self.graph.num_vertices
        return [
            HostPattern.of(columns[side.edges], side.offsets.astype(self.index), width, self.run_length)
            for side in self.sides
        ]

    def pattern(self, columns: NDArray[Any], offsets: NDArray[Any], width: int) -> Pattern:
        """Return the positions of the entries of a matrix of in-edges."""
        return Pattern.of(columns, offsets.astype(self.index), width, self.arrays, self.csr, self.run_length)

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Reset all properties to their initial state and build the matrices from the inputs.

        Arrays of inputs that were given to the previous reset stay as they are: no stage writes them.
        """
        self._parameters = dict(self.program.parameters) | dict(inputs.parameters)
        start = Start(self.program, self.graph, self.features, inputs, state or {})
        properties = self.program.properties
        self._value = {name: self._initial(prop, start) for name, prop in properties.items()}
        if self._inputs is not inputs:  # coefficients read nothing else that changes
            self._matrices = {name: self._filled(product) for name, product in self.products.items()}
        self._inputs = inputs
        self._superstep, self._active, self._settled = 0, self.graph.num_vertices, False

    def _initial(self, prop: Property, start: Start) -> Array:
        """Return a property at the start of a run; stages replace arrays and never write to them."""
        given = prop.name in start.state
        if prop.role in ("state", "temporary") and not given:
            if isinstance(prop.start, str):
                return self._initial(self.program.properties[prop.start], start)
            return self._filled_with(prop)
        if given or not self._kept(prop, start.inputs):
            made = self._uploaded(prop, start.of(prop))
            if given:
                return made
            self._given[prop.name] = made
        return self._given[prop.name]

    def _filled_with(self, prop: Property) -> Array:
        """Return a property that starts from a constant, or a temporary, which is NaN until it is written."""
        count = {"vertex": self.graph.num_vertices, "edge": self.graph.num_edges, "graph": 1}[prop.place]
        fill_value = False if prop.dtype == "bool" else np.nan
        value = np.array(
            fill_value if prop.start is None else prop.start, np.bool_ if prop.dtype == "bool" else self.dtype
        )
        shape = (count, *concrete(prop.shape, self.features))
        return self.arrays.copy(self.arrays.broadcast(self.arrays.constant(value), shape))

    def _kept(self, prop: Property, inputs: Inputs) -> bool:
        """Return whether the array of an input is that of the previous reset, and is there."""
        before = self._inputs
        if before is None or prop.name not in self._given:
            return False
        return before.properties.get(prop.name) is inputs.properties.get(prop.name)

    def _uploaded(self, prop: Property, values: NDArray[Any]) -> Array:
        """Return the values of a property, edge properties reordered from CSR to CSC: on the device, if it is not the
        host, where that takes longer than the upload."""
        kind = np.bool_ if prop.dtype == "bool" else self.dtype
        if prop.place != "edge":
            return self.arrays.upload(values.astype(kind, copy=False))
        if self.on_host or values is self.graph.weights:  # weights are there in both orders
            return self.arrays.upload(self.graph.in_csc_order(values).astype(kind, copy=False))
        in_csc = self.arrays.upload(self.graph.in_edge_ids.astype(self.index))
        return self.gather(self.arrays.upload(values.astype(kind, copy=False)), in_csc)

    def _filled(self, product: Product) -> list[Matrix]:
        """Return the matrices of a product, one for each side."""
        coefficient = self.edge_evaluator(slice(0, self.graph.num_edges))(product.coefficient)
        coefficient = self.arrays.broadcast(coefficient, (self.graph.num_edges,))
        parts = zip(self.sides, self._patterns, strict=True)
        return [pattern.matrix(coefficient[side.edges]) for side, pattern in parts]

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run until settled or for ``max_supersteps`` more supersteps."""
        statistics = RunStatistics(settled=self._settled)
        control = self.program.control
        tolerance = self._parameters[control.tolerance] if control.tolerance else 0.0
        for _ in range(0 if self._settled else max_supersteps):
            before = {name: self._value[name] for name in self._watched}
            statistics.supersteps.append(Superstep(self._active, self.step(), "pull"))
            self._active = self._count_moved(before, tolerance)
            self._superstep += 1
            still = control.settles and self._active == 0 and self._superstep >= len(self.sides)
            if still or self._within(before):
                self._settled = statistics.settled = True
                break
        return statistics

    def _within(self, before: Mapping[str, Array]) -> bool:
        """Return whether the criterion is evaluated after the last superstep and met.

        ``before``: the watched properties before that superstep. In the norm *max* the number of vertices that moved
        gives the same decision, so that this returns False.
        """
        criterion = self._criterion
        if criterion is None or criterion.norm == "max" or not criterion.ends(self._superstep - 1):
            return False
        return criterion.met(before, self._value, self._parameters, self.arrays)

    def _count_moved(self, before: Mapping[str, Array], tolerance: float) -> int:
        """Return the number of vertices and edges that moved; reading it waits for the superstep to finish."""
        total: Any = 0
        for place in ("vertex", "edge"):
            flags: Any = None
            for name, old in before.items():
                if self.program.properties[name].place == place:
                    one = self.arrays.moved(old, self._value[name], tolerance, self.program.control.relative)
                    flags = one if flags is None else flags | one
            total = total if flags is None else total + flags.sum()
        return int(total)

    # results --------------------------------------------------------------------------------------------------------
    def values(self, name: str) -> NDArray[np.generic]:
        """Return a property in float32, edge properties in CSR order."""
        values = self.arrays.download(self._value[name])
        if self.program.properties[name].place != "edge":
            return values
        result = np.empty_like(values)
        result[self.graph.in_edge_ids] = values
        return result

    def rows(self, name: str, index: NDArray[np.integer[Any]]) -> NDArray[np.generic]:
        """Return some rows of a property in float32; only these are downloaded."""
        edge = self.program.properties[name].place == "edge"
        chosen = places(self.graph)[index] if edge else index
        return self.arrays.download(self._value[name][self.arrays.upload(chosen.astype(np.int64))])

    def device_values(self, name: str) -> Any:
        """Return a property as a new array of the library on the device, edge properties in CSR order; None on the
        CPU."""
        if self.on_host:
            return None
        values = self._value[name]
        if self.program.properties[name].place != "edge":
            return self.arrays.copy(values)
        return self.gather(values, self.arrays.upload(places(self.graph).astype(np.int64)))

    def explain(self) -> str:
        """Return the implementation of each stage as text."""
        lines = [type(self).__name__, schedule_text(self)]
        lines += [f"  {stage.name}: {self.described(stage)}" for stage in self.program.stages]
        return "\n".join(lines)

    def close(self) -> None:
        """Release all arrays."""
        self._value, self._given, self._matrices, self._patterns, self.ends = {}, {}, {}, [], {}
        self._inputs = self._staged = self._built = None
