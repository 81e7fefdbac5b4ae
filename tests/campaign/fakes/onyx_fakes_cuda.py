from __future__ import annotations

from dataclasses import replace

from engines.onyx.cuda_engine import OnyxCudaEngine


class Uncompiled(OnyxCudaEngine):
    """A sum in its kernels has an undeclared factor."""

    def plan(self, *arguments):
        plan = super().plan(*arguments)
        return replace(plan, source=plan.source.replace("_total[f] += ", "_total[f] += undeclared * ", 1))
