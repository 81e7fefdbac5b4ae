"""``python -m harness.report``: write the page, figures and layout of recorded results; publish them in the docs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.records import RecordError, merge_rounds
from harness.report.results import NothingFound, Results, read_results
from harness.report.summary import show_layout

MISUSE_STATUS = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the commands. Return 0, or 2 after writing the reason of a failure to standard error."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.command(options)
    except (RecordError, NothingFound, ImportError, OSError, ValueError) as error:
        print(f"harness.report: error: {error}", file=sys.stderr)  # noqa: T201
        return MISUSE_STATUS
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harness.report", description=__doc__.partition(": ")[2])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    page = commands.add_parser("page", help="write one self-contained HTML file")
    _add_folder(page)
    page.add_argument("--to", type=Path, help="the file to write (default: FOLDER/report.html)")
    description = "also compare records of different sweeps and machines, although their times are not comparable"
    page.add_argument("--across", action="store_true", help=description)
    page.set_defaults(command=_page)
    index = commands.add_parser("index", help="write index.html, a list of all sweeps with links to their pages")
    index.add_argument("folder", type=Path, metavar="FOLDER", help="the folder of the sweeps")
    index.set_defaults(command=_index)
    trend = commands.add_parser("trends", help="write trends.html, times over the commits of many sweeps")
    trend.add_argument("folder", type=Path, metavar="FOLDER", help="results, of one machine or merged")
    trend.add_argument("--to", type=Path, help="the file to write (default: FOLDER/trends.html)")
    trend.set_defaults(command=_trends)
    figures = commands.add_parser("figures", help="write figures for papers (needs the extra 'figures')")
    _add_folder(figures)
    figures.add_argument("--to", type=Path, help="the folder to write into (default: FOLDER/figures)")
    figures.add_argument("--format", default="svg", help="svg, pdf, png, or a comma-separated list (default: svg)")
    figures.set_defaults(command=_figures)
    layout = commands.add_parser("layout", help="write the paper's table or figure of a preset's sweep")
    layout.add_argument("folder", type=Path, metavar="FOLDER", help="the folder of one sweep")
    layout.set_defaults(command=_layout)
    publish = commands.add_parser("publish", help="render published records into the pages of the documentation")
    description = "first replace the published records of the sweeps below this folder"
    publish.add_argument("folders", type=Path, metavar="FOLDER", nargs="*", help=description)
    publish.add_argument("--docs", type=Path, default=Path("docs"), help="the folder of the pages (default: docs)")
    publish.set_defaults(command=_publish)
    return parser


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="results, or the folder of one sweep")
    parser.add_argument("--baseline", help="the baseline engine of speed-ups (default: that of the sweep)")


def _baseline(options: argparse.Namespace, results: Results) -> str | None:
    engines = sorted({record["config"]["engine"] for record in results.records})
    if options.baseline and options.baseline not in engines:
        raise NothingFound(f"no record is of the engine {options.baseline!r} (there are: {', '.join(engines)})")
    return options.baseline or results.baseline


def _page(options: argparse.Namespace) -> int:
    from harness.report.page import PAGE_FILE, write_page

    results = read_results(options.folder)
    path = options.to or options.folder / PAGE_FILE
    baseline = _baseline(options, results)
    _say(str(write_page(
        path, results.records, baseline, results.cells, across=options.across, layout=results.layout
    )))  # fmt: skip
    return 0


def _index(options: argparse.Namespace) -> int:
    from harness.report.page.index import write_index

    _say(str(write_index(options.folder)))
    return 0


def _trends(options: argparse.Namespace) -> int:
    from harness.report.page.trend_page import TRENDS_FILE, write_trends

    _say(str(write_trends(options.to or options.folder / TRENDS_FILE, read_results(options.folder).records)))
    return 0


def _figures(options: argparse.Namespace) -> int:
    from harness.report.figures import write_figures

    results = read_results(options.folder)
    folder = options.to or options.folder / "figures"
    for path, title in write_figures(folder, results.records, _baseline(options, results), options.format.split(",")):
        _say(f"{path}  {title}")
    return 0


def _layout(options: argparse.Namespace) -> int:
    results = read_results(options.folder)
    if results.layout is None:
        raise NothingFound(f"{options.folder} holds no sweep with a layout; name the folder of one that has it")
    show_layout(merge_rounds(results.records), results.layout, options.folder)
    return 0


def _publish(options: argparse.Namespace) -> int:
    from harness.report.publication import publish, render_pages

    written = [path for folder in options.folders for path in publish(folder, options.docs)]
    for path in [*written, *render_pages(options.docs)]:
        _say(str(path))
    return 0


def _say(text: str) -> None:
    print(text)  # noqa: T201  the command's output


if __name__ == "__main__":
    sys.exit(main())
