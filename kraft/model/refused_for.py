"""Why a connection or a call is refused, in a word: what the log says in a sentence."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class RefusedFor(StrEnum):
    LIMIT = "limit"
    """There are too many, or they come too fast, or they take too much memory."""
    TLS = "tls"
    """The TLS handshake was not completed, or its certificate is not accepted."""
    LOGIN = "login"
    """There was no login, or it failed, or its session is over."""
    LOGIN_TIMEOUT = "login_timeout"
    NOT_A_NODE = "not_a_node"
    """It should be a node of this cluster, and did not prove that it is."""
    VERSION = "version"
    """An API, or its version, that is not served."""
    REQUEST = "request"
    """What came is no valid request, or is too large, or another protocol."""
    SLOW = "slow_client"
    """A request did not arrive in time, or its response was not read."""
    INTERNAL = "internal_error"


class Refused(NamedTuple):
    reason: str
    """One line."""

    refused_for: RefusedFor
