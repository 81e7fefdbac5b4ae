"""NumPy functions called on traced values: operators are traced, any other call raises LanguageError."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from harness.language.errors import LanguageError

# Universal functions that NumPy scalars and arrays call when they are the left operand of an operator.
_OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "true_divide": operator.truediv, "power": operator.pow, "matmul": operator.matmul, "less": operator.lt,
    "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge, "equal": operator.eq,
    "not_equal": operator.ne, "bitwise_and": operator.and_, "bitwise_or": operator.or_,
}  # fmt: skip
# Functions of the language that have another name in NumPy.
_SAME: Final = {
    "abs": "absolute", "sum": "total", "max": "largest", "amax": "largest", "min": "smallest", "amin": "smallest",
    "any": "any_feature", "all": "all_features", "inv": "inverse", "solve": "solve_spd",
}  # fmt: skip
# The functions of harness.language.operators, sorted: an error lists them.
FUNCTIONS: Final = (
    "absolute", "all_features", "any_feature", "dot", "exp", "eye", "full", "hadamard_inverse", "inverse", "largest",
    "log", "max_product", "maximum", "mean", "minimum", "norm", "normalize", "outer", "smallest", "solve_spd", "sqrt",
    "stack", "total", "transpose", "where",
)  # fmt: skip


def operator_of(name: str, method: str) -> Callable[..., Any]:
    """Return the operator that the universal function ``name`` implements.

    Raises LanguageError, at the author's line, for any other function or method.
    """
    if method != "__call__" or name not in _OPERATORS:
        raise LanguageError(refusal(name))
    return _OPERATORS[name]


def refusal(name: str) -> str:
    """Return why a NumPy function cannot take a traced value, with the functions that can."""
    known = _SAME.get(name, name)
    instead = f"use {known} from harness.language" if known in FUNCTIONS else "use the functions of harness.language"
    return f"NumPy's {name} cannot take a traced value; {instead} (available: {', '.join(FUNCTIONS)})"


def plain_number(value: Any) -> float | int | bool:
    """Return a NumPy scalar as a Python number. Raises LanguageError for an array."""
    plain = value.item() if getattr(value, "ndim", None) == 0 else value
    if not isinstance(plain, (bool, int, float)):
        raise LanguageError(
            f"an array of shape {getattr(value, 'shape', '?')} cannot appear in a traced expression; use numbers, "
            "fields of the algorithm and properties"
        )
    return plain
