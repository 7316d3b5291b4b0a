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


def counted(count: int, singular: str, plural: str = "") -> str:
    """Return the count with its noun; the plural ends in s unless given."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def readable_size(size_bytes: int) -> str:
    """Return a size for people: in the largest of B, KiB, MiB, GiB and TiB of which it is at least one."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    size, unit = size_bytes / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        # From 1023.95 on, one decimal place would be 1024.0.
        if size < 1023.95:
            break
        size, unit = size / 1024, larger
    return f"{size:.1f} {unit}"
