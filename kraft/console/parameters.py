"""What is asked for with a page, a change or a stream: each name once, with its type and a sentence for scripts."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct


class Parameter(Struct, frozen=True, kw_only=True):
    what: str
    """One sentence."""

    type: str = "string"
    """As JSON Schema has it."""

    many: bool = False
    """Whether there may be several values."""

    def schema(self, described: bool = True) -> dict[str, Any]:
        found: dict[str, Any] = {"type": self.type}
        if self.many:
            found = {"type": "array", "items": found}
        return found | {"description": self.what} if described else found


TABLE: Final = ("q", "sort", "order", "page")
"""What each table takes."""

PARAMETERS: Final = {
    "q": Parameter(what="Part of a name, in any case."),
    "sort": Parameter(what="Column to sort by; the first one where it is none of the table's."),
    "order": Parameter(what="desc: from the last one to the first."),
    "page": Parameter(what="Number of the page, from 1; a page has 200 rows at most.", type="integer"),
}
