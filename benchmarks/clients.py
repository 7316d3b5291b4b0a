"""`python -m benchmarks.clients`: clients for programs in Python on one node: rate, CPU, and the wait of a lone record.

Our own over gRPC, and confluent-kafka and kafka-python over Kafka's protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Annotated, Final

import typer
from rich.progress import Progress

from benchmarks import client_load
from benchmarks.client_load import WARM_UP_RECORDS, Client, Load
from benchmarks.kafka_load import Latencies, LoadFailed
from benchmarks.report import Cell, Output, Report, print_report
from benchmarks.servers import Server, node

RECORDS: Final = 300_000
ROUNDS: Final = 5
WAITS: Final = 2_000
SIZES: Final = (100, 1_000)
OF: Final = Client.CONFLUENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured."""

    records: int = RECORDS
    rounds: int = ROUNDS
    waits: int = WAITS
    """Lone records, in each round."""
    sizes: Sequence[int] = SIZES
    """Bytes of a value; lone records have the first one."""


@dataclass(slots=True)
class Figures:
    """Figures of one action of one client, one value for each round."""

    loads: list[Load] = field(default_factory=list)
    node_us: list[float] = field(default_factory=list)
    """CPU time of the node, a record."""

    def per_s(self) -> float:
        return median(load.records_per_s for load in self.loads)

    def client_us(self) -> float:
        return median(load.cpu_us for load in self.loads)


_ACTIONS: Final = ("send", "send many", "poll")


def measure(server: Server, plan: Plan) -> Report:
    figures = {(action, size, client): Figures() for action in _ACTIONS for size in plan.sizes for client in Client}
    waits: dict[Client, list[Latencies]] = {client: [] for client in Client}
    clients = tuple(Client)
    with Progress(transient=True) as progress:
        for number in progress.track(range(plan.rounds), description="measuring"):
            turns = (*clients[number % len(clients) :], *clients[: number % len(clients)])
            for size in plan.sizes:
                for client in turns:
                    _flow(server, client, f"{client}-{size}-{number}", plan.records, size, figures)
            for client in turns:
                topic = f"wait-{client}-{number}"
                server.topics.make(topic, 1)
                waits[client].append(
                    client_load.wait(client, _address(server, client), topic, plan.waits, plan.sizes[0])
                )
    rows = [
        _row(action, size, client, figures)
        for action in _ACTIONS
        for size in plan.sizes
        for client in Client
        if figures[action, size, client].loads
    ]
    return Report(
        title="Clients for programs in Python, one node, one partition, acks=all, idempotent",
        durability="page cache: what is written counts, and is synced later",
        rows=rows,
        notes=[
            f"Medians of {plan.rounds} rounds of {plan.records:,} records, the clients in turns, on the node's cores.",
            "send: a call and a callback for each record. send many: a call for 10,000. poll: 10,000 at most.",
            f"x: beside {OF}. us: CPU of the client's process and of the node, a record.",
            *(_wait_note(client, waits[client], plan) for client in Client),
        ],
    )


def _wait_note(client: Client, waits: list[Latencies], plan: Plan) -> str:
    p50_ms, p99_ms = median(each.p50_ms for each in waits), median(each.p99_ms for each in waits)
    return f"{client}: a lone record waits {p50_ms:.2f} ms (p50), {p99_ms:.2f} ms (p99); {plan.waits:,} a round."


def _address(server: Server, client: Client) -> str:
    if client is not Client.KRAFT:
        return server.address
    assert server.grpc_address is not None, "it is ours"
    return server.grpc_address


def _flow(
    server: Server, client: Client, topic: str, records: int, size: int, figures: dict[tuple[str, int, Client], Figures]
) -> None:
    address = _address(server, client)

    def measured(action: str, counted: int, load: Callable[[], Load]) -> None:
        before_s = server.cpu_s()
        into = figures[action, size, client]
        into.loads.append(load())
        into.node_us.append((server.cpu_s() - before_s) / counted * 1e6)

    server.topics.make(topic, 1)
    with_warm_up = records + WARM_UP_RECORDS
    measured("send", with_warm_up, lambda: client_load.send(client, address, topic, records, size))
    measured("poll", with_warm_up, lambda: client_load.poll(client, address, topic, with_warm_up))
    if client.can_send_many:
        server.topics.make(f"{topic}-many", 1)
        measured(
            "send many", with_warm_up, lambda: client_load.send_many(client, address, f"{topic}-many", records, size)
        )


def _row(action: str, size: int, client: Client, figures: dict[tuple[str, int, Client], Figures]) -> dict[str, Cell]:
    own, of = figures[action, size, client], figures[action, size, OF]
    return {
        "action": action,
        "bytes": size,
        "client": client,
        "records/s": round(own.per_s()),
        "x": own.per_s() / of.per_s(),
        "client us": own.client_us(),
        "node us": median(own.node_us),
    }


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    records: Annotated[int, typer.Option(min=50_000, help="Out and in, in each round.")] = RECORDS,
    rounds: Annotated[int, typer.Option(min=1)] = ROUNDS,
    waits: Annotated[int, typer.Option(min=100, help="Lone records, in each round.")] = WAITS,
    output: Annotated[Output, typer.Option(help="For people or for programs.")] = Output.TABLE,
) -> None:
    """Our client over gRPC, beside confluent-kafka and kafka-python on the same node."""
    try:
        with node() as server:
            print_report(measure(server, Plan(records=records, rounds=rounds, waits=waits)), output)
    except LoadFailed as failed:
        raise SystemExit(f"clients: {failed}") from None


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.clients")
