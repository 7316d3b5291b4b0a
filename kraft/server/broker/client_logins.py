"""Assembly: what logs clients in at the listeners of a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kraft.metadata.users import Users
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.security_settings import OAuthBearerSettings
from kraft.server.config.values import CONTROLLER
from kraft.server.identity.authenticator import Authenticator
from kraft.server.identity.password_checks import PasswordChecks
from kraft.server.identity.token_verifier import JwksVerifier
from kraft.server.identity.world import NodeWorld


class ClientLogins:
    def __init__(self, config: NodeConfig, world: NodeWorld, users: Callable[[], Users]) -> None:
        """`users` returns those of the metadata that this node has applied."""
        self._config = config
        self._world = world
        self._users = users
        self._checks = PasswordChecks()
        self._verifiers: dict[OAuthBearerSettings, JwksVerifier] = {}
        """One for each authorization server, not for each listener."""

        for listener in config.listeners:
            tokens = self._tokens_at(listener.name)
            if tokens is not None and tokens not in self._verifiers:
                self._verifiers[tokens] = JwksVerifier(tokens, world.clock)

    def at(self, listener: str) -> Authenticator:
        """Return what logs clients in at that listener."""
        tokens = self._tokens_at(listener)
        return Authenticator(
            self._users,
            self._world.entropy,
            self._world.clock,
            failure_delay_ms=self._config.connections.failed_login_delay_ms,
            checks=self._checks,
            verifier=None if tokens is None else self._verifiers[tokens],
        )

    async def run(self) -> None:
        """Keep the keys of authorization servers current until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for verifier in self._verifiers.values():
                tasks.create_task(verifier.run())

    def close(self) -> None:
        """Log nobody in from now on."""
        self._checks.close()
        for verifier in self._verifiers.values():
            verifier.close()

    def _tokens_at(self, listener: str) -> OAuthBearerSettings | None:
        sasl = None if listener == CONTROLLER else self._config.security_of(listener).sasl
        return None if sasl is None else sasl.oauth_bearer
