"""The schedules under which the tests run Onyx on CUDA devices."""

from __future__ import annotations

ALL = {"change_driven": False}
PUSH = {**ALL, "direction": "push"}
SCHEDULES = {
    "pull": ALL,
    "pull-single-features": {**ALL, "vector_width": 1, "pipeline": False},
    "pull-unfolded": {**ALL, "fold": False, "block_size": 128},
    "pull-loops": {**ALL, "feature_aware": False},
    "push": PUSH,
    "push-single-features": {**PUSH, "vector_width": 1, "pipeline": False},
    "push-edges": {**PUSH, "balance": "edge"},
    "push-edges-unfolded": {**PUSH, "balance": "edge", "fold": False, "vector_width": 2},
    "push-loops": {**PUSH, "feature_aware": False},
    "push-loops-edges": {**PUSH, "feature_aware": False, "balance": "edge", "block_size": 64},
}
