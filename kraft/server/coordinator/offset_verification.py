"""Verification of a commit of offsets with the coordinator of its transaction (KIP-890).

The broker begins a verification in the log of the group's partition, asks the transaction coordinator, and appends with
the guard that it got: a marker that is written meanwhile makes the append fail, so nothing can begin a transaction that
has ended.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from kraft.coordinator.groups.commands import CommitTransactionOffsets
from kraft.log.transactions.verification import NOT_REQUIRED, VerificationGuard
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.server.replica.partition import Partition

VERIFY_S_MAX: Final = 30.0
"""Longest wait for the transaction coordinator."""

_NO_SEQUENCE: Final = -1

_CODES: Final = {
    # What producers expect from brokers that are not their coordinator.
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    # Clients of every version retry this one.
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
"""Error codes of the transaction coordinator that a client gets as others, as in Kafka."""


class VerifyTransaction(Protocol):
    """Asks the coordinator of a transactional id."""

    async def __call__(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partition: TopicPartition, *, adds: bool
    ) -> None:
        """Check that the producer's open transaction has the partition, or with `adds`, add it.

        Raises Refusal if the coordinator refuses, or cannot be reached.
        """


async def without_transactions(
    transactional_id: str, producer_id: int, producer_epoch: int, partition: TopicPartition, *, adds: bool
) -> None:
    """Refuse every transaction."""
    raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "this broker cannot ask for the transaction coordinator")


class OffsetVerification:
    """Verifies commits of offsets with transactions. Without `verify`, it refuses them."""

    def __init__(self, verify: VerifyTransaction = without_transactions, *, is_enabled: bool = True) -> None:
        """If it is not enabled, partitions are only added, for the producers that leave it to the group coordinator."""
        self._verify = verify
        self._is_enabled = is_enabled

    async def guard(self, partition: Partition, command: CommitTransactionOffsets) -> VerificationGuard | None:
        """Return the guard with which the offsets may be appended; None if the transaction is open in the partition.

        Raises Refusal.
        """
        request = command.request
        producer_id, epoch = request.producer_id, request.producer_epoch
        if not request.transactional_id:
            raise Refusal(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        if producer_id < 0 or epoch < 0:
            code = ErrorCode.INVALID_PRODUCER_ID_MAPPING if producer_id < 0 else ErrorCode.INVALID_PRODUCER_EPOCH
            raise Refusal(code, f"no producer has id {producer_id} and epoch {epoch}: call InitProducerId first")
        if not self._is_enabled and not command.adds_partition:
            return NOT_REQUIRED
        transactions = partition.log.transactions
        guard = transactions.begin_verification(producer_id, epoch, _NO_SEQUENCE, begins_at_zero=False)
        if guard is None:
            return None
        try:
            await self._ask(partition.topic_partition, command)
        except Refusal as refusal:
            transactions.verification_refused(producer_id, guard, refusal)
            raise
        return guard

    async def _ask(self, partition: TopicPartition, command: CommitTransactionOffsets) -> None:
        try:
            async with asyncio.timeout(VERIFY_S_MAX):
                await self._verify(
                    command.request.transactional_id,
                    command.request.producer_id,
                    command.request.producer_epoch,
                    partition,
                    adds=command.adds_partition,
                )
        except TimeoutError:
            message = "the transaction coordinator has not answered in time; retry"
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, message) from None
        except Refusal as refusal:
            raise Refusal(_CODES.get(refusal.error_code, refusal.error_code), refusal.message) from refusal
