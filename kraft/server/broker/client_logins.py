"""Assembly: what logs clients in at the listeners of a broker."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from kraft.metadata.users import Users
from kraft.model.errors import ErrorCode
from kraft.model.principal import ANONYMOUS
from kraft.rpc.on_behalf import Client
from kraft.sasl.login import LoginFailed, Session
from kraft.server.access.audit import Audit, login_event, refused_connection
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.security_settings import OAuthBearerSettings
from kraft.server.config.values import CONTROLLER
from kraft.server.identity.authenticator import Authenticator, LoginNoted
from kraft.server.identity.password_checks import PasswordChecks
from kraft.server.identity.token_verifier import JwksVerifier
from kraft.server.identity.world import NodeWorld


class ClientLogins:
    def __init__(self, config: NodeConfig, world: NodeWorld, users: Callable[[], Users], audit: Audit | None) -> None:
        """`users` returns those of the metadata that this node has applied."""
        self.counts = Counter[tuple[str, str]]()
        """Number of logins by listener and name of the error; `NONE` for those that succeeded."""
        self._audit = audit
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
            noted=self.noted_at(listener),
        )

    def refused_at(self, listener: str) -> Callable[[str, str], None] | None:
        """Return what notes that a client at an address is refused before any login; None if nobody wants to know."""
        audit = self._audit
        if audit is None:
            return None
        return lambda address, reason: audit(refused_connection(address, listener, reason), 1)

    def noted_at(self, listener: str) -> LoginNoted:
        """Return what counts the logins at a listener, and tells the audit of them."""
        told = None if self._audit is None else login_noted(self._audit, listener)

        def note(address: str, outcome: Session | LoginFailed) -> None:
            reason = outcome.error_code.name if isinstance(outcome, LoginFailed) else ErrorCode.NONE.name
            self.counts[listener, reason] += 1
            if told is not None:
                told(address, outcome)

        return note

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


def login_noted(audit: Audit, listener: str) -> LoginNoted:
    """Return what tells the audit of the logins at a listener. A failed one has no principal: nobody has proved it."""

    def note(address: str, outcome: Session | LoginFailed) -> None:
        if isinstance(outcome, LoginFailed):
            audit(login_event(Client(ANONYMOUS, address), listener, outcome.error_code, outcome.reason), 1)
        else:
            audit(login_event(Client(outcome.principal, address), listener, ErrorCode.NONE, outcome.mechanism), 1)

    return note
