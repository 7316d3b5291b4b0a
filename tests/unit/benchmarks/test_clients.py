"""The benchmark of clients runs a real node, and the loads' own processes; here few records are sent."""

from __future__ import annotations

from benchmarks.client_load import Client
from benchmarks.clients import Plan, measure
from benchmarks.servers import node


def test_every_client_has_a_row_for_what_it_can_do_and_a_wait() -> None:
    with node() as server:
        report = measure(server, Plan(records=20_000, rounds=1, waits=100, sizes=(100,)))
    assert [(row["action"], row["client"]) for row in report.rows] == [
        (action, client)
        for action in ("send", "send many", "poll")
        for client in Client
        if action != "send many" or client is not Client.KAFKA_PYTHON
    ]
    assert all(isinstance(row["records/s"], int) and row["records/s"] > 0 for row in report.rows)
    assert [note.partition(": a lone record waits")[0] for note in report.notes[-len(Client) :]] == list(Client)
