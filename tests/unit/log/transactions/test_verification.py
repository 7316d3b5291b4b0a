from __future__ import annotations

from kraft.log.transactions.verification import NOT_REQUIRED, VerificationGuard, Verifications


def test_only_the_guard_of_the_verification_under_way_allows_a_transaction() -> None:
    verifications = Verifications()
    guard = verifications.begin(7, epoch=0, sequence=0, begins_at_zero=False)
    assert verifications.allows(7, guard)
    assert not verifications.allows(7, None)
    assert not verifications.allows(7, VerificationGuard())
    assert not verifications.allows(8, guard)
    verifications.end(7)
    assert not verifications.allows(7, guard)
    assert verifications.allows(7, NOT_REQUIRED)


def test_the_lowest_sequence_of_the_latest_epoch_goes_first() -> None:
    verifications = Verifications()
    for epoch, sequence in ((0, 5), (0, 3), (0, 9), (1, 4), (0, 0), (1, 8)):
        verifications.begin(7, epoch=epoch, sequence=sequence, begins_at_zero=False)
    verification = verifications.get(7)
    assert verification is not None
    assert (verification.epoch, verification.lowest_sequence) == (1, 4)


def test_a_verification_ends_when_all_its_batches_are_refused() -> None:
    verifications = Verifications()
    guard = verifications.begin(7, epoch=0, sequence=0, begins_at_zero=False)
    assert verifications.begin(7, epoch=0, sequence=1, begins_at_zero=False) is guard
    verifications.refuse(7, guard)
    verifications.refuse(7, VerificationGuard())
    verifications.refuse(8, guard)
    assert verifications.allows(7, guard)
    verifications.refuse(7, guard)
    assert len(verifications) == 0
    verifications.refuse(7, guard)
    verifications.begin(7, epoch=0, sequence=0, begins_at_zero=False)
    verifications.refuse(7, guard)
    assert len(verifications) == 1


def test_a_verification_that_is_not_used_expires() -> None:
    verifications = Verifications()
    verifications.begin(7, epoch=0, sequence=0, begins_at_zero=False)
    verifications.expire(now_ms=100, expiration_ms=50)
    verifications.expire(now_ms=149, expiration_ms=50)
    assert len(verifications) == 1
    verifications.expire(now_ms=150, expiration_ms=50)
    assert len(verifications) == 0


def test_a_marker_ends_the_verifications_of_its_transaction_and_no_later_ones() -> None:
    for epoch, marker_epoch, is_bumped, stays in (
        (1, 1, False, False),
        (0, 1, False, False),
        (0, 1, True, False),
        (1, 1, True, True),
        (2, 1, True, True),
    ):
        verifications = Verifications()
        guard = verifications.begin(7, epoch=epoch, sequence=0, begins_at_zero=False)
        verifications.end_by_marker(7, marker_epoch, is_bumped=is_bumped)
        assert verifications.allows(7, guard) is stays, (epoch, marker_epoch, is_bumped)
