"""Decisions about users: their SCRAM credentials are set, removed and listed (KIP-554)."""

from __future__ import annotations

from collections import Counter
from typing import Final

from kraft.metadata.decision import Decision
from kraft.metadata.features import require_users
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import ScramCredentialRemoved, UnknownUsersKeySet, UserRecord
from kraft.metadata.users import credential_record
from kraft.model.errors import ErrorCode, Refusal
from kraft.sasl.scram import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism, credential_of, salted_password
from kraft.wire.schema.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kraft.wire.schema.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

NUMBERS: Final = {1: ScramMechanism.SHA_256, 2: ScramMechanism.SHA_512}
"""The mechanisms by their numbers in Kafka's messages."""

ALTERATIONS_PER_REQUEST_MAX: Final = 1_000

USER_LENGTH_MAX: Final = 1_000

UNKNOWN_USERS_KEY_BYTES: Final = 32

_NUMBER_OF: Final = {mechanism: number for number, mechanism in NUMBERS.items()}


def password_upsertion(
    user: str, mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
) -> ScramCredentialUpsertion:
    """Return the alteration that sets a user's password, which is not in it."""
    return ScramCredentialUpsertion(
        name=user,
        mechanism=_NUMBER_OF[mechanism],
        iterations=iterations,
        salt=salt,
        salted_password=salted_password(mechanism, password, salt, iterations),
    )


def alter_user_scram_credentials(
    image: MetadataImage, request: AlterUserScramCredentialsRequest, random_key: bytes
) -> Decision[AlterUserScramCredentialsResponse]:
    """Set and remove credentials. A user that is named twice is not altered at all. Raises Refusal.

    `random_key` becomes the key for unknown users if there is none yet.
    """
    alterations: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
    if len(alterations) > ALTERATIONS_PER_REQUEST_MAX:
        problem = f"more than {ALTERATIONS_PER_REQUEST_MAX} credentials in one request: alter fewer at a time"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    named = Counter(each.name for each in alterations)
    records: list[UserRecord] = []
    results: dict[str, AlterUserScramCredentialsResult] = {}
    for alteration in alterations:
        try:
            if named[alteration.name] > 1:
                problem = "A user credential cannot be altered twice in the same request"
                raise Refusal(ErrorCode.DUPLICATE_RESOURCE, problem)
            record = _record(image, alteration)
            if record is not None:
                records.append(record)
            result = AlterUserScramCredentialsResult(
                user=alteration.name, error_code=ErrorCode.NONE, error_message=None
            )
        except Refusal as refusal:
            result = refused_user(alteration.name, refusal)
        results[alteration.name] = result
    if records and not image.users.unknown_users_key:
        records.insert(0, UnknownUsersKeySet(key=random_key))
    return Decision(records=records, response=AlterUserScramCredentialsResponse(results=tuple(results.values())))


def refused_user(user: str, refusal: Refusal) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(user=user, error_code=refusal.error_code, error_message=refusal.message)


def describe_user_scram_credentials(
    image: MetadataImage, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Return mechanisms and iterations of the users, in the order of the request; of all, in that of their names."""
    users = [each.name for each in request.users or ()] or sorted(image.users.by_name)
    named = Counter(users)
    return DescribeUserScramCredentialsResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        results=tuple(_described(image, user, named[user]) for user in named),
    )


def _record(image: MetadataImage, alteration: ScramCredentialDeletion | ScramCredentialUpsertion) -> UserRecord | None:
    """Return the record of a deletion or an upsertion; None if the user has that credential. Raises Refusal."""
    require_users(image, "altering users")
    user = alteration.name
    check_user_name(user)
    mechanism = NUMBERS.get(alteration.mechanism)
    if mechanism is None:
        raise Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    before = image.users.by_name.get(user, {}).get(mechanism)
    if isinstance(alteration, ScramCredentialDeletion):
        if before is None:
            problem = "Attempt to delete a user credential that does not exist"
            raise Refusal(ErrorCode.RESOURCE_NOT_FOUND, problem)
        return ScramCredentialRemoved(user=user, mechanism=mechanism.value)
    if alteration.iterations < ITERATIONS_MIN:
        raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if alteration.iterations > ITERATIONS_MAX:
        raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    salted, salt = bytes(alteration.salted_password), bytes(alteration.salt)
    if not salt or len(salted) != mechanism.key_bytes:
        problem = f"the salt is empty, or the salted password has not {mechanism.key_bytes} bytes"
        raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, problem)
    credential = credential_of(mechanism, salted, salt, alteration.iterations)
    return None if credential == before else credential_record(user, mechanism, credential)


def check_user_name(user: str) -> None:
    """Raise Refusal for a name that no user may have."""
    if not user:
        raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if len(user) > USER_LENGTH_MAX or "\0" in user:
        problem = f"the user name is longer than {USER_LENGTH_MAX} letters, or has a zero byte"
        raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, problem)


def _described(image: MetadataImage, user: str, times: int) -> DescribeUserScramCredentialsResult:
    problem: tuple[ErrorCode, str] | None = None
    credentials = image.users.by_name.get(user, {})
    if not user:
        problem = ErrorCode.INVALID_REQUEST, "Username must not be empty"
    elif times > 1:
        what = "Cannot describe SCRAM credentials for the same user twice in a single request"
        problem = ErrorCode.DUPLICATE_RESOURCE, f"{what}: {user}"
    elif not credentials:
        what = "Attempt to describe a user credential that does not exist"
        problem = ErrorCode.RESOURCE_NOT_FOUND, f"{what}: {user}"
    error_code, message = problem or (ErrorCode.NONE, None)
    shown = {} if problem else credentials
    return DescribeUserScramCredentialsResult(
        user=user,
        error_code=error_code,
        error_message=message,
        credential_infos=tuple(
            CredentialInfo(mechanism=_NUMBER_OF[mechanism], iterations=credential.iterations)
            for mechanism, credential in sorted(shown.items(), key=lambda each: each[0].value)
        ),
    )
