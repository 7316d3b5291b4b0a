"""Metrics of the budgets of memory: what clients can make a node hold."""

from __future__ import annotations

from typing import Final

from kraft.server.loop.budget import Budget
from kraft.server.metrics.metric import Metric, gauge
from kraft.server.metrics.node_parts import NodeParts
from kraft.server.metrics.snapshot import Snapshot

HELD: Final = gauge(
    "kraft_memory_budget_bytes",
    "Memory that counts in a budget: requests of Kafka's clients that arrive or are carried out, responses that they"
    " have not read, and records of all clients that wait to be appended.",
    "budget",
)
HELD_MAX: Final = gauge(
    "kraft_memory_budget_max_bytes",
    "Size of the budget, which one request may exceed. 0: for one request at a time, of any size.",
    "budget",
)
WAITING: Final = gauge("kraft_memory_budget_waiting", "How many wait for a part of a budget.", "budget")
WAITING_APPENDS: Final = gauge(
    "kraft_waiting_appends", "Batches of records that wait to be appended, in the queues of their partitions or before."
)

METRICS: Final[tuple[Metric, ...]] = (HELD, HELD_MAX, WAITING, WAITING_APPENDS)


async def collect(parts: NodeParts, snapshot: Snapshot) -> None:
    budgets: dict[str, Budget] = {} if parts.kafka is None else parts.kafka.memory.budgets
    if parts.broker is not None:
        appends = parts.broker.waiting_appends.budget
        budgets["records_to_append"] = appends
        snapshot.add(WAITING_APPENDS, appends.claimant_count)
    for name, budget in budgets.items():
        snapshot.add(HELD, budget.held, name)
        snapshot.add(HELD_MAX, budget.size_max, name)
        snapshot.add(WAITING, budget.waiting_count, name)
