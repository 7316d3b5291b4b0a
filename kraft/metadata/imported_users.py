"""ImportUsers: a broker makes users of those that its configuration file names. The decision, and its messages."""

from __future__ import annotations

from msgspec import Struct

from kraft.metadata.decision import Decision
from kraft.metadata.features import require_users
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import UnknownUsersKeySet, UserRecord
from kraft.metadata.user_decisions import ALTERATIONS_PER_REQUEST_MAX, check_user_name
from kraft.metadata.users import credential_record
from kraft.model.errors import ErrorCode, Refusal
from kraft.sasl.scram import ScramCredential, ScramMechanism


class ImportedUser(Struct, frozen=True, kw_only=True):
    """A user with its credential of each mechanism."""

    name: str
    sha_256: ScramCredential
    sha_512: ScramCredential


class ImportUsersRequest(Struct, frozen=True, kw_only=True):
    """Users that exist stay as they are. `unknown_users_key` becomes the cluster's if it has none."""

    users: list[ImportedUser]
    unknown_users_key: bytes

    def __repr__(self) -> str:
        return f"ImportUsersRequest(users={self.users!r})"


class ImportUsersResult(Struct, frozen=True, kw_only=True):
    """`imported`: names of the users that have the credentials of the request. The others existed before."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    imported: list[str] = []


def import_users(image: MetadataImage, request: ImportUsersRequest) -> Decision[ImportUsersResult]:
    """Make the users of the request that do not exist. Raises Refusal."""
    require_users(image, "importing users")
    if len(request.users) > ALTERATIONS_PER_REQUEST_MAX:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"more than {ALTERATIONS_PER_REQUEST_MAX} users in one request")
    records: list[UserRecord] = []
    imported: list[str] = []
    for user in request.users:
        check_user_name(user.name)
        credentials = {ScramMechanism.SHA_256: user.sha_256, ScramMechanism.SHA_512: user.sha_512}
        before = image.users.by_name.get(user.name)
        if before is None:
            records += (credential_record(user.name, *each) for each in credentials.items())
        # They are the same if the request was repeated because its response was lost.
        if before is None or before == credentials:
            imported.append(user.name)
    if records and not image.users.unknown_users_key:
        records.insert(0, UnknownUsersKeySet(key=request.unknown_users_key))
    return Decision(records=records, response=ImportUsersResult(imported=imported))
