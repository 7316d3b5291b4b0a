"""Finds hanging transactions: open in a partition, while no coordinator will ever end them there.

As in Kafka, a transaction is looked at if its producer has not written for longer than any transaction may take. It
hangs if no coordinator knows the producer id, or if the coordinator's transaction does not have the partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from kraft.client import Admin, ErrorCode, KraftError, Refusal, TopicPartition, TransactionDescription
from kraft.wire.schema.describe_producers import ProducerState

PARTITIONS_AT_ONCE: Final = 500
"""Partitions whose producers are in memory at the same time."""

Producers: TypeAlias = Mapping[TopicPartition, Sequence[ProducerState]]


class OpenInPartition(Struct, frozen=True, kw_only=True):
    """A transaction that is open in a partition."""

    partition: TopicPartition
    producer: ProducerState
    holds_last_stable_offset: bool
    """True for the transaction that began first: consumers of committed records read up to its start."""

    transactional_id: str | None = None
    """None if no coordinator knows the producer id."""

    @property
    def start_offset(self) -> int:
        return self.producer.current_txn_start_offset

    def seconds_since_write(self, now_ms: int) -> float:
        """Return the time since the producer's last batch in the partition."""
        return max(0, now_ms - self.producer.last_timestamp) / 1_000


class HangingSearch(Struct, kw_only=True):
    """Result of a search, while it goes on."""

    hanging: list[OpenInPartition]
    failed: dict[TopicPartition, KraftError]
    """Partitions whose producers are not known."""

    open: int = 0
    """Transactions that are open, hanging or not."""


def open_transactions(producers: Producers) -> list[OpenInPartition]:
    """Return the transactions that are open in these partitions, in their order, by start offset."""
    found = []
    for partition, known in producers.items():
        still_open = sorted(
            (each for each in known if each.current_txn_start_offset >= 0),
            key=lambda each: each.current_txn_start_offset,
        )
        found += [
            OpenInPartition(partition=partition, producer=each, holds_last_stable_offset=each is still_open[0])
            for each in still_open
        ]
    return found


def find_hanging(
    admin: Admin, partitions: Sequence[TopicPartition], broker_id: int | None, idle_ms: int, now_ms: int
) -> HangingSearch:
    """Search the partitions, as their leaders or this broker know them.

    Only producers that have not written for longer than `idle_ms` are looked at.
    """
    found = HangingSearch(hanging=[], failed={})
    for start in range(0, len(partitions), PARTITIONS_AT_ONCE):
        outcomes = admin.describe_producers(partitions[start : start + PARTITIONS_AT_ONCE], broker_id=broker_id)
        found.failed.update({each: outcome for each, outcome in outcomes.items() if isinstance(outcome, KraftError)})
        known = {each: outcome for each, outcome in outcomes.items() if not isinstance(outcome, KraftError)}
        all_open = open_transactions(known)
        found.open += len(all_open)
        candidates = [each for each in all_open if now_ms - each.producer.last_timestamp > idle_ms]
        found.hanging.extend(_still_open(admin, hanging_of(admin, candidates), broker_id))
    return found


def hanging_of(admin: Admin, candidates: Sequence[OpenInPartition]) -> list[OpenInPartition]:
    """Return those of the open transactions that their coordinators do not have, with their transactional ids."""
    if not candidates:
        return []
    ids, described = coordinated(admin, {each.producer.producer_id for each in candidates})
    hanging = []
    for each in candidates:
        transactional_id = ids.get(each.producer.producer_id)
        description = None if transactional_id is None else described.get(transactional_id)
        if description is None or each.partition not in description.partitions:
            hanging.append(
                OpenInPartition(
                    partition=each.partition,
                    producer=each.producer,
                    holds_last_stable_offset=each.holds_last_stable_offset,
                    transactional_id=transactional_id,
                )
            )
    return hanging


def coordinated(admin: Admin, producer_ids: Iterable[int]) -> tuple[dict[int, str], dict[str, TransactionDescription]]:
    """Return the transactional ids of the producer ids, and their descriptions, as far as coordinators know them.

    Raises Refusal.
    """
    listed = admin.list_transactions(producer_ids=sorted(producer_ids))
    ids = {each.producer_id: each.transactional_id for each in listed}
    described: dict[str, TransactionDescription] = {}
    for transactional_id, outcome in admin.describe_transactions(ids.values()).items():
        if not isinstance(outcome, Refusal):
            described[transactional_id] = outcome
        elif outcome.error_code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise outcome
    return ids, described


def why_not_hanging(admin: Admin, transaction: OpenInPartition) -> str | None:
    """Return why an open transaction does not hang; None if it does. Raises Refusal."""
    ids, described = coordinated(admin, [transaction.producer.producer_id])
    transactional_id = ids.get(transaction.producer.producer_id, "")
    description = described.get(transactional_id)
    if description is None or transaction.partition not in description.partitions:
        return None
    return (
        f"the transaction does not hang: its coordinator, broker {description.coordinator.node_id}, has it as "
        f"{description.state} of transactional id {transactional_id!r}"
    )


def _still_open(admin: Admin, transactions: Sequence[OpenInPartition], broker_id: int | None) -> list[OpenInPartition]:
    """Leave out those that have ended since: a coordinator forgets a transaction when its markers are written."""
    outcomes = admin.describe_producers([each.partition for each in transactions], broker_id=broker_id)
    known = {each: outcome for each, outcome in outcomes.items() if not isinstance(outcome, KraftError)}
    now_open = {(each.partition, each.producer.producer_id, each.start_offset) for each in open_transactions(known)}
    return [
        each
        for each in transactions
        if each.partition not in known or (each.partition, each.producer.producer_id, each.start_offset) in now_open
    ]
