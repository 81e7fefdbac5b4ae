"""Text from outside has no effect on a terminal and can be encoded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.plain_text import REPLACEMENT, describe_error, message_of, one_line, print_traceback, printable


@given(st.text(st.characters(), max_size=30))
def test_printable_text_can_be_encoded_and_has_no_control_characters(text):
    found = printable(text)
    found.encode()
    assert len(found) == len(text)
    assert not [sign for sign in found if ord(sign) < 32 and sign not in "\n\t"]
    assert printable(found) == found


@pytest.mark.parametrize("text", ["plain", "k = 3 · ∂x/∂t\n\tnext", "名前", "man\u200d\N{WOMAN}"])
def test_ordinary_text_stays(text):
    assert printable(text) == text


@pytest.mark.parametrize("sign", ["\x1b", "\x00", "\x7f", "\x9b", "\r", "\ud800", "\u202e"])
def test_control_characters_are_replaced(sign):
    assert printable(f"a{sign}b") == f"a{REPLACEMENT}b"


def test_one_line():
    assert one_line("a\nb\tc\x07") == f"a b c{REPLACEMENT}"


def test_the_message_of_an_error_whose_str_fails():
    class Mute(Exception):
        def __str__(self):
            raise SystemExit

    class Numeric(Exception):
        def __str__(self):
            return 3

    assert describe_error(Mute()) == "Mute: (no message: its __str__ raised SystemExit)"
    assert message_of(Numeric()) == "(no message: its __str__ raised TypeError)"
    assert describe_error(ValueError("no")) == "ValueError: no"


@pytest.mark.parametrize("fails", [True, False])
def test_a_traceback_is_printed_even_if_the_error_cannot_be(monkeypatch, capsys, fails):
    def refused(error):
        raise SystemExit("no text")

    if fails:
        monkeypatch.setattr("traceback.print_exception", refused)
    print_traceback(ValueError("odd"))
    printed = capsys.readouterr().err
    assert printed == ("no traceback of ValueError: SystemExit: no text\n" if fails else "ValueError: odd\n")
