"""Kernels as device functions, so that one kernel can contain several of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.lowering.cuda.kernels import CudaKernel

START = 'extern "C" __global__ void __launch_bounds__(BLOCK) '
HEAD = re.compile(r'extern "C" __global__ void __launch_bounds__\([^)]*\) ')
NEVER = "false"  # for `unless`: the caller of a function decides when to do nothing


@dataclass(frozen=True)
class Function:
    """A device function: its definition, and the types of its parameters by name.

    ``own``: the parameters that a caller has as variables; the others are arrays.
    """

    name: str
    definition: str
    parameters: Mapping[str, str]
    own: tuple[str, ...]

    @classmethod
    def of(cls, kernel: CudaKernel, *, own: Mapping[str, str] | None = None, template: str = "") -> Function:
        """Return the function that does the work of a kernel, without the kernel's test whether to do nothing.

        ``own``: the variables, with those that the kernel does not have. ``template``: the function's template
        parameters.
        """
        own = own or {}
        head, brace, body = HEAD.sub("", kernel.source, count=1).partition("\n{\n")
        given = head.removeprefix(f"{kernel.name}(").removesuffix(")").split(", ")
        types = {name: kind.replace(" __restrict__", "") for kind, _, name in (one.rpartition(" ") for one in given)}
        parameters = {**own, **types}
        listed = ", ".join(f"{kind} {name}" for name, kind in parameters.items())
        start = f"{f'template <{template}> ' if template else ''}__device__ inline void {kernel.name}({listed})"
        return cls(
            kernel.name,
            start + brace + body.removeprefix(f"    if ({kernel.unless}) return;\n"),
            parameters,
            tuple(own),
        )

    def call(self, template: str = "") -> str:
        """Return a statement that calls the function with variables and arrays of the parameters' names."""
        return f"{self.name}{f'<{template}>' if template else ''}({', '.join(self.parameters)});"


def arrays_of(functions: Iterable[Function]) -> dict[str, str]:
    """Return the arrays that functions take, with their types; an array that any function writes is not const."""
    found: dict[str, str] = {}
    for function in functions:
        for name, kind in function.parameters.items():
            if name not in function.own:
                known = found.setdefault(name, kind)
                found[name] = min(known, kind, key=lambda text: text.startswith("const "))
    return found
