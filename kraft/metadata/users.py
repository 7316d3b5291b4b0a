"""Users that log in with a password: their SCRAM credentials, as the metadata has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, assert_never

from msgspec import Struct

from kraft.metadata.persistent_maps import PersistentMap
from kraft.metadata.records import ScramCredentialRemoved, ScramCredentialSet, UnknownUsersKeySet, UserRecord
from kraft.sasl.scram import ITERATIONS_MIN, ScramCredential, ScramMechanism, fake_credential

Credentials = Mapping[ScramMechanism, ScramCredential]
"""Those of one user; at least one."""


class Users(Struct, frozen=True, kw_only=True, eq=False):
    """All users, by name."""

    by_name: PersistentMap[str, Credentials]
    unknown_users_key: bytes = b""
    """Empty until there was a user."""

    creations: PersistentMap[str, int] = PersistentMap()
    """A number for each user, by which a session knows its own from a later one of the same name. It stays when the
    password changes. Numbers are counted in this process, and no record has them.
    """

    creations_total: int = 0
    """Users made so far, with those that were deleted since."""

    iterations_most: int = ITERATIONS_MIN
    """Those of the credential that has most, among all that were set so far."""

    def __eq__(self, other: object) -> bool:
        """Compare what the records say."""
        if not isinstance(other, Users):
            return NotImplemented
        return (self.by_name, self.unknown_users_key) == (other.by_name, other.unknown_users_key)

    __hash__ = None  # type: ignore[assignment]  # Nothing needs it, and what is equal may have other numbers.

    def creation(self, user: str) -> int | None:
        """Return the number of the user's creation; None if there is no such user."""
        return self.creations.get(user, 0) if user in self.by_name else None

    def replaced_by_snapshot(self) -> Users:
        """Return no users, onto which a snapshot is replayed that replaces these.

        All users in it have new numbers: what happened between these users and the snapshot is not known, so any of
        them may have been deleted and made again.
        """
        return Users(by_name=PersistentMap(), creations_total=self.creations_total)

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
        self._creations: dict[str, int | None] = {}
        self._creations_total = before.creations_total
        self._iterations_most = before.iterations_most

    def users(self) -> Users:
        if not self._changed and self._key is self._before.unknown_users_key:
            return self._before
        before = self._before
        return Users(
            by_name=before.by_name.with_changes(self._changed),
            unknown_users_key=self._key,
            creations=before.creations.with_changes(self._creations),
            creations_total=self._creations_total,
            iterations_most=self._iterations_most,
        )

    def apply(self, record: UserRecord) -> None:
        match record:
            case ScramCredentialSet():
                credential = ScramCredential(
                    salt=record.salt,
                    iterations=record.iterations,
                    stored_key=record.stored_key,
                    server_key=record.server_key,
                )
                self._iterations_most = max(self._iterations_most, record.iterations)
                credentials = self._credentials(record.user)
                if not credentials:
                    self._creations_total += 1
                    self._creations[record.user] = self._creations_total
                self._changed[record.user] = {**credentials, ScramMechanism(record.mechanism): credential}
            case ScramCredentialRemoved():
                left = dict(self._credentials(record.user))
                del left[ScramMechanism(record.mechanism)]
                self._changed[record.user] = left or None
                if not left:
                    self._creations[record.user] = None
            case UnknownUsersKeySet():
                self._key = record.key
            case _:
                assert_never(record)

    def _credentials(self, user: str) -> Credentials:
        changed = self._changed[user] if user in self._changed else self._before.by_name.get(user)
        return changed or {}
