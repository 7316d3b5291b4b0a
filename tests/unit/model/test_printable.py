"""Text of strangers on its way to a terminal."""

from __future__ import annotations

from kraft.model.printable import printable, printable_lines


def test_what_a_terminal_would_act_on_is_escaped_and_all_else_stays() -> None:
    assert printable("reader-1 on 10.0.0.1 \u00e9\u6f22") == "reader-1 on 10.0.0.1 \u00e9\u6f22"
    forged = "x\x1b]0;pwned\x07\x9b2J\u202e\nkraft: lost"
    assert printable(forged) == r"x\x1b]0;pwned\x07\x9b2J\u202e\nkraft: lost"


def test_lines_of_a_message_stay_lines() -> None:
    assert printable_lines("first\nsecond\x1b[2J") == "first\nsecond" + r"\x1b[2J"
