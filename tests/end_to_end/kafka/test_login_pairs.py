"""Clients log in and do all that they can do: a row for each client, with all mechanisms and transports among them.

`python -m tests.soak.login_runs` runs the whole table, in which each pair of client, mechanism and transport occurs;
with `--all`, each combination. Spark's rows are in `tests/end_to_end/spark/test_spark_security.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import pytest

from tests.support.kafka.kafka_programs import kcat
from tests.support.kafka.logins.places import USER, ClosedNodes, Mechanism, Transport, closed_nodes
from tests.support.kafka.logins.rows import PROGRAMS, Client, Row, brief, rows

# The first ones may have to fetch Kafka's jars, and to build what they need of Java and Go, once.
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(name="nodes", scope="module")
def _nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClosedNodes]:
    with closed_nodes(tmp_path_factory.mktemp("closed")) as nodes:
        yield nodes


@pytest.mark.parametrize("row", brief(PROGRAMS), ids=str)
def test_a_client_produces_reads_in_a_group_administers_and_commits(nodes: ClosedNodes, row: Row) -> None:
    row.run(nodes, str(row))


def test_the_unsigned_tokens_that_kcat_makes_log_nobody_in(nodes: ClosedNodes) -> None:
    place = nodes.place(Transport.SASL_PLAINTEXT, Mechanism.OAUTHBEARER)
    settings = {
        "security.protocol": place.transport.value,
        "sasl.mechanism": place.mechanism.value,
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": f"principal={USER}",
    }
    how = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    with pytest.raises(AssertionError, match="invalid_token"):
        kcat(place.kafka_servers, *how, "-L", "-m", "3")


def _pairs(found: list[Row]) -> set[frozenset[object]]:
    return {
        frozenset(pair) for row in found for pair in combinations((row.client.name, row.transport, row.mechanism), 2)
    }


def test_the_table_has_each_pair_that_is_possible() -> None:
    clients = [*PROGRAMS, *(Client(name=name, exercise=lambda *_: []) for name in ("one for Spark", "another"))]
    possible = _pairs(
        [
            Row(client=client, transport=transport, mechanism=mechanism)
            for client in clients
            for transport in Transport
            for mechanism in Mechanism
            if (transport is Transport.MUTUAL) is (mechanism is Mechanism.CERTIFICATE) and mechanism not in client.never
        ]
    )
    assert _pairs(rows(clients)) == possible
    logins = {(row.transport, row.mechanism) for row in brief(clients)}
    assert len(logins) == 2 * 4 + 1
    assert all(row.mechanism not in row.client.never for row in brief(clients))
