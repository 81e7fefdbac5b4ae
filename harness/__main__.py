"""Entry point of ``onyx-harness`` and ``python -m harness``."""

from __future__ import annotations

import faulthandler
import sys


def main() -> int:
    """Run the command and return its exit status."""
    if sys.stderr is not None:
        faulthandler.enable()  # names the plugin whose import crashes the interpreter
    try:
        from harness.campaign.application import main as application

        return application()
    except KeyboardInterrupt:  # during imports, or a second one while the first ends a sweep
        return 130


if __name__ == "__main__":
    sys.exit(main())
