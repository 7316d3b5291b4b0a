"""The world outside, as a broker is given it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kraft.log.disk import Disk
from kraft.rpc.call import Served
from kraft.runtime.clock import Clock
from kraft.runtime.entropy import Entropy
from kraft.server.identity.credentials import NodeCredentials


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerWorld:
    clock: Clock
    entropy: Entropy
    disk: Disk
    credentials: NodeCredentials
    fatal: Callable[[str], None]
    """Ends the node, with one line that says why."""

    own_controller: Sequence[Served] = ()
    """The calls of the controller in this process, where there is one."""
