"""The published form of a record: plain JSON, one object a run, with a version of its own.

The types below are the schema. ``docs/record-schema.json`` is generated from them, and every record is held against
them when it is written and when it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypedDict, cast

import msgspec
from msgspec import Meta

from harness.records.mark import Mark
from harness.records.outcome import Outcome
from harness.records.text import REASON_LIMIT

# Raised whenever a field is added, taken away or changes its meaning; `harness.records.versions` then learns the step.
SCHEMA_VERSION = 7


# A number that need not be finite. In a file such a one is a string, as in the JSON form of protocol buffers: JSON has
# no numbers for them, and null would be no distance where infinity is one.
Number = Annotated[float, Meta(title="number, or one that is not finite")]
_NUMBER = {"anyOf": [{"type": "number"}, {"enum": ["Infinity", "-Infinity", "NaN"]}]}
NUMBER_FIELDS = ("metrics", "validation", "accuracy")


_SCHEDULE = (
    "every schedule option that has a meaning in the run, with the value that the engine resolved, a list where parts "
    "of the run differ; config.schedule has what was requested; the same as requested if the engine was not prepared"
)


class RecordError(ValueError):
    """Something is not a record of this schema; the message names the field and what was found in it."""


class NewerRecord(RecordError):
    """A record of a version of the schema that is still to come."""


class GraphFacts(TypedDict, total=False):
    """The graph that the algorithm ran on; empty when the run did not get so far."""

    name: str
    vertices: int
    edges: Annotated[int, Meta(description="stored arcs")]
    content_hash: Annotated[str, Meta(description="hash of structure, weights, labels and data; not of the name")]


class ProgramFacts(TypedDict, total=False):
    """The traced program; empty when the run did not get so far."""

    fingerprint: Annotated[str, Meta(description="hash of the serialised trace")]
    bound: Annotated[float, Meta(description="relative error that the program allows")]
    max_supersteps: int


class Solve(TypedDict):
    """The timed runs: from the same start each, warm-up and download outside. Times in seconds."""

    samples: Annotated[list[float], Meta(min_length=1, description="every run, in order")]
    median: float
    low: Annotated[float, Meta(description="lower end of the interval of the median")]
    high: Annotated[float, Meta(description="upper end of the interval of the median")]
    minimum: float
    confidence: Annotated[float, Meta(description="probability that the interval holds the true median")]
    stopped: Annotated[
        Literal["precise", "budget", "count"],
        Meta(description="why there are no more samples: interval narrow enough, time spent, or the most that is made"),
    ]
    rounds: Annotated[
        list[list[float]] | None, Meta(description="the samples by round where those of a cell are merged, else null")
    ]


class Validation(TypedDict):
    """The answer held against the true one, in float64."""

    ok: bool
    error: Annotated[Number, Meta(description="largest relative error")]
    bound: float
    detail: str
    against: Annotated[str, Meta(description="the method that gave the true answer")]


class Accuracy(TypedDict):
    """The run to the first answer within the program's bound of the converged answer, for programs that converge."""

    superstep: Annotated[
        int | None,
        Meta(
            description="the first whose answer is within the bound; null: that of the own stop is not, or not sought"
        ),
    ]
    error: Annotated[
        Number, Meta(description="largest error there in units of its bound, or at the own stop where it is null")
    ]
    error_before: Annotated[Number, Meta(description="the same one superstep earlier; NaN: there is none")]
    bound: Annotated[float, Meta(description="the error that is allowed: 1")]
    against: Annotated[str, Meta(description="the method that gave the converged answer")]
    solve: Annotated[Solve | None, Meta(description="timed runs of exactly that many supersteps from the start")]


class Warm(TypedDict):
    """The graph changed after a run: how, and what a cold run on it took then. The record's own run is the warm one."""

    change: Annotated[float, Meta(description="share of the edges that changed")]
    kind: Annotated[str, Meta(description="what happened to them: insert, delete, heavier, lighter, weights or mixed")]
    seed: Annotated[int, Meta(description="of the draw of the changes")]
    told: Annotated[str, Meta(description="how the warm run started: warm, warm with some vertices reset, restarted")]
    restarted: Annotated[bool, Meta(description="whether nothing was kept: the warm run is then a cold one")]
    vertices_reset: Annotated[int, Meta(description="vertices whose value went back to the start")]
    arcs_examined: Annotated[int, Meta(description="arcs looked at beforehand, to tell which vertices to reset")]
    cold: Annotated[Solve, Meta(description="the timed runs from the start on the changed graph")]
    cold_supersteps: Annotated[
        list[tuple[int, int, str]],
        Meta(description="active sources, edges visited and direction of each superstep of the cold run"),
    ]
    cold_validation: Annotated[Validation | None, Meta(description="the answer of the cold run; null: not validated")]


class Loads(TypedDict):
    """Global loads of whole warps."""

    requests: Annotated[float, Meta(description="of warps")]
    sectors: Annotated[float, Meta(description="of 32 bytes that they move, each once a request")]
    bytes: Annotated[float, Meta(description="of these that some lane asked for")]


class Atomics(TypedDict):
    """Atomic operations of whole warps on global memory, reductions among them; lanes at one address take turns."""

    requests: Annotated[float, Meta(description="of warps")]
    sectors: Annotated[float, Meta(description="of 32 bytes, again for every turn")]
    transactions: Annotated[float, Meta(description="lines of 128 bytes, again for every turn")]


class KernelMemory(TypedDict):
    """Global loads and atomic operations of a kernel."""

    load_efficiency: Annotated[
        float | None, Meta(description="bytes asked for over bytes of the sectors moved; null: it loads nothing")
    ]
    loads: Loads
    atomics: Atomics


class Counted(KernelMemory):
    """All kernels of one superstep in which every vertex is active, and each for itself."""

    source: Annotated[str, Meta(description="what counted them")]
    share: Annotated[float, Meta(description="of the work, what was looked at")]
    kernels: dict[str, KernelMemory]


class Memory(TypedDict):
    """Memory transactions on a GPU: as modelled from how the schedule maps lanes to addresses, and as counted."""

    model: Counted | None
    counters: Counted | None
    told: Annotated[str, Meta(description="why there is none of what was asked for; empty where there is all")]


class Gpu(TypedDict, total=False):
    """The GPU of the cell, as its driver describes it. Clocks in MHz, power in W."""

    name: str
    uuid: str
    memory: Annotated[int, Meta(description="bytes")]
    driver: str
    cuda: Annotated[str, Meta(description="newest CUDA version that the driver supports")]
    compute_capability: str
    clock: Annotated[int, Meta(description="of the multiprocessors, right after the timed runs")]
    most_clock: int
    memory_clock: int
    power_cap: float
    temperature: Annotated[int, Meta(description="degrees Celsius, right after the timed runs")]
    slowed_by: Annotated[list[str], Meta(description="reasons for lower clocks met during the timed runs")]
    others: Annotated[int, Meta(description="other processes that computed on it")]


class Environment(TypedDict, total=False):
    """The machine and the software."""

    host: str
    system: str
    cpu: str
    cores: int
    usable_cores: int
    threads: Annotated[int, Meta(description="that the cell was given")]
    memory: Annotated[int, Meta(description="bytes")]
    governor: Annotated[str | None, Meta(description="frequency governor of the processor")]
    most_clock: Annotated[float | None, Meta(description="highest clock of the processor, MHz")]
    python: str
    harness: str
    packages: Annotated[dict[str, str], Meta(description="versions, compilers among them")]
    commit: Annotated[str | None, Meta(description="of the checkout, with + where it was changed; null for a wheel")]
    other_cores: Annotated[float | None, Meta(description="cores that others kept busy during the timed runs")]
    peak_bytes: Annotated[int, Meta(description="most resident bytes seen in the cell's processes")]
    gpu_peak_bytes: Annotated[int | None, Meta(description="most bytes that CuPy's pool held; null: it was not used")]
    gpu: Gpu | None


class Resolution(TypedDict):
    """Options that the user had left to the engine, and that were changed because the engine refused the program."""

    requested: Annotated[dict[str, Any], Meta(description="the options that were changed, as they were by default")]
    resolved: Annotated[dict[str, Any], Meta(description="the same options, as they were in the run")]
    reason: Annotated[str, Meta(description="why the engine refused the requested schedule")]


class Record(TypedDict):
    """One run of one cell. Times are in seconds; what the run did not get far enough to know is null or empty.

    Numbers that are not finite are the strings "Infinity", "-Infinity" and "NaN" in a file. A text is at most 20,000
    characters long; a longer one ends in how many characters were left out.
    """

    schema: Annotated[int, Meta(description="version of this schema")]
    sweep: Annotated[str, Meta(description="id of the sweep, the same when it is resumed")]
    cell: Annotated[str, Meta(description="hash of what was asked for, known before anything runs")]
    identity: Annotated[str | None, Meta(description="hash of what was run: also trace, graph content and inputs")]
    round: Annotated[int, Meta(ge=1, description="which of the interleaved rounds of the sweep")]
    outcome: Annotated[Outcome, Meta(description="how the run ended")]
    reason: Annotated[str, Meta(description=f"why the outcome is not ok; at most {REASON_LIMIT:,} characters")]
    stage: Annotated[str, Meta(description="the last stage entered")]
    started: Annotated[str, Meta(description="UTC, ISO 8601")]
    seconds: Annotated[float, Meta(description="wall-clock of the whole process")]
    config: Annotated[dict[str, Any], Meta(description="the cell as it was resolved")]
    labels: Annotated[dict[str, str], Meta(description="engine, algorithm and graph as a table shows them")]
    features: Annotated[int | None, Meta(description="k")]
    seeds: dict[str, int]
    sources: Annotated[str, Meta(description="hash of the source files of engine, algorithm, language and lowering")]
    graph: GraphFacts
    program: ProgramFacts
    schedule: Annotated[dict[str, Any], Meta(description=_SCHEDULE)]
    resolution: Annotated[Resolution | None, Meta(description="options that were changed; null: none were")]
    bytes_needed: Annotated[int | None, Meta(description="what the engine said it would hold beside the graph")]
    phases: Annotated[dict[str, float], Meta(description="open, trace, the engine's own, wait, warm_up, download, ...")]
    solve: Solve | None
    settled: Annotated[bool | None, Meta(description="false: stopped at its limit; null: a fixed number of supersteps")]
    supersteps: Annotated[
        list[tuple[int, int, str]], Meta(description="active sources, edges visited and direction of each superstep")
    ]
    validation: Validation | None
    accuracy: Annotated[Accuracy | None, Meta(description="time to equal accuracy; null where it was not measured")]
    warm: Annotated[Warm | None, Meta(description="where the graph was changed between two runs, else null")]
    memory: Annotated[Memory | None, Meta(description="memory transactions, where they were asked for, else null")]
    metrics: Annotated[
        dict[str, Number],
        Meta(description="what the algorithm rates its answer by; empty where that takes a settled run and it was not"),
    ]
    marks: Annotated[list[Mark], Meta(description="why the times may not be what a quiet machine would show")]
    artefacts: Annotated[list[str], Meta(description="names of the files beside the record")]
    environment: Environment
    output: Annotated[str, Meta(description="the last lines that the process printed, when it failed")]


def validate(data: Mapping[str, Any]) -> Record:
    """``data`` as a record; RecordError when it is not one of this version, complete and of the right types."""
    if data.get("schema") != SCHEMA_VERSION:
        raise RecordError(f"field 'schema' is {data.get('schema')!r}; this version writes {SCHEMA_VERSION}")
    _same_names("a record", Record, data)
    try:
        msgspec.convert(data, Record)
    except msgspec.ValidationError as error:
        raise RecordError(f"this is no record: {error}") from error
    for name, described in (
        ("solve", Solve),
        ("validation", Validation),
        ("accuracy", Accuracy),
        ("resolution", Resolution),
        ("warm", Warm),
        ("memory", Memory),
    ):
        if data[name] is not None:
            _same_names(f"field {name!r}", described, data[name])
    if data["outcome"] == Outcome.OK and not (data["solve"] and data["identity"]):
        raise RecordError("an outcome of 'ok' needs an identity and a solve time, and this record lacks them")
    return cast("Record", dict(data))


def json_schema() -> dict[str, Any]:
    """The schema of a record in JSON Schema 2020-12, as it is published in ``docs/record-schema.json``."""
    made = msgspec.json.schema(Record)
    record = made["$defs"]["Record"]
    record["properties"]["schema"] |= {"const": SCHEMA_VERSION}
    for name in ("Record", "Solve", "Validation", "Accuracy", "Resolution", "Warm", "Memory"):
        made["$defs"][name]["additionalProperties"] = False
    for described in (
        record["properties"]["metrics"]["additionalProperties"],
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
