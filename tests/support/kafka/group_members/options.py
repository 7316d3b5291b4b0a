"""What a member of a group is started with."""

from __future__ import annotations

import argparse
import importlib
import signal
import threading
from pathlib import Path
from typing import Final

from msgspec import Struct

READ_MAX: Final = 50
"""Records between two commits."""

POLL_S: Final = 0.1


class Servers(Struct, frozen=True, kw_only=True):
    """Bootstrap servers of one cluster."""

    kafka: str
    grpc: str = ""
    """For Kraft's own client; empty for Apache Kafka."""


class Options(Struct, frozen=True, kw_only=True):
    servers: str
    """Those of the protocol that the client speaks."""

    group: str
    topic: str
    protocol: str
    """`range`, `cooperative-sticky`, or `consumer` for that of KIP-848."""

    name: str
    session_ms: int
    instance: str = ""
    as_shipped: bool = False
    """Metadata ages, pauses between connections and sessions are the client's own."""

    def session(self) -> dict[str, int]:
        """Settings of the session, by the names that clients in Python have for them."""
        return {"session_timeout_ms": self.session_ms, "heartbeat_interval_ms": self.heartbeat_ms}

    @property
    def heartbeat_ms(self) -> int:
        """Return the pause between heartbeats: in each rebalance, every member hears of it after such a pause."""
        return self.session_ms // 20

    @property
    def is_consumer_protocol(self) -> bool:
        return self.protocol == "consumer"


def preload() -> None:
    """Import every client, in the process that members are forked from."""
    for path in Path(__file__).parent.glob("*_member.py"):
        importlib.import_module(f"{__package__}.{path.stem}")


def parsed() -> tuple[str, Options]:
    """The name of the client, and the options."""
    parser = argparse.ArgumentParser()
    parser.add_argument("client")
    for name in ("servers", "group", "topic", "protocol", "name", "instance"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--session-ms", type=int, required=True)
    parser.add_argument("--as-shipped", action="store_true")
    given = vars(parser.parse_args())
    return given.pop("client"), Options(**given)


def stopping() -> threading.Event:
    """Set by SIGTERM: the member then leaves its group, and ends."""
    event = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: event.set())
    return event
