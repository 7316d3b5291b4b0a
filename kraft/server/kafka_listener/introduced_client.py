"""What the client of one connection calls itself: texts of its choice, of which the first characters are kept."""

from __future__ import annotations

from kraft.model.callbacks import Callback
from kraft.model.clients import TEXT_CHARACTERS_MAX


class IntroducedClient:
    __slots__ = ("_when_gone", "client_id", "software_name", "software_version")

    def __init__(self) -> None:
        self.client_id = ""
        """That of the last request."""
        self.software_name = ""
        """Empty until the client has said (KIP-511)."""
        self.software_version = ""
        self._when_gone: Callback | None = None

    def note_software(self, name: str, version: str) -> None:
        self.software_name, self.software_version = name[:TEXT_CHARACTERS_MAX], version[:TEXT_CHARACTERS_MAX]

    def call_when_gone(self, gone: Callback) -> None:
        """Call this once the connection has ended, in place of what was to be called before."""
        self._when_gone = gone

    def gone(self) -> None:
        """Note that the connection has ended."""
        gone, self._when_gone = self._when_gone, None
        if gone is not None:
            gone()
