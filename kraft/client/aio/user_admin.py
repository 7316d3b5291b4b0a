"""Calls of the asyncio admin client for users that log in with a password."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Final

from kraft.client.aio.admin_calls import AdminClient
from kraft.client.cluster.any_broker import check
from kraft.metadata.user_decisions import NUMBERS, password_upsertion
from kraft.rpc.user_calls import ALTER_USER_SCRAM_CREDENTIALS, DESCRIBE_USER_SCRAM_CREDENTIALS
from kraft.sasl.scram import ITERATIONS_MIN, SALT_BYTES, ScramMechanism
from kraft.wire.schema.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
)
from kraft.wire.schema.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResult,
    UserName,
)

_NUMBER_OF: Final = {mechanism.value: number for number, mechanism in NUMBERS.items()}


async def describe_users(
    admin: AdminClient, users: Iterable[str] = (), *, timeout_ms: int | None = None
) -> list[DescribeUserScramCredentialsResult]:
    """Return the users with the mechanisms of their passwords; without names, all users.

    Raises the Refusal of a user that does not exist.
    """
    request = DescribeUserScramCredentialsRequest(users=tuple(UserName(name=user) for user in users))
    response = await admin.calls.ask(DESCRIBE_USER_SCRAM_CREDENTIALS, request, timeout_ms)
    check(response.error_code, response.error_message)
    for result in response.results:
        check(result.error_code, result.error_message)
    return list(response.results)


async def set_password(
    admin: AdminClient,
    user: str,
    password: str,
    mechanism: str = ScramMechanism.SHA_512.value,
    *,
    iterations: int = ITERATIONS_MIN,
    timeout_ms: int | None = None,
) -> None:
    """Set the user's password for SCRAM-SHA-256 or SCRAM-SHA-512, and for PLAIN. A new user begins to exist.

    The password is salted here: it does not leave this process. Raises the cluster's Refusal.
    """
    salt = secrets.token_bytes(SALT_BYTES)
    upsertion = password_upsertion(user, ScramMechanism(mechanism), password, salt, iterations)
    await _alter(admin, AlterUserScramCredentialsRequest(deletions=(), upsertions=(upsertion,)), timeout_ms)


async def delete_password(admin: AdminClient, user: str, mechanism: str, *, timeout_ms: int | None = None) -> None:
    """Delete the user's password for the mechanism. A user without passwords does not exist any more.

    Raises the cluster's Refusal: RESOURCE_NOT_FOUND if there is none.
    """
    deletion = ScramCredentialDeletion(name=user, mechanism=_NUMBER_OF[mechanism])
    await _alter(admin, AlterUserScramCredentialsRequest(deletions=(deletion,), upsertions=()), timeout_ms)


async def _alter(admin: AdminClient, request: AlterUserScramCredentialsRequest, timeout_ms: int | None) -> None:
    await admin.calls.change(ALTER_USER_SCRAM_CREDENTIALS, lambda _: request, timeout_ms, _check)


def _check(response: AlterUserScramCredentialsResponse) -> None:
    for result in response.results:
        check(result.error_code, result.error_message)
