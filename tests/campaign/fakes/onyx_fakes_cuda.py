from __future__ import annotations

from dataclasses import replace

from engines.onyx.cuda_engine import OnyxCudaEngine


class Uncompiled(OnyxCudaEngine):
    """A sum of its kernels has a factor that is declared nowhere."""

    def plan(self, program, facts, features):
        plan = super().plan(program, facts, features)
        return replace(plan, source=plan.source.replace("_total[f] += ", "_total[f] += undeclared * ", 1))
