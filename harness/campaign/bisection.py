"""``onyx-harness bisect``: find the commit that made cells slower, by timing commits in turns."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.campaign.errors import CampaignError
from harness.records.regressions import THRESHOLD, Change, changes, read_turns
from harness.records.schema import RecordError

TURNS = 7  # of every comparison: six are needed for a verdict, and one may be disturbed
_OPTIONS = ("good", "bad", "threshold", "turns")
Say = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """A bisection: two commits, the least slowdown that counts, turns per comparison, and the cells' overrides."""

    good: str
    bad: str
    threshold: float
    turns: int
    overrides: tuple[str, ...]

    @classmethod
    def of(cls, arguments: Sequence[str]) -> Request:
        """Read the arguments of the command. Raises CampaignError."""
        given = dict(argument.split("=", 1) for argument in arguments if argument.partition("=")[0] in _OPTIONS)
        missing = [name for name in ("good", "bad") if not given.get(name)]
        if missing:
            raise CampaignError(f"bisect needs {missing[0]}=COMMIT; onyx-harness bisect --help shows an example")
        try:
            threshold, turns = float(given.get("threshold", THRESHOLD)), int(given.get("turns", TURNS))
        except ValueError as error:
            raise CampaignError(f"threshold and turns are numbers: {error}") from error
        if threshold < 0 or turns < 1:
            raise CampaignError(f"threshold={threshold:g} turns={turns}: give a threshold >= 0 and at least one turn")
        overrides = tuple(one for one in arguments if one.partition("=")[0] not in _OPTIONS)
        return cls(given["good"], given["bad"], threshold, turns, overrides)


@dataclass
class Commits:
    """The commits of a bisection, each checked out in a folder of its own while it is needed."""

    repository: Path
    folder: Path
    request: Request
    places: dict[str, Path] = field(default_factory=dict)
    comparisons: int = 0

    def between(self) -> list[str]:
        """Return the commits from good to bad, both included, along first parents. Raises CampaignError."""
        good, bad = (self._git("rev-parse", "--verify", f"{one}^{{commit}}") for one in self._ends())
        after = self._git("rev-list", "--first-parent", "--reverse", f"{good}..{bad}").split()
        if not after or self._git("merge-base", good, bad) != good:
            raise CampaignError(f"{self.request.good} is not an earlier commit of {self.request.bad}")
        return [good, *after]

    def title(self, commit: str) -> str:
        """Return the short hash and the subject of a commit."""
        return self._git("log", "-1", "--format=%h %s", commit)

    def slower(self, good: str, commit: str) -> list[Change] | str:
        """Time two commits in turns; return the changes that are slower, or why there is no verdict."""
        self.comparisons += 1
        place = self.folder / f"comparison-{self.comparisons}"
        turns: dict[str, list[Path]] = {good: [], commit: []}
        for turn in range(self.request.turns):
            for one in (good, commit):
                failure = self._measure(one, place / f"{one[:12]}-{turn}")
                if failure:
                    return failure
                turns[one].append(place / f"{one[:12]}-{turn}")
        try:
            (before, _), (after, _) = read_turns(turns[good]), read_turns(turns[commit])
        except RecordError as error:
            return str(error)
        found = changes(before, after, self.request.threshold)
        slower = [change for change in found if change.verdict == "slower"]
        doubts = [change.doubt for change in found if change.verdict == "cannot tell"]
        if not found or (doubts and not slower):
            return doubts[0] if doubts else "the two commits have no cell in common"
        return slower

    def _ends(self) -> tuple[str, str]:
        return self.request.good, self.request.bad

    def _measure(self, commit: str, output: Path) -> str:
        """Run the cells at a commit into ``output``; return why that failed, or an empty text."""
        checkout = self._checkout(commit)
        done = subprocess.run(
            [sys.executable, "-m", "harness", *self.request.overrides, f"output={output}", "rerun=all"],
            cwd=checkout, env={**os.environ, "PYTHONPATH": str(checkout)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        last = (done.stderr or done.stdout).strip().rpartition("\n")[2]
        return "" if done.returncode == 0 else f"the command failed with status {done.returncode}: {last}"

    def _checkout(self, commit: str) -> Path:
        if commit not in self.places:
            place = self.folder / commit[:12]
            self._git("worktree", "add", "--detach", "--quiet", str(place), commit)
            self.places[commit] = place
        return self.places[commit]

    def release(self) -> None:
        """Remove all checkouts."""
        for place in self.places.values():
            self._git("worktree", "remove", "--force", str(place))
        self.places.clear()

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.repository, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CampaignError(f"git {arguments[0]} failed: {done.stderr.strip() or 'no message'}")
        return done.stdout.strip()


def bisect(request: Request, repository: Path, say: Say) -> str | None:
    """Return the first commit after ``good`` at which a cell is slower than at ``good``; None if ``bad`` is not slower.

    Every comparison times ``good`` and another commit in turns (:mod:`harness.records.regressions`). A commit that
    cannot be measured is left out. ``say`` receives a line for each comparison.

    Raises CampaignError if there is no verdict on ``bad``, or none on every commit that could be the first one.
    """
    with _commits(repository, request) as commits:
        pending = commits.between()
        good = pending[0]
        if not _is_slower(commits, good, pending[-1], say, decisive=True):
            return None
        low, high, unknown = 0, len(pending) - 1, set[int]()
        while candidates := [place for place in range(low + 1, high) if place not in unknown]:
            middle = candidates[len(candidates) // 2]
            slower = _is_slower(commits, good, pending[middle], say)
            if slower is None:
                unknown.add(middle)
            elif slower:
                high = middle
            else:
                low = middle
        if high - low > 1:
            titles = ", ".join(commits.title(pending[place]) for place in range(low + 1, high + 1))
            raise CampaignError(f"there is no verdict on some commits; the first slower one is among: {titles}")
        return pending[high]


def _is_slower(commits: Commits, good: str, commit: str, say: Say, *, decisive: bool = False) -> bool | None:
    """Return whether a cell is slower at a commit; None without a verdict, if that is not ``decisive``."""
    found = commits.slower(good, commit)
    if isinstance(found, str):
        say(f"{commits.title(commit)}: cannot tell ({found})")
        if decisive:
            raise CampaignError(f"there is no verdict on bad={commits.request.bad}: {found}")
        return None
    shown = [f"{one.ratio.median:.3g}x {one.name}" for one in found if one.ratio is not None]
    say(f"{commits.title(commit)}: {'slower, ' + ', '.join(shown) if shown else 'not slower'}")
    return bool(found)


@contextmanager
def _commits(repository: Path, request: Request) -> Iterator[Commits]:
    with tempfile.TemporaryDirectory(prefix="bisect-") as folder:
        commits = Commits(repository, Path(folder), request)
        try:
            yield commits
        finally:
            commits.release()
