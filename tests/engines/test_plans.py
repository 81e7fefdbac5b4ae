"""The plans of engines equal their tables: options, bytes, parts of a superstep, arrays, kernels and their operations.

Plans are pure functions of facts, so that this needs neither a graph nor a device. If plans are meant to differ, write
the tables again (``python -m tests.engines.plan_tables``) and read the difference.
"""

import pytest

from tests.engines import constants
from tests.engines.plan_tables import ENGINES, FOLDER, rows, table, written

RENEW = "if that is intended: python -m tests.engines.plan_tables {}"


@pytest.mark.parametrize("engine", ENGINES)
def test_plans_are_those_of_the_table(engine):
    found, wanted = table(engine), written(engine)
    assert list(found) == list(wanted), RENEW.format(engine)
    for row in found:
        assert found[row] == wanted[row], f"{row}; {RENEW.format(engine)}"


def test_every_row_has_an_engine_and_every_table_rows():
    assert {row[1] for row in rows()} == set(ENGINES) == {path.stem for path in FOLDER.glob("*.txt")}


def test_constants_are_those_of_the_table():
    found, wanted = constants.constants(), constants.written()
    here = {module.__name__ for module in constants.modules()}
    shown = {name: value for name, value in wanted.items() if any(name.startswith(f"{module}.") for module in here)}
    assert found == shown, "if that is intended: python -m tests.engines.constants"
    assert len(shown) > 150
