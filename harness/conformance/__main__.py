"""Run the conformance suite on an installed engine, or print what runs where.

``python -m harness.conformance NAME`` runs the suite on an engine; ``python -m harness.conformance --table`` prints the
page of algorithms, engines and schedules, from the answers of the engines themselves.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from harness.conformance.page import page
from harness.conformance.subject import options_of
from harness.contract import Device, ScheduleError, schedule_from_options
from harness.plugins import UnknownName, load_plugins

MISUSE_STATUS = 2
Kind = Literal["cpu", "cuda"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite and return 0 if the engine passes, 1 if it fails, 2 if nothing could be run."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    cut = given.index("--") if "--" in given else len(given)
    parser = _parser()
    parsed, for_pytest = parser.parse_args(given[:cut]), given[cut + 1 :]
    names = [word for word in parsed.words if "=" not in word]
    try:
        options = options_of(word for word in parsed.words if "=" in word)
        if parsed.table:
            return _print_table(names, options, parsed.device or "cpu")
        if len(names) != 1:
            return _refuse("name one engine, or use --table")
        spec = load_plugins().engine(names[0])
        if options:  # without any, the suite checks the schedule
            schedule_from_options(spec, options)
    except (UnknownName, ScheduleError) as error:
        return _refuse(str(error))
    device = parsed.device or spec.devices[0]
    if device not in spec.devices:
        return _refuse(f"engine {spec.name!r} does not run on {device} (it runs on: {', '.join(spec.devices)})")
    if importlib.util.find_spec("pytest") is None:
        return _refuse("the suite needs pytest: pip install 'onyx-harness[conformance]'")
    return _run(spec.name, [word for word in parsed.words if "=" in word], device, parsed.thorough, for_pytest)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Arguments after -- are passed to pytest: -- -x -k WORDS",
    )  # fmt: skip
    parser.add_argument(
        "words", metavar="NAME | OPTION=VALUE", nargs="*",
        help="an installed engine, as in engine=NAME, and options of its schedule, as in direction=push",
    )  # fmt: skip
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: the first device of the engine")
    parser.add_argument("--thorough", action="store_true", help="every schedule, and more numbers of features")
    parser.add_argument("--table", action="store_true", help="print what runs where, for the named engines or for all")
    return parser


def _print_table(names: Sequence[str], options: Mapping[str, object], device: Kind) -> int:
    if options:
        return _refuse("the table covers every schedule; name only engines")
    registry = load_plugins()
    for name in names:
        registry.engine(name)  # raises UnknownName
    sys.stdout.write(page(registry, Device(device, threads=1), names or None))
    return 0


def _run(name: str, options: Sequence[str], device: str, thorough: bool, for_pytest: Sequence[str]) -> int:
    import pytest

    # Options of a package named by --pyargs are unknown when the command line is read, so the plugin is loaded by name
    # first. Nothing is written, neither beside the installed package nor in the working folder.
    command = ["-p", "harness.conformance.plugin", "-p", "no:cacheprovider", "-p", "no:benchmark"]
    command += ["--import-mode=importlib"]
    command += ["-c", str(Path(__file__).with_name("pytest.ini")), "--engine", name, "--engine-device", device]
    command += [part for option in options for part in ("--engine-option", option)]
    command += ["--thorough"] if thorough else []
    return int(pytest.main([*command, *for_pytest, "--pyargs", "harness.conformance.suite"]))


def _refuse(reason: str) -> int:
    print(f"harness.conformance: error: {reason}", file=sys.stderr)  # noqa: T201
    return MISUSE_STATUS


if __name__ == "__main__":
    sys.exit(main())
