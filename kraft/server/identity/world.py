"""Interfaces to the outside world that a node gives to its roles."""

from __future__ import annotations

from msgspec import Struct

from kraft.log.disk import Disk
from kraft.model.callbacks import Fatal
from kraft.runtime.clock import Clock
from kraft.runtime.entropy import Entropy
from kraft.server.identity.credentials import NodeCredentials


class NodeWorld(Struct, frozen=True, kw_only=True):
    """Clock, entropy, disk and credentials of a node."""

    clock: Clock
    entropy: Entropy
    disk: Disk
    credentials: NodeCredentials
    fatal: Fatal
    """Ends the node, with one line that gives the reason."""
