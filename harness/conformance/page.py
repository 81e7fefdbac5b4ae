"""The page that says what runs where, and why not, made from the answers of the engines themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.conformance.matrix import Question, algorithms, ask, question, schedules
from harness.contract import Device, EngineSpec, No
from harness.plugins import Registry

ASKED_FEATURES = 4
HEAD = """# What runs where: {device}

Made by `python -m harness.conformance --table --device {device}` from the answers of the engines; {held}

- *runs*: under every schedule, that is every combination of the options that choose between code paths;
- *in part*: not under all of them;
- *no*: under none. The reasons stand below.

"""
HELD = {
    "cpu": """tests keep it
current, run every combination that is said to run, and hold that no answer depends on the number of features.""",
    "cuda": f"""tests keep it
current, and run every combination that is said to run, with numbers of features and further options in turns. They are
asked with {ASKED_FEATURES} features; with many more, matrices may not fit a thread, which is said then.""",
}
Answers = dict[str, list[tuple[dict[str, Any], str]]]  # algorithm: every schedule with the reason of a refusal, or ""


def page(registry: Registry, device: Device, engines: Sequence[str] | None = None) -> str:
    """All of it, in Markdown, for some engines or (None) for all of that device."""
    rows = questions(registry)
    there = [name for name in sorted(registry.engines) if device.kind in registry.engines[name].devices]
    specs = [registry.engines[name] for name in (there if engines is None else engines)]
    told = [answers(spec, rows, device) for spec in specs]
    titles = ["algorithm", *(spec.name for spec in specs)]
    lines = [titles, ["---"] * len(titles)]
    lines += [[label, *(summary(found)[label] for found in told)] for label in rows]
    overview = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    sections = [section(spec, found) for spec, found in zip(specs, told, strict=True)]
    return (
        HEAD.format(device=device.kind, held=HELD[device.kind]) + overview + "".join(f"\n{text}" for text in sections)
    )


def questions(registry: Registry) -> dict[str, Question]:
    """What the engines are asked, by the label of the algorithm."""
    return {label: question(algorithm, ASKED_FEATURES) for label, algorithm in algorithms(registry).items()}


def answers(spec: EngineSpec, rows: Mapping[str, Question], device: Device) -> Answers:
    """What an engine says to every algorithm under every one of its schedules."""
    return {
        label: [(options, _refusal(spec, options, asked, device)) for options in schedules(spec)]
        for label, asked in rows.items()
    }


def _refusal(spec: EngineSpec, options: Mapping[str, Any], asked: Question, device: Device) -> str:
    if device.kind not in spec.devices:
        return f"{spec.name} has no {device.kind} code"
    answer = ask(spec, options, asked, device)
    return answer.reason if isinstance(answer, No) else ""


def summary(found: Answers) -> dict[str, str]:
    """An engine's column of the overview: a word for every algorithm."""
    words = {}
    for label, told in found.items():
        refused = sum(bool(reason) for _, reason in told)
        words[label] = "no" if refused == len(told) else "in part" if refused else "runs"
    return words


def section(spec: EngineSpec, found: Answers) -> str:
    """What is to be said of one engine: its schedules, and what it refuses with the reason."""
    every = schedules(spec)
    options = {name: dict.fromkeys(str(one[name]) for one in every) for name in every[0]}
    listed = "; ".join(f"{name} = {' or '.join(values)}" for name, values in options.items())
    told = f"{len(every)} schedules: {listed}." if options else "One schedule."
    refusals: dict[tuple[str, str], list[str]] = {}
    for label, answered in found.items():
        for reason in dict.fromkeys(reason for _, reason in answered if reason):
            refused = [chosen for chosen, why in answered if why == reason]
            refusals.setdefault((_condition(refused, every), reason), []).append(label)
    lines = [f"- {', '.join(labels)}: no{where}: {reason}.\n" for (where, reason), labels in refusals.items()]
    return f"## {spec.name}\n\n{told} " + ("Refused:\n\n" + "".join(lines) if lines else "Everything runs.\n")


def _condition(refused: Sequence[Mapping[str, Any]], every: Sequence[Mapping[str, Any]]) -> str:
    """The options that all refused schedules share and not all schedules have."""
    shared = [
        f"{option}={value}"
        for option, value in refused[0].items()
        if all(one[option] == value for one in refused) and any(one[option] != value for one in every)
    ]
    return f" with {' and '.join(shared)}" if shared else ""
