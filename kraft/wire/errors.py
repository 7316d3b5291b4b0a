"""Errors for bytes that are not Kafka's protocol."""

from __future__ import annotations

from kraft.model.errors import KraftError


class ProtocolError(KraftError):
    """Bytes from a connection that are not a valid message. The connection is closed.

    Not a `Refusal`: a peer that sends such bytes would not understand a response.
    """


class TooManyElements(ProtocolError):
    """A message with more elements than its reader takes."""


def wrong_length(message: str, length: int, position: int, end: int) -> ProtocolError:
    """Return the error for an invalid length, or one larger than the bytes that are left."""
    return ProtocolError(f"{message}: a length of {length} at byte {position}, with {end - position} bytes left")


def ends_early(message: str, position: int) -> ProtocolError:
    return ProtocolError(f"{message}: the bytes end within a field that starts at byte {position} or soon after it")


def not_text(message: str, position: int) -> ProtocolError:
    return ProtocolError(f"{message}: the text at byte {position} is not UTF-8")


def too_many_elements(message: str, position: int) -> TooManyElements:
    return TooManyElements(f"{message}: more elements than one message may have, at byte {position}")


def wrong_tagged_size(message: str, tag: int, position: int) -> ProtocolError:
    return ProtocolError(f"{message}: tagged field {tag} does not end where its size says, at byte {position}")
