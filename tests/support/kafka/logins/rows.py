"""Which client logs in by which mechanism over which transport: a table in which each pair that is possible occurs.

Each client takes each mechanism once, and so a certificate; clients and mechanisms together alternate between the two
transports with SASL. `brief` has one row a client, and each combination of mechanism and transport at least once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tests.support.closed_clusters import admin_of_node
from tests.support.kafka.logged_in_clients import VALUES
from tests.support.kafka.logins import programs, python_clients
from tests.support.kafka.logins.places import ClosedNodes, Mechanism, Place, Transport
from tests.support.kafka.logins.python_clients import READ

PRODUCE: Final = "produce"
GROUP: Final = "group"
ADMIN: Final = "admin"
TRANSACTIONS: Final = "transactions"
OPERATIONS: Final = (PRODUCE, GROUP, ADMIN, TRANSACTIONS)

Exercise = Callable[[Place, str], list[bytes]]
"""Takes a place, and a topic that is its own; returns the values that it read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    name: str
    exercise: Exercise
    operations: tuple[str, ...] = OPERATIONS
    never: tuple[Mechanism, ...] = ()
    """Mechanisms that it does not have."""
    read: tuple[bytes, ...] = tuple(READ)
    """Values that it writes, and reads again."""


PROGRAMS: Final = (
    Client(name="confluent-kafka", exercise=python_clients.confluent),
    Client(name="kafka-python", exercise=python_clients.kafka_python),
    Client(name="aiokafka", exercise=python_clients.aiokafkas),
    Client(name="Java", exercise=programs.java),
    Client(
        name="kcat",
        exercise=programs.kcats,
        operations=(PRODUCE, GROUP, TRANSACTIONS),
        # Debian's librdkafka is older than 2.6.1, and sends a nonce that Kafka 4 refuses as well. It is built without
        # what fetches tokens, and makes unsigned ones only.
        never=(Mechanism.SCRAM_256, Mechanism.SCRAM_512, Mechanism.OAUTHBEARER),
    ),
    Client(name="franz-go", exercise=programs.franz_go),
    Client(name="kraft.client", exercise=python_clients.own_client),
    Client(
        name="kraft commands",
        exercise=programs.own_commands,
        operations=(PRODUCE, GROUP, ADMIN),
        read=tuple(VALUES),
    ),
)
"""All but Spark, which needs a session: see `tests.support.spark.logged_in_spark`."""

_WITH_SASL: Final = (Transport.SASL_PLAINTEXT, Transport.SASL_SSL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    client: Client
    transport: Transport
    mechanism: Mechanism

    def __str__(self) -> str:
        return f"{self.client.name}-{self.transport}-{self.mechanism}".replace(" ", "-")

    def run(self, nodes: ClosedNodes, topic: str) -> float:
        """Let the client do all that it can do; return the seconds. Raises AssertionError."""
        place = nodes.place(self.transport, self.mechanism)
        if ADMIN not in self.client.operations:
            with admin_of_node(place.cluster) as admin:
                admin.create_topic(topic, 1, 1)
        began_s = time.monotonic()
        read = self.client.exercise(place, topic)
        assert sorted(read) == sorted(self.client.read)
        return time.monotonic() - began_s


def rows(clients: Sequence[Client]) -> list[Row]:
    """Return a row for each client and mechanism, in which each mechanism and each client has both transports."""
    found = [
        Row(client=client, transport=_transport(mechanism, number + place), mechanism=mechanism)
        for number, client in enumerate(clients)
        for place, mechanism in enumerate(Mechanism)
        if mechanism not in client.never
    ]
    # With few mechanisms, a client would have one transport only.
    return [*found, *_others([row for row in found if row.client.never])]


def all_rows(clients: Sequence[Client]) -> list[Row]:
    """Return each combination."""
    found = rows(clients)
    return [*found, *(row for row in _others(found) if row not in found)]


def brief(clients: Sequence[Client]) -> list[Row]:
    """Return a row for each client, which together have each combination of mechanism and transport."""
    found = []
    for number, client in enumerate(clients):
        place = number % len(Mechanism)
        mechanism = tuple(Mechanism)[place]
        transport = _transport(mechanism, number // len(Mechanism) + place)
        found.append(Row(client=client, transport=transport, mechanism=mechanism))
    return found


def _transport(mechanism: Mechanism, number: int) -> Transport:
    return Transport.MUTUAL if mechanism is Mechanism.CERTIFICATE else _WITH_SASL[number % len(_WITH_SASL)]


def _others(found: Sequence[Row]) -> list[Row]:
    """Return the same with the other transport with SASL."""
    return [
        replace(row, transport=next(each for each in _WITH_SASL if each is not row.transport))
        for row in found
        if row.transport in _WITH_SASL
    ]


def table(done: Sequence[tuple[Row, str]]) -> str:
    """Return what was tried, and how it ended."""
    lines = [f"{'client':<17} {'transport':<15} {'mechanism':<14} {' '.join(OPERATIONS)}  result"]
    for row, result in done:
        operations = " ".join(f"{'yes' if each in row.client.operations else '-':<{len(each)}}" for each in OPERATIONS)
        lines.append(f"{row.client.name:<17} {row.transport:<15} {row.mechanism:<14} {operations}  {result}")
    return "\n".join(lines)
