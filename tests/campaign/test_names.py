"""Names of a small registry: every line of ``list`` and ``describe``, and every completion."""

from __future__ import annotations

import dataclasses
import textwrap

import pytest

from harness.campaign import completion, discovery
from harness.campaign.completion import complete
from harness.campaign.discovery import Names, choices_in, describe, group_named, list_names
from harness.campaign.errors import CampaignError
from harness.contract import AlgorithmSpec, EngineSpec, GraphSpec
from harness.options import option
from harness.plugins import Registry, UnknownName


@dataclasses.dataclass(frozen=True)
class Schedule:
    """A schedule of ``rows``.

    See :class:`~harness.api.Engine`.
    """

    width: int | None = option(None, "lanes of a row", within="[1, inf)")
    way: str = option("push", "the direction", values=("push", "pull"))
    fold: bool = option(False, "fold columns")
    size: str = option("a", "a size", values=("a", "b", "c", "d", "e", "f"))


@dataclasses.dataclass(frozen=True)
class Plain:
    pass


@dataclasses.dataclass(frozen=True)
class Walk:
    """Steps at random."""

    alpha: float = option(0.5, "a share", within="(0, 1]")
    start: str = option("", "where it starts")


def ring() -> None:
    """Return a ring."""


FILES = {
    "engine/fast_wide.yaml": """\
# @package _global_
# Fast with wide rows. It needs memory.
engine:
  name: fast
  width: 8
""",
    "experiment/demo.yaml": """\
# @package _global_
# A demonstration. Small: yes.
hydra:
  sweeper:
    params:
      engine: fast,slow
features: 8
measure:
  width: 0.1
""",
    "graph/ring.yaml": "name: ring\nvertices: 5\n",
    "graph/circle.yaml": "# A larger ring.\nname: ring\nvertices: 9\n",
}


@pytest.fixture
def names(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    for file, text in FILES.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    registry = Registry()
    here = __name__
    for spec in (
        EngineSpec("fast", "a fast engine", Schedule, f"{here}:Walk"),
        EngineSpec("slow", "a slow engine", Plain, f"{here}:Walk", devices=("cuda", "tpu")),
        EngineSpec(
            "lost", "needs a module", Plain, f"{here}:Walk", requires=("no_such_module",), install="pip install it"
        ),
    ):
        registry.engines[spec.name] = spec
    registry.algorithms["walk"] = AlgorithmSpec("walk", "walks at random", f"{here}:Walk")
    registry.graphs["ring"] = GraphSpec(
        "ring", "a ring", f"{here}:ring", {"vertices": option(3, "its size", within="[3, 9]"), "seed": 0}
    )
    monkeypatch.setattr(discovery, "configuration_folder", lambda: tmp_path)
    return Names(registry)


def lines(text):
    return textwrap.dedent(text).strip("\n ")


def test_the_list_of_all_names(names):
    assert list_names(names, ["engine", "algorithm", "graph", "experiment"]) == lines("""
        engines (engine=NAME):
          fast  a fast engine
          lost  needs a module [not installed: no_such_module]
          slow  a slow engine [only on cuda, tpu]

        variants, from configuration files (engine=NAME):
          fast_wide  Fast with wide rows

        algorithms (algorithm=NAME):
          walk  walks at random

        graphs (graph=NAME):
          ring  a ring

        variants, from configuration files (graph=NAME):
          circle  A larger ring

        presets (+experiment=NAME):
          demo  A demonstration
    """)


def test_the_list_of_keys_and_of_nothing(names):
    listed = list_names(names, ["key"]).splitlines()
    assert listed[0] == "keys (KEY=VALUE):"
    shown = dict(line.split()[:2] for line in listed[1:] if line[2] != " ")
    some = {"validate": "true", "rounds": "1", "measure.width": "0.05", "layout": "null", "rerun": "failed"}
    assert some.items() <= shown.items()
    assert "measure" not in shown, "sections have no value"
    names.registry.engines.clear()
    names.files["experiment"] = {}
    assert list_names(names, ["experiment"]) == "presets (+experiment=NAME):\n  (none installed)"
    assert list_names(names, ["engine"]).startswith("engines (engine=NAME):\n  (none installed)\n\nvariants")


DESCRIBED = {
    "fast": """
        engine=fast: a fast engine
        devices: cpu

        options of the schedule (engine.NAME=VALUE):
          width  int in [1, inf)  null   lanes of a row
          way    push, pull       push   the direction
          fold   true, false      false  fold columns
          size   text             a      a size; one of a, b, c, d, e, f

        variants: fast_wide

        A schedule of rows.

        See harness.api.Engine.
    """,
    "slow": """
        engine=slow: a slow engine [only on cuda, tpu]
        devices: cuda, tpu

        no options of the schedule
    """,
    "lost": """
        engine=lost: needs a module [not installed: no_such_module]
        devices: cpu
        install: pip install it

        no options of the schedule
    """,
    "walk": """
        algorithm=walk: walks at random

        parameters (algorithm.NAME=VALUE):
          alpha  float in (0, 1]  0.5  a share
          start  text             ""   where it starts

        Steps at random.
    """,
    "graph=ring": """
        graph=ring: a ring

        parameters (graph.NAME=VALUE):
          vertices  int in [3, 9]  3  its size
          seed      int            0

        variants: circle

        Return a ring.
    """,
    "circle": """
        graph=circle: a variant of graph=ring
        A larger ring.

        sets:
          graph.vertices  9

        onyx-harness describe graph=ring shows all options.
    """,
    "engine=fast_wide": """
        engine=fast_wide: a variant of engine=fast
        Fast with wide rows. It needs memory.

        sets:
          engine.width  8

        onyx-harness describe engine=fast shows all options.
    """,
    "preset=demo": """
        +experiment=demo
        A demonstration. Small: yes.

        sweeps:
          engine  fast,slow

        sets:
          features       8
          measure.width  0.1

        onyx-harness +experiment=demo dry_run=true shows its cells. Keys of the command replace these.
    """,
    "features": """
        features=auto: The number of features k: an integer, or auto for the natural number of algorithm and
        graph (1 without one).
    """,
    "rerun": """
        rerun=failed: Which cells with a record in this sweep are run again: failed, all, or none.
        values: failed, all, none
    """,
}


@pytest.mark.parametrize("word", DESCRIBED)
def test_the_description_of_a_name(names, word):
    assert describe(names, word) == lines(DESCRIBED[word])
    assert describe(names, f"+{word}") == lines(DESCRIBED[word])


@pytest.mark.parametrize(
    ("word", "error", "message"),
    [
        ("fsat", UnknownName, "nothing is called 'fsat'; did you mean 'fast'? (onyx-harness list shows all names)"),
        (
            "graph=rign",
            UnknownName,
            "nothing is called 'rign'; did you mean 'ring'? (onyx-harness list shows all names)",
        ),
        ("graph=walk", UnknownName, "nothing is called 'walk' (onyx-harness list shows all names)"),
        (
            "grph=ring",
            CampaignError,
            "describe takes a name, or one of engine, algorithm, graph, experiment = NAME, not 'grph=ring'",
        ),
    ],
)
def test_unknown_names_are_refused(names, word, error, message):
    with pytest.raises(error) as met:
        describe(names, word)
    assert str(met.value) == message


@pytest.mark.parametrize(
    ("word", "group"),
    [
        ("engines", "engine"),
        ("algorithms", "algorithm"),
        ("graphs", "graph"),
        ("presets", "experiment"),
        ("keys", "key"),
        ("engine", "engine"),
        ("algorithm", "algorithm"),
        ("graph", "graph"),
        ("preset", "experiment"),
    ],
)
def test_words_of_the_list_may_be_singular(word, group):
    assert group_named(word) == group


def test_another_word_of_the_list_is_refused():
    with pytest.raises(CampaignError) as met:
        group_named("engnes")
    expected = "list takes engines, algorithms, graphs, presets, keys, not 'engnes'; did you mean 'engines'?"
    assert str(met.value) == expected


def test_the_choices_of_a_command():
    given = ["engine=fast,slow", "+experiment=demo", "features=8", "engine.width=3", "graph=ring"]
    assert choices_in(given) == ["engine=fast", "engine=slow", "experiment=demo", "graph=ring"]


def test_names_options_and_bases(names):
    assert names.of("engine") == ["fast", "fast_wide", "lost", "slow"]
    assert names.of("experiment") == ["demo"]
    assert [item.name for item in names.options("engine", "fast_wide")] == ["width", "way", "fold", "size"]
    assert names.options("engine", "absent") == names.options("experiment", "demo") == ()
    assert (names.base("graph", "circle"), names.base("graph", "absent")) == ("ring", "")


WITHOUT_HYDRA = {
    "list ": ["algorithms", "engines", "graphs", "keys", "presets"],
    "list en": ["engines"],
    "describe mea": [
        "measure", "measure.accuracy", "measure.budget_s", "measure.cap_s", "measure.repetitions", "measure.warmup_s",
        "measure.width",
    ],
    "describe wal": ["walk"],
    "describe ci": ["circle"],
    "--": ["--cfg", "--config-dir", "--help", "--shell-completion", "--version"],
    "engine=fast --c": ["--cfg", "--config-dir"],
    "rerun=": ["rerun=all", "rerun=failed", "rerun=none"],
    "rerun=all,n": ["rerun=all,none"],
    "save=ar": ["save=arrays"],
    "validate=": ["validate=false", "validate=sampled", "validate=true"],
    "engine=fast engine.fold=": ["engine.fold=false", "engine.fold=true"],
    "engine=fast engine.way=": ["engine.way=pull", "engine.way=push"],
    "engine=slow,fast engine.way=pus": ["engine.way=push"],
    "engine=fast_wide engine.way=push,pul": ["engine.way=push,pull"],
    "engine=slow engine.way=": [],
    "engine=none engine.way=": [],
    "engine=fast engine.width=": [],
    "graph=fast engine.way=": [],
    "algorithm=walk algorithm.start=": [],
    "algorithm=walk algorithm.alpha=": ["algorithm.alpha=0.5"],
    "graph=circle graph.vertices=": ["graph.vertices=3"],
}  # fmt: skip


@pytest.mark.parametrize("line", WITHOUT_HYDRA)
def test_words_that_complete_a_line(names, monkeypatch, line):
    monkeypatch.setattr(completion, "_by_hydra", lambda words, word: pytest.fail("the configuration was composed"))
    assert complete(line, names) == WITHOUT_HYDRA[line]


@pytest.mark.parametrize(
    ("line", "asked", "found"),
    [
        ("de", ([], "de"), ["degrees", "describe", "device="]),
        ("", ([], ""), ["bisect", "degrees", "describe", "device=", "doctor", "explain", "list", "other="]),
        ("engine=fast de", (["engine=fast"], "de"), ["device="]),
        ("engine=fast device=cp", (["engine=fast"], "device=cp"), []),
        ("graph=ring other=b,ot", (["graph=ring"], "other=ot"), ["other=b,other"]),
    ],
)
def test_keys_and_choices_are_those_that_hydra_finds(names, monkeypatch, line, asked, found):
    asks = []

    def by_hydra(words, word):
        asks.append((list(words), word))
        return ["other=other"] if "=" in word else ["device=", "other="]

    monkeypatch.setattr(completion, "_by_hydra", by_hydra)
    assert (complete(line, names), asks) == (found, [asked])
