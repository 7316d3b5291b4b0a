"""A shard writes records of transactions and markers as batches of their own, in the order of its decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import Struct

from kraft.coordinator.shard import (
    DecisionContext,
    Reply,
    Shard,
    ShardDecision,
    Ticket,
    TimerKey,
    TransactionalProducer,
)
from kraft.coordinator.shard_effects import AppendBatch, Load, RefuseAll, SendReplies, SetTimer
from kraft.coordinator.shard_machine import RETRY_MS, ShardFacts, ShardMachine
from kraft.log.append_work import COORDINATOR_RECORDS, AppendOrigin
from kraft.log.format.control_record import EndTransactionMarker, MarkerType, build_marker
from kraft.log.format.record_batch import HEADER_BYTES, decode_batch, read_header
from kraft.log.transactions.verification import VerificationGuard
from kraft.metadata.image import EMPTY_IMAGE
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset

FENCED = Refusal(ErrorCode.INVALID_PRODUCER_EPOCH, "a later epoch is known")
UNWRITABLE = Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, "too few replicas")
COORDINATOR = AppendOrigin(is_coordinator=True)

History = tuple[str, ...]


class Write(Struct, frozen=True):
    """Write these texts, for a producer's transaction if there is one; the reply is the history before."""

    texts: tuple[str, ...]
    producer: TransactionalProducer | None = None
    is_atomic: bool = True


class Noting(Shard[History, str, Write, str]):
    """The replicated state is what was replayed, in order."""

    def empty(self) -> History:
        return ()

    def replay(self, replicated: History, record: str) -> History:
        return (*replicated, record)

    def replay_transactional(self, replicated: History, producer_id: int, record: str) -> History:
        return (*replicated, f"{record} of {producer_id}")

    def replay_end_transaction(self, replicated: History, producer_id: int, is_commit: bool) -> History:
        return (*replicated, f"{'commit' if is_commit else 'abort'} of {producer_id}")

    def loaded(self, replicated: History, context: DecisionContext) -> ShardDecision[str, str]:
        return ShardDecision(volatile="in memory")

    def decide(
        self, replicated: History, volatile: str, ticket: Ticket, command: Write, context: DecisionContext
    ) -> ShardDecision[str, str]:
        return ShardDecision(
            volatile=volatile,
            records=command.texts,
            producer=command.producer,
            is_atomic=command.is_atomic,
            replies=(Reply(ticket, replicated),),
        )

    def timer_ended(
        self, replicated: History, volatile: str, key: TimerKey, context: DecisionContext
    ) -> ShardDecision[str, str]:
        raise AssertionError("there are no timers")


class Host:
    """Appends to a list when the test says so."""

    def __init__(self) -> None:
        self.fenced: set[int] = set()
        self.checked: list[AppendOrigin] = []
        self.appending: AppendBatch | None = None
        self.log: list[AppendBatch] = []
        self.answers: dict[int, Any] = {}
        self.refused: list[Refusal] = []
        self.tickets = 0
        self.shard: ShardMachine[History, str, Write, str] = ShardMachine(
            Noting(),
            lambda text: (text.encode(), b""),
            ShardFacts(
                context=self.context,
                batch_bytes_max=lambda: 1_000,
                append_refusal=lambda: None,
                producer_refusal=self._producer_refusal,
            ),
            (),
        )
        self.run(self.shard.start())

    def context(self) -> DecisionContext:
        return DecisionContext(now_ms=1_000, image=EMPTY_IMAGE, random_id="id")

    def _producer_refusal(self, batch: bytes, origin: AppendOrigin) -> Refusal | None:
        self.checked.append(origin)
        return FENCED if read_header(batch).producer_id in self.fenced else None

    def run(self, effects: Sequence[Any]) -> None:
        for effect in effects:
            match effect:
                case AppendBatch():
                    assert self.appending is None, "one append at a time"
                    self.appending = effect
                case SendReplies():
                    for reply in effect.replies:
                        code = reply.response.error_code if isinstance(reply.response, Refusal) else reply.response
                        self.answers[reply.ticket] = code
                case RefuseAll():
                    self.refused.append(effect.refusal)
                case Load():
                    self.run(self.shard.loaded(Noting().loaded(effect.replicated, self.context())))
                case SetTimer() if effect.delay_ms == RETRY_MS:
                    self.reload = effect
                case _:
                    pass

    def write(self, *texts: str, producer: TransactionalProducer | None = None, is_atomic: bool = True) -> int:
        self.tickets += 1
        self.run(self.shard.command(Ticket(self.tickets), Write(texts, producer, is_atomic)))
        return self.tickets

    def end(self, producer_id: int, is_commit: bool = True, epoch: int = 0) -> int:
        self.tickets += 1
        self.run(self.shard.end_transaction(Ticket(self.tickets), marker(producer_id, is_commit, epoch), COORDINATOR))
        return self.tickets

    def append(self) -> None:
        """Append everything that is decided."""
        self.run(self.shard.flush())
        while self.appending is not None:
            self.log.append(self.appending)
            self.appending = None
            self.run(self.shard.appended(Offset(len(self.log))))
            self.run(self.shard.flush())

    def commit(self, end: int | None = None) -> None:
        self.run(self.shard.high_watermark_advanced(Offset(len(self.log) if end is None else end)))

    def contents(self) -> list[tuple[int, bool, list[str]]]:
        """Return producer id, whether the batch holds a marker, and the texts of each batch in the log."""
        found = []
        for each in self.log:
            header = read_header(each.batch)
            texts = [] if header.is_control else [(record.key or b"").decode() for record in decode_batch(each.batch)]
            found.append((header.producer_id, header.is_control, texts))
        return found


def marker(producer_id: int, is_commit: bool = True, epoch: int = 0) -> bytes:
    kind = MarkerType.COMMIT if is_commit else MarkerType.ABORT
    return build_marker(EndTransactionMarker(type=kind, coordinator_epoch=1), producer_id, epoch, 1_000)


def producer(producer_id: int = 7, guard: VerificationGuard | None = None) -> TransactionalProducer:
    return TransactionalProducer(producer_id=producer_id, epoch=3, guard=guard)


def test_records_of_a_transaction_are_alone_in_a_batch_between_the_others() -> None:
    host = Host()
    host.write("a")
    host.write("b", "c", producer=producer(7))
    host.write("d", producer=producer(8))
    host.write("e")
    host.write("f")
    host.append()
    assert host.contents() == [
        (-1, False, ["a"]),
        (7, False, ["b", "c"]),
        (8, False, ["d"]),
        (-1, False, ["e", "f"]),
    ]
    assert host.shard.latest == ("a", "b of 7", "c of 7", "d of 8", "e", "f")


def test_a_transactional_batch_has_its_producer_and_no_sequence() -> None:
    host, guard = Host(), VerificationGuard()
    host.write("a", producer=producer(7, guard))
    host.append()
    (appended,) = host.log
    header = read_header(appended.batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, -1)
    assert header.is_transactional
    assert not header.is_control
    assert appended.origin == AppendOrigin(is_coordinator=True, guard=guard, is_verified_again=True)
    assert appended.origin.guard is guard


def test_a_batch_without_transaction_is_checked_as_one_of_a_client_but_for_its_size() -> None:
    host = Host()
    host.write("a")
    host.append()
    assert host.log[0].origin is COORDINATOR_RECORDS
    assert host.checked == [], "it has no producer to check"


def test_records_of_a_transaction_stay_together_although_the_decision_is_not_atomic() -> None:
    host = Host()
    host.write("a", "b", producer=producer(), is_atomic=False)
    host.append()
    assert host.contents() == [(7, False, ["a", "b"])]


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_is_replayed_in_the_order_of_the_log_and_answered_when_it_is_committed(is_commit: bool) -> None:
    host = Host()
    host.write("a")
    ended = host.end(7, is_commit)
    later = host.write("b")
    assert host.shard.latest == ("a", f"{'commit' if is_commit else 'abort'} of 7", "b")
    host.append()
    assert host.contents() == [(-1, False, ["a"]), (7, True, []), (-1, False, ["b"])]
    assert host.log[1].batch == marker(7, is_commit)
    assert host.log[1].origin is COORDINATOR
    host.commit(1)
    assert ended not in host.answers
    assert list(host.shard.committed) == ["a"]
    host.commit(2)
    assert host.answers[ended] is None
    assert host.shard.committed == host.shard.latest[:2]
    assert later not in host.answers
    host.commit()
    assert host.answers[later] == host.shard.latest[:2], "it was decided after the marker"


def test_an_old_producer_and_an_old_transaction_coordinator_are_refused_alone() -> None:
    host = Host()
    host.fenced.add(7)
    before = host.write("a")
    refused = host.write("b", producer=producer(7)), host.end(7)
    host.append()
    host.commit()
    assert [host.answers[ticket] for ticket in refused] == [ErrorCode.INVALID_PRODUCER_EPOCH] * 2
    assert host.answers[before] == ()
    assert host.contents() == [(-1, False, ["a"])]
    assert list(host.shard.latest) == ["a"]
    assert host.shard.volatile is not None


def test_a_producer_whose_batch_is_not_in_the_log_yet_is_sent_back() -> None:
    """The log cannot say yet what it will think of a second one."""
    host = Host()
    host.write("a", producer=producer(7))
    refused = host.end(7), host.write("b", producer=producer(7))
    assert [host.answers[ticket] for ticket in refused] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    host.run(host.shard.flush())
    again = host.end(7)
    assert host.answers[again] is ErrorCode.COORDINATOR_NOT_AVAILABLE, "it is being appended"
    other = host.end(8)
    assert other not in host.answers
    host.log.append(host.appending)  # type: ignore[arg-type]
    host.appending = None
    host.run(host.shard.appended(Offset(1)))
    host.end(7)
    host.append()
    assert [producer_id for producer_id, _, _ in host.contents()] == [7, 8, 7]


def test_after_a_failed_append_the_state_has_no_marker_that_is_not_in_the_log() -> None:
    host = Host()
    host.write("a", producer=producer(7))
    host.append()
    ended = host.end(7)
    host.run(host.shard.flush())
    host.appending = None
    host.run(host.shard.append_failed(UNWRITABLE))
    assert list(host.shard.latest) == ["a of 7"]
    assert [refusal.error_code for refusal in host.refused] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    refused = host.end(7)
    assert host.answers[refused] is ErrorCode.COORDINATOR_NOT_AVAILABLE, "it is loaded again first"
    host.run(host.shard.timer_ended(host.reload.key, host.reload.number))
    host.end(7)
    host.append()
    host.commit()
    assert ended not in host.answers
    assert list(host.shard.committed) == ["a of 7", "commit of 7"]


def test_a_transaction_counts_against_the_limits_of_a_batch() -> None:
    host = Host()
    refused = host.write(*"a" * 100, producer=producer(7))
    assert host.answers[refused] is ErrorCode.UNKNOWN_SERVER_ERROR
    host.write(*"b" * 20, producer=producer(7))
    host.append()
    assert HEADER_BYTES < len(host.log[0].batch) <= 1_000
