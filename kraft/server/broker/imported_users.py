"""Users that the file names, in `plain.sasl.jaas.config` of its listeners: they become users of the metadata.

Once they exist, the file says nothing of them: a password that was changed since is not set back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

import structlog

from kraft.metadata.user_decisions import ALTERATIONS_PER_REQUEST_MAX, NUMBERS
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.password import Password
from kraft.rpc.user_calls import ALTER_USER_SCRAM_CREDENTIALS
from kraft.runtime.entropy import Entropy
from kraft.sasl.scram import ITERATIONS_MIN, SALT_BYTES, ScramMechanism, salted_password
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.values import CONTROLLER
from kraft.server.handlers import users
from kraft.server.handlers.forwarding import Forwarder
from kraft.wire.schema.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion

log = structlog.get_logger()

RETRY_S: Final = 5.0

_REMEDY: Final = "remove the line plain.sasl.jaas.config, and set passwords with kraft users"


def users_of_file(config: NodeConfig) -> dict[str, Password]:
    """Return the users of all listeners: that the same one has two passwords was refused."""
    listeners = (config.security_of(each.name).sasl for each in config.listeners if each.name != CONTROLLER)
    return {user: password for sasl in listeners if sasl is not None for user, password in sasl.plain_users}


class UserImport:
    def __init__(self, named: dict[str, Password], forwarder: Forwarder, entropy: Entropy) -> None:
        self._named = named
        self._forwarder = forwarder
        self._entropy = entropy

    async def run(self) -> None:
        """Make users of those that do not exist. Try again until all do."""
        logged: str | None = None
        while missing := self._missing():
            try:
                await self._create(missing)
            except Refusal as refusal:
                if str(refusal) != logged:
                    log.warning("users of the file not imported", users=missing, reason=str(refusal))
                logged = str(refusal)
                await asyncio.sleep(RETRY_S)
            else:
                log.warning("users of the file imported", users=missing, remedy=_REMEDY)
                return
        if self._named:
            log.warning("users of the file exist already, the file has no effect", remedy=_REMEDY)

    def _missing(self) -> list[str]:
        return [user for user in self._named if user not in self._forwarder.image.users.by_name]

    async def _create(self, missing: Sequence[str]) -> None:
        """Raises Refusal. A user has both credentials, as by `kraft users`; a request names a user once."""
        for first in range(0, len(missing), ALTERATIONS_PER_REQUEST_MAX):
            chunk = missing[first : first + ALTERATIONS_PER_REQUEST_MAX]
            for number in NUMBERS:
                # In a thread: some milliseconds of CPU for each.
                upsertions = await asyncio.to_thread(self._upsertions, chunk, number)
                await self._alter(AlterUserScramCredentialsRequest(deletions=(), upsertions=upsertions))

    async def _alter(self, request: AlterUserScramCredentialsRequest) -> None:
        response = await self._forwarder.decided(ALTER_USER_SCRAM_CREDENTIALS, request, users.is_applied)
        for result in response.results:
            if result.error_code != ErrorCode.NONE:
                raise Refusal(ErrorCode(result.error_code), f"{result.user!r}: {result.error_message}")

    def _upsertions(self, chunk: Iterable[str], number: int) -> tuple[ScramCredentialUpsertion, ...]:
        return tuple(self._upsertion(user, number, NUMBERS[number]) for user in chunk)

    def _upsertion(self, user: str, number: int, mechanism: ScramMechanism) -> ScramCredentialUpsertion:
        salt = self._entropy.bytes(SALT_BYTES)
        return ScramCredentialUpsertion(
            name=user,
            mechanism=number,
            iterations=ITERATIONS_MIN,
            salt=salt,
            salted_password=salted_password(mechanism, self._named[user].text, salt, ITERATIONS_MIN),
        )
