"""``python -m harness.records``: print the schema; check, merge, compact, query, export records; find regressions."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.records.benchmarks import exported
from harness.records.compaction import QueryError, compact, query
from harness.records.merging import merge
from harness.records.regressions import THRESHOLD, changes, read_turns
from harness.records.schema import RecordError, json_schema
from harness.records.store import read_record, read_records, record_files
from harness.records.timing_caveat import Mark


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return 0 on success, 1 for an invalid record or a regression, 2 for a mistake in the command."""
    given = _parser().parse_args(arguments)
    try:
        if "folder" in given and not given.folder.is_dir():
            raise RecordError(f"{given.folder} is not a folder; name one with records at any depth, such as results")
        return int(given.run(given))
    except (QueryError, RecordError, OSError) as error:
        sys.stderr.write(f"harness.records: error: {error}\n")
        return 2 if isinstance(error, QueryError) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harness.records", description=__doc__)
    commands = parser.add_subparsers(required=True)
    schema = commands.add_parser("schema", help="print the JSON schema of a record")
    schema.set_defaults(run=_schema)
    for name, run, text in (
        ("check", _check, "check every record of a folder against the schema"),
        ("compact", _compact, "write FOLDER/records.parquet with one row per record"),
        ("benchmark", _benchmark, "print the ok records in the JSON form of pytest-benchmark"),
        ("query", _query, "run SQL over the table 'records' of FOLDER; print CSV"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("folder", type=Path, help="a folder with records at any depth, such as results")
        command.set_defaults(run=run)
        if name == "query":
            command.add_argument("sql", help='such as "SELECT engine, median FROM records WHERE features = 8"')
    merged = commands.add_parser("merge", help="copy the sweeps of several machines into one folder, kept apart")
    merged.add_argument("into", type=Path, metavar="INTO", help="the folder to copy to")
    merged.add_argument("sources", type=Path, nargs="+", metavar="FOLDER", help="results of a machine, or one sweep")
    merged.set_defaults(run=_merge)
    regressions = commands.add_parser("regressions", help="list what became significantly slower, above a threshold")
    for name in ("before", "after"):
        text = "saved by pytest-benchmark with its samples, or folders of records; each is one turn"
        regressions.add_argument(f"--{name}", type=Path, nargs="+", required=True, metavar="SOURCE", help=text)
    regressions.add_argument(
        "--threshold", type=float, default=THRESHOLD, help="slowdown to ignore, as a share (%(default)s)"
    )
    regressions.add_argument("--force", action="store_true", help="compare different machines anyway")
    regressions.set_defaults(run=_regressions)
    return parser


def _schema(_: argparse.Namespace) -> int:
    sys.stdout.write(json.dumps(json_schema(), indent=2) + "\n")
    return 0


def _check(given: argparse.Namespace) -> int:
    broken = edited = unsigned = 0
    files = record_files(given.folder)
    for path in files:
        try:
            record = read_record(path)
        except RecordError as error:
            broken += 1
            sys.stdout.write(f"{error}\n")
            continue
        unsigned += record["digest"] is None
        if Mark.EDITED in record["marks"]:
            edited += 1
            sys.stdout.write(f"{path}: {Mark.EDITED.meaning}\n")
    more = (f"; {edited} edited" if edited else "") + (f"; {unsigned} without a digest" if unsigned else "")
    sys.stdout.write(f"{len(files) - broken} of {len(files)} records are valid{more}\n")
    return 1 if broken or edited else 0


def _merge(given: argparse.Namespace) -> int:
    for folder in merge(given.sources, given.into):
        sys.stdout.write(f"{folder}\n")
    return 0


def _compact(given: argparse.Namespace) -> int:
    sys.stdout.write(f"{compact(given.folder)}\n")
    return 0


def _benchmark(given: argparse.Namespace) -> int:
    data = exported(record for _, record in read_records(given.folder))
    sys.stdout.write(json.dumps(data, indent=1, allow_nan=False) + "\n")
    return 0


def _regressions(given: argparse.Namespace) -> int:
    (before, here), (after, there) = read_turns(given.before), read_turns(given.after)
    if here != there and not given.force:
        raise RecordError(f"times of {here} and {there} are not comparable; --force compares them anyway")
    if given.threshold < 0:
        raise RecordError(f"--threshold {given.threshold:g}: it must be at least 0")
    found = changes(before, after, given.threshold)
    if not found:
        raise RecordError("the two sides have no benchmark in common")
    for change in found:
        one = change.ratio
        ratio = "" if one is None else f"{one.median:6.3f}"
        ratio += f" ({one.low:.3f} to {one.high:.3f})" if one is not None and one.sufficient else ""
        doubt = f": {change.doubt}" if change.doubt else ""
        sys.stdout.write(f"{change.verdict:<20} {ratio:<26} {change.name}{doubt}\n")
    slower = sum(change.verdict == "slower" for change in found)
    undecided = sum(change.verdict == "cannot tell" for change in found)
    missing = len(before.keys() ^ after.keys())
    summary = f"{slower} of {len(found)} became slower; {undecided} are undecided; {missing} are on one side only"
    sys.stdout.write(f"{summary}\n")
    return 1 if slower else 0


def _query(given: argparse.Namespace) -> int:
    names, rows = query(given.folder, given.sql)
    writer = csv.writer(sys.stdout)
    writer.writerow(names)
    writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
