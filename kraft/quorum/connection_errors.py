"""Cuts gRPC's texts for a failed connection down to the reason. The log event names the address itself."""

from __future__ import annotations

import re
from typing import Final

_DETAILS: Final = (
    re.compile(
        r"failed to connect to all addresses; last error: [A-Z_]+: \S+: "
        r"(?:Failed to connect to remote host: |recvmsg:)?(?P<reason>.+)",
        re.DOTALL,
    ),
    re.compile(r"errors resolving \S+: \[field:.*: (?P<reason>[^:\]]+)\]"),
    re.compile(r"Stream removed \((?P<reason>.+)\)"),
)


_STOPPING: Final = "Cancelling all calls"
"""gRPC's text for a call that ended because the peer's server stops."""


def short_reason(details: str) -> str:
    """Return the reason at the end of gRPC's `details`; any other text unchanged."""
    if details == _STOPPING:
        return "the peer is stopping"
    for pattern in _DETAILS:
        if found := pattern.fullmatch(details):
            reason = found["reason"]
            return reason[0].lower() + reason[1:]
    return details
