"""Kernels as device functions, so that one kernel can contain several of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.lowering.cuda.kernels import CudaKernel
from harness.lowering.cuda.parameters import Parameter


@dataclass(frozen=True)
class Function:
    """A device function: its definition, and its parameters.

    ``own``: types of the parameters that a caller has as variables. ``arrays``: the others.
    """

    name: str
    definition: str
    own: Mapping[str, str]
    arrays: tuple[Parameter, ...]

    @classmethod
    def of(cls, kernel: CudaKernel, *, own: Mapping[str, str] | None = None, template: str = "") -> Function:
        """Return the function that does the work of a kernel, without the kernel's test whether to do nothing.

        ``own``: the variables, with those that the kernel does not have. ``template``: the function's template
        parameters.
        """
        own = own or {}
        arrays = tuple(one for one in kernel.parameters if one.name not in own)
        listed = ", ".join([*(f"{kind} {name}" for name, kind in own.items()), *(one.plain for one in arrays)])
        start = f"{f'template <{template}> ' if template else ''}__device__ inline void {kernel.name}({listed})"
        return cls(kernel.name, f"{start}\n{{\n{kernel.body}}}\n", own, arrays)

    def call(self, template: str = "") -> str:
        """Return a statement that calls the function with variables and arrays of the parameters' names."""
        given = ", ".join([*self.own, *(one.identifier for one in self.arrays)])
        return f"{self.name}{f'<{template}>' if template else ''}({given});"
