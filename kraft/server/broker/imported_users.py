"""Users that the configuration file names, in `plain.sasl.jaas.config` of its listeners: they become users of the
metadata.

Once they exist, the file says nothing of them: a password that was changed since is not set back. The controller
decides whether one exists, so a user that somebody makes at the same time is not changed either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import structlog

from kraft.metadata.image import MetadataImage
from kraft.metadata.imported_users import ImportedUser, ImportUsersRequest, ImportUsersResult
from kraft.metadata.user_decisions import ALTERATIONS_PER_REQUEST_MAX, UNKNOWN_USERS_KEY_BYTES
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.password import Password
from kraft.rpc.cluster_calls import IMPORT_USERS
from kraft.runtime.entropy import Entropy
from kraft.sasl.scram import (
    ITERATIONS_MIN,
    SALT_BYTES,
    ScramCredential,
    ScramMechanism,
    credential_of,
    salted_password,
)
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.values import CONTROLLER
from kraft.server.handlers.forwarding import Forwarder

log = structlog.get_logger()

RETRY_S: Final = 5.0

OPENING_DELAY_S_MAX: Final = 5.0
"""Time for which the listeners stay closed until the users exist: clients take the refusal of a login for final."""

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
        self._tried = asyncio.Event()
        """Set after the first attempt."""

    async def until_tried(self) -> None:
        """Wait until `run` has made the users, or has failed for the first time, for OPENING_DELAY_S_MAX at most."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._tried.wait(), OPENING_DELAY_S_MAX)

    async def run(self) -> None:
        """Make users of those that do not exist. Try again until all do."""
        try:
            if self._named:
                await self._import_all()
        finally:
            self._tried.set()

    async def _import_all(self) -> None:
        imported = await self._import_missing()
        if imported:
            log.warning("users of the configuration file imported", users=imported, remedy=_REMEDY)
        else:
            reason = "they exist already, and the file does not change them"
            log.warning("users of the configuration file not imported", reason=reason, remedy=_REMEDY)

    async def _import_missing(self) -> list[str]:
        """Return the names of those that were made."""
        logged: str | None = None
        while missing := self._missing():
            try:
                return await self._import(missing)
            except Refusal as refusal:
                if str(refusal) != logged:
                    log.warning("users of the configuration file not imported", users=missing, reason=str(refusal))
                logged = str(refusal)
                self._tried.set()
                await asyncio.sleep(RETRY_S)
        return []

    def _missing(self) -> list[str]:
        return [user for user in self._named if user not in self._forwarder.image.users.by_name]

    async def _import(self, missing: Sequence[str]) -> list[str]:
        """Return the names of those that were made; somebody else may have made the others since. Raises Refusal."""
        imported: list[str] = []
        for first in range(0, len(missing), ALTERATIONS_PER_REQUEST_MAX):
            chunk = missing[first : first + ALTERATIONS_PER_REQUEST_MAX]
            # In a thread: some milliseconds of CPU for each.
            users = await asyncio.to_thread(lambda names: [self._user(name) for name in names], chunk)
            key = self._entropy.bytes(UNKNOWN_USERS_KEY_BYTES)
            request = ImportUsersRequest(users=users, unknown_users_key=key)
            result = await self._forwarder.decided(IMPORT_USERS, request, _is_applied)
            if result.error_code != ErrorCode.NONE:
                raise Refusal(ErrorCode(result.error_code), result.error_message)
            imported += result.imported
        return imported

    def _user(self, name: str) -> ImportedUser:
        return ImportedUser(
            name=name,
            sha_256=self._credential(name, ScramMechanism.SHA_256),
            sha_512=self._credential(name, ScramMechanism.SHA_512),
        )

    def _credential(self, name: str, mechanism: ScramMechanism) -> ScramCredential:
        salt = self._entropy.bytes(SALT_BYTES)
        salted = salted_password(mechanism, self._named[name].text, salt, ITERATIONS_MIN)
        return credential_of(mechanism, salted, salt, ITERATIONS_MIN)


def _is_applied(image: MetadataImage, request: ImportUsersRequest, _: ImportUsersResult) -> bool:
    return all(user.name in image.users.by_name for user in request.users)
