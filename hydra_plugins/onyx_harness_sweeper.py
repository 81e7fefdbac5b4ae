"""The sweeper of `onyx-harness`: Hydra looks for plugins in this namespace package and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository
from hydra._internal.core_plugins.basic_launcher import BasicLauncher
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.types import RunMode


class OnyxSweeper(BasicSweeper):
    """Expands a command into its cells, checks all of them, runs those without a record, and shows the results.

    ``params`` are defaults that the command line replaces; ``linked`` are settings for certain values of swept
    keys, such as a limit for one of the default graphs. Any launcher may run the jobs.
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
        """Run the sweep of a command line. Raises SystemExit if a cell failed."""
        from harness.campaign.config_cache import Compositions
        from harness.campaign.expansion import repository_of
        from harness.campaign.plan import plan_sweep
        from harness.campaign.resume import continued
        from harness.campaign.sweep import run_plan

        assert self.config is not None
        assert self.hydra_context is not None
        assert self.launcher is not None
        loader = self.hydra_context.config_loader
        assert isinstance(loader, ConfigLoaderImpl)
        given = OverridesParser.create(config_loader=loader).parse_overrides(arguments)
        files = repository_of(loader, self.config)
        known = continued(given, self.config.output)
        jobs = known or list(self._jobs(loader, files, given))
        compositions = Compositions(loader, self.config, files)
        plan = plan_sweep(((job, compositions(job)) for job in jobs), [] if known else arguments)
        run_plan(plan, None if self._runs_here() else self.launcher, self.max_batch_size)

    def _runs_here(self) -> bool:
        """Return whether the jobs run sequentially in this process, without further work of Hydra."""
        config: Any = self.config
        job, callbacks = config.hydra.job, config.hydra.callbacks
        return isinstance(self.launcher, BasicLauncher) and not (job.env_set or job.env_copy or callbacks or job.chdir)

    def _jobs(
        self, loader: ConfigLoaderImpl, files: CachingConfigRepository, given: list[Override]
    ) -> Iterator[list[str]]:
        """Yield the overrides of every job, each swept preset with its own sweep parameters."""
        from harness.campaign.expansion import (
            linked_overrides,
            parameters,
            set_in_files,
            swept_presets,
            variants,
            with_defaults,
        )

        config: Any = self.config
        parser = OverridesParser.create(config_loader=loader)
        name, own = config.hydra.job.config_name, list(config.hydra.overrides.hydra)
        presets = swept_presets(given, files, parameters(config)[0])
        for lines in variants(given, presets):
            master = loader.load_configuration(name, [*own, *lines], RunMode.MULTIRUN) if presets else config
            params, linked = parameters(master)
            defaults = parser.parse_overrides([f"{key}={value}" for key, value in params.items()])
            swept = [one for one in given if one.is_sweep_override() and one not in presets]
            requested = [*parser.parse_overrides(lines), *swept]
            overrides, links = with_defaults(
                requested, defaults, linked, set_in_files(loader, files, name, [*own, *lines])
            )
            [jobs] = self.split_arguments(overrides, None)
            for job in jobs:
                yield linked_overrides(job, links)
