"""``onyx-harness bisect`` on a repository whose commits write records with known times."""

from __future__ import annotations

import json
import subprocess

import pytest

from harness.campaign import application, bisection
from harness.campaign.bisection import Commits, Request
from harness.campaign.errors import CampaignError
from harness.records.regressions import Change
from harness.records.statistics import Interval
from tests.records.samples import record

# Stands for the harness: it writes one record, with a time that the commit's file ``speed`` has.
STUB = """
import datetime, json, pathlib, sys
given = dict(argument.split("=", 1) for argument in sys.argv[1:])
speed = pathlib.Path(__file__).with_name("speed").read_text()
if speed == "broken":
    sys.exit("it does not start")
made = json.loads(pathlib.Path(__file__).with_name("record.json").read_text())
made["started"] = datetime.datetime.now(datetime.UTC).isoformat()
made["solve"]["samples"] = [float(speed) * sample for sample in made["solve"]["samples"]]
made["labels"]["engine"] = given["engine"]
place = pathlib.Path(given["output"]) / made["sweep"] / made["cell"]
place.mkdir(parents=True)
(place / "record.json").write_text(json.dumps(made))
"""
SPEEDS = ["1.0", "1.01", "broken", "1.0", "2.0", "1.9", "2.0", "broken", "4.0"]


@pytest.fixture(scope="module")
def commits(tmp_path_factory):
    """Return a repository and its commits; the fifth is the first slow one, and the third does not start."""
    folder = tmp_path_factory.mktemp("repository")

    def git(*arguments):
        made = ["git", "-c", "user.name=a", "-c", "user.email=b", "-c", "commit.gpgsign=false", *arguments]
        return subprocess.run(made, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet")
    (folder / "harness").mkdir()
    (folder / "harness" / "__init__.py").touch()
    (folder / "harness" / "__main__.py").write_text(STUB)
    (folder / "harness" / "record.json").write_text(json.dumps(record("fast")))
    found = []
    for number, speed in enumerate(SPEEDS):
        (folder / "harness" / "speed").write_text(speed)
        (folder / "number").write_text(str(number))
        git("add", ".")
        git("commit", "--quiet", "-m", f"commit {number}")
        found.append(git("rev-parse", "HEAD"))
    return folder, found


def bisected(commits, monkeypatch, capsys, good, bad, *options):
    folder, found = commits
    monkeypatch.chdir(folder)
    status = application.main(["bisect", f"good={found[good]}", f"bad={found[bad]}", "engine=mine", *options])
    printed = capsys.readouterr()
    listed = subprocess.run(["git", "worktree", "list"], cwd=folder, check=True, capture_output=True, text=True).stdout
    assert len(listed.splitlines()) == 1, "a checkout was left behind"
    return status, printed.out, printed.err


def test_the_first_slower_commit_is_found_around_one_that_does_not_start(commits, monkeypatch, capsys):
    status, out, _ = bisected(commits, monkeypatch, capsys, 0, 6)
    assert status == 1
    assert out.splitlines()[-1] == f"first slower commit: {commits[1][4]}"
    assert "commit 6: slower, 2x solve[flood-ring-k=8-mine]" in out
    assert "commit 3: not slower" in out


def test_commits_without_a_verdict_are_named(commits, monkeypatch, capsys):
    status, out, err = bisected(commits, monkeypatch, capsys, 6, 8)
    assert status == 2
    assert "commit 7: cannot tell (the command failed with status 1: it does not start)" in out
    assert "the first slower one is among: " in err
    assert "commit 7" in err
    assert "commit 8" in err


def test_a_last_commit_without_a_verdict_ends_the_search(commits, monkeypatch, capsys):
    status, _, err = bisected(commits, monkeypatch, capsys, 1, 2)
    assert status == 2
    assert "no verdict on bad=" in err
    assert "it does not start" in err


def test_equal_commits_have_no_slower_one(commits, monkeypatch, capsys):
    status, out, _ = bisected(commits, monkeypatch, capsys, 4, 6)
    assert status == 0
    assert out.splitlines()[-1].endswith(f"is not slower than {commits[1][4]}")


def test_too_few_turns_give_no_verdict(commits, monkeypatch, capsys):
    status, _, err = bisected(commits, monkeypatch, capsys, 0, 6, "turns=2")
    assert status == 2
    assert "2 of 6 pairs of turns" in err


def test_commits_in_the_wrong_order_are_refused(commits, monkeypatch, capsys):
    status, _, err = bisected(commits, monkeypatch, capsys, 6, 0)
    assert status == 2
    assert "is not an earlier commit of" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bad=a"], "bisect needs good=COMMIT"),
        (["good=a", "bad="], "bisect needs bad=COMMIT"),
        (["good=a", "bad=b", "turns=many"], "threshold and turns are numbers"),
        (["good=a", "bad=b", "threshold=-1"], "give a threshold >= 0"),
    ],
)
def test_mistakes_in_the_command_are_named(arguments, words):
    with pytest.raises(CampaignError, match=words):
        Request.of(arguments)


SLOWER, SAME, DOUBT = (
    Change("slow", Interval(1.5, 1.4, 1.6, 0.95), 0.05), Change("same", Interval(1.0, 0.9, 1.1, 0.95), 0.05),
    Change("in doubt", Interval(1.5, 1.4, 1.6, 0.95), 0.05, "too few samples"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        ([SLOWER, SAME], [SLOWER]), ([SAME, SAME], []), ([DOUBT, DOUBT], "too few samples"),
        ([SAME, DOUBT, SAME], "too few samples"), ([SLOWER, DOUBT], [SLOWER]),
        ([], "the two commits have no cell in common"),
    ],
)  # fmt: skip
def test_a_cell_in_doubt_leaves_no_verdict_unless_another_is_slower(monkeypatch, tmp_path, cells, wanted):
    assert [one.verdict for one in (SLOWER, SAME, DOUBT)] == ["slower", "no difference", "cannot tell"]
    monkeypatch.setattr(bisection, "read_turns", lambda places: ({}, {}))
    monkeypatch.setattr(bisection, "changes", lambda before, after, threshold: cells)
    monkeypatch.setattr(Commits, "_measure", lambda self, commit, output: "")
    commits = Commits(tmp_path, tmp_path, Request("a", "b", 0.05, 3, ()))
    assert commits.slower("a", "b") == wanted
