"""Fields of a record for edges outside of the device's memory: the bytes that a run moved, and the link they cross."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import Meta


class Transfers(TypedDict):
    """The reads of edges outside of the memory of the device, in the last timed run."""

    visited_bytes: Annotated[int, Meta(description="bytes of the edges that kernels read, counted each time")]
    moved_bytes: Annotated[
        dict[str, int],
        Meta(
            description="bytes moved, by the means: zero_copy, read (from a file), copied, extracted, pages (of "
            "managed memory, in another run); empty: not counted"
        ),
    ]
    amplification: Annotated[
        float | None,
        Meta(description="all bytes moved over the bytes visited; null: no edge was visited, or no bytes were counted"),
    ]
    requests: Annotated[
        dict[str, int],
        Meta(description="requests over the host link by their bytes, modelled from the rows of active vertices"),
    ]
    subgraphs: Annotated[
        dict[str, int], Meta(description="how often parts of the graph were processed, by the kind of processing")
    ]
    seconds: Annotated[
        dict[str, float], Meta(description="seconds of parts of the run that were timed within it, by their names")
    ]
    data: Annotated[
        dict[str, list[int]],
        Meta(description="bytes of edges in each superstep, by the kind of use; empty: not counted"),
    ]


class Link(TypedDict):
    """The link that edges outside of the device's memory cross, measured in the process of the cell after its runs."""

    copy: Annotated[
        float | None, Meta(description="bytes a second of copies of 32 MB from page-locked memory to the GPU")
    ]
    in_place: Annotated[
        dict[str, float],
        Meta(description="bytes a second that the GPU reads in place from the host, by the bytes of a request"),
    ]
    read: Annotated[
        float | None, Meta(description="bytes a second at which the CPU reads the file of the neighbours in order")
    ]
    run_bytes: Annotated[
        int | None,
        Meta(
            description="bytes over the host link during one more run, in the direction with more of them, counted by "
            "the GPU (NVML fields 197 and 198); null: it does not count them"
        ),
    ]
