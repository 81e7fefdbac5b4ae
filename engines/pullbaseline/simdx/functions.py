"""Kernels as functions of the device, so that one kernel may hold several of them (sec. 5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.api import CudaKernel

START, NOTHING = 'extern "C" __global__ void __launch_bounds__(BLOCK) ', "    if (false) return;\n"
NEVER = "false"  # for `unless`: it is left to the caller of a function when to do nothing


@dataclass(frozen=True)
class Function:
    """A function of the device: its definition, its parameters' types by name, and which of these a caller has as
    variables (``own``); the others are arrays."""

    name: str
    definition: str
    parameters: Mapping[str, str]
    own: tuple[str, ...]

    @classmethod
    def of(cls, kernel: CudaKernel, *, own: Mapping[str, str], template: str = "", drop: str = NOTHING) -> Function:
        """The function that does what a kernel does, finished ``unless=NEVER``. ``own``: the variables, those that the
        kernel does not have among them; ``template``: its template parameters; ``drop``: the kernel's first line."""
        head, brace, body = kernel.source.removeprefix(START).partition("\n{\n")
        given = head.removeprefix(f"{kernel.name}(").removesuffix(")").split(", ")
        types = {name: kind.replace(" __restrict__", "") for kind, _, name in (one.rpartition(" ") for one in given)}
        parameters = {**own, **types}
        listed = ", ".join(f"{kind} {name}" for name, kind in parameters.items())
        start = f"{f'template <{template}> ' if template else ''}__device__ inline void {kernel.name}({listed})"
        return cls(kernel.name, start + brace + body.removeprefix(drop), parameters, tuple(own))

    def call(self, template: str = "") -> str:
        """A statement that calls it with variables and arrays of the parameters' names."""
        return f"{self.name}{f'<{template}>' if template else ''}({', '.join(self.parameters)});"


def arrays_of(functions: Iterable[Function]) -> dict[str, str]:
    """The arrays that functions take, with their types: one that any of them writes is not constant."""
    found: dict[str, str] = {}
    for function in functions:
        for name, kind in function.parameters.items():
            if name not in function.own:
                known = found.setdefault(name, kind)
                found[name] = min(known, kind, key=lambda text: text.startswith("const "))
    return found
