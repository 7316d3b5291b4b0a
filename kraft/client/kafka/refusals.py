"""Errors of whole responses. Over gRPC a request that is refused as a whole has no response, only the Refusal."""

from __future__ import annotations

from typing import Final

from kraft.model.errors import ErrorCode, Refusal, error_code
from kraft.wire.declaration import Message

_PARTS_OF_A_CONVERSATION: Final = frozenset({ErrorCode.MEMBER_ID_REQUIRED})
"""Codes of responses that have something to say besides."""


def check_whole(response: Message) -> None:
    """Raise the Refusal of a response that is nothing else."""
    number = getattr(response, "error_code", ErrorCode.NONE)
    if number != ErrorCode.NONE and number not in _PARTS_OF_A_CONVERSATION:
        code = error_code(number)
        raise Refusal(code, getattr(response, "error_message", None) or code.name)
