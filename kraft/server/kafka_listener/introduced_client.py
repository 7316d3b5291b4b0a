"""What the client of one connection calls itself: texts of its choice, of which the first characters are kept."""

from __future__ import annotations

from kraft.model.clients import TEXT_CHARACTERS_MAX


class IntroducedClient:
    __slots__ = ("client_id", "software_name", "software_version")

    def __init__(self) -> None:
        self.client_id = ""
        """That of the last request."""
        self.software_name = ""
        """Empty until the client has said (KIP-511)."""
        self.software_version = ""

    def note_software(self, name: str, version: str) -> None:
        self.software_name, self.software_version = name[:TEXT_CHARACTERS_MAX], version[:TEXT_CHARACTERS_MAX]
