"""Who is connected to the brokers: one row for each connection, or for all of one client."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from kraft.client import ErrorCode, KraftError, Refusal
from kraft.console.asking import Asked, Paged, Panel, Wanted, wanted
from kraft.health.facts import PROBE_MS
from kraft.health.silence import why_silent
from kraft.model.printable import printable
from kraft.model.request_context import host_of

if TYPE_CHECKING:
    from kraft.model.clients import ClientConnection

SORTS: Final = ("name", "since", "received", "sent", "requests")

NOT_IN_KAFKA: Final = (
    "Kafka's protocol has no call that says who is connected: of a cluster of Kraft, give the console the address of a"
    " GRPC listener, without wire.protocol=kafka; of Apache Kafka, its brokers' metrics count connections"
)


class ClientRow(Struct, frozen=True, kw_only=True):
    """One connection. Client id and software are what the client says of itself."""

    principal: str
    client_id: str
    software: str
    broker: int
    listener: str
    address: str
    host: str
    age_ms: int
    since_ms: int
    """When it was opened, since the epoch."""

    requests: int
    received_bytes: int
    sent_bytes: int


class Connected(Struct, frozen=True, kw_only=True):
    clients: Paged[ClientRow]
    silent: list[str]
    """Why brokers are missing, a sentence each."""

    principals: int
    hosts: int


class Clients(Struct, frozen=True, kw_only=True):
    connected: Panel[Connected]

    @property
    def status(self) -> int:
        return self.connected.status


async def clients(asked: Asked) -> Clients:
    return Clients(connected=await asked.panel(lambda: _connected(asked, wanted(asked.query, SORTS))))


def _connected(asked: Asked, asked_for: Wanted) -> Connected:
    outcomes = asked.let_in(asked.admin.describe_clients(timeout_ms=PROBE_MS))
    return connected_of(outcomes, asked_for, int(time.time() * 1_000))


def connected_of(
    outcomes: Mapping[int, Sequence[ClientConnection] | KraftError], asked_for: Wanted, now_ms: int
) -> Connected:
    """Return the page of the connections. Raises Refusal if every broker refused, or has no such call."""
    refused = [each for each in outcomes.values() if isinstance(each, Refusal)]
    if refused and len(refused) == len(outcomes):
        if refused[0].error_code is ErrorCode.UNSUPPORTED_VERSION:
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION, NOT_IN_KAFKA)
        raise refused[0]
    rows = [
        _row(broker, each, now_ms)
        for broker, found in outcomes.items()
        if not isinstance(found, KraftError)
        for each in found
    ]
    found = [each for each in rows if any(map(asked_for.matches, _texts(each)))]
    by = {
        "since": lambda each: (each.age_ms,),
        "received": lambda each: (each.received_bytes,),
        "sent": lambda each: (each.sent_bytes,),
        "requests": lambda each: (each.requests,),
    }.get(asked_for.sort, lambda each: (each.principal, each.client_id, each.address, each.broker))
    return Connected(
        clients=asked_for.shown(found, len(rows), by),
        silent=[
            f"broker {broker} did not answer: {printable(why_silent(outcome))}"
            for broker, outcome in sorted(outcomes.items())
            if isinstance(outcome, KraftError)
        ],
        principals=len({each.principal for each in rows}),
        hosts=len({each.host for each in rows}),
    )


def _texts(row: ClientRow) -> tuple[str, ...]:
    return row.principal, row.client_id, row.address, row.software, row.listener


def _row(broker: int, each: ClientConnection, now_ms: int) -> ClientRow:
    return ClientRow(
        principal=each.principal,
        client_id=each.client_id,
        software=" ".join(part for part in (each.software_name, each.software_version) if part),
        broker=broker,
        listener=each.listener,
        address=each.address,
        host=host_of(each.address),
        age_ms=each.age_ms,
        since_ms=now_ms - each.age_ms,
        requests=each.requests,
        received_bytes=each.received_bytes,
        sent_bytes=each.sent_bytes,
    )
