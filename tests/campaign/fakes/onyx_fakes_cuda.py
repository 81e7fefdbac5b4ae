from __future__ import annotations

from engines.onyx.cuda_engine import OnyxCudaEngine


class Uncompiled(OnyxCudaEngine):
    """A sum of its kernels has a factor that is declared nowhere."""

    def lower(self, program, graph, features):
        source = super().lower(program, graph, features)
        self.source = source.replace("_total[f] += ", "_total[f] += undeclared * ", 1)
        return self.source
