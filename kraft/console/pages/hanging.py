"""Transactions that no coordinator will ever end, and the abort of one in its partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from kraft.client import ErrorCode, Refusal, TopicPartition
from kraft.console.asking import CHANGE_CLIENT_MS, CLIENT_MS, Asked, Panel
from kraft.console.forms import Changed, Done, WrongInput
from kraft.console.pages.transactions import known_topics, now_ms, partition_in, producers_of
from kraft.health.hanging import OpenInPartition, find_hanging, open_transactions, why_not_hanging

if TYPE_CHECKING:
    from kraft.client import Admin

PARTITIONS_MAX: Final = 5_000
"""Partitions of one search."""

IDLE_MINUTES: Final = 15
"""Kafka's limit on the time that a transaction may take; the search leaves out what was written to since."""

_OFFSET_MAX: Final = 2**63 - 1


class HangingRow(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    transactional_id: str | None
    """None: no coordinator knows the producer id."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_write_ms: int
    holds_readers: bool
    """Whether consumers of committed records read up to its start."""


class HangingFound(Struct, frozen=True, kw_only=True):
    hanging: list[HangingRow]
    open: int
    """Transactions that are open, hanging or not."""

    searched: int
    failed: int
    """Partitions whose producers are not known."""

    first_failure: str


class HangingTransactions(Struct, frozen=True, kw_only=True):
    topic: str
    minutes: str
    found: Panel[HangingFound] | None
    """None: nothing was searched yet."""

    @property
    def status(self) -> int:
        return 200 if self.found is None else self.found.status


class Abort(Struct, frozen=True, kw_only=True):
    """One open transaction, and whether it may be aborted."""

    name: str
    """The partition, as it has to be typed."""

    transaction: Panel[HangingRow]
    objection: str
    """Why it must not be aborted."""

    @property
    def status(self) -> int:
        return self.transaction.status


async def hanging(asked: Asked) -> HangingTransactions:
    topic, minutes = asked.form.text("topic"), asked.form.text("minutes", str(IDLE_MINUTES))
    if "minutes" not in asked.form:
        return HangingTransactions(topic=topic, minutes=minutes, found=None)
    try:
        idle_ms = asked.form.number("minutes", 0, 100_000) * 60_000
    except WrongInput as error:
        return HangingTransactions(
            topic=topic, minutes=minutes, found=Panel(problem=str(error), code="INVALID_REQUEST")
        )
    found = await asked.panel(lambda: _search(asked.admin, topic, idle_ms))
    return HangingTransactions(topic=topic, minutes=minutes, found=found)


def _search(admin: Admin, topic: str, idle_ms: int) -> HangingFound:
    topics = known_topics(admin, topic)
    places = [TopicPartition(name, each.partition_index) for name, found in topics.items() for each in found.partitions]
    if len(places) > PARTITIONS_MAX:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            f"these are {len(places):,} partitions, and at most {PARTITIONS_MAX:,} are searched here: name a topic, or "
            "use kraft transactions find-hanging",
        )
    found = find_hanging(admin, sorted(places), None, idle_ms, now_ms())
    return HangingFound(
        hanging=[row_of(each) for each in found.hanging],
        open=found.open,
        searched=len(places) - len(found.failed),
        failed=len(found.failed),
        first_failure=str(next(iter(found.failed.values()), "")),
    )


def row_of(transaction: OpenInPartition) -> HangingRow:
    producer = transaction.producer
    return HangingRow(
        topic=transaction.partition.topic,
        partition=transaction.partition.partition,
        transactional_id=transaction.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        coordinator_epoch=producer.coordinator_epoch,
        start_offset=transaction.start_offset,
        last_write_ms=producer.last_timestamp,
        holds_readers=transaction.holds_last_stable_offset,
    )


# --- abort ---------------------------------------------------------------------------------------------------------


async def abort_page(asked: Asked) -> Abort:
    try:
        place, start_offset = partition_in(asked), asked.form.number("start_offset", 0, _OFFSET_MAX)
    except WrongInput as error:
        return Abort(name="", transaction=Panel(problem=str(error), code="INVALID_REQUEST"), objection="")
    found = await asked.panel(lambda: _with_objection(asked.admin, place, start_offset))
    if found.value is None:
        return Abort(name=str(place), transaction=Panel(problem=found.problem, code=found.code), objection="")
    transaction, objection = found.value
    return Abort(name=str(place), transaction=Panel(value=row_of(transaction)), objection=objection)


def _with_objection(admin: Admin, place: TopicPartition, start_offset: int) -> tuple[OpenInPartition, str]:
    transaction = open_at(admin, place, start_offset)
    objection = why_not_hanging(admin, transaction)
    return transaction, "" if objection is None else f"{objection}; its producer or its timeout ends it"


def open_at(admin: Admin, place: TopicPartition, start_offset: int) -> OpenInPartition:
    """Return the open transaction that begins there. Raises KraftError."""
    for each in open_transactions({place: producers_of(admin, place)}):
        if each.start_offset == start_offset:
            return each
    text = f"no transaction that begins at offset {start_offset} is open in {place} any more: there is nothing to abort"
    raise Refusal(ErrorCode.INVALID_TXN_STATE, text)


async def abort(asked: Asked) -> Done:
    """Abort a transaction that hangs. Raises KraftError."""
    place, start_offset = partition_in(asked), asked.form.number("start_offset", 0, _OFFSET_MAX)
    if asked.form.raw("confirm") != str(place):
        raise WrongInput(f"Nothing was done: type {place} as it is written to confirm.")

    def make() -> OpenInPartition:
        transaction, objection = _with_objection(asked.admin, place, start_offset)
        if objection:
            raise Changed(f"Not aborted: {objection}.")
        producer = transaction.producer
        asked.admin.abort_transaction(
            place,
            producer.producer_id,
            producer.producer_epoch,
            producer.coordinator_epoch,
            timeout_ms=CHANGE_CLIENT_MS - CLIENT_MS,
        )
        return transaction

    aborted = await asked.change(make)
    return Done(
        where=f"/clusters/{asked.cluster.name}/transaction-hanging",
        said=f"The transaction of producer {aborted.producer.producer_id} was aborted in {place}.",
    )
