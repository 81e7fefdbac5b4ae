"""Rename what a kernel names itself, so that kernels that differ only in names share one compiled module.

Programs name their properties differently and often need the same kernel, such as the one that collects changes. The
names of functions, arguments and variables have no effect on the machine code. A third of the kernels of the test
programs differ from another kernel only in names.

A new name does not end in a digit. Numba appends the offset of an instruction to the name of the variable that it
loads: with Python 3.12, loads of ``name_1`` at offset 1908 and of ``name_11`` at offset 908 became one variable.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from types import MappingProxyType


class _Renaming(ast.NodeTransformer):
    """Replace the names in ``bound`` by numbers, in the order in which they first occur."""

    def __init__(self, bound: set[str]) -> None:
        self.bound = bound
        self.names: dict[str, str] = {}

    def renamed(self, name: str) -> str:
        return self.names.setdefault(name, f"name_{len(self.names)}_") if name in self.bound else name

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self.renamed(node.name)
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self.renamed(node.arg)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self.renamed(node.id)
        return node


@functools.lru_cache(maxsize=1024)  # 2 ms for a kernel; programs are prepared for many graphs with the same kernels
def canonical(source: str) -> tuple[str, Mapping[str, str]]:
    """Return functions' source with canonical names, and the new name of each function, argument and variable.

    Names that the source does not bind (imported functions, types) stay. Comments and blank lines are dropped. Sources
    of equal syntax trees up to the renaming give equal text.
    """
    tree = ast.parse(source)
    bound = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
    renaming = _Renaming(bound)
    text = ast.unparse(renaming.visit(tree))
    return text, MappingProxyType(renaming.names)
