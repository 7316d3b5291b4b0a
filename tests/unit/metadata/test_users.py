"""Users as the metadata has them: which of several users of one name somebody is."""

from __future__ import annotations

import pytest

from kraft.metadata.image import EMPTY_IMAGE
from kraft.metadata.snapshot_records import snapshot_records
from kraft.metadata.users import NO_USERS, Users
from kraft.sasl.scram import ScramCredential, ScramMechanism, fake_credential
from tests.support.scram_users import deletion_records, password_records, replayed, users

BEFORE = replayed(NO_USERS, [*password_records("alice", "first"), *password_records("bob", "secret")])


def test_a_user_who_gets_another_password_stays_the_same_one() -> None:
    assert (BEFORE.creation("alice"), BEFORE.creation("bob"), BEFORE.creation("carol")) == (1, 2, None)
    after = replayed(BEFORE, password_records("alice", "second"))
    assert after.creation("alice") == 1
    one_is_left = replayed(after, deletion_records("alice")[:1])
    assert one_is_left.creation("alice") == 1
    assert replayed(one_is_left, password_records("alice", "third")).creation("alice") == 1


@pytest.mark.parametrize("password", ["first", "second"])
def test_a_user_who_is_deleted_and_made_again_is_another_one(password: str) -> None:
    records = [*deletion_records("alice"), *password_records("alice", password)]
    deleted = replayed(BEFORE, records[:2])
    assert deleted.creation("alice") is None
    assert replayed(deleted, records[2:]).creation("alice") == 3
    in_one_step = replayed(BEFORE, records)
    assert (in_one_step.creation("alice"), in_one_step.creation("bob")) == (3, 2)


def test_numbers_of_deleted_users_take_no_memory() -> None:
    after = BEFORE
    for number in range(100):
        name = f"user-{number}"
        after = replayed(replayed(after, password_records(name, "secret")), deletion_records(name))
    assert (len(after.creations), after.creations_total) == (2, 102)


def test_all_users_of_a_snapshot_are_other_ones_than_before() -> None:
    after = replayed(BEFORE.replaced_by_snapshot(), BEFORE.records())
    assert after == BEFORE
    assert {after.creation("alice"), after.creation("bob")} == {3, 4}


def test_the_credential_of_an_unknown_user_is_computed_for_those_who_exist_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time would tell which users exist."""
    computed: list[str] = []

    def fake(mechanism: ScramMechanism, key: bytes, user: str) -> ScramCredential:
        computed.append(user)
        return fake_credential(mechanism, key, user)

    monkeypatch.setattr("kraft.metadata.users.fake_credential", fake)
    for user in ("alice", "nobody", "bob"):
        BEFORE.credential(user, ScramMechanism.SHA_256)
    assert computed == ["alice", "nobody", "bob"]


def test_users_are_equal_whose_records_are() -> None:
    again = replayed(BEFORE, [*deletion_records("alice"), *password_records("alice", "first")])
    assert again == BEFORE
    assert again.creation("alice") != BEFORE.creation("alice")
    assert replayed(BEFORE, password_records("alice", "second")) != BEFORE
    assert Users(by_name=BEFORE.by_name, unknown_users_key=b"other") != BEFORE
    assert users({}) != object()
    image = EMPTY_IMAGE.replay(BEFORE.records())
    assert EMPTY_IMAGE.replay(snapshot_records(image)) == image
