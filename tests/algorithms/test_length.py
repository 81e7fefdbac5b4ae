"""Algorithms are short: one that needs more lines shows a lack of the language."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from tests.algorithms.warm import ALGORITHMS

MOST = 60


def docstrings(tree):
    """Return the numbers of all lines of docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            yield from range(node.body[0].lineno, node.body[0].end_lineno + 1)


def code_lines(source, name):
    """Return the number of lines of the class ``name`` that are neither blank nor comments nor docstrings."""
    tree = ast.parse(source)
    (defined,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    documented = set(docstrings(defined))
    lines = enumerate(source.splitlines()[defined.lineno - 1 : defined.end_lineno], defined.lineno)
    return sum(
        1 for number, line in lines if number not in documented and line.strip() and not line.strip().startswith("#")
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=lambda algorithm: algorithm.name)
def test_an_algorithm_has_at_most_sixty_lines_of_code(algorithm):
    source = Path(inspect.getfile(type(algorithm))).read_text()
    assert 10 < code_lines(source, type(algorithm).__name__) <= MOST


def test_blank_lines_comments_and_docstrings_are_not_code():
    header = '"""Module."""\n\nclass A(B):\n    """Says\n    much."""\n'
    source = header + "\n    x = 1\n    # why\n    y = f(\n        x\n    )\n"
    assert code_lines(source, "A") == 5
