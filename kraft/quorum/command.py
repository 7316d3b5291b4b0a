"""The bytes of our entries in the engine's log.

An engine command is one type byte and a body. Two types exist here: the no-op that a new leader writes, and ours,
whose body holds the term in which it was decided and the id of its request. Anything else is refused before it reaches
the engine, which would unpickle it.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from msgspec import Struct

REGULAR = 0
"""The engine's type byte for a command of its user."""

NO_OP = 1
"""The engine's type byte for an entry without content; such a command is this one byte."""

REQUEST_ID_BYTES = 16

_BODY = struct.Struct(f">BQ{REQUEST_ID_BYTES}s")


class CommandKind(IntEnum):
    PAYLOAD = 1
    BARRIER = 2


class EntryCommand(Struct, frozen=True, kw_only=True):
    """An entry of ours. It is valid only if it was stored in the term in which it was decided."""

    kind: CommandKind
    decided_term: int
    request_id: bytes
    payload: bytes = b""


def encode_body(command: EntryCommand) -> bytes:
    """Return the bytes of a command without the type byte, which the engine prepends."""
    return _BODY.pack(command.kind, command.decided_term, command.request_id) + command.payload


def decode(data: bytes) -> EntryCommand | None:
    """Return the command of an entry, type byte included; None for a no-op. Raises ValueError for anything else."""
    if data == bytes([NO_OP]):
        return None
    if len(data) < 1 + _BODY.size or data[0] != REGULAR:
        raise ValueError("not a command that this version writes")
    kind, decided_term, request_id = _BODY.unpack_from(data, 1)
    return EntryCommand(
        kind=CommandKind(kind),
        decided_term=decided_term,
        request_id=request_id,
        payload=data[1 + _BODY.size :],
    )
