"""The command line: error messages, exit status, and the call of Hydra."""

from __future__ import annotations

import io
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path

import hydra
from hydra.errors import HydraException, MissingConfigException
from omegaconf.errors import OmegaConfBaseException

from harness import __version__
from harness.campaign.command_line import check_arguments, check_overrides, expand_home, shows_job
from harness.campaign.completion import complete
from harness.campaign.configuration import register_configuration, with_every_key
from harness.campaign.discovery import GROUPS, Names, choices_in, describe, group_named, list_names
from harness.campaign.errors import CampaignError
from harness.campaign.sweep import INTERRUPTED_STATUS, run_job
from harness.contract import ScheduleError
from harness.plain_text import printable
from harness.plugins import PluginWarning, Registry, UnknownName, closest, load_plugins

MISUSE_STATUS = 2
_FULL_ERROR = "HYDRA_FULL_ERROR"
_LAUNCHER_EXTRAS = ("joblib", "submitit", "ray")
EXPLAIN_HELP = """\
onyx-harness explain KEY=VALUE ...

Show what an engine would do with one cell, and run nothing: the program, its analysis, the schedule, the fast paths
missed and why, the source of the generated kernels. Takes the keys of a cell, one value each. Omitted keys, such as
engine=NAME, have the values of the default configuration.

onyx-harness explain algorithm=pagerank graph=rmat features=8
onyx-harness explain algorithm=label_propagation graph=digits device=cuda    (no GPU needed)

onyx-harness list shows the names, onyx-harness describe NAME the options of one, onyx-harness --help every key, and
onyx-harness doctor what this machine has. onyx-harness bisect finds the commit that made a
cell slower, and onyx-harness degrees shows which share of a graph's edges small vertices have."""
LIST_HELP = """\
onyx-harness list [engines] [algorithms] [graphs] [presets] [keys]

List the names, each with a line of help. Without a word, all of them. onyx-harness describe NAME describes one."""
DESCRIBE_HELP = """\
onyx-harness describe NAME ...

Describe engines, algorithms, graphs, presets, variants and keys: what each does, its options with types, defaults,
ranges and help. GROUP=NAME selects one of several things of the same name.

onyx-harness describe sssp
onyx-harness describe pagerank rmat
onyx-harness describe graph=delaunay
onyx-harness describe measure

onyx-harness algorithm=sssp --help is another form. onyx-harness list shows the names."""
BISECT_HELP = """\
onyx-harness bisect good=COMMIT bad=COMMIT [threshold=0.05] [turns=7] KEY=VALUE ...

Find the first commit after good at which a cell is slower than at good by more than the threshold. Run it in a checkout
of the harness. Every comparison times two commits in turns, each in a checkout of its own. A commit that cannot be
measured is left out. Takes the keys of a sweep; paths of graphs must be absolute. The exit status is 1 if a commit was
found, 0 if bad is not slower.

onyx-harness bisect good=HEAD~20 bad=HEAD engine=NAME algorithm=pagerank graph=rmat features=8"""
DOCTOR_HELP = """\
onyx-harness doctor

Show Python, cores, memory, cache, compilers, GPU, driver, CUDA, NVRTC, launchers and packages of this machine, what is
missing, and the command that fixes it. The exit status is 1 if something that a comparison needs is missing."""
DEGREES_HELP = """\
onyx-harness degrees graph=NAME,NAME ... [graph.KEY=VALUE]

Show the share of the edges of graphs whose vertices have at most 8, 16, ... 96 edges, as a cumulative distribution.

onyx-harness degrees graph=rmat,grid"""
_HELP = ("--help", "-h")
_COMPLETION, _QUERY = ("--shell-completion", "-sc"), "query="
_MORE_HELP = "onyx-harness --help shows every key and every name."
# Flags that select what Hydra does; every other command line is a sweep.
_HYDRA_COMMANDS = (
    "--help", "-h", "--hydra-help", "--version", "--cfg", "-c", "--info", "-i", "--shell-completion", "-sc",
    "--multirun", "-m", "--run", "-r",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    0: every cell was ok or unsupported, and at least one was ok (or ``allow_unsupported=true``). 1: another outcome. 2:
    a mistake in the command. 130: interrupted.

    With the environment variable HYDRA_FULL_ERROR=1, an error is shown with its traceback.
    """
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:  # closed by the caller; the next file opened would get its number
            setattr(sys, stream, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open until the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an encoding that lacks a sign, such as ASCII, must not end a sweep
    arguments = expand_home(sys.argv[1:] if arguments is None else arguments)
    if list(arguments) == ["--version"]:
        _say(sys.stdout, f"onyx-harness {__version__}")
        return 0
    with warnings.catch_warnings():
        registry = _registry()
        warnings.simplefilter("ignore", PluginWarning)  # each has been reported once
        return _dispatch(registry, arguments)


def _dispatch(registry: Registry, arguments: Sequence[str]) -> int:
    """Call the command that the first argument names, or Hydra."""
    first, rest = arguments[:1], arguments[1:]
    wants_help = any(argument in _HELP for argument in arguments)
    if first == ["list"]:
        return _show(LIST_HELP) if wants_help else _answer(lambda names: _list(names, rest), registry)
    if first == ["describe"]:
        shown = wants_help or not rest
        return _show(DESCRIBE_HELP) if shown else _answer(lambda names: _describe(names, rest), registry)
    if first == ["doctor"]:
        return _show(DOCTOR_HELP) if wants_help or rest else _doctor(registry)
    if first == ["bisect"]:
        return _show(BISECT_HELP) if wants_help or not rest else _bisect(rest)
    if first == ["explain"]:
        return _show(EXPLAIN_HELP) if wants_help else _explain(rest)
    if first == ["degrees"]:
        return _show(DEGREES_HELP) if wants_help or not rest else _degrees(rest)
    chosen = choices_in(arguments)
    if wants_help and chosen:
        return _answer(lambda names: f"{_describe(names, chosen)}\n\n{_MORE_HELP}", registry)
    if len(arguments) == 2 and first[0] in _COMPLETION and rest[0].startswith(_QUERY):
        line = os.environ.get("COMP_LINE", "").partition(" ")[2]
        between = "\n" if rest[0] == f"{_QUERY}fish" else " "
        return _answer(lambda names: between.join(complete(line, names)), registry)
    return _run(arguments, registry)


def _answer(text: Callable[[Names], str], registry: Registry) -> int:
    """Print a text about the names, or the error of making it."""
    try:
        return _show(text(Names(registry)))
    except (CampaignError, UnknownName) as error:
        _say(sys.stderr, f"onyx-harness: error: {error}")
        return MISUSE_STATUS


def _doctor(registry: Registry) -> int:
    """Print what this machine has; the status is 1 if something that is needed is missing."""
    from harness.campaign.doctor import findings, report, run_probe

    found = findings(registry, run_probe())
    _show(report(found))
    return int(any(one.state == "problem" for one in found))


def _bisect(arguments: Sequence[str]) -> int:
    """Print the first commit that is slower; the status is 1 if there is one."""
    from harness.campaign.bisection import Request, bisect

    def say(line: str) -> None:
        _say(sys.stdout, line)
        sys.stdout.flush()

    try:
        request = Request.of(arguments)
        check_overrides(request.overrides)
        found = bisect(request, Path.cwd(), say)
    except (HydraException, CampaignError) as error:
        _say(sys.stderr, f"onyx-harness: error: {in_words(error)}")
        return MISUSE_STATUS
    say(f"first slower commit: {found}" if found else f"{request.bad} is not slower than {request.good}")
    return int(found is not None)


def _list(names: Names, words: Sequence[str]) -> str:
    return list_names(names, list(dict.fromkeys(map(group_named, words or GROUPS))))


def _describe(names: Names, words: Sequence[str]) -> str:
    return "\n\n\n".join(describe(names, word) for word in words)


def _show(text: str) -> int:
    """Print a text; a reader that stops early, such as ``head``, is no error."""
    try:
        _say(sys.stdout, text)
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_stopped()
    return 0


def _reader_stopped() -> int:
    """Write the rest to nowhere: the interpreter flushes again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _run(arguments: Sequence[str], registry: Registry) -> int:
    """Call Hydra, and report errors of Hydra or of our own checks as one line."""
    # Without --multirun, Hydra reports a wrong name as a fault of the commas.
    shows = any(argument.partition("=")[0] in _HYDRA_COMMANDS for argument in arguments)
    sys.argv = ["onyx-harness", *arguments, *([] if shows else ["--multirun"])]
    traceback_wanted = os.environ.get(_FULL_ERROR) == "1"
    os.environ[_FULL_ERROR] = "1"  # Hydra then passes errors on, and they are reported here
    try:
        check_arguments(arguments)
        command = hydra.main(config_path=None, config_name="config", version_base="1.3")(run_job)
        if not shows_job(arguments):
            with nullcontext() if shows else _known_mode():
                command()
            return 0
        with redirect_stdout(io.StringIO()) as text:
            command()
        return _show(with_every_key(text.getvalue(), registry).rstrip("\n"))
    except (HydraException, OmegaConfBaseException, CampaignError, UnknownName, ScheduleError) as error:
        if traceback_wanted:
            raise
        _say(sys.stderr, f"onyx-harness: error: {in_words(error)}")
        return MISUSE_STATUS
    except BrokenPipeError:
        if not shows:
            raise
        return _reader_stopped()
    except KeyboardInterrupt:
        _say(sys.stderr, "onyx-harness: interrupted; the same command resumes the sweep")
        return INTERRUPTED_STATUS
    finally:
        if not traceback_wanted:
            os.environ.pop(_FULL_ERROR, None)


@contextmanager
def _known_mode() -> Iterator[None]:
    """Tell Hydra that the command is a sweep.

    Otherwise Hydra composes the whole configuration once more to read ``hydra.mode``, which takes 0.1 s of 0.4 s. Other
    modes are refused (:func:`check_arguments`).
    """
    from hydra._internal.hydra import Hydra
    from hydra.types import RunMode

    compose_mode = Hydra.get_mode
    Hydra.get_mode = lambda *_, **__: RunMode.MULTIRUN  # type: ignore[method-assign]
    try:
        yield
    finally:
        Hydra.get_mode = compose_mode  # type: ignore[method-assign]


def _explain(overrides: Sequence[str]) -> int:
    """Print the plan of an engine for one cell."""
    from harness.campaign.explanation import explanation

    return _of_cells(explanation, overrides)


def _degrees(overrides: Sequence[str]) -> int:
    """Print the shares of edges by degree."""
    from harness.campaign.degrees import degrees_text

    return _of_cells(degrees_text, overrides)


def _of_cells(text: Callable[[Sequence[str]], str], overrides: Sequence[str]) -> int:
    """Print a text about the cell of some overrides, or the error of making it."""
    from harness.cache import CacheError
    from harness.graph import GraphError
    from harness.language import InvalidInput, LanguageError

    refused = (HydraException, OmegaConfBaseException, CampaignError, UnknownName, ScheduleError)
    try:
        check_overrides(overrides)
        _say(sys.stdout, text(overrides))
    except (*refused, CacheError, GraphError, InvalidInput, LanguageError) as error:
        _say(sys.stderr, f"onyx-harness: error: {in_words(error)}")
        return MISUSE_STATUS
    return 0


def in_words(error: Exception) -> str:
    """Describe a user's mistake in a line, with the closest valid name."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        options = list(error.options or ())
        group, _, name = error.missing_cfg_file.rpartition("/")
        there = ", ".join(options) or "none"
        extra = name.partition("_")[0]
        if group == "hydra/launcher" and extra in _LAUNCHER_EXTRAS:
            return f"the launcher {name!r} is not installed; pip install 'onyx-harness[{extra}]'"
        return f"there is no {group} called {name!r}{closest(name, options)} (there are: {there})"
    cause = error.__cause__
    if isinstance(cause, OmegaConfBaseException) and cause.full_key and cause.parent_node is not None:
        *where, key = str(cause.full_key).split(".")
        known = [str(name) for name in cause.parent_node]
        place = f"{'.'.join(where)} has" if where else "the configuration has"
        return f"{place} no key {key!r}{closest(key, known)} (there are: {', '.join(known)})"
    not_there = re.match(r"Could not override '(\w+)'", str(error))
    if not_there:
        return f"{not_there[1]} has no choice to replace; add one with a plus sign, as in +{not_there[1]}=NAME"
    return str(error)


def _registry() -> Registry:
    """Load the plugins and register their choices; print a warning for everything that had to be left out."""
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always", PluginWarning)
        registry = load_plugins()
        register_configuration(registry)
    for warning in met:
        _say(sys.stderr, f"onyx-harness: warning: {warning.message}")
    return registry


def _say(stream: object, text: str) -> None:
    print(printable(text), file=stream)  # type: ignore[call-overload]
