"""``onyx-harness`` and ``python -m harness``."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command; its exit status."""
    from harness.campaign.application import main as application

    return application()


if __name__ == "__main__":
    sys.exit(main())
