"""The first moments of the command."""

from __future__ import annotations

import sys

from harness import __main__


def test_an_interrupt_while_it_is_loading_ends_it_quietly(monkeypatch):
    class Interrupting:
        def find_spec(self, name, *_):
            if name == "harness.campaign.application":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "harness.campaign.application", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    assert __main__.main() == 130
