"""The state machine of one transactional id: a value for each state, and the transitions between them.

    Empty -> Ongoing -> PrepareCommit -> CompleteCommit -> Ongoing ...
                     -> PrepareAbort  -> CompleteAbort  -> Ongoing ...

InitProducerId makes an id Empty that has no open transaction. Every transition is one record. Source: KIP-98, KIP-360,
KIP-890; TransactionState and TransactionMetadata of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import IntEnum
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from kraft.model.ids import NO_PRODUCER_ID, ProducerEpoch, ProducerId, TopicPartition

EPOCH_MAX: Final = ProducerEpoch(2**15 - 1)
"""Only a coordinator that fences a producer uses this epoch; no producer is given it."""

EPOCH_BUMP: Final = 2
"""The transaction version since which the end of each transaction bumps the epoch (KIP-890)."""

NO_TIME_MS: Final = -1

NO_SEQUENCE: Final = -1


class TransactionState(IntEnum):
    """State of a transactional id, by Kafka's numbers."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """Only a name that a filter may have: an expired id is deleted at once."""

    PREPARE_EPOCH_FENCE = 7
    """Only a name that a filter may have: a producer is fenced in the same step that aborts its transaction."""

    @property
    def kafka_name(self) -> str:
        return "".join(map(str.capitalize, self.name.split("_")))

    @property
    def is_prepared(self) -> bool:
        """True if the transaction is decided, and its markers may not be written yet."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        return self in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)

    @property
    def is_closed(self) -> bool:
        """True if there is no open transaction: the next one may begin, and the id may expire."""
        return self is TransactionState.EMPTY or self.is_complete


_CLOSED: Final = frozenset(state for state in TransactionState if state.is_closed)
_BEFORE: Final[Mapping[TransactionState, Set[TransactionState]]] = {
    TransactionState.EMPTY: _CLOSED,
    TransactionState.ONGOING: _CLOSED | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    # Since version 2 an abort is accepted without a transaction: the producer may not know whether it has begun.
    TransactionState.PREPARE_ABORT: _CLOSED | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
}
"""The states from which each state is reached."""

RECORDED_STATES: Final = frozenset(_BEFORE)


class ProducerIdAndEpoch(Struct, frozen=True):
    """Identity of a producer. A producer with an earlier epoch is fenced."""

    producer_id: ProducerId
    epoch: ProducerEpoch

    @classmethod
    def of(cls, producer_id: int, epoch: int) -> ProducerIdAndEpoch:
        """Return the identity that a message or record names."""
        return cls(ProducerId(producer_id), ProducerEpoch(epoch))

    @property
    def is_exhausted(self) -> bool:
        """True if no producer can be given the next epoch."""
        return self.epoch >= EPOCH_MAX - 1

    def bumped(self) -> ProducerIdAndEpoch:
        """Return the identity with the next epoch, or with the last one again."""
        return replace(self, epoch=min(self.epoch + 1, EPOCH_MAX))


class Transaction(Struct, frozen=True, kw_only=True):
    """A transactional id, with its current or last transaction."""

    state: TransactionState
    producer: ProducerIdAndEpoch
    previous_producer_id: ProducerId = NO_PRODUCER_ID
    """The producer id before the last transition; a record of version 0 does not have it."""

    next_producer_id: ProducerId = NO_PRODUCER_ID
    """The producer id after the transaction, with epoch 0, if the epochs of this one are exhausted."""

    timeout_ms: int
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIME_MS
    updated_ms: int
    """Grows with every transition, also if the clock does not: it identifies one decision of an id."""

    client_version: int = 0
    """The transaction version of the client that added partitions or ended the transaction."""

    last_sequence: int = NO_SEQUENCE
    """The sequence of the last CommitTransactions by this id (docs/adr/0037)."""

    is_temporary: bool = False
    """True if the id is deleted as soon as its transaction has ended."""

    # --- transitions -------------------------------------------------------------------------------------------------

    def initialised(
        self, producer: ProducerIdAndEpoch, timeout_ms: int, now_ms: int, *, is_temporary: bool = False
    ) -> Transaction:
        """Return the id for this producer, without a transaction."""
        return self._after(
            TransactionState.EMPTY,
            now_ms,
            producer=producer,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIME_MS,
            is_temporary=is_temporary,
        )

    def with_sequence(self, sequence: int, now_ms: int) -> Transaction:
        """Return the id after it has committed transactions of others with this sequence."""
        assert self.state.is_closed, "an id with a transaction of its own commits no others"
        return replace(self, last_sequence=sequence, updated_ms=max(now_ms, self.updated_ms + 1))

    def with_partitions(self, added: Set[TopicPartition], client_version: int, now_ms: int) -> Transaction:
        """Return the transaction with these partitions. Without an open transaction, it begins the next one."""
        return self._after(
            TransactionState.ONGOING,
            now_ms,
            partitions=self.partitions | added,
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            client_version=client_version,
        )

    def prepared(
        self,
        *,
        commit: bool,
        producer: ProducerIdAndEpoch,
        client_version: int,
        now_ms: int,
        next_producer_id: ProducerId = NO_PRODUCER_ID,
    ) -> Transaction:
        """Return the decided transaction. Its markers have the identity of `producer`."""
        return self._after(
            TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
            now_ms,
            producer=producer,
            next_producer_id=next_producer_id,
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            client_version=client_version,
        )

    def completed(self, now_ms: int) -> Transaction:
        """Return the transaction after all its markers are written."""
        commits = self.state is TransactionState.PREPARE_COMMIT
        return self._after(
            TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT,
            now_ms,
            producer=self.producer_after,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
        )

    @property
    def producer_after(self) -> ProducerIdAndEpoch:
        """The producer's identity once the transaction is complete."""
        if self.next_producer_id == NO_PRODUCER_ID:
            return self.producer
        return ProducerIdAndEpoch(self.next_producer_id, ProducerEpoch(0))

    def _after(self, state: TransactionState, now_ms: int, **changes: Any) -> Transaction:
        assert self.state in _BEFORE[state], f"{self.state.kafka_name} is not followed by {state.kafka_name}"
        return replace(
            self,
            state=state,
            previous_producer_id=self.producer.producer_id,
            updated_ms=max(now_ms, self.updated_ms + 1),
            **changes,
        )


def new_transaction(
    producer_id: ProducerId, timeout_ms: int, now_ms: int, *, is_temporary: bool = False
) -> Transaction:
    """Return a transactional id that is used for the first time."""
    return Transaction(
        state=TransactionState.EMPTY,
        producer=ProducerIdAndEpoch(producer_id, ProducerEpoch(0)),
        previous_producer_id=producer_id,
        timeout_ms=timeout_ms,
        updated_ms=now_ms,
        is_temporary=is_temporary,
    )
