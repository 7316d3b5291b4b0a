"""What a worker is started with: a client that copies a topic in transactions, or transfers between accounts."""

from __future__ import annotations

import argparse
import importlib
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from tests.support.kafka.group_members import options

ACCOUNTS: Final = 100
ABORTED_SHARE: Final = 0.15
"""Share of transactions that a worker aborts on purpose."""

ENDED: Final = 3
"""Exit code of a worker whose producer can only be closed; it is to be started again."""


class Work(StrEnum):
    COPY = "copy"
    """Reads `source` in a group, and writes its records to `target`, with the offsets in the transaction."""

    TRANSFER = "transfer"
    """Writes to `target` what one account loses and another one, in another partition, gets."""


class Options(Struct, frozen=True, kw_only=True):
    work: Work
    servers: str
    """Those of the protocol that the client speaks."""

    name: str
    """The transactional id."""

    run: int
    """Number of the process among those of the name, and seed of what it chooses."""

    source: str
    target: str
    partitions: int
    """Of the target."""

    group: str
    protocol: str
    """`range`, or `consumer` for that of KIP-848."""

    session_ms: int
    transaction_timeout_ms: int

    def as_member(self) -> options.Options:
        """Options of its consumer, as those of any member of a group."""
        return options.Options(
            servers=self.servers,
            group=self.group,
            topic=self.source,
            protocol=self.protocol,
            name=self.name,
            session_ms=self.session_ms,
        )

    def arguments(self) -> list[str]:
        """Command line from which `parsed` makes the same options."""
        return [word for name, value in asdict(self).items() for word in (f"--{name.replace('_', '-')}", str(value))]


def preload() -> None:
    """Import every client, in the process that workers are forked from."""
    for path in Path(__file__).parent.glob("*_client.py"):
        importlib.import_module(f"{__package__}.{path.stem}")


def parsed() -> tuple[str, Options]:
    """The name of the client, and the options."""
    parser = argparse.ArgumentParser()
    parser.add_argument("client")
    for name in ("servers", "name", "source", "target", "group", "protocol"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("run", "partitions", "session-ms", "transaction-timeout-ms"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--work", type=Work, required=True)
    given = vars(parser.parse_args())
    return given.pop("client"), Options(**given)
