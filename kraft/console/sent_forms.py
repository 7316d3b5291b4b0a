"""Forms that must not be sent twice, by a second click or by going back: each has a number that is used once."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from kraft.console.forms import WrongInput

SENT_MAX: Final = 10_000
_CHARS_MAX: Final = 64


class SentForms:
    """The last `SENT_MAX` that were sent."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, None] = OrderedDict()

    def note(self, once: str) -> None:
        """Remember the form's number. Raises WrongInput if it was sent before; one without a number never was."""
        if not once:
            return
        if len(once) > _CHARS_MAX:
            raise WrongInput(f"once is longer than {_CHARS_MAX} characters")
        if once in self._known:
            raise WrongInput("this form was sent before, and may have done its work: look, and load the page again")
        self._known[once] = None
        while len(self._known) > SENT_MAX:
            self._known.popitem(last=False)
