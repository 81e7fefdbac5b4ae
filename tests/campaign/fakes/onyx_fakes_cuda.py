from __future__ import annotations

from dataclasses import replace

from engines.onyx.cuda_engine import OnyxCudaEngine


class Uncompiled(OnyxCudaEngine):
    """A sum of its kernels has a factor that is declared nowhere."""

    def plan(self, *arguments):
        plan = super().plan(*arguments)
        return replace(plan, source=plan.source.replace("_total[f] += ", "_total[f] += undeclared * ", 1))
