"""The batches of one partition between `send` and acknowledgement, for `SendBuffer`, which says when they are sent."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kraft.client.model.values import Delay
from kraft.client.sans_io.send_batch import Batch, ProducerIdentity
from kraft.log.format.record_batch import SEQUENCE_MAX
from kraft.model.ids import TopicPartition

REASON_AGE_MS_MAX: Final = 5_000
"""What a leader said that it waits for counts for this time after it was asked; so does a failure of earlier records as
the reason of later ones."""


class Awaited(Struct, frozen=True):
    """What the leader said that the records wait for, and when it was asked."""

    leader: str
    text: str
    asked_ms: int


class SendQueue:
    """Batches of one partition, oldest first."""

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.batches: list[Batch] = []
        self.open: Batch | None = None
        """The last batch, while records are still added to it. It is not in `batches` yet."""
        self.in_flight: dict[Batch, int] = {}
        """Each batch that waits for its response, with the number of the attempt."""
        self.last_attempt = 0
        """The number of the last attempt of any of its batches."""
        self.leader = ""
        self.awaited: Awaited | None = None
        """Set while the leader does not answer; None once it has acknowledged a batch since."""
        self.retry_at_ms = 0
        self.failures = 0
        """The number of failed attempts in a row."""
        self.last_failure: tuple[int, str] | None = None
        """Time and reason of the latest of them."""
        self.is_retrying = False
        self.identity: ProducerIdentity | None = None
        self.spent_identity: ProducerIdentity | None = None
        """An identity that the queue must not use again."""
        self.is_known = False
        """True once a batch of the present identity was acknowledged, so that every later leader knows it."""
        self.next_sequence = 0
        self.encoded_count = 0
        self.holes: list[int] = []
        """First sequences of batches that were dropped after they may have been sent."""
        self.must_renumber = False
        self.has_lost = False
        """True if an attempt of the open transaction has no response: a broker may still receive it."""

    def seal(self) -> None:
        if self.open is not None:
            self.batches.append(self.open)
            self.open = None

    def next_batch(self) -> Batch | None:
        return next((batch for batch in self.batches if batch not in self.in_flight), None)

    def awaited_now(self, now_ms: int) -> str:
        """Return what the leader waits for; empty if it did not say so a short time ago."""
        told = self.awaited
        if told is None or told.leader != self.leader or now_ms - told.asked_ms > REASON_AGE_MS_MAX:
            return ""
        return told.text

    def failure_now(self, now_ms: int) -> str:
        """Return why the latest attempt failed; empty if that was not a short time ago."""
        if self.last_failure is None or now_ms - self.last_failure[0] > REASON_AGE_MS_MAX:
            return ""
        return self.last_failure[1]

    def reason(self, batch: Batch, now_ms: int) -> str:
        """Return why the batch is not acknowledged, as far as its leader has said so."""
        if batch.last_reason and batch not in self.in_flight:
            return batch.last_reason
        if awaited := self.awaited_now(now_ms):
            return f"no response from {self.leader} yet: it {awaited}"
        if not batch.last_reason and (failure := self.failure_now(now_ms)):
            return f"no response from {self.leader} yet; to the records before: {failure}"
        return batch.last_reason

    def delay(self, now_ms: int, trouble: str) -> Delay | None:
        """Return how long the oldest batch has waited, and why; `trouble` is what keeps all queues from sending."""
        batch = self.batches[0] if self.batches else self.open
        assert batch is not None, "a queue with a delay has a batch"
        since_ms, reason = batch.created_ms, self.reason(batch, now_ms)
        if not batch.last_reason and batch in self.in_flight:
            since_ms, reason = batch.sent_ms, reason or f"no response from {self.leader} yet"
        reason = reason or trouble
        return Delay(partition=self.partition, reason=reason, waited_ms=now_ms - since_ms) if reason else None

    def drop(self, batch: Batch) -> None:
        self.batches.remove(batch)
        self.in_flight.pop(batch, None)
        if batch.base_sequence >= 0:
            self.holes.append(batch.base_sequence)

    def holes_before(self, batch: Batch) -> list[int]:
        # Sequences wrap to zero; a queue never spans half of their range.
        return [hole for hole in self.holes if (batch.base_sequence - hole) & SEQUENCE_MAX <= SEQUENCE_MAX // 2]

    def is_far_ahead(self, batches_max: int) -> bool:
        """True if one more batch would push the oldest unanswered one out of the few that a broker remembers.

        That one may be stored, and the broker must still recognise it when it is sent again.
        """
        oldest = self.batches[0]
        return oldest.encoded is not None and self.encoded_count - oldest.encoded_as + 1 >= batches_max

    def begin_transaction(self) -> None:
        """Begin with sequence 0 under the identity of the next transaction."""
        assert not self.batches, "a transaction ends when each of its records has an outcome"
        assert self.open is None, "a transaction ends when its batches are closed"
        self.identity = self.spent_identity = None
        self.is_known = self.is_retrying = self.must_renumber = self.has_lost = False
        self.next_sequence = self.encoded_count = self.retry_at_ms = self.failures = 0
        self.awaited = self.last_failure = None
        self.holes = []

    def renumber_after_hole(self) -> None:
        """Give the sequences from that of the first hole on to the batches after it, under the same identity.

        Valid only if no broker has stored them, or can still receive an attempt of them.
        """
        hole = min(self.holes)
        for batch in self.batches:
            if batch.base_sequence >= hole:
                batch.forget_encoding()
        self.next_sequence = hole
        self.holes = []
        self.must_renumber = False

    def renumber(self) -> None:
        """Start every batch over under a new identity. Valid only if none of them is stored."""
        for batch in self.batches:
            batch.forget_encoding()
        self.spent_identity, self.identity = self.identity, None
        self.is_known = False
        self.next_sequence = 0
        self.holes = []
        self.must_renumber = False
