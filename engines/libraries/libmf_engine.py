"""LIBMF as an engine: stochastic gradient descent in parallel blocks of ratings (Chin et al. 2015)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from engines.libraries.libmf_object import NATIVE, Factors, Libmf, build_of, nodes, object_path
from engines.libraries.ratings_engine import Array, RatingsEngine
from engines.libraries.schedules import LibmfSchedule
from harness.api import Graph, Unsupported, schedule_text
from harness.api.library import RecognisedSGD

LEAST_BINS = 26  # LIBMF's default
# LIBMF starts a further sweep and then signals its threads to stop, without waking them. Threads that finish this sweep
# before the signal wait forever: met with 2,500 ratings on a busy machine.
LEAST_RATINGS = 50_000
NEAR = 1e-3  # of the deviation, to 1


class LibmfEngine(RatingsEngine):
    """Calls ``mf_train`` of LIBMF's shared object, in float32 on the threads of the device.

    Its update is that of the program with ``rates=twin``. It starts from its own factors, uniform in [0, 1/sqrt(k)) as
    the program's with ``normalise=deviation``, and reports no order: its threads take blocks that have no row or column
    in common, so that no update is lost. Its answers are compared by metrics, which ``conflicts=lossy`` permits. A call
    sorts the ratings into blocks and then runs all sweeps. Nothing is kept between calls, so that a run that goes on
    begins again.
    """

    library = "LIBMF"
    bytes_per_edge = 40
    schedule: LibmfSchedule

    def refused(self, problem: RecognisedSGD, graph: Graph, features: int) -> str:
        """Refuse other rates, biases, and programs whose order must be known."""
        if problem.rates != "twin":
            return f"LIBMF has two rates a row that adapt, and the program has rates={problem.rates}; give rates=twin"
        if problem.bias:
            return "LIBMF has no biases; give bias=none"
        if problem.order == "given" or problem.conflicts == "serial":
            return (
                "LIBMF reports no order of its updates, so that its answers are checked by their metrics; give "
                "order=any and conflicts=lossy"
            )
        if graph.num_edges < LEAST_RATINGS:
            return (
                f"LIBMF 0.9.2 can wait forever after a sweep that is shorter than a pause of the system; give at least "
                f"{LEAST_RATINGS:,} ratings"
            )
        return ""

    def load(self) -> None:
        """Load the shared object. Raises Unsupported if it is another build than the schedule requires."""
        path = object_path()
        self.build_met = build_of(path)
        if self.schedule.build not in ("any", self.build_met):
            raise Unsupported(
                f"build={self.schedule.build}: {path.name} is a {self.build_met} build; install: {NATIVE}"
            )
        self.object = Libmf(path)

    def convert(self, graph: Graph) -> None:
        """Note the ends of the ratings."""
        self.ends = graph.csr.row_of_edge, graph.csr.neighbours.astype(np.int64) - self.left
        self.bins = self.schedule.bins or max(LEAST_BINS, 2 * self.threads + 1)

    def pose(self) -> None:
        """Make the array of ratings. Raises Unsupported for another scale, or another start, than LIBMF's own."""
        ratings, x = self.start["rating"], self.start["x"]
        deviation, largest = float(ratings.std(dtype=np.float64)), 1.0 / math.sqrt(self.features)
        if abs(deviation - 1.0) > NEAR:
            raise Unsupported(
                f"LIBMF divides ratings by their standard deviation, here {deviation:.4g}; give normalise=deviation"
            )
        if x.min() < 0 or x.max() > 1.001 * largest or abs(x.mean() / largest - 0.5) > 0.1:
            raise Unsupported(
                "LIBMF starts from its own factors, uniform in [0, 1/sqrt(k)), and the program from others; give "
                "normalise=deviation"
            )
        self.ratings = nodes(*self.ends, ratings)
        self.trained: Factors | None = None

    def sweeps(self, done: int, more: int) -> None:
        """Train from the start, for all sweeps so far."""
        self.trained = self.object.train(
            self.ratings, (self.left, self.right), self.features, done + more, rate=self.rates["alpha"],
            lam=self.rates["lam"], threads=self.threads, bins=self.bins,
        )  # fmt: skip

    def factors(self) -> Mapping[str, Array]:
        """Return the factors; those of vertices without ratings as they start."""
        assert self.trained is not None
        found, start = self.trained.read(), self.start["x"]
        rated = np.zeros(len(start), np.bool_)
        rated[self.ends[0]] = rated[self.left + self.ends[1]] = True
        return {"x": np.where(rated[:, None], found, start)}

    def order(self) -> Array | float:
        return 0.0

    def resolved_options(self) -> Mapping[str, object]:
        """Return the build that runs, and the number of blocks a side."""
        return {"build": getattr(self, "build_met", self.schedule.build), "bins": getattr(self, "bins", LEAST_BINS)}

    def explain(self) -> str:
        """Return the schedule, what runs, and how to build it for this processor."""
        advice = f"\nfor the fastest build: {NATIVE}" if self.resolved_options()["build"] == "scalar" else ""
        return f"{schedule_text(self)}\n{self.library}: {self.what_runs()}{advice}"

    def what_runs(self) -> str:
        return (
            f"mf_train of its {self.resolved_options()['build']} build, from its own first factors; it reports no "
            "order, and its answer is checked by metrics"
        )

    def close(self) -> None:
        """Release the model too."""
        super().close()
        for name in ("ratings", "ends", "trained"):
            self.__dict__.pop(name, None)
