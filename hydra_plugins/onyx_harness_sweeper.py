"""The sweeper of `onyx-harness`: Hydra looks for plugins in this namespace package and nowhere else."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser


class OnyxSweeper(BasicSweeper):
    """The basic sweeper's products, checked before the first job, run where there is no record yet, shown at the end.

    ``params`` are defaults that the command line replaces; ``linked`` are settings that belong to one value of a swept
    key, such as a limit for one of the default graphs. Any launcher may run the jobs.
    """

    def __init__(
        self,
        max_batch_size: int | None = None,
        params: dict[str, str] | None = None,
        linked: Sequence[Mapping[str, Mapping[str, Any]]] | None = None,
    ) -> None:
        super().__init__(max_batch_size, params)
        self.linked = linked or []

    def sweep(self, arguments: list[str]) -> None:
        """Run the sweep that the command line asks for; SystemExit when not every cell ended well."""
        from harness.campaign.composition import Compositions
        from harness.campaign.continuation import continued
        from harness.campaign.plan import linked_overrides, plan_sweep, with_defaults
        from harness.campaign.sweep import run_plan

        assert self.config is not None
        assert self.hydra_context is not None
        assert self.launcher is not None
        loader = self.hydra_context.config_loader
        assert isinstance(loader, ConfigLoaderImpl)
        parser = OverridesParser.create(config_loader=loader)
        given, defaults = parser.parse_overrides(arguments), parser.parse_overrides(self._parse_config())
        asked = continued(given, self.config.output)
        if asked is None:
            overrides, links = with_defaults(given, defaults, self.linked)
            [jobs] = self.split_arguments(overrides, None)
            asked = [linked_overrides(job, links) for job in jobs]
        compositions = Compositions(loader, self.config)
        plan = plan_sweep((job, compositions(job)) for job in asked)
        with contextlib.suppress(OSError):  # they spare time; whoever needs the cache says that it cannot be written
            compositions.keep()
        run_plan(plan, self.launcher, self.max_batch_size)
