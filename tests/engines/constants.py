"""The constants of engines, by module: thresholds, sizes and shares that were measured or follow from the hardware.

``python -m tests.engines.constants`` writes ``constants.txt`` again. A constant changes with a measurement, which the
comment beside it names; the table shows the change.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("constants.txt")


def modules() -> Iterator[Any]:
    """Return the modules of all engines that can be imported here."""
    for path in sorted((ROOT / "engines").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        try:
            yield importlib.import_module(name)
        except ImportError:  # its library is not installed
            continue


def is_number(value: Any) -> bool:
    """Return whether a value is a number, or a tuple of numbers."""
    return isinstance(value, (int, float)) or (isinstance(value, tuple) and bool(value) and all(map(is_number, value)))


def constants() -> dict[str, str]:
    """Return the constants as text, by module and name; those of other modules that a module imports are left out."""
    found = {}
    for module in modules():
        statements = ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body
        targets = [one for node in statements if isinstance(node, ast.Assign) for one in node.targets]
        names = [node.id for one in targets for node in ast.walk(one) if isinstance(node, ast.Name)]
        values = {name: getattr(module, name) for name in names}
        found |= {f"{module.__name__}.{name}": repr(value) for name, value in values.items() if is_number(value)}
    policy = importlib.import_module("engines.onyx.policy").DEFAULT
    return found | {
        f"engines.onyx.policy.DEFAULT.{one.name}": repr(getattr(policy, one.name)) for one in fields(policy)
    }


def written() -> dict[str, str]:
    """Return the table on the disk."""
    return dict(line.split(" = ") for line in FILE.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    FILE.write_text("".join(f"{name} = {value}\n" for name, value in constants().items()), encoding="utf-8")
