"""Transactional ids with their transactions, and the producers of a partition."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from kraft.client import ErrorCode, KraftError, Refusal, TopicPartition
from kraft.console.asking import CLIENT_MS, ROWS_MAX, Asked, Paged, Panel, Wanted, as_far_as_known, wanted
from kraft.console.forms import WrongInput
from kraft.health.facts import PROBE_MS

if TYPE_CHECKING:
    from kraft.client import Admin, TransactionDescription
    from kraft.wire.schema.describe_producers import ProducerState
    from kraft.wire.schema.metadata import MetadataResponseTopic

SORTS: Final = ("name", "state", "producer")

OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
"""States of a transaction that is not complete."""


PARTITION_MAX: Final = 2**31 - 1


class TransactionRow(Struct, frozen=True, kw_only=True):
    transactional_id: str
    state: str
    producer_id: int
    coordinator: int


class Begun(Struct, frozen=True, kw_only=True):
    """The last transaction of a transactional id, which is open or was."""

    start_ms: int | None
    """Since 1970; None: there was none yet."""

    open_ms: int | None
    """How long it has been open; None: it is complete."""

    timeout_ms: int
    partitions: int


class Transactions(Struct, frozen=True, kw_only=True):
    transactions: Panel[Paged[TransactionRow]]
    missing: str = ""
    """Brokers that did not answer: the transactional ids that they coordinate are not in the list."""

    begun: Panel[dict[str, Begun]]
    """Of the open ones of this page of the table."""

    show: str
    """`all`, or `open`."""

    @property
    def status(self) -> int:
        return self.transactions.status


class TransactionFacts(Struct, frozen=True, kw_only=True):
    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    coordinator: int
    begun: Begun
    places: list[str]
    """Partitions of an open transaction, the first ones if there are many."""


class Transaction(Struct, frozen=True, kw_only=True):
    transactional_id: str
    transaction: Panel[TransactionFacts]

    @property
    def status(self) -> int:
        return self.transaction.status


class ProducerRow(Struct, frozen=True, kw_only=True):
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_write_ms: int
    start_offset: int | None
    """First offset of its open transaction; None: it has none."""


class Producers(Struct, frozen=True, kw_only=True):
    """The producers of a partition that the form names; None: nothing was asked for yet."""

    topic: str
    partition: str
    producers: Panel[list[ProducerRow]] | None

    @property
    def status(self) -> int:
        return 200 if self.producers is None else self.producers.status


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def transactions(asked: Asked) -> Transactions:
    show = "open" if asked.query.get("show") == "open" else "all"
    listed = await asked.panel(lambda: _listed(asked.admin, wanted(asked.query, SORTS), show))
    page, missing = listed.value or (None, "")
    rows = [] if page is None else page.rows
    still_open = [each.transactional_id for each in rows if each.state in OPEN_STATES]
    begun = await asked.panel(lambda: _begun(asked.admin, still_open))
    of_page: Panel[Paged[TransactionRow]] = Panel(value=page, problem=listed.problem, code=listed.code)
    return Transactions(transactions=of_page, missing=missing, begun=begun, show=show)


def _listed(admin: Admin, asked_for: Wanted, show: str) -> tuple[Paged[TransactionRow], str]:
    states = OPEN_STATES if show == "open" else ()
    listed, missing = as_far_as_known(lambda: admin.list_transactions(states=states, timeout_ms=PROBE_MS))
    rows = [
        TransactionRow(
            transactional_id=each.transactional_id,
            state=each.state,
            producer_id=each.producer_id,
            coordinator=each.coordinator_id,
        )
        for each in listed
    ]
    found = [each for each in rows if asked_for.matches(each.transactional_id)]

    def key(each: TransactionRow) -> tuple[str, int, str]:
        state = each.state if asked_for.sort == "state" else ""
        return state, each.producer_id if asked_for.sort == "producer" else 0, each.transactional_id

    return asked_for.shown(found, len(rows), key), missing


def _begun(admin: Admin, ids: Sequence[str]) -> dict[str, Begun]:
    described = admin.describe_transactions(ids, timeout_ms=CLIENT_MS) if ids else {}
    now = now_ms()
    return {name: begun_of(each, now) for name, each in described.items() if not isinstance(each, Refusal)}


def begun_of(transaction: TransactionDescription, now: int) -> Begun:
    return Begun(
        start_ms=transaction.start_ms,
        open_ms=transaction.duration_ms(now) if transaction.state in OPEN_STATES else None,
        timeout_ms=transaction.timeout_ms,
        partitions=len(transaction.partitions),
    )


async def transaction(asked: Asked) -> Transaction:
    name = asked.path["transactional_id"]

    def ask() -> TransactionFacts:
        return facts_of(asked.admin.find_transaction(name, timeout_ms=CLIENT_MS), now_ms())

    return Transaction(transactional_id=name, transaction=await asked.panel(ask))


def facts_of(found: TransactionDescription, now: int) -> TransactionFacts:
    return TransactionFacts(
        transactional_id=found.transactional_id,
        state=found.state,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        coordinator=found.coordinator.node_id,
        begun=begun_of(found, now),
        places=list(map(str, found.partitions[:ROWS_MAX])),
    )


# --- producers of a partition --------------------------------------------------------------------------------------


async def producers(asked: Asked) -> Producers:
    topic, partition = asked.form.text("topic"), asked.form.text("partition")
    if not topic:
        return Producers(topic="", partition="0", producers=None)
    try:
        place = partition_in(asked)
    except WrongInput as error:
        return Producers(topic=topic, partition=partition, producers=Panel(problem=str(error), code="INVALID_REQUEST"))
    found = await asked.panel(lambda: list(map(producer_row, producers_of(asked.admin, place))))
    return Producers(topic=topic, partition=partition, producers=found)


def partition_in(asked: Asked) -> TopicPartition:
    """Return the partition that the form names. Raises WrongInput."""
    topic = asked.form.text("topic")
    if not topic:
        raise WrongInput("name the topic")
    return TopicPartition(topic, asked.form.number("partition", 0, PARTITION_MAX))


def producers_of(admin: Admin, place: TopicPartition) -> Sequence[ProducerState]:
    """Return the producers of the partition, as its leader knows them. Raises KraftError."""
    # The call itself waits for a topic that may be new.
    numbers = [each.partition_index for each in known_topics(admin, place.topic)[place.topic].partitions]
    if place.partition not in numbers:
        raise Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {place.topic!r} has partitions 0 to {max(numbers)}, not {place.partition}",
        )
    found = admin.describe_producers([place], timeout_ms=CLIENT_MS)[place]
    if isinstance(found, KraftError):
        raise found
    return found


def known_topics(admin: Admin, topic: str) -> Mapping[str, MetadataResponseTopic]:
    """Return the topic, or all without a name. Raises Refusal."""
    found = admin.find_topics([topic] if topic else None, timeout_ms=CLIENT_MS)
    if topic and topic not in found:
        raise Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic!r} that you may see: check its name"
        )
    return found


def producer_row(state: ProducerState) -> ProducerRow:
    return ProducerRow(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        coordinator_epoch=state.coordinator_epoch,
        last_sequence=state.last_sequence,
        last_write_ms=state.last_timestamp,
        start_offset=None if state.current_txn_start_offset < 0 else state.current_txn_start_offset,
    )
