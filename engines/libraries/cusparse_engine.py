"""cuSPARSE through CuPy: sparse matrix times dense features on a CUDA device; CuPy's kernels compute formulas.

CuPy's ``csr_matrix @ dense`` supports only one way. This engine calls cuSPARSE's generic routines directly, in the way
that is fastest for the matrix (:mod:`engines.libraries.cusparse_matrix`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import cupy
import numpy as np

from engines.libraries.array_engine import ArrayEngine
from engines.libraries.cupy_arrays import CupyArrays
from engines.libraries.cusparse_ways import Way
from engines.libraries.matrix import RUN, Matrix, Pattern
from engines.libraries.products import Product
from engines.libraries.schedules import CusparseSchedule
from harness.api import Device, Graph, Phases, Program, concrete, cuda_unavailable, options_of

if TYPE_CHECKING:
    from engines.libraries.cusparse_matrix import Choices


class CusparseEngine(ArrayEngine):
    """Sparse times dense with cuSPARSE; reductions that are not products are unsupported."""

    library = "cuSPARSE"
    tunes = True
    on_host = False
    schedule: CusparseSchedule
    choices: Choices
    split: list[str]  # yes or no for each side of the graph
    splits: list[str]

    def open(self, device: Device) -> None:
        """Select the device and create its CuPy arrays."""
        from engines.libraries.cusparse_matrix import Choices

        cupy.cuda.Device(device.index).use()
        self.arrays = CupyArrays()
        self.choices, self.split, self.splits = Choices(self._allowed), [], []

    def refused_device(self, device: Device) -> str:
        """Return why the engine cannot run on the device: it is a CPU, or no GPU is available."""
        return cuda_unavailable(device.index) if device.kind == "cuda" else "cuSPARSE runs on CUDA devices only"

    def _allowed(self, way: Way, features: int) -> bool:
        """Return whether the schedule allows a way; an option without effect on the way does not restrict it."""
        schedule = self.schedule
        return (
            schedule.algorithm in (0, way.algorithm)
            and (features == 1 or schedule.order in ("auto", way.order))
            and (not way.analysed or schedule.preprocess in ("auto", "yes" if way.preprocess else "no"))
        )

    def csr(self, values: Any, columns: Any, offsets: Any, shape: tuple[int, int]) -> Any:
        """Return a CSR matrix of cuSPARSE."""
        from engines.libraries.cusparse_matrix import CsrMatrix

        return CsrMatrix(values, columns, offsets, shape, self.choices)

    # the choice -------------------------------------------------------------------------------------------------------
    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Upload the structure of the matrices, and choose the way of each product by timing."""
        super().prepare(program, graph, features, device, phases)
        if self.products and graph.num_edges:
            with phases.alone("tune"):
                widths = [self.width(product) for product in self.products.values()]
                csc = graph.csc
                for at, side in enumerate(self.sides):
                    columns = csc.neighbours[side.edges].astype(self.index)
                    self._patterns[at] = self._fastest(columns, side.offsets, self._patterns[at], widths)

    def width(self, product: Product) -> int:
        """Return the number of columns of a product's dense operand."""
        return int(np.prod(concrete(product.dense.shape, self.features), dtype=np.int64))

    def _fastest(self, columns: Any, offsets: Any, given: Pattern, widths: Sequence[int]) -> Pattern:
        """Return the pattern with the lowest total time of its products: with long rows cut into runs, or whole."""
        candidates = {"no": given}
        if given.runs is not None:
            whole = Pattern.of(columns, offsets.astype(self.index), given.shape[1], self.arrays, self.csr, None)
            candidates = {"yes": given, "no": whole}
            split = self.schedule.split
            candidates = candidates if split == "auto" else {split: candidates[split]}
        ms = dict.fromkeys(candidates, 0.0)
        for n in widths:
            for name, taken in self._milliseconds(candidates, len(columns), n).items():
                ms[name] += taken
        best = min(ms, key=ms.__getitem__)
        for name in candidates.keys() - {best}:
            for structure in candidates[name].structures():
                self.choices.forget(structure)
        self.split.append(best)
        times = ", ".join(f"{name} {taken:.3g} ms" for name, taken in ms.items())
        self.splits.append(f"rows of more than {RUN} entries cut into runs: {best} ({times})")
        return candidates[best]

    def _milliseconds(self, patterns: Mapping[str, Pattern], entries: int, n: int) -> dict[str, float]:
        """Return the milliseconds of a product of each pattern with ``n`` columns, in the fastest way for each part."""
        from engines.libraries.cusparse_matrix import timed

        ones = cupy.ones(entries, np.float32)
        matrices = {name: pattern.matrix(ones) for name, pattern in patterns.items()}
        rows = next(iter(patterns.values())).shape[1]
        dense = cupy.random.random((rows, n), dtype=np.float32)
        for matrix in matrices.values():
            matrix @ dense  # chooses the way of each part
        return timed(list(matrices), lambda name: matrices[name] @ dense)

    def _filled(self, product: Product) -> list[Matrix]:
        """Return a product's matrix for each side, after cuSPARSE's preparation of each."""
        made = super()._filled(product)
        for matrix in made:
            for part in (matrix.rows, matrix.runs):
                if part is not None:
                    part.ready(self.width(product))
        return made

    # ------------------------------------------------------------------------------------------------------------------
    def resolved_options(self) -> dict[str, Any]:
        """Return what the phase *tune* chose.

        The value of an option is a list if matrices, numbers of features or sides of the graph differ. Its order is
        that in which ``explain`` shows them. Options left open are omitted if nothing was multiplied.
        """
        made = getattr(self, "choices", None)
        ways = [choice.way for choice in made.made.values()] if made else []
        if not ways:
            return {name: value for name, value in options_of(self.schedule).items() if value not in (0, "auto")}
        chosen: dict[str, list[Any]] = {
            "algorithm": [way.algorithm for way in ways],
            "order": [way.order for way in ways],
            "preprocess": ["yes" if way.preprocess else "no" for way in ways],
            "split": self.split,
        }
        return {name: values[0] if len(set(values)) == 1 else values for name, values in chosen.items()}

    def explain(self) -> str:
        """Return the implementation of each stage and the ways of cuSPARSE as text."""
        chosen = [
            f"  {rows:,} x {columns:,} with {choice.entries:,} entries times {n} columns: {choice}"
            for (_, (rows, columns), n), choice in self.choices.made.items()
        ]
        return "\n".join([super().explain(), *(f"  {line}" for line in self.splits), *chosen])

    def described(self, stage: Any) -> str:
        """Return the implementation of one stage as text."""
        if stage.name in self.products:
            return super().described(stage)
        return "kernels that CuPy generates, one a formula, and its reductions"

    def close(self) -> None:
        """Release the device's memory."""
        super().close()
        if hasattr(self, "choices"):
            self.choices.clear()
        if self.__dict__.pop("arrays", None) is not None:  # the device has been opened
            cupy.get_default_memory_pool().free_all_blocks()
