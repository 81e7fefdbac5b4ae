"""The published format of a record: plain JSON, one object per run, with its own version.

The types below are the schema. ``docs/record-schema.json`` is generated from them, and every record is validated
against them when it is written and when it is read.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypedDict, cast

import msgspec
from msgspec import Meta

from harness.records.floor import Floor
from harness.records.outcome import Outcome
from harness.records.text import REASON_LIMIT
from harness.records.timing_caveat import Mark
from harness.records.transfers import Link, Transfers

# Incremented whenever a field is added, removed or changes its meaning; `harness.records.versions` then gets a step.
SCHEMA_VERSION = 8


# A number that may be infinite or NaN. JSON has no such numbers, so a file stores them as strings, like the JSON format
# of protocol buffers. null would be ambiguous: infinity is a valid distance.
Number = Annotated[float, Meta(title="number, or one that is not finite")]
_NUMBER = {"anyOf": [{"type": "number"}, {"enum": ["Infinity", "-Infinity", "NaN"]}]}
NUMBER_FIELDS = ("metrics", "metrics_by_superstep", "validation", "accuracy")


_SCHEDULE = (
    "every schedule option that has a meaning in the run, with the value that the engine resolved, a list where parts "
    "of the run differ; config.schedule has what was requested; the same as requested if the engine was not prepared"
)


class RecordError(ValueError):
    """Data is not a record of this schema; the message names the field and its value."""


class NewerRecord(RecordError):
    """A record of a newer version of the schema."""


class GraphFacts(TypedDict, total=False):
    """The graph that the algorithm ran on; empty if the run failed before opening it."""

    name: str
    vertices: int
    edges: Annotated[int, Meta(description="stored edges (directed)")]
    content_hash: Annotated[str, Meta(description="hash of structure, weights, labels and data; not of the name")]


class ProgramFacts(TypedDict, total=False):
    """The traced program; empty if the run failed before tracing it."""

    fingerprint: Annotated[str, Meta(description="hash of the serialised trace")]
    bound: Annotated[float, Meta(description="relative error that the program allows")]
    max_supersteps: int


class Solve(TypedDict):
    """The timed runs, each from the same initial state, without warm-up and download. Times in seconds."""

    samples: Annotated[list[float], Meta(min_length=1, description="every run, in order")]
    median: float
    low: Annotated[float, Meta(description="lower end of the interval of the median")]
    high: Annotated[float, Meta(description="upper end of the interval of the median")]
    minimum: float
    confidence: Annotated[float, Meta(description="probability that the interval contains the true median")]
    stopped: Annotated[
        Literal["precise", "budget", "count"],
        Meta(description="why measuring stopped: narrow interval, time budget, or largest number of samples"),
    ]
    rounds: Annotated[
        list[list[float]] | None, Meta(description="the samples by round if rounds of a cell are merged, else null")
    ]


class Validation(TypedDict):
    """The comparison of the answer with the true one, in float64."""

    ok: bool
    error: Annotated[Number, Meta(description="largest relative error")]
    bound: float
    detail: str
    against: Annotated[str, Meta(description="the method that computed the true answer")]


class Accuracy(TypedDict):
    """The run to the first answer within the program's bound of the converged answer, for programs that converge."""

    superstep: Annotated[
        int | None,
        Meta(
            description="first superstep within the bound; null: the final answer is not within it, not searched, or "
            "the engine counts no supersteps"
        ),
    ]
    tolerance: Annotated[
        float | None,
        Meta(
            description="largest tolerance found whose answer is within the bound; null: the engine counts supersteps"
        ),
    ]
    error: Annotated[
        Number, Meta(description="largest error at that superstep in units of its bound; at the end of the run if null")
    ]
    error_before: Annotated[
        Number, Meta(description="the same error one superstep earlier, or at the next tolerance tried; NaN: none")
    ]
    bound: Annotated[float, Meta(description="the allowed error: 1")]
    against: Annotated[str, Meta(description="the method that computed the converged answer")]
    solve: Annotated[
        Solve | None, Meta(description="timed runs of exactly that many supersteps, or with that tolerance")
    ]


class Warm(TypedDict):
    """A graph change after a run, and a cold run on the changed graph. The record's own run is the warm run."""

    change: Annotated[float, Meta(description="share of the edges that changed")]
    kind: Annotated[str, Meta(description="kind of change: insert, delete, heavier, lighter, weights or mixed")]
    seed: Annotated[int, Meta(description="seed of the random changes")]
    start: Annotated[str, Meta(description="start of the warm run: warm, warm with some vertices reset, restarted")]
    restarted: Annotated[bool, Meta(description="no values were kept: the warm run is then a cold run")]
    vertices_reset: Annotated[int, Meta(description="vertices whose values were reset to the initial state")]
    edges_examined: Annotated[
        int, Meta(description="edges examined, outside the timed runs, to find the vertices to reset")
    ]
    cold: Annotated[Solve, Meta(description="the timed runs from the initial state on the changed graph")]
    cold_supersteps: Annotated[
        list[tuple[int, int, str]],
        Meta(description="active sources, edges visited and direction of each superstep of the cold run"),
    ]
    cold_validation: Annotated[
        Validation | None, Meta(description="validation of the cold run's answer; null: not validated")
    ]


class Loads(TypedDict):
    """Global loads of whole warps."""

    requests: Annotated[float, Meta(description="requests of warps")]
    sectors: Annotated[float, Meta(description="sectors of 32 bytes transferred, each counted once per request")]
    bytes: Annotated[float, Meta(description="bytes of these sectors that at least one lane requested")]


class Atomics(TypedDict):
    """Atomic operations of whole warps on global memory, reductions included; lanes at one address are serialized."""

    requests: Annotated[float, Meta(description="requests of warps")]
    sectors: Annotated[float, Meta(description="sectors of 32 bytes, counted once per serialized lane")]
    transactions: Annotated[float, Meta(description="lines of 128 bytes, counted once per serialized lane")]


class KernelMemory(TypedDict):
    """Global loads and atomic operations of a kernel."""

    load_efficiency: Annotated[
        float | None, Meta(description="bytes requested over bytes of the sectors transferred; null: no loads")
    ]
    loads: Loads
    atomics: Atomics


class Counted(KernelMemory):
    """Counts of one superstep in which every vertex is active: the sum over all kernels, and each kernel."""

    source: Annotated[str, Meta(description="method of counting")]
    share: Annotated[float, Meta(description="share of the blocks that were counted")]
    kernels: dict[str, KernelMemory]


class Memory(TypedDict):
    """Memory transactions on a GPU: modelled by running the kernels on the CPU, and counted by the hardware."""

    model: Counted | None
    counters: Counted | None
    reason: Annotated[str, Meta(description="why requested counts are missing; empty if none is")]


class Gpu(TypedDict, total=False):
    """The GPU of the cell, as described by its driver. Clocks in MHz, power in W."""

    name: str
    uuid: str
    memory: Annotated[int, Meta(description="bytes")]
    driver: str
    cuda: Annotated[str, Meta(description="newest CUDA version that the driver supports")]
    compute_capability: str
    clock: Annotated[int, Meta(description="clock of the multiprocessors, immediately after the timed runs")]
    most_clock: int
    memory_clock: int
    power_cap: float
    temperature: Annotated[int, Meta(description="degrees Celsius, immediately after the timed runs")]
    slowed_by: Annotated[list[str], Meta(description="reasons for reduced clocks during the timed runs")]
    others: Annotated[int, Meta(description="number of other processes that computed on it")]


class Environment(TypedDict, total=False):
    """The machine and the software."""

    host: str
    system: str
    cpu: str
    cores: int
    usable_cores: int
    threads: Annotated[int, Meta(description="threads assigned to the cell")]
    memory: Annotated[int, Meta(description="bytes")]
    governor: Annotated[str | None, Meta(description="frequency governor of the processor")]
    most_clock: Annotated[float | None, Meta(description="highest clock of the processor, MHz")]
    python: str
    harness: str
    packages: Annotated[dict[str, str], Meta(description="versions, including compilers")]
    commit: Annotated[
        str | None, Meta(description="commit of the checkout, with + if it was modified; null for a wheel")
    ]
    other_cores: Annotated[float | None, Meta(description="cores used by other processes during the timed runs")]
    peak_bytes: Annotated[int, Meta(description="peak resident bytes of the processes, without mapped files")]
    gpu_peak_bytes: Annotated[int | None, Meta(description="peak bytes of CuPy's pool; null: it was not used")]
    gpu: Gpu | None


class Resolution(TypedDict):
    """Options that the user had left to the engine, and that were changed because the engine refused the program."""

    requested: Annotated[dict[str, Any], Meta(description="the options that were changed, as they were by default")]
    resolved: Annotated[dict[str, Any], Meta(description="the same options, as they were in the run")]
    reason: Annotated[str, Meta(description="why the engine refused the requested schedule")]


class Record(TypedDict):
    """One run of one cell. Times are in seconds; fields that the run ended too early to know are null or empty.

    A file stores numbers that are not finite as the strings "Infinity", "-Infinity" and "NaN". A text has at most
    20,000 characters; a longer one is truncated and ends with the number of characters omitted.
    """

    schema: Annotated[int, Meta(description="version of this schema")]
    sweep: Annotated[str, Meta(description="id of the sweep, unchanged when it is resumed")]
    cell: Annotated[str, Meta(description="hash of the request, known before anything runs")]
    identity: Annotated[str | None, Meta(description="hash of what was run, including trace, graph content and inputs")]
    round: Annotated[int, Meta(ge=1, description="number of the interleaved round of the sweep")]
    outcome: Annotated[Outcome, Meta(description="outcome of the run")]
    reason: Annotated[str, Meta(description=f"why the outcome is not ok; at most {REASON_LIMIT:,} characters")]
    stage: Annotated[str, Meta(description="the last stage that the run entered")]
    started: Annotated[str, Meta(description="UTC, ISO 8601")]
    seconds: Annotated[float, Meta(description="wall-clock time of the whole process")]
    config: Annotated[dict[str, Any], Meta(description="the resolved configuration of the cell")]
    labels: Annotated[dict[str, str], Meta(description="engine, algorithm and graph as tables show them")]
    features: Annotated[int | None, Meta(description="k")]
    seeds: dict[str, int]
    sources: Annotated[str, Meta(description="hash of the source files of engine, algorithm, language and lowering")]
    graph: GraphFacts
    program: ProgramFacts
    schedule: Annotated[dict[str, Any], Meta(description=_SCHEDULE)]
    resolution: Annotated[Resolution | None, Meta(description="options that were changed; null: none were")]
    bytes_needed: Annotated[
        int | None, Meta(description="the engine's estimate of its memory in addition to the graph")
    ]
    host_bytes: Annotated[
        int | None,
        Meta(description="on a GPU: page-locked host memory, and that for panels of features; null: not known"),
    ]
    phases: Annotated[dict[str, float], Meta(description="open, trace, the engine's own, wait, warm_up, download, ...")]
    solve: Solve | None
    settled: Annotated[
        bool | None, Meta(description="false: stopped at the limit of supersteps; null: a fixed number of supersteps")
    ]
    supersteps: Annotated[
        list[tuple[int, int, str]],
        Meta(description="active sources, edges visited and direction of each superstep; empty if not counted"),
    ]
    choices: Annotated[
        list[tuple[int, str, float, str, float | None, float | None]],
        Meta(
            description="why each superstep pushed or pulled: edges of the sources that had moved; start, few, many, "
            "rebuild or confirm; the share of the edges from which it pulls; whether that was given, fitted or "
            "estimated; estimated seconds of a push and of a pull, null without estimates; empty: nothing was chosen"
        ),
    ]
    validation: Validation | None
    accuracy: Annotated[Accuracy | None, Meta(description="time to equal accuracy; null if it was not measured")]
    warm: Annotated[Warm | None, Meta(description="the graph change between two runs; null if there was none")]
    memory: Annotated[Memory | None, Meta(description="memory transactions; null if they were not requested")]
    floor: Annotated[
        Floor | None, Meta(description="lower bound of the time of a run; null: nothing that takes time is known")
    ]
    metrics: Annotated[
        dict[str, Number],
        Meta(description="the algorithm's metrics of its answer; empty if they need a settled run and it was not"),
    ]
    metrics_by_superstep: Annotated[
        dict[str, list[Number]],
        Meta(description="the metrics after each superstep; empty for algorithms that do not request them"),
    ]
    lost_updates: Annotated[
        float | None,
        Meta(description="largest share of lost updates of a superstep; null: all steps had an order of edges"),
    ]
    transfers: Annotated[
        Transfers | None, Meta(description="edges read from outside of the device's memory; null: not counted")
    ]
    link: Annotated[
        Link | None, Meta(description="the link to edges outside of the device's memory; null: none, or not measured")
    ]
    marks: Annotated[list[Mark], Meta(description="why the times may differ from those of an idle machine")]
    artefacts: Annotated[list[str], Meta(description="names of the files in the record's folder")]
    environment: Environment
    output: Annotated[str, Meta(description="the last lines that the process printed, if it failed")]
    digest: Annotated[
        str | None, Meta(description="hash of all other fields, by the program that wrote them; null: it wrote none")
    ]


def validate(data: Mapping[str, Any]) -> Record:
    """Return ``data`` as a record. Raises RecordError for another version, missing or extra fields, and wrong types."""
    if data.get("schema") != SCHEMA_VERSION:
        raise RecordError(f"field 'schema' is {data.get('schema')!r}; this version writes {SCHEMA_VERSION}")
    _same_names("a record", Record, data)
    try:
        msgspec.convert(data, Record)
    except msgspec.ValidationError as error:
        raise RecordError(f"this is not a record: {error}") from error
    for name, described in (
        ("solve", Solve),
        ("validation", Validation),
        ("accuracy", Accuracy),
        ("resolution", Resolution),
        ("warm", Warm),
        ("memory", Memory),
        ("floor", Floor),
        ("transfers", Transfers),
        ("link", Link),
    ):
        if data[name] is not None:
            _same_names(f"field {name!r}", described, data[name])
    if data["outcome"] == Outcome.OK and not (data["solve"] and data["identity"]):
        raise RecordError("an outcome of 'ok' needs an identity and a solve time; this record lacks one of them")
    return cast("Record", dict(data))


def json_schema() -> dict[str, Any]:
    """Return the schema of a record in JSON Schema 2020-12, as published in ``docs/record-schema.json``."""
    made = msgspec.json.schema(Record)
    for definition in made["$defs"].values():
        if "description" in definition:  # a docstring, whose indentation Python keeps until 3.12
            definition["description"] = inspect.cleandoc(definition["description"])
    record = made["$defs"]["Record"]
    record["properties"]["schema"] |= {"const": SCHEMA_VERSION}
    parts = ("Solve", "Validation", "Accuracy", "Resolution", "Warm", "Memory", "Floor", "Transfers", "Link")
    for name in ("Record", *parts):
        made["$defs"][name]["additionalProperties"] = False
    for described in (
        record["properties"]["metrics"]["additionalProperties"],
        record["properties"]["metrics_by_superstep"]["additionalProperties"]["items"],
        made["$defs"]["Validation"]["properties"]["error"],
        made["$defs"]["Accuracy"]["properties"]["error"],
        made["$defs"]["Accuracy"]["properties"]["error_before"],
    ):
        described.pop("type", None)
        described |= _NUMBER
    title = f"Record of the Onyx harness, version {SCHEMA_VERSION}"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **made}


def _same_names(where: str, described: type, met: Mapping[str, Any]) -> None:
    known = set(described.__annotations__)
    missing, extra = sorted(known - set(met)), sorted(set(met) - known)
    if missing or extra:
        raise RecordError(f"{where} lacks {missing or 'nothing'} and has the unknown {extra or 'nothing'}")
