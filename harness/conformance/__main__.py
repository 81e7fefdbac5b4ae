"""Which engine runs which algorithm, and why not: ``python -m harness.conformance cpu > docs/what-runs-where.md``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from harness.conformance.matrix import table
from harness.contract import Device
from harness.plugins import load_plugins


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the page for a device."""
    parser = argparse.ArgumentParser(prog="python -m harness.conformance", description=__doc__)
    parser.add_argument("device", choices=("cpu", "cuda"), help="the device to ask for")
    parser.add_argument("engines", nargs="*", help="engines to ask; all that are installed when none is named")
    given = parser.parse_args(arguments)
    sys.stdout.write(table(load_plugins(), Device(given.device, threads=1), given.engines or None))
    return 0


if __name__ == "__main__":
    sys.exit(main())
