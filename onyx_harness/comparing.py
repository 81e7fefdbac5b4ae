"""Measure engines in isolated processes, as the command does."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.campaign.cell import digest
from harness.campaign.errors import CampaignError
from harness.campaign.options import count
from harness.campaign.plan import quoted
from harness.contract import Device
from harness.language.algorithm import Algorithm
from harness.report.progress import BEGINS_VARIABLE
from onyx_harness.progress import progress_display
from onyx_harness.requests import Variant, algorithm_request, device_of, engine_request, merged, plain
from onyx_harness.results import Results
from onyx_harness.settings import Settings

MISUSE_STATUS, INTERRUPTED_STATUS, TERMINATED_STATUS = 2, 130, 143


def compare(
    engines: Sequence[str | Variant] | str | Variant,
    algorithm: str | type[Algorithm] | Algorithm,
    graph: Any,
    *,
    features: int | Sequence[int] | None = None,
    device: str | Device = "cpu",
    parameters: Mapping[str, Any] | None = None,
    graph_options: Mapping[str, Any] | None = None,
    baseline: str | None = None,
    rounds: int = 1,
    folder: str | os.PathLike[str] | None = None,
    overrides: Sequence[str] = (),
    progress: bool = True,
    **more_parameters: Any,
) -> Results:
    """Measure engines on one algorithm and graph, each in a process of its own, and return the records.

    Every answer is validated, every time has an interval, and a crash or a hang costs only its own cell: what the
    command ``onyx-harness`` does. A repeated comparison in the same folder measures only what is not yet recorded.

    engines: names or `Variant`s. algorithm, graph, device, parameters, graph_options, and other keywords: as for `run`.
        A graph in memory is written to the cache. So is an algorithm class that is defined in a notebook, a script or a
        function, with everything of these that it uses.
    features: k, or several; None: as for `run`.
    baseline: the engine that speed-ups are relative to; None: the first one.
    rounds: how many times all cells are measured in turn.
    folder: the folder of records; None: a temporary one, deleted with the result. It also keeps the configuration.
    overrides: further settings of the command, such as "measure.budget_s=2" or "limits.time_s=60".
    progress: show finished cells: in a notebook one display that also has the running cells and replaces itself,
        elsewhere a line for each in `sys.stderr`.

    Raises UnknownName, ScheduleError, CampaignError and GraphError as `run` does, before anything is measured; failures
    of cells are outcomes in the records. Raises KeyboardInterrupt if interrupted; the same call then continues.
    """
    chosen = [engines] if isinstance(engines, (str, Variant)) else list(engines)
    if not chosen:
        raise CampaignError("no engine is given; name at least one")
    target, place = device_of(device), _Place(folder)
    request = algorithm_request(algorithm, merged(parameters, more_parameters))
    settings = Settings(place.path)
    names = [settings.engine(engine, target) for engine in chosen]
    first = engine_request(chosen[0], None, target)[0].name
    command = [
        f"engine={','.join(dict.fromkeys(names))}",
        f"algorithm={settings.algorithm(request)}",
        f"graph={settings.graph(graph, graph_options or {})}",
        f"features={_features(features, request.algorithm, graph)}",
        f"device={target.kind}",
        f"device.index={target.index}",
        f"device.threads={target.threads}",
        f"baseline={baseline or first}",
        f"rounds={count('rounds', rounds)}",
        *overrides,
    ]
    return _swept(command, place, settings, progress=progress)


def sweep(overrides: Sequence[str], *, folder: str | os.PathLike[str] | None = None, progress: bool = True) -> Results:
    """Run the command ``onyx-harness OVERRIDES...`` and return its records.

    overrides: the arguments of the command, such as ``["engine=onyx,scipy", "graph=rmat", "features=1,8"]``; none: the
    default comparison. folder, progress: as for `compare`; the folder replaces ``output=``.

    Raises CampaignError for a mistake in the arguments, with the command's message.
    """
    if isinstance(overrides, str):
        raise CampaignError(f"overrides is a text; give a list, such as {overrides.split()!r}")
    for override in overrides:
        if override.partition("=")[0] in ("output", "sweep.id", "dry_run"):
            raise CampaignError(f"{override} is set by sweep(); give folder= instead, or use the command")
    place = _Place(folder)
    return _swept(list(overrides), place, Settings(place.path), progress=progress)


class _Place:
    """The folder of a comparison: a given one, or a temporary one that lives as long as this object."""

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        if folder is not None:
            self.path = Path(folder).expanduser().absolute()
            return
        self.path = Path(tempfile.mkdtemp(prefix="onyx-harness-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def _features(given: int | Sequence[int] | None, algorithm: Algorithm, graph: Any) -> str:
    """Return the value of ``features=``; 1 for an algorithm that never has a number of its own, as `run` takes it."""
    if given is None:
        own = type(algorithm).default_features is not Algorithm.default_features
        return "auto" if own else "1"
    several = [given] if isinstance(given, int) or not hasattr(given, "__iter__") else list(given)
    return ",".join(str(count("features", plain(k))) for k in several)


def _swept(overrides: list[str], place: _Place, settings: Settings, *, progress: bool) -> Results:
    """Run the command in a process of its own, and read its records. Raises CampaignError or KeyboardInterrupt."""
    identity = "s" + digest(overrides)[:11]
    command = [sys.executable, "-m", "harness"]
    if settings.configuration.is_dir():
        command += ["--config-dir", str(settings.configuration)]
    command += [*overrides, f"output={quoted(str(place.path))}", f"sweep.id={identity}"]
    environment = {**os.environ, "PYTHONPATH": settings.python_path(), BEGINS_VARIABLE: "1"}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        status = _follow(command, environment, errors, progress=progress)
        errors.seek(0)
        message = errors.read().strip()
    folder = place.path / identity
    if status in (INTERRUPTED_STATUS, TERMINATED_STATUS):
        raise KeyboardInterrupt("the comparison was interrupted; the same call continues it")
    if status == MISUSE_STATUS or not folder.is_dir():
        raise CampaignError(message.removeprefix("onyx-harness: error: ") or f"the command ended with status {status}")
    if message:
        sys.stderr.write(f"{message}\n")
    return Results.read(folder, keep=place)


def _follow(command: Sequence[str], environment: Mapping[str, str], errors: Any, *, progress: bool) -> int:
    """Run a command, show its progress, and return its exit status.

    The command has a process group of its own: an interrupt is passed on once, and it then ends its cells.
    """
    shown = progress_display(wanted=progress)
    process = subprocess.Popen(
        command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
        encoding="utf-8", errors="replace", start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        for line in process.stdout:
            shown.line(line)
        status = process.wait()
        shown.close(interrupted=status in (INTERRUPTED_STATUS, TERMINATED_STATUS))
        return status
    except BaseException:
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        process.wait()
        shown.close(interrupted=True)
        raise
    finally:
        process.stdout.close()
