"""Which command the first word calls, what it prints, and its exit status; the search of the first slower commit."""

from __future__ import annotations

import contextlib
import warnings
from types import SimpleNamespace

import pytest
from hydra.errors import MissingConfigException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness import __version__
from harness.campaign import application, bisection
from harness.campaign.application import (
    BISECT_HELP,
    DEGREES_HELP,
    DESCRIBE_HELP,
    DOCTOR_HELP,
    EXPLAIN_HELP,
    LIST_HELP,
    _dispatch,
    in_words,
    main,
)
from harness.campaign.bisection import bisect
from harness.campaign.errors import CampaignError
from harness.plugins import PluginWarning, Registry


@pytest.fixture
def called(monkeypatch):
    """Replace what the commands do; return what was called with which arguments."""
    calls = []
    monkeypatch.setattr(application, "Names", lambda registry: "names")
    answers = {"list_names": "all names", "describe": "a text", "complete": ["one", "two"]}
    for name, answer in answers.items():
        monkeypatch.setattr(
            application, name, lambda *given, name=name, answer=answer: calls.append((name, given)) or answer
        )
    for name in ("_doctor", "_bisect", "_explain", "_degrees", "_run"):
        monkeypatch.setattr(application, name, lambda *given, name=name: calls.append((name, given)) or 7)
    return calls


REGISTRY = Registry()


@pytest.mark.parametrize(
    ("arguments", "calls", "status"),
    [
        (["list"], [("list_names", ("names", ["engine", "algorithm", "graph", "experiment", "key"]))], 0),
        (["list", "graphs", "engine", "graph"], [("list_names", ("names", ["graph", "engine"]))], 0),
        (["describe", "a", "b"], [("describe", ("names", "a")), ("describe", ("names", "b"))], 0),
        (["doctor"], [("_doctor", (REGISTRY,))], 7),
        (["bisect", "good=a"], [("_bisect", (["good=a"],))], 7),
        (["explain"], [("_explain", ([],))], 7),
        (["explain", "engine=a"], [("_explain", (["engine=a"],))], 7),
        (["degrees", "graph=a"], [("_degrees", (["graph=a"],))], 7),
        (["engine=a,b", "--help"], [("describe", ("names", "engine=a")), ("describe", ("names", "engine=b"))], 0),
        (["features=1", "--help"], [("_run", (["features=1", "--help"], REGISTRY))], 7),
        (["engine=a"], [("_run", (["engine=a"], REGISTRY))], 7),
        ([], [("_run", ([], REGISTRY))], 7),
        (["-sc", "query=bash"], [("complete", ("engine=a lis", "names"))], 0),
        (["--shell-completion", "query=fish"], [("complete", ("engine=a lis", "names"))], 0),
        (["-sc", "install=bash"], [("_run", (["-sc", "install=bash"], REGISTRY))], 7),
    ],
)
def test_the_first_word_names_the_command(called, monkeypatch, arguments, calls, status, capsys):
    monkeypatch.setenv("COMP_LINE", "onyx-harness engine=a lis")
    assert _dispatch(REGISTRY, arguments) == status
    assert called == calls
    shown = capsys.readouterr().out
    name = calls[0][0]
    if name.startswith("_"):
        assert shown == ""
    elif name == "complete":
        assert shown == ("one\ntwo\n" if "query=fish" in arguments else "one two\n")
    elif name == "list_names":
        assert shown == "all names\n"
    else:
        more = "\n\nonyx-harness --help shows every key and every name." if "--help" in arguments else ""
        assert shown == f"a text\n\n\na text{more}\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["list", "--help"], LIST_HELP),
        (["describe"], DESCRIBE_HELP),
        (["describe", "a", "-h"], DESCRIBE_HELP),
        (["doctor", "-h"], DOCTOR_HELP),
        (["doctor", "x"], DOCTOR_HELP),
        (["bisect"], BISECT_HELP),
        (["bisect", "good=a", "--help"], BISECT_HELP),
        (["explain", "-h"], EXPLAIN_HELP),
        (["degrees"], DEGREES_HELP),
        (["degrees", "graph=a", "-h"], DEGREES_HELP),
    ],
)
def test_help_of_a_command(called, arguments, text, capsys):
    assert _dispatch(REGISTRY, arguments) == 0
    assert capsys.readouterr().out == f"{text}\n"
    assert called == []


def test_the_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"onyx-harness {__version__}\n"


def test_a_mistake_in_a_word_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(application, "Names", lambda registry: None)
    assert _dispatch(REGISTRY, ["list", "engnes"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    met = "list takes engines, algorithms, graphs, presets, keys, not 'engnes'; did you mean 'engines'?"
    assert shown.err == f"onyx-harness: error: {met}\n"


def test_plugins_and_engines_that_were_left_out_are_named(monkeypatch, capsys):
    def load():
        warnings.warn("plugin 'x' was left out", PluginWarning, stacklevel=1)
        return REGISTRY

    def register(registry):
        warnings.warn("engine 'y' is left out", PluginWarning, stacklevel=1)

    monkeypatch.setattr(application, "load_plugins", load)
    monkeypatch.setattr(application, "register_configuration", register)
    assert application._registry() is REGISTRY
    reported = ["onyx-harness: warning: plugin 'x' was left out", "onyx-harness: warning: engine 'y' is left out"]
    assert capsys.readouterr().err.splitlines() == reported


def test_doctor_fails_if_something_is_missing(monkeypatch, capsys):
    from harness.campaign import doctor

    states = ["ok", "note"]
    monkeypatch.setattr(doctor, "run_probe", lambda: "probe")
    monkeypatch.setattr(doctor, "findings", lambda registry, probe: [SimpleNamespace(state=one) for one in states])
    monkeypatch.setattr(doctor, "report", lambda found: f"{len(found)} facts")
    assert application._doctor(REGISTRY) == 0
    states.append("problem")
    assert application._doctor(REGISTRY) == 1
    assert capsys.readouterr().out == "2 facts\n3 facts\n"


@pytest.mark.parametrize(
    ("found", "status", "text"), [("c", 1, "first slower commit: c"), (None, 0, "b is not slower than a")]
)
def test_bisect_prints_what_it_found(monkeypatch, capsys, found, status, text):
    monkeypatch.setattr(bisection, "bisect", lambda request, folder, say: say("a line") or found)
    assert application._bisect(["good=a", "bad=b", "engine=x"]) == status
    assert capsys.readouterr().out == f"a line\n{text}\n"
    assert application._bisect(["good=a"]) == 2
    assert capsys.readouterr().err.startswith("onyx-harness: error: ")


@pytest.mark.parametrize(("name", "extra"), [("joblib", "joblib"), ("submitit_slurm", "submitit")])
def test_a_launcher_that_is_not_installed_has_the_command_that_installs_it(name, extra):
    missing = MissingConfigException("", missing_cfg_file=f"hydra/launcher/{name}", options=["basic"])
    assert in_words(missing) == f"the launcher {name!r} is not installed; pip install 'onyx-harness[{extra}]'"


@pytest.mark.parametrize(
    ("file", "options", "words"),
    [
        (
            "engine/onxy",
            ["onyx", "tigr"],
            "there is no engine called 'onxy'; did you mean 'onyx'? (there are: onyx, tigr)",
        ),
        ("hydra/launcher/no", None, "there is no hydra/launcher called 'no' (there are: none)"),
        ("graph/zzz", [], "there is no graph called 'zzz' (there are: none)"),
    ],
)
def test_a_name_that_is_missing_is_named_with_its_group(file, options, words):
    assert in_words(MissingConfigException("a long message", file, options)) == words


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("measure.widht", "measure has no key 'widht'; did you mean 'width'? (there are: width, cap_s)"),
        ("colour", "the configuration has no key 'colour' (there are: measure)"),
    ],
)
def test_a_key_that_is_missing_is_named_with_its_place(key, words):
    config = OmegaConf.create({"measure": {"width": 1, "cap_s": 2}})
    OmegaConf.set_struct(config, True)
    with pytest.raises(OmegaConfBaseException) as met:
        OmegaConf.update(config, key, 3)
    error = CampaignError("odd")
    error.__cause__ = met.value
    assert in_words(error) == words


def test_other_errors_are_their_own_words():
    assert in_words(CampaignError("as it is")) == "as it is"


class Commits:
    """Commits 0 to 9; ``answers``: what a comparison with the first one gives."""

    def __init__(self, answers):
        self.answers, self.asked = answers, []
        self.request = SimpleNamespace(bad="nine")

    def between(self):
        return [str(number) for number in range(10)]

    def title(self, commit):
        return f"#{commit}"

    def slower(self, good, commit):
        assert good == "0"
        self.asked.append(int(commit))
        return self.answers(int(commit))


SLOWER = [SimpleNamespace(name="cell", ratio=SimpleNamespace(median=1.234))]


def searched(monkeypatch, answers):
    commits, lines = Commits(answers), []
    monkeypatch.setattr(bisection, "_commits", lambda repository, request: contextlib.nullcontext(commits))
    return bisect(commits.request, None, lines.append), commits.asked, lines


@pytest.mark.parametrize("first", range(1, 10))
def test_the_first_slower_commit_is_found_by_halves(monkeypatch, first):
    found, asked, lines = searched(monkeypatch, lambda commit: SLOWER if commit >= first else [])
    assert found == str(first)
    assert asked[0] == 9
    assert len(asked) <= 5
    assert lines[0] == "#9: slower, 1.23x cell"
    assert set(lines) <= {f"#{n}: not slower" for n in range(first)} | {
        f"#{n}: slower, 1.23x cell" for n in range(first, 10)
    }


def test_nothing_is_searched_if_the_last_commit_is_not_slower(monkeypatch):
    assert searched(monkeypatch, lambda commit: []) == (None, [9], ["#9: not slower"])


def test_commits_without_a_verdict_are_left_out(monkeypatch):
    answers = {3: "it does not start", 4: "noise"}
    found, _, lines = searched(monkeypatch, lambda commit: answers.get(commit) or (SLOWER if commit >= 6 else []))
    assert found == "6"
    assert lines == [
        "#9: slower, 1.23x cell", "#5: not slower", "#7: slower, 1.23x cell", "#6: slower, 1.23x cell",
    ]  # fmt: skip
    with pytest.raises(CampaignError) as met:
        searched(monkeypatch, lambda commit: answers.get(commit) or (SLOWER if commit >= 4 else []))
    assert str(met.value) == "there is no verdict on some commits; the first slower one is among: #3, #4, #5"
    with pytest.raises(CampaignError, match="there is no verdict on bad=nine: noise"):
        searched(monkeypatch, lambda commit: "noise")
