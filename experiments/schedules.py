"""Times and launches of the present schedules: python experiments/schedules.py netflix|roads."""
import copy
import sys
import time

import cupy
import numpy as np

from engines.lonestar import cuda_plan, cuda_templates, hand_over
from engines.lonestar.cuda_engine import LonestarCudaEngine
from engines.lonestar.cuda_executor import LonestarExecutor
from engines.lonestar.schedule import LonestarSchedule
from harness.lowering.cuda import executor as cuda_executor
from harness.algorithms.sgd_mf import SGDMatrixFactorisation
from harness.contract import Device, No, Phases
from harness.graph.generators import grid, random_ratings
from harness.language import trace

LAUNCHES = []
plain_launch, plain_hand_over = LonestarExecutor._launch, LonestarExecutor._hand_over


def launch(self, kernel, first, last, blocks, *, together=False):
    began, ended = cupy.cuda.Event(), cupy.cuda.Event()
    began.record()
    plain_launch(self, kernel, first, last, blocks, together=together)
    ended.record()
    LAUNCHES.append((kernel.name.removeprefix("step_"), blocks, began, ended, self.arrays["sizes"]))


def handed(self, kernels, number, left, ran):
    began = time.perf_counter()
    plain_hand_over(self, kernels, number, left, ran)
    HANDED.append((left, 1e3 * (time.perf_counter() - began)))


def handed_on_device(self, kernels, number, left, ran):
    """Group by hubs on the device; the order within a hub is that of the sort."""
    began = time.perf_counter()
    arrays = self.arrays
    listed = arrays[f"list_{number % 2}"][:left].copy()
    u, v = arrays["in_neighbours"][listed], arrays["in_rows"][listed]
    degrees = cupy.bincount(cupy.concatenate([u, v]), minlength=self.plan.facts.num_vertices)
    of_source = degrees[u] > degrees[v]
    hubs = cupy.where(of_source, u, v).astype(cupy.int64)
    names = 2 * hubs + of_source
    own = cupy.bincount(names, minlength=2 * self.plan.facts.num_vertices)[names]
    key = (of_source.astype(cupy.int64) << 62) | (((1 << 30) - own) << 32) | hubs
    order = cupy.argsort(key)
    sorted_names = names[order]
    new = cupy.ones(left, bool)
    new[1:] = sorted_names[1:] != sorted_names[:-1]
    starts = cupy.flatnonzero(new)
    destinations = left - int(cupy.count_nonzero(of_source))
    starts = starts.get()
    most = hand_over.MOST_UNITS
    single = min(int(np.searchsorted(starts, destinations)), most // 2)
    rest = starts[single:]
    if len(rest) > most - single:
        rest = rest[np.arange(most - single) * len(rest) // (most - single)]
    bounds = np.concatenate([starts[:single], rest, [left]]).astype(np.uint32)
    arrays["list_0"][:left] = listed[order]
    arrays["owned"][: len(bounds)].set(bounds)
    arrays["sizes"][:4].set(np.array([left, 0, 0, ran], np.uint64))
    for kernel, first, last in ((kernels["owned_columns"], 0, single), (kernels["owned"], single, len(bounds) - 1)):
        if last > first:
            self._launch(kernel, first, last, min(last - first, self._resident(kernel)))
    HANDED.append((left, 1e3 * (time.perf_counter() - began)))


HANDED = []
FENCES = ["present"]
plain_headers = cuda_executor.headers


def with_fences(folder):
    """Replace the fences of locks: by acquire and release ones, by release ones only, and releasing exchanges by stores."""
    found = dict(plain_headers(folder))
    text, kind = found["in_place.cuh"], FENCES[0]
    assert text.count("__threadfence();") == 8, text.count("__threadfence();")
    if kind == "present":
        return found
    text = text.replace("if (taken) __threadfence();", "if (taken) taking_fence();").replace("if (locked) __threadfence();", "if (locked) taking_fence();")
    assert text.count("taking_fence") == 4
    text = text.replace("__threadfence();", "releasing_fence();")
    taking = "asm volatile(\"fence.acq_rel.gpu;\" ::: \"memory\");" if kind == "acq_rel" else "asm volatile(\"\" ::: \"memory\");"
    if kind == "stores":
        before = text.count("atomicExch(")
        text = text.replace("atomicExch(", "release_word(")
        assert before == 6, before
    helpers = f"""
__device__ inline void taking_fence() {{ {taking} }}
__device__ inline void releasing_fence() {{ asm volatile("fence.acq_rel.gpu;" ::: "memory"); }}
__device__ inline void release_word(unsigned* word, unsigned value) {{ *(volatile unsigned*)word = value; }}
"""
    text = text.replace("typedef unsigned long long Number;", "typedef unsigned long long Number;" + helpers)
    found["in_place.cuh"] = text
    return found


cuda_executor.headers = with_fences
NODES, DEPTH, SHARE = cuda_templates.NODE_LOCKED, cuda_plan.DEPTH, hand_over.LEAST_SHARE
ACROSS = NODES.replace("first + group_of_grid(group)", "first + group_across_blocks(group)")
BEGAN = time.perf_counter()


def train_rmse(graph, inputs, engine, k):
    x = engine.lonestar.arrays["vertex_x"][: graph.num_vertices * k].reshape(-1, k)
    if graph.name not in ON_DEVICE:
        ON_DEVICE[graph.name] = [cupy.asarray(a) for a in (graph.csr.row_of_edge, graph.csr.neighbours, inputs.properties["rating"])]
    rows, columns, ratings = ON_DEVICE[graph.name]
    total = 0.0
    for lo in range(0, graph.num_edges, 1 << 20):
        part = slice(lo, lo + (1 << 20))
        total += float(((ratings[part] - (x[rows[part]] * x[columns[part]]).sum(1)) ** 2).sum(dtype=cupy.float64))
    cupy.cuda.Device().synchronize()
    return (total / graph.num_edges) ** 0.5


ON_DEVICE = {}


def measure(algorithm, graph, k, label, details=False, rmse=False, **options):
    if time.perf_counter() - BEGAN > 48:
        print(f"skipped: {k} {label}")
        return
    depth, template, share = options.pop("depth", DEPTH), options.pop("template", NODES), options.pop("share", SHARE)
    FENCES[0] = options.pop("fences", "present")
    LonestarExecutor._hand_over = handed_on_device if options.pop("on_device", False) else handed
    cuda_plan.AHEAD = options.pop("ahead", 2)
    cuda_plan.DEPTH, cuda_templates.NODE_LOCKED, hand_over.LEAST_SHARE = depth, template, share
    program, inputs = trace(algorithm), algorithm.inputs(graph, k)
    engine = LonestarCudaEngine(LonestarSchedule(**options))
    answer = engine.supports(program, graph, k, Device("cuda"))
    assert not isinstance(answer, No), answer
    engine.prepare(program, copy.copy(graph), k, Device("cuda"), Phases())
    engine.reset(inputs)
    engine.run(1)
    times = []
    error = ""
    while len(times) < 6 and sum(times) < 0.8:
        if len(times) == 2 and rmse:
            error = f", train RMSE after 3 sweeps {train_rmse(graph, inputs, engine, k):.4f}"
        HANDED.clear()
        began = time.perf_counter()
        engine.run(1)
        times.append(time.perf_counter() - began)
    executor = engine.lonestar
    registers = max(cupy.cuda.driver.funcGetAttribute(4, executor.functions[n.name].ptr) for n in executor.plan.kernels)
    print(f"k {k} {label}: {1e3 * min(times):.2f} ms, {graph.num_edges / min(times) / 1e6:.0f} M/s, passes {executor.passes['step']}, "
          f"registers {registers}, handed over {[(n, round(t, 1)) for n, t in HANDED][:4]}{error}, at {time.perf_counter() - BEGAN:.0f} s", flush=True)
    if details:
        LAUNCHES.clear()
        LonestarExecutor._launch = launch
        engine.run(1)
        LonestarExecutor._launch = plain_launch
        shown = [f"{n} {b} {cupy.cuda.get_elapsed_time(s, e):.2f}" for n, b, s, e, _ in LAUNCHES]
        total = sum(cupy.cuda.get_elapsed_time(s, e) for _, _, s, e, _ in LAUNCHES)
        print(f"   {len(shown)} launches, {total:.2f} ms (kernel, blocks, ms): {'; '.join(shown[:9])}", flush=True)
    engine.close()


def check(order, fences):
    """Take stamps of five supersteps on ratings with hubs; a race leaves stamps that are not 0, 1, 2, ..."""
    algorithm = SGDMatrixFactorisation(epochs=10000)
    graph = algorithm.prepare_graph(random_ratings(users=20000, items=500, num_ratings=200000, exponent=0.8))
    FENCES[0], cuda_plan.DEPTH, cuda_templates.NODE_LOCKED = fences, DEPTH, NODES
    program, inputs = trace(algorithm), algorithm.inputs(graph, 16)
    engine = LonestarCudaEngine(LonestarSchedule(order=order))
    engine.prepare(program, graph, 16, Device("cuda"), Phases())
    engine.reset(inputs)
    try:
        for _ in range(5):
            engine.ordered_superstep()
        found = "serialisable"
    except Exception as error:
        found = str(error)[:90]
    engine.close()
    return f"{order} {fences}: {found}"


def main(which):
    LonestarExecutor._hand_over = handed
    algorithm = SGDMatrixFactorisation(epochs=10000, conflicts="lossy")
    if which == "netflix":
        graph = algorithm.prepare_graph(random_ratings(users=480189, items=17770, num_ratings=9907211, exponent=0.438))
        print(f"graph at {time.perf_counter() - BEGAN:.0f} s")
        measure(algorithm, graph, 16, "el", True, order="el")
        measure(algorithm, graph, 16, "el, hand over below 1/4", True, order="el", share=4)
        measure(algorithm, graph, 16, "el, taken", True, order="el", fences="taken")
        for share in (20, 4, 2):
            measure(algorithm, graph, 16, f"el, taken, hand over on the device below 1/{share}", share == 4, order="el", fences="taken", share=share, on_device=True)
        measure(algorithm, graph, 64, "grid", rmse=True, order="grid")
        measure(algorithm, graph, 64, "hogwild, stored", rmse=True, order="hogwild", writes="store")
        for k, ahead in ((64, 2), (64, 1), (64, 4), (32, 2), (128, 2), (32, 4)):
            measure(algorithm, graph, k, f"hogwild, added, {ahead} ahead", rmse=True, order="hogwild", ahead=ahead)
        measure(algorithm, graph, 16, "owner", True, order="owner")
        measure(algorithm, graph, 16, "nl", True, order="nl")
    else:
        algorithm = SGDMatrixFactorisation(epochs=10000, conflicts="lossy", sides="double", ratings="drawn")
        graph = algorithm.prepare_graph(grid(rows=1375, columns=1375, removed=0.4))
        degrees = np.bincount(graph.csc.offsets[1:] - graph.csc.offsets[:-1])
        print(f"graph at {time.perf_counter() - BEGAN:.0f} s; columns by degree {degrees[:6]}")
        for order in ("el", "nl"):
            for fences in ("present", "taken", "stores"):
                measure(algorithm, graph, 16, f"{order}, fences {fences}", fences != "stores", order=order, fences=fences)
        measure(algorithm, graph, 16, "hybrid, fences present", True, order="hybrid")
        measure(algorithm, graph, 16, "hybrid, fences taken", order="hybrid", fences="taken")
        measure(algorithm, graph, 16, "el, not shuffled, taken", order="el", shuffle=False, fences="taken")
        for depth in (1, 2, 4):
            measure(algorithm, graph, 16, f"nl, depth {depth}, across, taken", depth == 2, order="nl", depth=depth, template=ACROSS, fences="taken")
        measure(algorithm, graph, 16, "nl, depth 2, taken", order="nl", depth=2, fences="taken")
        for order in ("el", "nl"):
            measure(algorithm, graph, 64, f"{order}, taken", order=order, fences="taken")
        print("; ".join(check(order, fences) for order in ("el", "nl") for fences in ("present", "acq_rel", "taken", "stores")))


main(sys.argv[1])
