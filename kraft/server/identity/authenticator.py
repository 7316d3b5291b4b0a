"""Logs clients in, for every listener: carries out what a login asks for, and tells those that fail late.

A failure is told no sooner than `connection.failed.authentication.delay.ms` after the message that caused it, as in
Kafka, so that nobody tries passwords quickly. The time does not tell either whether a user exists: a check takes less,
and where many wait for theirs, each that fails has taken the same work. Whoever ends a connection logs the reason, in
lines whose rate is limited; nothing here logs.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, assert_never

from kraft.metadata.users import Users
from kraft.runtime.clock import Clock
from kraft.runtime.entropy import Entropy
from kraft.sasl.exchange import Challenge, CheckPassword, CheckToken
from kraft.sasl.login import LoggedIn, LoginFailed, LoginRules, Moment, SaslLogin, Session
from kraft.sasl.mechanisms import SaslMechanism
from kraft.sasl.scram import ScramMechanism, has_password_in_one_time
from kraft.server.identity.password_checks import PasswordChecks
from kraft.tokens.signed_tokens import InvalidToken, NoKeysYet, VerifiedToken

_NONCE_BYTES: Final = 24


class TokenVerifier(Protocol):
    """Verifies the tokens of OAUTHBEARER."""

    async def verify(self, token: str) -> VerifiedToken:
        """Raises InvalidToken, whose reason has nothing of the token, and NoKeysYet. Ends by a deadline of its own."""


LoginNoted = Callable[[str, Session | LoginFailed], None]
"""Notes how a login from an address ended."""


class Authenticator:
    """Logs in the clients of a listener."""

    def __init__(
        self,
        users: Callable[[], Users],
        entropy: Entropy,
        clock: Clock,
        *,
        failure_delay_ms: int,
        checks: PasswordChecks | None = None,
        verifier: TokenVerifier | None = None,
        noted: LoginNoted | None = None,
    ) -> None:
        """`users` returns those of the metadata that this node has applied: the same value until they change. `checks`
        are shared with other listeners. Without a `verifier`, the listener may not enable OAUTHBEARER.
        """
        self.users = users
        self._entropy = entropy
        self._clock = clock
        self._failure_delay_s = failure_delay_ms / 1_000
        self._verifier = verifier
        self._checks = checks or PasswordChecks()
        self._noted = noted

    def begin(self, rules: LoginRules) -> SaslLogin:
        """Return the login of a new connection."""
        assert self._verifier is not None or SaslMechanism.OAUTHBEARER not in rules.mechanisms, "nothing checks tokens"
        return SaslLogin(rules, self.users, self._nonce)

    async def answer(self, login: SaslLogin, message: bytes, address: str) -> Challenge | LoggedIn:
        """Return the answer to a client's message of the mechanism. `address` is the client's, without the port.

        Raises LoginFailed, after the delay.
        """
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            step = await self._answer(login, message, address)
        except LoginFailed as failed:
            self.note(failed, address)
            await asyncio.sleep(began_s + self._failure_delay_s - loop.time())
            raise
        if isinstance(step, LoggedIn):
            self.note(step.session, address)
        return step

    async def delay_failure(self, failed: LoginFailed, address: str) -> None:
        """Note a failure outside an exchange, and wait before it is told."""
        self.note(failed, address)
        await asyncio.sleep(self._failure_delay_s)

    def note(self, outcome: Session | LoginFailed, address: str) -> None:
        """Have it noted how a login ended. `answer` and `delay_failure` do so themselves."""
        if self._noted is not None:
            self._noted(address, outcome)

    def objection(self, session: Session) -> str | None:
        """Return why a session must not go on; None if it may. Its user was deleted, even if there is one of that name.

        As in Kafka, one whose user has another password goes on until the client has to log in again.
        """
        if session.mechanism is SaslMechanism.OAUTHBEARER:
            return None
        creation = self.users().creation(session.principal.name)
        if creation is not None and creation == session.user_creation:
            return None
        return f"user {session.principal.name!r} was deleted"

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()

    def close(self) -> None:
        """Log nobody in from now on."""
        self._checks.close()

    async def _answer(self, login: SaslLogin, message: bytes, address: str) -> Challenge | LoggedIn:
        step = login.received(message, self._now())
        match step:
            case Challenge() | LoggedIn():
                return step
            case CheckPassword():
                return login.password_checked(await self._has_password(step, address), self._now())
            case CheckToken():
                return await self._check_token(login, step)
            case _:
                assert_never(step)

    async def _has_password(self, asked: CheckPassword, address: str) -> bool:
        users = self.users()
        # Either credential is of the user's password, and that of SHA-256 takes less CPU.
        own = users.by_name.get(asked.user, {})
        mechanism = next((each for each in ScramMechanism if each in own), ScramMechanism.SHA_256)
        credential = users.credential(asked.user, mechanism)
        check = partial(has_password_in_one_time, mechanism, credential, asked.password, users.iterations_most)
        is_right = await self._checks.check(address, check)
        # The password may have been changed while the check waited for its turn.
        return is_right and self.users().credential(asked.user, mechanism) == credential

    async def _check_token(self, login: SaslLogin, asked: CheckToken) -> Challenge | LoggedIn:
        assert self._verifier is not None, "begin() made sure"
        try:
            verified = await self._verifier.verify(asked.token)
        except InvalidToken as invalid:
            return login.token_refused(invalid.reason)
        except NoKeysYet as error:
            raise login.token_not_verified(str(error)) from None
        return login.token_checked(verified.user, verified.expires_ms, self._now())

    def _now(self) -> Moment:
        return Moment(wall_ms=self._clock.wall_ms(), monotonic_ms=self._clock.monotonic_ms())

    def _nonce(self) -> str:
        return b64encode(self._entropy.bytes(_NONCE_BYTES)).decode()
