"""The plans of engines equal their tables: options, bytes, parts of a superstep, arrays, kernels and their operations.

Plans are pure functions of facts, so that this needs neither a graph nor a device. If plans are meant to differ, write
the tables again (``python -m tests.engines.plan_tables``) and read the difference.
"""

import pytest

from engines.lonestar.cpu_locks import InEdgeIds
from harness.contract import No
from harness.lowering.edge_tables import Places, Reverse
from tests.engines import constants, library_answers
from tests.engines.plan_tables import ENGINES, FOLDER, own_graph, planned, rows, table, written

RENEW = "if that is intended: python -m tests.engines.plan_tables {}"


@pytest.mark.parametrize("engine", ENGINES)
def test_plans_are_those_of_the_table(engine):
    found, wanted = table(engine), written(engine)
    assert list(found) == list(wanted), RENEW.format(engine)
    for row in found:
        assert found[row] == wanted[row], f"{row}; {RENEW.format(engine)}"


def test_every_row_has_an_engine_and_every_table_rows():
    assert {row[1] for row in rows()} == set(ENGINES) == {path.stem for path in FOLDER.glob("*.txt")}


OF_THE_GRAPH = (InEdgeIds, Places, Reverse)  # whose arrays the graph has


@pytest.mark.parametrize("engine", ENGINES)
def test_arrays_of_tables_are_as_long_as_planned(engine):
    """They have no more bytes than the plan says, and no more elements than the buffers that take them."""
    checked = set()
    for _, name, device, options, algorithm, graph in rows():
        facts = own_graph(algorithm).facts
        plan = planned(name, device, options, algorithm, facts) if name == engine and not graph else No("")
        for one in () if isinstance(plan, No) else plan.tables:
            if (one, algorithm) in checked or isinstance(one, OF_THE_GRAPH):
                continue
            checked.add((one, algorithm))
            arrays = one.named(one.of(own_graph(algorithm)))
            assert sum(array.nbytes for array in arrays.values()) <= one.nbytes(facts), one
            for buffer in plan.buffers if device == "cuda" else ():
                if buffer.source == one:
                    assert arrays[buffer.name].size <= buffer.length, (one, buffer.name)
    assert checked


def test_constants_are_those_of_the_table():
    found, wanted = constants.constants(), constants.written()
    here = {module.__name__ for module in constants.modules()}
    shown = {name: value for name, value in wanted.items() if any(name.startswith(f"{module}.") for module in here)}
    assert found == shown, "if that is intended: python -m tests.engines.constants"
    assert len(shown) > 150


@pytest.mark.parametrize("engine", library_answers.LIBRARIES)
def test_answers_of_libraries_are_those_of_the_table(engine):
    found, wanted = library_answers.lines(engine), library_answers.written()[engine]
    assert found == wanted, "if that is intended: python -m tests.engines.library_answers"
