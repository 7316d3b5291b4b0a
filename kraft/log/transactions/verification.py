"""Verification of transactions: a producer's first batch in a partition waits until the coordinator knows of it.

Otherwise a delayed batch could open a transaction that the coordinator has ended, and no marker would ever close it.
The broker begins a verification, asks the coordinator, and appends with the guard that it got. A marker or a batch of
the producer invalidates the guard meanwhile. Source: KIP-890, part 1; Kafka's VerificationStateEntry.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class VerificationGuard:
    """Permission of one verification to open a transaction. Guards are equal only to themselves."""


NOT_REQUIRED: Final = VerificationGuard()
"""Guard of every append while `transaction.partition.verification.enable` is false."""


class Verification(Struct, kw_only=True):
    """Verification of one producer that was begun and not used yet."""

    guard: VerificationGuard
    epoch: int
    lowest_sequence: int
    """Lowest sequence of the batches that wait: a higher one must not be written before it."""

    begins_at_zero: bool
    """True if the producer gets a new epoch after each transaction, so that its first sequence here is 0."""

    batches: int = 0
    """How many batches were begun and not refused for good."""

    begun_ms: int | None = None
    """Time of the first `expire` that found it."""

    def note(self, epoch: int, sequence: int) -> None:
        """Note another batch that waits for this verification."""
        self.batches += 1
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


class Verifications:
    """Verifications under way in one partition, by producer id."""

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def begin(self, producer_id: int, epoch: int, sequence: int, begins_at_zero: bool) -> VerificationGuard:
        """Return the guard for a batch, that of the verification under way if there is one."""
        verification = self._by_producer.get(producer_id)
        if verification is None:
            verification = Verification(
                guard=VerificationGuard(), epoch=epoch, lowest_sequence=sequence, begins_at_zero=begins_at_zero
            )
            self._by_producer[producer_id] = verification
        verification.note(epoch, sequence)
        return verification.guard

    def get(self, producer_id: int) -> Verification | None:
        return self._by_producer.get(producer_id)

    def allows(self, producer_id: int, guard: VerificationGuard | None) -> bool:
        """Return whether `guard` may open a transaction of the producer now."""
        verification = self._by_producer.get(producer_id)
        return guard is NOT_REQUIRED or (verification is not None and verification.guard is guard)

    def refuse(self, producer_id: int, guard: VerificationGuard) -> None:
        """Note that a batch was refused for good. The verification ends with its last batch: anybody may begin one."""
        verification = self._by_producer.get(producer_id)
        if verification is None or verification.guard is not guard:
            return
        verification.batches -= 1
        if not verification.batches:
            del self._by_producer[producer_id]

    def end(self, producer_id: int) -> None:
        """Invalidate the guard: a batch of the transaction was written."""
        self._by_producer.pop(producer_id, None)

    def clear(self) -> None:
        """Invalidate every guard."""
        self._by_producer.clear()

    def end_by_marker(self, producer_id: int, epoch: int, *, is_bumped: bool) -> None:
        """Invalidate the guard if it may be of the transaction that this marker has ended.

        The epoch of a bumped marker is already that of the producer's next transaction, which may be verified before
        the marker of the last one comes.
        """
        verification = self._by_producer.get(producer_id)
        if verification is not None and (verification.epoch < epoch or not is_bumped):
            del self._by_producer[producer_id]

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Drop verifications that were not used for this long. The time is monotonic."""
        for producer_id, verification in tuple(self._by_producer.items()):
            if verification.begun_ms is None:
                verification.begun_ms = now_ms
            elif now_ms - verification.begun_ms >= expiration_ms:
                del self._by_producer[producer_id]
