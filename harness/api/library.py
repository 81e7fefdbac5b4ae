"""The parts that engines calling a library's functions are made of: recognition of well-known problems, refusal of
programs without a form over whole arrays, numbers of vertices, the start of a run, and the order of edges."""

from __future__ import annotations

from harness.algorithms.recognition import Recognised, recognised
from harness.algorithms.recognition_of_sgd import RecognisedSGD, recognised_sgd
from harness.language.analysis import bulk_refusal, compose
from harness.language.evaluation import concrete
from harness.language.initial_state import Start
from harness.language.monotone import OneWay, one_way
from harness.language.named_vertices import too_many_vertices
from harness.language.program import VertexReduce, VertexStep, names_vertices
from harness.lowering.edge_order import places

__all__ = [
    "OneWay",
    "Recognised",
    "RecognisedSGD",
    "Start",
    "VertexReduce",
    "VertexStep",
    "bulk_refusal",
    "compose",
    "concrete",
    "names_vertices",
    "one_way",
    "places",
    "recognised",
    "recognised_sgd",
    "too_many_vertices",
]  # fmt: skip
