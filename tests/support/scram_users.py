"""Users with passwords, for logins in tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kraft.metadata.persistent_maps import PersistentMap
from kraft.metadata.records import ScramCredentialRemoved, UserRecord
from kraft.metadata.users import Credentials, Users, UsersDraft, credential_record
from kraft.sasl.scram import ITERATIONS_MIN, ScramCredential, ScramMechanism, credential_of, salted_password

SALT: Final = b"salt of the tests"


def credential(password: str, mechanism: ScramMechanism = ScramMechanism.SHA_256) -> ScramCredential:
    return credential_of(mechanism, salted_password(mechanism, password, SALT, ITERATIONS_MIN), SALT, ITERATIONS_MIN)


def users(passwords: Mapping[str, str], *mechanisms: ScramMechanism) -> Users:
    """Users of the metadata, with credentials of these mechanisms; of both, if none is named."""
    nobody: PersistentMap[str, Credentials] = PersistentMap()
    credentials: dict[str, Credentials | None] = {
        user: {each: credential(password, each) for each in mechanisms or ScramMechanism}
        for user, password in passwords.items()
    }
    return Users(by_name=nobody.with_changes(credentials), unknown_users_key=b"a key of the tests")


def replayed(before: Users, records: Iterable[UserRecord]) -> Users:
    draft = UsersDraft(before)
    for record in records:
        draft.apply(record)
    return draft.users()


def password_records(user: str, password: str) -> list[UserRecord]:
    """Give the user that password, with credentials of both mechanisms."""
    return [credential_record(user, each, credential(password, each)) for each in ScramMechanism]


def deletion_records(user: str) -> list[UserRecord]:
    """Delete a user that has credentials of both mechanisms."""
    return [ScramCredentialRemoved(user=user, mechanism=each.value) for each in ScramMechanism]
