"""Text of strangers, such as a client id, made safe to print.

Control characters move the cursor of a terminal, recolour it and forge lines; some format characters reverse the text
around them.
"""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Return the text with each character that is not printable as an escape, such as \x1b or \u202e."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def printable_lines(text: str) -> str:
    """Likewise, but newlines stay."""
    return "\n".join(map(printable, text.split("\n")))
