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


def measure(algorithm, graph, k, label, details=False, **options):
    if time.perf_counter() - BEGAN > 46:
        print(f"skipped: {k} {label}")
        return
    depth, template, share = options.pop("depth", DEPTH), options.pop("template", NODES), options.pop("share", SHARE)
    FENCES[0] = options.pop("fences", "present")
    cuda_plan.DEPTH, cuda_templates.NODE_LOCKED, hand_over.LEAST_SHARE = depth, template, share
    program, inputs = trace(algorithm), algorithm.inputs(graph, k)
    engine = LonestarCudaEngine(LonestarSchedule(**options))
    answer = engine.supports(program, graph, k, Device("cuda"))
    assert not isinstance(answer, No), answer
    engine.prepare(program, copy.copy(graph), k, Device("cuda"), Phases())
    engine.reset(inputs)
    engine.run(1)
    times = []
    while len(times) < 6 and sum(times) < 0.8:
        HANDED.clear()
        began = time.perf_counter()
        engine.run(1)
        times.append(time.perf_counter() - began)
    executor = engine.lonestar
    registers = max(cupy.cuda.driver.funcGetAttribute(4, executor.functions[n.name].ptr) for n in executor.plan.kernels)
    print(f"k {k} {label}: {1e3 * min(times):.2f} ms, {graph.num_edges / min(times) / 1e6:.0f} M/s, passes {executor.passes['step']}, "
          f"registers {registers}, handed over {[(n, round(t, 1)) for n, t in HANDED][:4]}, at {time.perf_counter() - BEGAN:.0f} s", flush=True)
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
        measure(algorithm, graph, 16, "el, hand over below 1/2", order="el", share=2)
        measure(algorithm, graph, 16, "el, taken", True, order="el", fences="taken")
        measure(algorithm, graph, 16, "el, taken, hand over below 1/4", order="el", fences="taken", share=4)
        for workers in (None, 752, 65536):
            measure(algorithm, graph, 64, f"hogwild, workers {workers}", order="hogwild", workers=workers)
        measure(algorithm, graph, 16, "owner", True, order="owner")
        measure(algorithm, graph, 16, "hybrid", True, order="hybrid")
        measure(algorithm, graph, 16, "hogwild", order="hogwild")
        measure(algorithm, graph, 16, "grid", order="grid")
        measure(algorithm, graph, 16, "nl", True, order="nl")
    else:
        algorithm = SGDMatrixFactorisation(epochs=10000, conflicts="lossy", sides="double", ratings="drawn")
        graph = algorithm.prepare_graph(grid(rows=1375, columns=1375, removed=0.4))
        degrees = np.bincount(graph.csc.offsets[1:] - graph.csc.offsets[:-1])
        print(f"graph at {time.perf_counter() - BEGAN:.0f} s; columns by degree {degrees[:6]}")
        for order in ("el", "nl", "hybrid"):
            for fences in ("present", "acq_rel", "taken", "stores"):
                measure(algorithm, graph, 16, f"{order}, fences {fences}", fences in ("present", "taken"), order=order, fences=fences)
        measure(algorithm, graph, 16, "el, not shuffled, taken", order="el", shuffle=False, fences="taken")
        for depth in (1, 2, 4):
            measure(algorithm, graph, 16, f"nl, depth {depth}, across, taken", order="nl", depth=depth, template=ACROSS, fences="taken")
        measure(algorithm, graph, 16, "nl, depth 2, taken", order="nl", depth=2, fences="taken")
        for order in ("el", "nl", "hybrid"):
            measure(algorithm, graph, 64, f"{order}, present", order=order)
            measure(algorithm, graph, 64, f"{order}, taken", order=order, fences="taken")

        print("; ".join(check(order, fences) for order in ("el", "nl") for fences in ("present", "acq_rel", "taken", "stores")))


main(sys.argv[1])
