"""Kernels of the vectors of Krylov plans on the CPU: a float32 number of every vertex and feature.

They depend on the number of features and on nothing else of a program. Coefficients are float32 numbers of every
feature. Dot products are sums for each feature, float32 over ``BLOCK`` vertices and float64 over these sums. The row
``found[t]`` has those of part t: all columns of one product, then of another.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.api.cpu import Kernel

STRIP: Final = 32  # features whose rows are in registers at once, as in harness.lowering.cpu.strips
BLOCK: Final = 16  # a power of two
_FUNCTION = """
@njit(nogil=True, error_model="numpy")
def _{name}_part(t, worker, {names}):
{strips}

@njit(
    int64(int64, int64, {types}),
    nogil=True, cache=True, no_cfunc_wrapper=True, error_model="numpy",
)
def run_{name}(parts, threads, {names}):
    return launch(_{name}_part, parts, threads, ({names},))
"""
_STRIP = """
    for strip in range({count}):
        column = {start} + strip * {lanes}
{coefficients}
        for v in range(bounds[t], bounds[t + 1]):
            row = v * stride + column
{operations}
"""
_SUMMING = """
    sums_{lanes} = np.zeros({lanes}, np.float32)
    for strip in range({count}):
        column = {start} + strip * {lanes}
{coefficients}
        found[t, column : column + {lanes}] = 0.0
        found[t, {width} + column : {width} + column + {lanes}] = 0.0
        for begin in range(bounds[t], bounds[t + 1], {block}):
            first, second = _zero{lanes}(), _zero{lanes}()
            for v in range(begin, min(begin + {block}, bounds[t + 1])):
                row = v * stride + column
                weights = _load{lanes}(weight, v * weight_stride + column)
{operations}
                first = first + weights * _load{lanes}(left, row) * value
                second = second + value * value
            store(sums_{lanes}, 0, first)
            for f in range({lanes}):
                found[t, column + f] += float64(sums_{lanes}[f])
            store(sums_{lanes}, 0, second)
            for f in range({lanes}):
                found[t, {width} + column + f] += float64(sums_{lanes}[f])
"""
_VECTOR, _INTEGER = "float32[::1]", "int64"
_SUMS = {"left": _VECTOR, "weight": _VECTOR, "weight_stride": _INTEGER, "found": "float64[:, ::1]"}


@dataclass(frozen=True)
class _Operation:
    """The operation of a kernel on rows, one line each; ``[x]`` is the row of a vector x.

    ``sums``: it finds the products of ``value`` with the vector ``left``, weighted, and with itself.
    """

    name: str
    vectors: tuple[str, ...]
    coefficients: tuple[str, ...]
    lines: tuple[str, ...]
    sums: bool = False

    def kernel(self, width: int) -> Kernel:
        """Return the kernel for vectors of ``width`` features."""
        arguments: Mapping[str, str] = {
            "bounds": "int64[::1]", "stride": _INTEGER, **dict.fromkeys((*self.vectors, *self.coefficients), _VECTOR),
            **(_SUMS if self.sums else {}),
        }  # fmt: skip
        whole, rest = divmod(width, STRIP)
        strips = [(0, STRIP, whole), (whole * STRIP, rest, 1)]
        text = "".join(self._strip(*one, width) for one in strips if one[1] and one[2])
        names, types = ", ".join(arguments), ", ".join(arguments.values())
        source = _FUNCTION.format(name=self.name, names=names, types=types, strips=text)
        used = ("load", "zero") if self.sums else ("load",)
        made = tuple((name, lanes) for _, lanes, count in strips if lanes and count for name in used)
        return Kernel(self.name, source, (), 0, made=made)

    def _strip(self, start: int, lanes: int, count: int, width: int) -> str:
        """Return the loop over ``count`` strips of ``lanes`` features."""
        indent = " " * (16 if self.sums else 12)
        loads = [f"        {name}_ = _load{lanes}({name}, column)" for name in self.coefficients]
        template = (_SUMMING if self.sums else _STRIP).strip("\n") + "\n"
        operations = [indent + self._line(line, lanes) for line in self.lines]
        return template.format(
            start=start, lanes=lanes, count=count, width=width, block=BLOCK,
            coefficients="\n".join(loads), operations="\n".join(operations),
        )  # fmt: skip

    def _line(self, line: str, lanes: int) -> str:
        for name in self.vectors:
            line = line.replace(f"[{name}]", f"_load{lanes}({name}, row)")
        for name in self.coefficients:
            line = line.replace(f"<{name}>", f"{name}_")
        return line


# out = vector - (image - right), which is (I - A) vector if image is a superstep of vector, and right one of zero.
PRODUCT = _Operation(
    "krylov_product", ("vector", "image", "right", "out"), (),
    ("value = [vector] - ([image] - [right])", "store(out, row, value)"), sums=True,
)  # fmt: skip

# residual -= share * image; start = residual.
SHORTEN = _Operation(
    "krylov_shorten", ("residual", "image", "start"), ("share",),
    ("value = [residual] - <share> * [image]", "store(residual, row, value)", "store(start, row, value)"),
)  # fmt: skip

# solution += along * direction + across * residual; residual -= share * image.
ADVANCE = _Operation(
    "krylov_advance", ("solution", "direction", "residual", "image"), ("along", "across", "share"),
    (
        "old = [residual]",
        "store(solution, row, [solution] + <along> * [direction] + <across> * old)",
        "value = old - <share> * [image]",
        "store(residual, row, value)",
    ),
    sums=True,
)  # fmt: skip

# direction = residual + share * (direction - across * image); start = direction.
TURN = _Operation(
    "krylov_turn", ("direction", "residual", "image", "start"), ("share", "across"),
    (
        "value = [residual] + <share> * ([direction] - <across> * [image])",
        "store(direction, row, value)",
        "store(start, row, value)",
    ),
)  # fmt: skip


@functools.cache
def kernels(width: int) -> Sequence[Kernel]:
    """Return the kernels for vectors of ``width`` features: product, shorten, advance, turn."""
    return tuple(operation.kernel(width) for operation in (PRODUCT, SHORTEN, ADVANCE, TURN))


__all__ = ["kernels"]
