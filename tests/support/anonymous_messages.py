"""Messages between voters without what names the sender's incarnation and quorum, so that tests can spell them."""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from kraft.quorum.messages import Message

M = TypeVar("M", bound=Message)

_IDENTITY = ("incarnation", "founders", "quorum_id")


def anonymous(message: M) -> M:
    """Return the message with an empty incarnation, quorum id and founders."""
    named = [name for name in message.__struct_fields__ if name in _IDENTITY]
    return replace(message, **{name: type(getattr(message, name))() for name in named})
