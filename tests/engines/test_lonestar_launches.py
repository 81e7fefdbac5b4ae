"""The launches of steps in place on a GPU: their ranges and blocks, and the counts of passes, without a device."""

import contextlib
from types import SimpleNamespace

import numpy as np
import pytest

from engines.lonestar import cuda_executor
from engines.lonestar.cuda_engine import LonestarCudaEngine
from engines.lonestar.cuda_executor import MOST_PASSES, LonestarExecutor, kernels_of, launches_of
from engines.lonestar.schedule import LonestarSchedule
from harness.contract import EngineFailure
from harness.facts import DeviceFacts, GraphFacts
from harness.plugins import load_plugins

COLUMNS = ("nodes", "remaining", "edges", "owned_columns", "owned", "pending")
THREADS, LANE_GROUPS, RESIDENT = 64, 4, 5  # of a block; of a warp; blocks
OF_BLOCK = THREADS // 32 * LANE_GROUPS


class Array:
    """An array of the device that the host reads."""

    def __init__(self, *values):
        self.values = np.array(values or (0,))
        self.filled = []

    def fill(self, value):
        self.filled.append(value)

    def get(self):
        return self.values


class Recorded(LonestarExecutor):
    """Records launches; ``left``: the edges that are left after each pass."""

    arrays = None

    def __init__(self, order, left=(), facts=None, hubs=(), degrees=(), **options):
        self.schedule = LonestarSchedule(order=order, **options)
        self.plan = SimpleNamespace(
            threads=THREADS, lane_group=SimpleNamespace(per_warp=LANE_GROUPS),
            facts=facts or GraphFacts(90, 500, 40, bipartite=(60, 30)),
        )  # fmt: skip
        offsets = np.concatenate([[0], np.cumsum(degrees, dtype=np.int64)])
        self.store = SimpleNamespace(
            graph=SimpleNamespace(csc=SimpleNamespace(offsets=offsets)), table=lambda table: np.array(hubs, np.int64)
        )
        names = ("sizes", "locks", "done", "done_blocks", "list_0", "first_list")
        self.arrays = {name: Array(0, 0, 0, 7) for name in names}
        self.arrays["list_0"] = self.arrays["first_list"] = np.zeros(600)
        self.arrays["sizes"] = SizesOfPasses(left)
        self.passes, self.checks_locks, self.launches, self._ranges = {}, False, [], {}
        self.arrays["sizes"].launches = self.launches

    def _resident(self, kernel):
        return RESIDENT

    def _left(self, at):
        return self.arrays["sizes"].next()

    def _launch(self, kernel, first, last, blocks, *, together=False):
        self.launches.append((kernel, first, last, blocks, together))


class SizesOfPasses(Array):
    """The counts of edges that are left; the fourth is the number of passes that have run, up to 7 in a launch."""

    def __init__(self, left):
        super().__init__(0, 0, 0, 0)
        self.left, self.launches = list(left), []

    def next(self):
        return self.left.pop(0)

    def get(self):
        _, first, last, *_ = self.launches[-1]
        self.values[:] = [self.next()] * 3 + [self.values[3] + min(7, last - first)]
        return self.values.copy()

    def __setitem__(self, index, value):
        self.values[index], self.written = value, (index, value)


def test_a_wavefront_is_launched_until_no_block_is_left():
    run = Recorded("wavefront", [9, 2, 0], blocks=3)
    run._wave("step", {"all": "wave"})
    assert run.launches == [("wave", 0, 3, 3, False)] * 3
    assert run.passes == {"step": 3}
    assert run.arrays["done_blocks"].filled == [False]
    assert run.arrays["sizes"].filled == [0, 0, 0]
    many = Recorded("wavefront", [0], blocks=40)
    many._wave("step", {"all": "wave"})
    assert many.launches == [("wave", 0, 40, RESIDENT, False)]


@pytest.mark.parametrize(("left", "fails"), [([17, 0], False), ([18, 0], False), ([19], True), ([5, 5], True)])
def test_a_pass_over_blocks_leaves_fewer_than_before(left, fails):
    """All 2 x 3 x 3 blocks may be left by the first pass, of which at least one ran afterwards."""
    run = Recorded("wavefront", left, blocks=3)
    if not fails:
        run._wave("step", {"all": "wave"})
        return
    with pytest.raises(EngineFailure, match="a pass of step ran none of"):
        run._wave("step", {"all": "wave"})


@pytest.mark.parametrize(("workers", "wanted"), [(3, (3, 0, 3)), (4, (4, 0, 4)), (1000, (40, 0, 5)), (None, (1, 0, 1))])
def test_workers_of_hogwild_are_lane_groups_of_resident_blocks(workers, wanted):
    run = Recorded("hogwild", workers=workers)
    run._lossy("step", {"all": "lossy"})
    assert run.launches == [("lossy", *wanted, False)]
    assert run.passes == {"step": 1}


SHORT = 4 * RESIDENT * OF_BLOCK  # edges up to which passes share a launch


@pytest.mark.parametrize(
    ("barrier", "left", "wanted", "passes"),
    [
        (None, [SHORT, 3, 0], [(0, MOST_PASSES, RESIDENT, True), (7, 7 + MOST_PASSES, 1, False)], 14),
        (None, [SHORT + 1, 0], [(0, 1, 20, False)], 1),
        (None, [17, 0], [(0, MOST_PASSES, 3, True)], 7),
        ("launch", [SHORT, 8, 0], [(0, 1, 20, False), (1, 2, 1, False)], 2),
        ("grid", [SHORT + 1, 0], [(0, MOST_PASSES, RESIDENT, True)], 7),
        ("grid", [8, 0], [(0, MOST_PASSES, 1, False)], 7),
        (None, [0], [], 0),
    ],
)
def test_short_lists_share_a_launch_and_a_barrier_of_the_grid(barrier, left, wanted, passes):
    run = Recorded("el", left, barrier=barrier)
    run.passes["step"] = 2
    run._edge_passes("step", {"edges": "edges"})
    assert run.launches == [("edges", *one) for one in wanted]
    assert run.passes == {"step": 2 + passes}
    assert not run.arrays["sizes"].left


def test_passes_over_columns():
    """Columns follow the rows; a hybrid has one pass of them, owners take the hubs."""
    columns = Recorded("nl", [9, 0])
    columns.passes["step"] = 0
    columns._node_passes("step", "nodes")
    assert columns.launches == [("nodes", 60, 90, 4, False)] * 2
    assert columns.passes == {"step": 2}
    either = Recorded("nl", [0], facts=GraphFacts(90, 500, 40))
    either.passes["step"] = 0
    either._node_passes("step", "nodes")
    assert either.launches == [("nodes", 0, 90, 12, False)]
    hybrid = Recorded("hybrid", [9])
    hybrid.passes["step"] = 0
    hybrid._node_passes("step", "nodes")
    assert hybrid.launches == [("nodes", 60, 90, 4, False)]
    assert hybrid.arrays["sizes"].left == [9]
    degrees = np.arange(90)
    owners = Recorded("owner", [100, 0], hubs=(89, 80), degrees=degrees, hub=80)
    owners.passes["step"] = 0
    owners._node_passes("step", "nodes")
    assert owners.launches == [("nodes", 0, 2, 1, False)] * 2
    with pytest.raises(EngineFailure, match="ran none of 169 edges"):
        lazy = Recorded("owner", [169], hubs=(89, 80), degrees=degrees, hub=80)
        lazy.passes["step"] = 0
        lazy._node_passes("step", "nodes")
    none = Recorded("owner", [], hubs=(), degrees=degrees, hub=1000)
    none.passes["step"] = 0
    none._node_passes("step", "nodes")
    assert not none.launches


@pytest.mark.parametrize(
    ("order", "left", "launches", "passes"),
    [
        ("el", [9, 0], [("edges", 0, MOST_PASSES, 2, True)], 7),
        ("nl", [9, 0], [("edges", 60, 90, 4, False)] * 2, 2),
        (
            "hybrid", [9, 0],
            [("nodes", 60, 90, 4, False), ("remaining", 0, 500, 20, False), ("edges", 0, MOST_PASSES, 2, True)], 1 + 7,
        ),
    ],
)  # fmt: skip
def test_the_kernels_of_locked_orders(order, left, launches, passes):
    run = Recorded(order, left)
    kernels = {"hybrid": ("nodes", "remaining", "edges")}.get(order, ("edges",))
    run._locked("step", {name: name for name in kernels} | {"all": "edges"})
    assert run.launches == launches
    assert run.passes == {"step": passes}
    assert run.arrays["done"].filled == ([] if order == "el" else [False])
    if order == "el":
        assert run.arrays["sizes"].written == (0, 500)


def test_locks_that_are_held_are_found_if_they_are_checked():
    run = Recorded("el")
    run.arrays["locks"] = Array(0, 1, 0, 1)
    run._check_locks("step")
    run.checks_locks = True
    with pytest.raises(EngineFailure, match="^2 locks are held after all edges of step$"):
        run._check_locks("step")


def test_blocks_have_a_lane_group_for_each_piece_of_work_and_are_at_most_four_times_the_resident_ones():
    run = Recorded("el")
    assert [run._blocks("k", lane_groups) for lane_groups in (0, 1, 8, 9, 152, 153, 10**6)] == [1, 1, 1, 2, 19, 20, 20]


def test_batches_of_many_units_have_launches_of_their_own(monkeypatch):
    bounds = np.cumsum([0, 400, 3, 3, 90, 70])
    run = Recorded("agm_e")
    run.store.table = lambda table: SimpleNamespace(batches=SimpleNamespace(batches=bounds))
    run._batches("step", {"all": "batch"})
    assert run.launches == [("batch", 0, 1, 20, False), ("batch", 1, 3, 1, False), ("batch", 3, 4, 12, False),
                            ("batch", 4, 5, 9, False)]  # fmt: skip
    assert run.passes == {"step": 5}
    full = RESIDENT * OF_BLOCK  # units that keep all resident lane groups busy at once
    assert list(launches_of(np.array([full, full + 1]), OF_BLOCK, RESIDENT, None)) == [(0, 1, 5), (1, 2, 6)]
    assert list(launches_of(np.array([full, full - 1]), OF_BLOCK, RESIDENT, None)) == [(0, 2, 5)]
    together = Recorded("agm_e", barrier="grid")
    together.store.table = run.store.table
    together._batches("step", {"all": "batch"})
    assert together.launches == [("batch", 0, 5, RESIDENT, True)]


@pytest.mark.parametrize(
    ("schedule", "one_way", "kernels"),
    [
        ({"order": "el", "hand_over": False}, True, ("edges",)),
        ({"order": "el", "hand_over": True}, False, ("edges", "owned_columns", "owned")),
        ({"order": "el", "hand_over": True}, True, COLUMNS),
        ({"order": "hybrid", "hand_over": True}, True, COLUMNS),
        ({"order": "owner", "hand_over": True}, True, COLUMNS[:-1]),
        ({"order": "owner", "hand_over": False}, True, ("nodes", "remaining", "edges")),
        ({"order": "hybrid", "hand_over": False}, False, ("nodes", "remaining", "edges")),
        ({"order": "hybrid", "hand_over": True}, False, COLUMNS[:-1]),
        ({"order": "nl"}, True, ("all",)),
        ({"order": "wavefront"}, True, ("all",)),
        ({"order": "agm_e"}, True, ("all",)),
        ({"order": "hogwild", "writes": "add"}, True, ("all", "listing")),
        ({"order": "hogwild", "writes": "store"}, True, ("all",)),
    ],
)
def test_kernels_of_an_order(schedule, one_way, kernels):
    """They are those of the plan, in its order."""
    assert kernels_of(LonestarSchedule(**schedule), GraphFacts(90, 500, 40, one_way=one_way)) == kernels


def test_blocks_that_wait_for_each_other_begin_with_a_barrier_of_no_arrivals():
    """In every launch of them, also for later batches on a grid of another size."""
    run, noted = Recorded("agm_e"), []
    run.arrays["arrivals"] = SimpleNamespace(fill=lambda value: noted.append(f"arrivals {value}"))
    run.state, run._run = SimpleNamespace(array="run"), SimpleNamespace(launches=0)
    run.kernels, run.plan.shared_of = {}, lambda _: 48

    def queued(grid, block, given, *, shared_mem, enable_cooperative_groups):
        noted.append((grid, block, given, shared_mem, enable_cooperative_groups))

    run.functions = {"step": queued}
    kernel = SimpleNamespace(name="step", arguments=("run", "first", "last"))
    for first, last, blocks, together in ((0, 3, 2, True), (3, 5, 4, True), (5, 6, 9, False)):
        LonestarExecutor._launch(run, kernel, first, last, blocks, together=together)
    assert noted == [
        "arrivals 0", ((2,), (THREADS,), ("run", 0, 3), 48, True),
        "arrivals 0", ((4,), (THREADS,), ("run", 3, 5), 48, True), ((9,), (THREADS,), ("run", 5, 6), 48, False),
    ]  # fmt: skip
    assert run._run.launches == 3


@pytest.mark.parametrize(
    ("units", "barrier", "launches"),
    [
        ([3, 2], "grid", [(0, 2, 1)]), ([3, 20, 1], "grid", [(0, 3, 3)]), ([1000], "grid", [(0, 1, RESIDENT)]),
        ([0], "grid", [(0, 1, 1)]), ([], "grid", []), ([], None, []), ([], "launch", []),
        ([1, 8, 9, 1000], "launch", [(0, 1, 1), (1, 2, 1), (2, 3, 2), (3, 4, 20)]),
        ([32, 33, 40, 8], None, [(0, 1, 1), (1, 3, 5), (3, 4, 1)]), ([32, 1, 41], None, [(0, 2, 1), (2, 3, 6)]),
    ],
)  # fmt: skip
def test_the_launches_of_batches_by_their_units(units, barrier, launches):
    """8 units keep a block busy; 4 blocks or fewer are one, and more than the resident 5 a launch of their own."""
    assert list(launches_of(np.array(units, np.int64), OF_BLOCK, RESIDENT, barrier)) == launches


@pytest.mark.parametrize(
    ("left", "launches", "handed", "passes"),
    [
        ([100, 90, 0], [(0, 1)], [(1, 90, 2)], 2),
        ([100, 90, 5, 0], [(0, 1), (1, 2)], [(1, 90, 2)], 3),
        ([100, 90, 80, 70, 0], [(0, 1), (1, 2)], [(1, 90, 2), (2, 70, 4)], 4),
        ([100, 0], [(0, 1)], [], 1),
    ],
)
def test_edges_that_are_handed_over_are_counted_again(left, launches, handed, passes, monkeypatch):
    """A pass that leaves more than 60 edges is followed by one of owners, which is counted as a pass."""
    monkeypatch.setattr(cuda_executor, "starving", lambda before, after: after > 60)
    run, noted = Recorded("el", left, barrier="launch", hand_over=True), []

    def hand_over(kernels, number, edges, ran):
        noted.append((number, edges, ran))
        run.arrays["sizes"].values[3] = ran

    run._hand_over = hand_over
    run.passes["step"] = 0
    run._edge_passes("step", {"edges": "edges"})
    assert [one[1:3] for one in run.launches] == launches
    assert (noted, run.passes, run.arrays["sizes"].left) == (handed, {"step": passes}, [])


class Listed:
    """A list of the device of which the host reads and writes parts."""

    def __init__(self, values):
        self.values = np.array(values)

    def __getitem__(self, part):
        return SimpleNamespace(
            get=lambda: self.values[part].copy(), set=lambda given: self.values.__setitem__(part, given)
        )


@pytest.mark.parametrize("number", [1, 2])
def test_columns_take_the_edges_of_a_pass_and_list_those_that_they_leave(number):
    run = Recorded("el", hand_over=True)
    lists = [np.arange(600), 1000 + np.arange(600)]
    done = Array(0)
    run.arrays = {"list_0": lists[0].copy(), "list_1": lists[1], "done": done, "sizes": Listed(np.full(5, 99))}
    run._columns_take({name: name for name in ("pending", "nodes", "remaining")}, number, 70, 6)
    taken = run.arrays["list_0"]
    assert np.array_equal(taken[:70], lists[number % 2][:70])
    assert np.array_equal(taken[70:], lists[0][70:])
    assert done.filled == [True]
    assert run.arrays["sizes"].values.tolist() == [0, 0, 0, 6, 99]
    assert run.launches == [
        ("pending", 0, 70, 9, False), ("nodes", 60, 90, 12, False), ("remaining", 0, 500, 20, False),
    ]  # fmt: skip


def test_a_pass_that_leaves_many_edges_is_followed_by_one_over_columns(monkeypatch):
    monkeypatch.setattr(cuda_executor, "waiting", lambda before, after: after > 60)
    run, noted = Recorded("el", [100, 90, 80, 70, 30, 0], barrier="launch"), []

    def take(kernels, number, edges, ran):
        noted.append((number, edges, ran))
        run.arrays["sizes"].values[3] = ran

    run._columns_take = take
    run.passes["step"] = 0
    run._edge_passes("step", {"edges": "edges", "pending": "pending"})
    assert noted == [(1, 90, 2), (1, 70, 4)]
    assert [one[1:3] for one in run.launches] == [(0, 1), (0, 1), (0, 1)]
    assert run.passes == {"step": 5}
    assert not run.arrays["sizes"].left


@pytest.mark.parametrize(
    ("number", "single", "bounds", "launches"),
    [
        (1, 2, [0, 2, 3, 4], [("columns", 0, 2, 2), ("others", 2, 3, 1)]),
        (2, 0, [0, 1, 2, 3, 4], [("others", 0, 4, 4)]),
        (3, 1, [0, 4], [("columns", 0, 1, 1)]),
        (1, 0, [*range(10)], [("others", 0, 9, RESIDENT)]),
    ],
)
def test_owners_take_the_list_in_the_order_of_hubs(number, single, bounds, launches, monkeypatch):
    edges, order = np.array([7, 3, 9, 1], np.uint32), np.array([2, 0, 3, 1])
    given = []
    monkeypatch.setattr(
        cuda_executor, "by_hub", lambda *arguments: given.append(arguments[:3]) or (order, np.array(bounds), single)
    )
    run = Recorded("el", hand_over=True)
    csc = SimpleNamespace(neighbours=np.arange(100, 110), row_of_edge=np.arange(200, 210))
    run.store.graph = SimpleNamespace(csc=csc)
    lists = {name: Listed(np.zeros(12, np.uint32)) for name in ("list_0", "list_1", "owned")}
    lists[f"list_{number % 2}"].values[:4] = edges
    run.arrays = {**lists, "sizes": Listed(np.full(4, 99, np.uint64))}
    run._hand_over({"owned_columns": "columns", "owned": "others"}, number, 4, 6)
    assert [one.tolist() for one in given[0]] == [[7, 3, 9, 1], [107, 103, 109, 101], [207, 203, 209, 201]]
    assert lists["list_0"].values[:4].tolist() == [9, 7, 1, 3]
    assert lists["owned"].values[: len(bounds)].tolist() == bounds
    assert run.arrays["sizes"].values.tolist() == [4, 0, 0, 6]
    assert run.launches == [(*one, False) for one in launches]


@pytest.mark.parametrize(("taken", "known", "measured"), [("auto", False, True), ("auto", True, False),
                                                          ("el", False, False), ("el", True, False)])  # fmt: skip
def test_a_device_is_measured_once_and_only_to_choose_an_order(taken, known, measured, monkeypatch):
    phases = []

    class Alone:
        @contextlib.contextmanager
        def alone(self, name):
            phases.append(name)
            yield

    class Probed(LonestarCudaEngine):
        taken = LonestarSchedule(order="el")
        figures = (("step", 1.0),) if known else ()

        def _facts_of(self, device, *, measure=False):
            if measure:
                phases.append("measured")
            return DeviceFacts("cuda", figures=self.figures)

    monkeypatch.setattr(LonestarCudaEngine.__base__, "prepare", lambda self, *_: phases.append("prepared"))
    engine = Probed(LonestarSchedule(order=taken))
    engine.prepare(None, None, 1, None, Alone())
    assert phases == [*(["probe", "measured"] if measured else []), "prepared"]
    assert not engine.deterministic


def test_the_engine_is_offered_for_both_kinds_of_devices():
    spec = load_plugins().engines["lonestar"]
    assert (spec.devices, spec.requires) == (("cpu", "cuda"), ("numba",))
