"""Users that log in with a password: their SCRAM credentials, as the metadata has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, assert_never

from msgspec import Struct

from kraft.metadata.persistent_maps import PersistentMap
from kraft.metadata.records import ScramCredentialRemoved, ScramCredentialSet, UnknownUsersKeySet, UserRecord
from kraft.sasl.scram import ScramCredential, ScramMechanism, fake_credential

Credentials = Mapping[ScramMechanism, ScramCredential]
"""Those of one user; at least one."""


class Users(Struct, frozen=True, kw_only=True):
    """All users, by name."""

    by_name: PersistentMap[str, Credentials]
    unknown_users_key: bytes = b""
    """Empty until there was a user."""

    def credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential:
        """Return the user's credential. One that does not exist has a credential that no password fits."""
        # Computed for each user, so that the time does not tell which ones exist.
        fake = fake_credential(mechanism, self.unknown_users_key, user)
        return self.by_name.get(user, {}).get(mechanism, fake)

    def records(self) -> Iterator[UserRecord]:
        """Yield the records from which the same users come."""
        if self.unknown_users_key:
            yield UnknownUsersKeySet(key=self.unknown_users_key)
        for user, credentials in self.by_name.items():
            for mechanism, credential in credentials.items():
                yield credential_record(user, mechanism, credential)


NO_USERS: Final = Users(by_name=PersistentMap())


def credential_record(user: str, mechanism: ScramMechanism, credential: ScramCredential) -> ScramCredentialSet:
    return ScramCredentialSet(
        user=user,
        mechanism=mechanism.value,
        salt=credential.salt,
        iterations=credential.iterations,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
    )


class UsersDraft:
    """The users while records are replayed."""

    def __init__(self, before: Users) -> None:
        self._before = before
        self._key = before.unknown_users_key
        # None: the user was removed.
        self._changed: dict[str, Credentials | None] = {}

    def users(self) -> Users:
        if not self._changed and self._key is self._before.unknown_users_key:
            return self._before
        return Users(by_name=self._before.by_name.with_changes(self._changed), unknown_users_key=self._key)

    def apply(self, record: UserRecord) -> None:
        match record:
            case ScramCredentialSet():
                credential = ScramCredential(
                    salt=record.salt,
                    iterations=record.iterations,
                    stored_key=record.stored_key,
                    server_key=record.server_key,
                )
                credentials = self._credentials(record.user)
                self._changed[record.user] = {**credentials, ScramMechanism(record.mechanism): credential}
            case ScramCredentialRemoved():
                left = dict(self._credentials(record.user))
                del left[ScramMechanism(record.mechanism)]
                self._changed[record.user] = left or None
            case UnknownUsersKeySet():
                self._key = record.key
            case _:
                assert_never(record)

    def _credentials(self, user: str) -> Credentials:
        changed = self._changed[user] if user in self._changed else self._before.by_name.get(user)
        return changed or {}
