"""The clocks of the harness, bound before any plugin is imported.

A plugin that replaces ``time.perf_counter`` does not change these. :mod:`harness.contract` imports this module, so it
is loaded before the first plugin.
"""

from __future__ import annotations

from time import monotonic, perf_counter

__all__ = ["monotonic", "perf_counter"]
