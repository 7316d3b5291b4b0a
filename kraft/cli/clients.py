"""`kraft clients`: who is connected to the listeners for clients, with what, and how much they ask and get."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from msgspec import Struct

from kraft.cli.broker_answers import answers_in, end_without, silent_brokers
from kraft.cli.groups.lag import in_words
from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    DEFAULT_TIMEOUT_MS,
    BootstrapServer,
    Output,
    OutputFormat,
    Timeout,
    open_admin,
)
from kraft.cli.printing import print_columns, print_json
from kraft.model.printable import readable_size
from kraft.model.request_context import host_of

if TYPE_CHECKING:
    from kraft.model.clients import ClientConnection

NOT_SAID: Final = "-"

_TITLES: Final = ("CONNECTIONS", "AGE", "REQUESTS", "REQUESTS/S", "RECEIVED", "RECEIVED/S", "SENT", "SENT/S")

Looked = Mapping[int, "Sequence[ClientConnection]"]
"""The connections by broker."""


class Used(Struct, frozen=True, kw_only=True):
    """What some connections asked and got, since each began and in each second between two looks."""

    connections: int
    age_ms: int
    """That of the oldest."""

    requests: int
    received_bytes: int
    sent_bytes: int
    requests_rate: float
    received_rate: float
    sent_rate: float

    def plus(self, other: Used) -> Used:
        return Used(
            connections=self.connections + other.connections,
            age_ms=max(self.age_ms, other.age_ms),
            requests=self.requests + other.requests,
            received_bytes=self.received_bytes + other.received_bytes,
            sent_bytes=self.sent_bytes + other.sent_bytes,
            requests_rate=self.requests_rate + other.requests_rate,
            received_rate=self.received_rate + other.received_rate,
            sent_rate=self.sent_rate + other.sent_rate,
        )


class Line(Struct, frozen=True, kw_only=True):
    """One connection, or all of one client."""

    client: ClientConnection
    brokers: tuple[int, ...]
    address: str
    used: Used


def clients(
    connections: Annotated[bool, typer.Option("--connections", help="Show each connection.")] = False,
    interval_ms: Annotated[
        int, typer.Option("--interval-ms", min=100, help="Time over which the rates are measured.")
    ] = 1_000,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show who is connected, and how much each asks and gets.

    Clients of all listeners are shown, those with the most bytes per second first. Connections of one principal, client
    id, software, listener and address are one line. Counts are those since the connections began, and AGE is that of
    the oldest. SOFTWARE is what the client says of itself. On GRPC, bytes are those of the network, TLS and HTTP/2
    included, and connections are shown from their first call on. Brokers that did not answer are named at the end, and
    the exit code is then 1.
    """
    with open_admin(bootstrap_server, timeout_ms) as admin:
        outcomes = dict(admin.describe_clients())
        first = answers_in(outcomes)
        # Rates are what happens between two looks.
        time.sleep(interval_ms / 1_000)
        # Not asked again are those that gave no answer in all the time that there was.
        outcomes |= admin.describe_clients(first.keys())
        second = answers_in(outcomes)
        silent = silent_brokers(admin, outcomes)
    lines = list(_each_connection(first, second, interval_ms))
    if not connections:
        lines = _by_client(lines)
    lines.sort(key=lambda line: (-line.used.received_rate - line.used.sent_rate, line.client.principal, line.address))
    if output is Output.JSON:
        print_json([_as_json(each) for each in lines])
    else:
        titles = ("PRINCIPAL", "CLIENT-ID", "SOFTWARE", "LISTENER", "BROKERS", "ADDRESS", *_TITLES)
        print_columns(titles, [_row(each) for each in lines])
    end_without(silent, "its clients")


def _each_connection(first: Looked, second: Looked, interval_ms: int) -> Iterator[Line]:
    before = {(broker, each.listener, each.address): each for broker, found in first.items() for each in found}
    for broker, found in second.items():
        for now in found:
            earlier = before.get((broker, now.listener, now.address))
            if earlier is not None and earlier.age_ms >= now.age_ms:
                # Another connection had the client's port before.
                earlier = None
            used = _used(now, earlier, interval_ms)
            yield Line(client=now, brokers=(broker,), address=now.address, used=used)


def _used(now: ClientConnection, earlier: ClientConnection | None, interval_ms: int) -> Used:
    seconds = (interval_ms if earlier is None else now.age_ms - earlier.age_ms) / 1_000

    def rate(count: int, count_before: int) -> float:
        return (count - count_before) / seconds

    return Used(
        connections=1,
        age_ms=now.age_ms,
        requests=now.requests,
        received_bytes=now.received_bytes,
        sent_bytes=now.sent_bytes,
        requests_rate=rate(now.requests, earlier.requests if earlier else 0),
        received_rate=rate(now.received_bytes, earlier.received_bytes if earlier else 0),
        sent_rate=rate(now.sent_bytes, earlier.sent_bytes if earlier else 0),
    )


def _by_client(lines: Sequence[Line]) -> list[Line]:
    found = dict[tuple[str, ...], Line]()
    for line in lines:
        client, host = line.client, host_of(line.address)
        software = (client.software_name, client.software_version)
        key = (client.principal, client.client_id, *software, client.listener, host)
        if (others := found.get(key)) is None:
            found[key] = Line(client=client, brokers=line.brokers, address=host, used=line.used)
        else:
            brokers = tuple(sorted({*others.brokers, *line.brokers}))
            found[key] = Line(client=client, brokers=brokers, address=host, used=others.used.plus(line.used))
    return list(found.values())


def _row(line: Line) -> tuple[object, ...]:
    client, used = line.client, line.used
    return (
        client.principal,
        client.client_id or NOT_SAID,
        " ".join(each for each in (client.software_name, client.software_version) if each) or NOT_SAID,
        client.listener,
        ",".join(map(str, line.brokers)),
        line.address,
        used.connections,
        in_words(used.age_ms),
        used.requests,
        f"{used.requests_rate:.1f}",
        readable_size(used.received_bytes),
        readable_size(round(used.received_rate)),
        readable_size(used.sent_bytes),
        readable_size(round(used.sent_rate)),
    )


def _as_json(line: Line) -> dict[str, Any]:
    client, used = line.client, line.used
    return {
        "principal": client.principal,
        "client_id": client.client_id,
        "software_name": client.software_name,
        "software_version": client.software_version,
        "listener": client.listener,
        "brokers": list(line.brokers),
        "address": line.address,
        "connections": used.connections,
        "age_seconds": used.age_ms / 1_000,
        "requests": used.requests,
        "received_bytes": used.received_bytes,
        "sent_bytes": used.sent_bytes,
        "requests_per_second": round(used.requests_rate, 3),
        "received_bytes_per_second": round(used.received_rate, 3),
        "sent_bytes_per_second": round(used.sent_rate, 3),
    }
