"""Which packages may import which. Tests and benchmarks may import what they test."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path

import networkx as nx

from harness.plugins import load_plugins

ROOT = Path(__file__).parents[1]
STANDARD = frozenset(sys.stdlib_module_names)
NUMERICAL = {"numpy", "scipy"}
# Descriptions, the engine class, facts about graphs and devices; these modules import nothing else.
LIGHT_PARTS = {
    "harness.contract", "harness.edge_places", "harness.facts", "harness.options", "harness.specifications",
    "harness.supersteps",
}  # fmt: skip

# What each part may import from this project and from others, in addition to the standard library and its own modules.
ALLOWED: dict[str, set[str]] = {
    # The graph, the language, the transactions and NumPy for type checkers only.
    "harness.contract": {
        "harness.clock", "harness.graph", "harness.language", "harness.options", "harness.specifications",
        "harness.supersteps", "harness.transactions", "numpy",
    },
    "harness.options": set(),
    "harness.specifications": {"harness.options"},
    "harness.edge_places": {"harness.contract", "harness.options"},
    "harness.clock": set(),
    "harness.supersteps": set(),
    "harness.facts": set(),
    "harness.import_watch": {"harness.plain_text"},
    "harness.plain_text": set(),
    "harness.per_device": LIGHT_PARTS | {
        "harness.forwarding", "harness.graph", "harness.language", "harness.panels", "harness.transactions", "numpy",
    },
    "harness.panels": LIGHT_PARTS | {
        "harness.device", "harness.graph", "harness.language", "harness.transactions", "numpy",
    },
    "harness.forwarding": {"harness.contract", "numpy"},
    "harness.hookspecs": {"harness.contract", "pluggy"},
    "harness.plugins": {
        "harness", "harness.contract", "harness.hookspecs", "harness.import_watch", "harness.plain_text", "pluggy",
    },
    "harness.api": LIGHT_PARTS | {
        "harness.algorithms", "harness.forwarding", "harness.hookspecs", "harness.per_device", "harness.graph",
        "harness.language", "harness.lowering", "harness.device", "harness.transactions",
    },
    "harness.transactions": {"numpy"},
    "harness.atomic_write": set(),
    "harness.cache": {"platformdirs"},
    "harness.digests": {"harness.atomic_write", "xxhash"},
    "harness.graph": NUMERICAL | LIGHT_PARTS | {
        "harness.hookspecs", "harness.cache", "harness.atomic_write", "fast_matrix_market", "skimage", "sklearn",
        "scgraph_data", "numba", "PIL", "pooch", "requests", "rich", "xxhash",  # downloads, with their progress
    },
    "harness.language": NUMERICAL | LIGHT_PARTS | {"harness.graph"},
    "harness.algorithms": NUMERICAL | LIGHT_PARTS | {"harness.language", "harness.graph", "harness.hookspecs", "PIL"},
    "harness.emulation": LIGHT_PARTS | {"harness.device", "harness.atomic_write", "numpy"},
    "harness.lowering": NUMERICAL | LIGHT_PARTS | {
        "harness.language", "harness.graph", "harness.device", "harness.emulation", "harness.transactions",
        "harness.cache", "harness.digests",
        "harness.atomic_write", "numba", "llvmlite", "cupy", "cuda",
    },
    "harness.device": LIGHT_PARTS | {
        "harness.graph", "harness.language", "harness.cache", "harness.digests", "harness.atomic_write", "numpy",
        "cupy", "cupy_backends",
    },
    "harness.conformance": NUMERICAL | LIGHT_PARTS | {
        "harness.device", "harness.graph", "harness.language", "harness.plugins", "psutil", "pytest",
    },
    "harness.campaign": NUMERICAL | LIGHT_PARTS | {
        "harness", "harness.cache", "harness.clock", "harness.device", "harness.graph", "harness.import_watch",
        "harness.language", "harness.plain_text", "harness.plugins", "harness.records", "harness.report",
        "harness.transactions", "harness.atomic_write", "hydra", "msgspec", "omegaconf", "psutil", "pynvml",
    },
    "harness.records": {"harness.plain_text", "harness.atomic_write", "msgspec", "duckdb"},
    "harness.report": {"harness.records", "harness.atomic_write", "rich", "jinja2", "matplotlib"},
    "harness.__main__": {"harness.campaign"},
    "harness": set(),
    # The Python API; graphs of other libraries are recognised without importing the libraries.
    "onyx_harness": NUMERICAL | LIGHT_PARTS | {
        "harness", "harness.api", "harness.cache", "harness.campaign", "harness.device", "harness.graph",
        "harness.language", "harness.plain_text", "harness.plugins", "harness.records", "harness.report",
        "harness.atomic_write", "IPython", "cloudpickle", "cupy", "matplotlib", "omegaconf", "pandas",
        "rich", "torch",
    },
    "hydra_plugins": {"harness.campaign", "hydra", "omegaconf"},
    "engines": NUMERICAL | {
        "harness.api", "numba", "llvmlite", "cupy", "cupyx", "torch", "cuda",
        "networkit", "networkx", "igraph", "sknetwork", "graphblas", "surprise",
    },
    # On the CPU the operators of the push baselines run over edges in files.
    "engines.outofmemory": {"numpy", "harness.api", "engines.pushbaseline", "cupy", "numba"},
}  # fmt: skip


def modules() -> list[tuple[str, Path]]:
    """Return every module of the packages with its file."""
    found = []
    for package in ("harness", "engines", "hydra_plugins", "onyx_harness"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found.append((".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return found


@functools.cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file of this checkout, which must not be changed."""
    return ast.parse(path.read_text(), str(path))


def imports(module: str, path: Path, known: Container[str] = ()) -> Iterator[str]:
    """Return the absolute names of all modules imported anywhere in a file, also inside functions. ``known``:
    modules in addition to those of this checkout."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*start, *([node.module] if node.module else [])])
            # "from harness import records" imports harness.records
            for name in (f"{origin}.{alias.name}" for alias in node.names):
                yield name if name in known or is_module(name) else origin


def is_module(name: str) -> bool:
    place = ROOT.joinpath(*name.split("."))
    return place.is_dir() or place.with_suffix(".py").is_file()


def part_of(module: str) -> str:
    """Return the most specific part of the table that a module belongs to."""
    return max((part for part in ALLOWED if within(module, part)), key=len)


def within(module: str, part: str) -> bool:
    return module == part or module.startswith(f"{part}.")


def own(module: str) -> str:
    """Return what a module may always import from: its part, or its engine's package."""
    return ".".join(module.split(".")[:2]) if module.startswith("engines.") else part_of(module)


def forbidden(module: str, path: Path) -> list[str]:
    part = part_of(module)
    allowed = ALLOWED[part]

    def fine(name: str) -> bool:
        if name.split(".")[0] in STANDARD or within(name, own(module)):
            return part != "harness" or name.split(".")[0] in STANDARD or name == module
        return any(name == one if one == "harness" else within(name, one) for one in allowed)

    return sorted({name for name in imports(module, path) if not fine(name)})


def test_a_module_only_imports_allowed_packages():
    met = {module: forbidden(module, path) for module, path in modules()}
    assert {f"{module}, a part of {part_of(module)}": found for module, found in met.items() if found} == {}


def test_the_rules_see_a_wrong_import(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import numba\nfrom engines.onyx import schedule\n\ndef late():\n    from harness.campaign import cell\n"
    )
    assert forbidden("harness.records.wrong", wrong) == ["engines.onyx", "harness.campaign.cell", "numba"] or forbidden(
        "harness.records.wrong", wrong
    ) == ["engines.onyx.schedule", "harness.campaign.cell", "numba"]
    assert "harness.campaign.cell" in forbidden("engines.onyx.wrong", wrong)
    assert "engines.onyx" in " ".join(forbidden("engines.pushbaseline.wrong", wrong))


# Also names of the modules of libraries, which the harness imports or finds; none of their engines is named.
LIBRARIES = {"scipy", "torch"}
# A measurement of an engine, and a published update that a library of the same name has.
NAMED_IN = {"harness/campaign/device_use.py": {"cusparse"}, "harness/algorithms/sgd_mf.py": {"libmf"}}
TEXTS = {".py", ".cu", ".cuh", ".cpp", ".h", ".css", ".html", ".js", ".ini"}


def engine_names() -> set[str]:
    """Return the names of the engines in this checkout, as their plugins register them, and of their packages."""
    names = {path.name for path in (ROOT / "engines").iterdir() if path.is_dir() and not path.name.startswith("_")}
    specs = load_plugins().engines.values()
    names |= {spec.name for spec in specs if spec.factory.startswith("engines.")}
    return names - {"libraries"} - LIBRARIES


def engines_named(text: str, names: Iterable[str]) -> set[str]:
    """Return the names of engines in a text, in lower case; ``onyx-harness`` is the name of the product."""
    low = text.lower()
    names = [name for name in names if name.partition("_")[0] in low]  # others need no regular expression
    if not names:
        return set()
    product = "(?![- ]harness)"
    written = "|".join(re.escape(name).replace("_", "[-_ ]") for name in sorted(names, key=len, reverse=True))
    found = re.findall(rf"\b({written})\b{product}", text, re.IGNORECASE)
    return {re.sub("[- ]", "_", name.lower()) for name in found}


def test_nothing_in_the_harness_names_a_concrete_engine():
    names = engine_names()
    assert {"onyx", "gunrock", "igraph", "scikit_network", "cusparse"} < names
    met = [
        f"{relative}:{number}: {line.strip()}"
        for path in sorted((ROOT / "harness").rglob("*"))
        if path.suffix in TEXTS
        for relative in [path.relative_to(ROOT).as_posix()]
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if engines_named(line, names) - NAMED_IN.get(relative, set())
    ]
    assert not met, "\n".join(met)


def test_names_of_engines_are_seen():
    names = ("onyx", "scikit_network")
    assert engines_named("ONYX, Scikit-Network", names) == {"onyx", "scikit_network"}
    assert engines_named("onyx-harness, Onyx harness, onyx_harness, onyxes", names) == set()


def test_no_module_of_the_harness_imports_an_engine():
    met = [
        name
        for name, path in modules()
        if name.startswith("harness")
        for one in imports(name, path)
        if within(one, "engines")
    ]
    assert not met


def import_graph() -> dict[str, set[str]]:
    """Return the modules of this project that each module imports, for type checkers and inside functions too."""
    known = {name for name, _ in modules()}
    return {name: {one for one in imports(name, path) if one in known} - {name} for name, path in modules()}


def import_cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components of at least two modules, each sorted."""
    components = nx.strongly_connected_components(nx.DiGraph(graph))
    return sorted(sorted(component) for component in components if len(component) > 1)


def described(graph: Mapping[str, set[str]], cycle: list[str]) -> str:
    """Describe a cycle by the imports that close it."""
    within = {name: sorted(graph[name] & set(cycle)) for name in cycle}
    return "\n".join(f"{name} imports {', '.join(imported)}" for name, imported in within.items())


def test_no_modules_import_each_other_in_a_cycle():
    graph = import_graph()
    cycles = import_cycles(graph)
    assert not cycles, "import cycles:\n" + "\n\n".join(described(graph, cycle) for cycle in cycles)


def test_an_import_cycle_is_found_and_listed(tmp_path):
    sources = {
        "harness.records.a": "from harness.records import b",
        "harness.records.b": "def late():\n    import harness.records.c\n    from harness.records.d import D",
        "harness.records.c": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .a import A",
        "harness.records.d": "",
    }
    graph = {}
    for name in sources:
        path = tmp_path / f"{name}.py"
        path.write_text(sources[name])
        graph[name] = set(imports(name, path, known=set(sources)))
    assert import_cycles(graph) == [["harness.records.a", "harness.records.b", "harness.records.c"]]
    assert described(graph, import_cycles(graph)[0]).splitlines() == [
        "harness.records.a imports harness.records.b",
        "harness.records.b imports harness.records.c",
        "harness.records.c imports harness.records.a",
    ]
    graph["harness.records.c"] = set()
    assert import_cycles(graph) == []


def class_bases(trees: Iterable[ast.Module]) -> dict[str, set[str]]:
    """Return the names of the bases of every class; classes of one name count as one."""
    bases: dict[str, set[str]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                names = {
                    base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases
                }
                bases.setdefault(node.name, set()).update(names)
    return bases


def depth(name: str, bases: Mapping[str, set[str]]) -> int:
    """Return the number of classes on the longest path from a class to one without a base in the project; 1 for the
    latter."""
    return 1 + max((depth(base, bases) for base in bases[name] if base in bases), default=0)


def engine_classes(bases: Mapping[str, set[str]]) -> set[str]:
    found = {"Engine"}
    while more := {name for name, parents in bases.items() if parents & found} - found:
        found |= more
    return found


def test_engine_classes_are_at_most_three_deep():
    bases = class_bases(parsed(path) for _, path in modules())
    engines = engine_classes(bases)
    assert {"CpuEngine", "CudaEngine", "PerDevice"} < engines
    assert {name: depth(name, bases) for name in engines if depth(name, bases) > 3} == {}


def test_deep_engine_classes_are_seen():
    text = (
        "class Engine(ABC): ...\nclass A(x.Engine): ...\nclass B(A, Mixed): ...\nclass C(B): ...\nclass Other(D): ..."
    )
    bases = class_bases([ast.parse(text)])
    assert {name: depth(name, bases) for name in engine_classes(bases)} == {"Engine": 1, "A": 2, "B": 3, "C": 4}


PARSERS = {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "rsplit"}
PART_OF_A_NAME = re.compile(r"_?\w+_|_\w*|(?!const )\w+ ")  # "dirty_", "_next", "_", "lists "; C++ types have "const "


def engine_parameters(tree: ast.Module, engines: Container[str]) -> list[str]:
    """Return the functions that take an engine, by the annotations of their parameters."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for one in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
                words = re.findall(r"\w+", ast.unparse(one.annotation)) if one.annotation else []
                found += [f"{node.name}({one.arg})" for word in words if word in engines]
    return found


def test_no_helper_receives_an_engine():
    trees = {path.relative_to(ROOT).as_posix(): parsed(path) for _, path in modules()}
    engines = engine_classes(class_bases(trees.values()))
    parts = ("harness/lowering/", "engines/")
    met = {path: engine_parameters(tree, engines) for path, tree in trees.items() if path.startswith(parts)}
    assert {path: names for path, names in met.items() if names} == {}


def test_helpers_of_engines_are_seen():
    text = "def f(a: int, *, b: 'CpuEngine | None'): 0\nclass A:\n def g(self, c: x.CudaEngine, d: Engines): 0"
    assert engine_parameters(ast.parse(text), {"CpuEngine", "CudaEngine"}) == ["f(b)", "g(c)"]


def parsed_names(tree: ast.Module) -> list[str]:
    """Return the parts of names by which calls of string methods select."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PARSERS:
            found += [
                one.value
                for argument in node.args
                for one in ast.walk(argument)
                if isinstance(one, ast.Constant) and isinstance(one.value, str) and PART_OF_A_NAME.fullmatch(one.value)
            ]
    return found


def test_nothing_is_selected_by_parsing_a_name():
    parts = ("harness/lowering/", "engines/")
    paths = [path.relative_to(ROOT).as_posix() for _, path in modules()]
    met = {path: parsed_names(parsed(ROOT / path)) for path in paths if path.startswith(parts)}
    assert {path: names for path, names in met.items() if names} == {}


def test_parsed_names_are_seen():
    text = (
        'a.startswith(("dirty_", "marked_")), b.removeprefix("next_"), c.partition("_")[2], over.removeprefix("lists ")'
    )
    assert sorted(parsed_names(ast.parse(text))) == ["_", "dirty_", "lists ", "marked_", "next_"]
    assert parsed_names(ast.parse('text.split(","), kind.endswith("*"), source.removeprefix(START)')) == []


MAY_PARSE = {
    "harness/lowering/cuda/names.py",  # names of users
    "harness/lowering/cuda/templates.py", "harness/lowering/cpu/templates.py",  # templates, before they are filled
    "harness/lowering/cpu/canonical.py",  # renames in a syntax tree
}  # fmt: skip


def test_generated_code_is_not_parsed():
    paths = [path.relative_to(ROOT).as_posix() for _, path in modules()]
    paths = [path for path in paths if path.startswith(("harness/lowering/", "engines/"))]
    trees = {path: ast.walk(parsed(ROOT / path)) for path in paths}
    imported = {
        path: {a.name for one in t if isinstance(one, ast.Import) for a in one.names} for path, t in trees.items()
    }
    assert {path for path in paths if imported[path] & {"re", "tokenize", "ast"}} == MAY_PARSE


def test_files_are_short_enough_to_read():
    lines = {path.relative_to(ROOT): len(path.read_text().splitlines()) for _, path in modules()}
    assert {path: count for path, count in lines.items() if count > 400} == {}, "the aim is 300; split them by concept"
