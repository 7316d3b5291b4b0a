"""The login of one connection, the same on every listener: a handshake chooses the mechanism, its exchange follows, and
a session begins.

Whoever runs the machine carries out what the exchange asks for, and talks to the client. A client may log in again, as
the same user with the same mechanism, so that its session does not end (KIP-368). Error codes and texts for clients
are those of Kafka's SaslServerAuthenticator.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final, Protocol, TypeAlias, assert_never

from msgspec import Struct

from kraft.model.errors import ErrorCode
from kraft.model.principal import Principal
from kraft.sasl.exchange import Authenticated, Challenge, CheckPassword, CheckToken, Rejected
from kraft.sasl.mechanisms import SaslMechanism
from kraft.sasl.oauth_bearer import OAuthBearerServer
from kraft.sasl.plain import PlainServer
from kraft.sasl.scram import ScramCredential, ScramMechanism, ScramServer

AGAIN_AFTER_MS: Final = 1_000
"""A client logs in again at most once in this time, as in Kafka."""

MESSAGE_BYTES_MAX: Final = 8 * 1024
"""Longest message of a mechanism. An exchange keeps the first one until it is over, and strangers may begin many."""

TOKEN_MESSAGE_BYTES_MAX: Final = 64 * 1024
"""Longest message with a token, which is not kept."""


MECHANISM_CHARACTERS_MAX: Final = 100
"""So much is said of the name of a mechanism that is not enabled. One that exists has at most 20 (RFC 4422)."""


class KnownUsers(Protocol):
    """The users at one time."""

    def credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential:
        """Return a user's credential; a fake one for a user that does not exist."""

    def creation(self, user: str) -> int | None:
        """Return a number that another user of the same name does not have; None if there is no such user."""


class LoginFailed(Exception):
    """The client is not logged in, and its connection has to end.

    `error_code` and `told` are for the client. `reason` is for the server's log: it may say more, but nothing secret.
    If it `is_passing`, the same login may succeed later: then a client must not be told the code, which it takes for
    final.
    """

    def __init__(self, error_code: ErrorCode, reason: str, told: str, *, is_passing: bool = False) -> None:
        super().__init__(reason)
        self.error_code = error_code
        self.reason = reason
        self.told = told
        self.is_passing = is_passing


class LoginRules(Struct, frozen=True, kw_only=True):
    """What a listener requires."""

    mechanisms: tuple[SaslMechanism, ...]
    reauthentication_ms_max: int = 0
    """Longest session; 0: it ends only when a token expires."""


class Moment(Struct, frozen=True, kw_only=True):
    """One time on two clocks."""

    wall_ms: int
    """For tokens, which expire at a time of day."""

    monotonic_ms: int
    """For sessions, which last for some time."""


class Session(Struct, frozen=True, kw_only=True):
    """A login that succeeded."""

    principal: Principal
    mechanism: SaslMechanism
    user_creation: int | None = None
    """Which of the users that had this name one after the other; None for one of another server's tokens."""

    lifetime_ms: int = 0
    """0: without end."""

    ends_at_ms: int | None = None
    """The end, on the monotonic clock."""

    def is_over(self, monotonic_ms: int) -> bool:
        return self.ends_at_ms is not None and monotonic_ms > self.ends_at_ms


class LoggedIn(Struct, frozen=True):
    """The login is over. The client gets `message`, which may be empty."""

    message: bytes
    session: Session


LoginStep: TypeAlias = Challenge | CheckPassword | CheckToken | LoggedIn


_Exchange: TypeAlias = PlainServer | ScramServer | OAuthBearerServer


class _Phase(Enum):
    BEGUN = auto()
    VERSIONS_KNOWN = auto()
    """The client knows the versions of the APIs, and has to send a handshake."""

    EXCHANGE = auto()
    LOGGED_IN = auto()
    FAILED = auto()


class SaslLogin:
    """The login of one connection. Each method raises LoginFailed."""

    def __init__(self, rules: LoginRules, users: Callable[[], KnownUsers], new_nonce: Callable[[], str]) -> None:
        """`users` returns the current ones. `new_nonce` returns random text for SCRAM, printable and without commas."""
        self._rules = rules
        self._users = users
        self._new_nonce = new_nonce
        self._phase = _Phase.BEGUN
        self._exchange: _Exchange | None = None
        self._mechanism: SaslMechanism
        """That of the last handshake."""

        self._began_again_ms: int | None = None
        self.session: Session | None = None
        """None until the client has logged in. While it logs in again, the earlier one."""

    @property
    def mechanisms(self) -> tuple[SaslMechanism, ...]:
        return self._rules.mechanisms

    @property
    def is_logged_in(self) -> bool:
        """True unless a login is in progress, or has failed."""
        return self._phase is _Phase.LOGGED_IN

    @property
    def is_exchanging(self) -> bool:
        """True if the next message of the client is one of the mechanism's."""
        return self._phase is _Phase.EXCHANGE

    @property
    def has_failed(self) -> bool:
        return self._phase is _Phase.FAILED

    def may_begin_again(self, monotonic_ms: int) -> bool:
        """Return whether a handshake of a client that is logged in begins another login."""
        began_ms = self._began_again_ms
        return (
            self.is_logged_in
            and self.session is not None
            and self.session.ends_at_ms is not None
            and (began_ms is None or monotonic_ms - began_ms >= AGAIN_AFTER_MS)
        )

    def versions_told(self) -> None:
        """Note that the client was told the versions of the APIs, which it may ask for once, before its handshake."""
        if self._phase is not _Phase.BEGUN:
            raise self._misplaced("API_VERSIONS")
        self._phase = _Phase.VERSIONS_KNOWN

    def handshake(self, mechanism: str, monotonic_ms: int) -> None:
        """Begin the exchange of a mechanism."""
        if self.may_begin_again(monotonic_ms):
            self._began_again_ms = monotonic_ms
        elif self._phase not in (_Phase.BEGUN, _Phase.VERSIONS_KNOWN):
            raise self._misplaced("SASL_HANDSHAKE")
        if mechanism not in self._rules.mechanisms:
            name = mechanism[:MECHANISM_CHARACTERS_MAX]
            text = f"Unsupported SASL mechanism {name}"
            reason = f"the client asks for SASL mechanism {name!r}, which this listener does not enable"
            raise self._failed(ErrorCode.UNSUPPORTED_SASL_MECHANISM, reason, text)
        self._mechanism = SaslMechanism(mechanism)
        self._exchange = self._new_exchange(self._mechanism)
        self._phase = _Phase.EXCHANGE

    def received(self, message: bytes, now: Moment) -> LoginStep:
        """Return what follows from a message of the mechanism.

        After a step that asks for a check, its outcome has to be given to one of the methods below.
        """
        if self._phase is not _Phase.EXCHANGE or self._exchange is None:
            raise self._misplaced("SASL_AUTHENTICATE")
        has_token = self._mechanism is SaslMechanism.OAUTHBEARER
        bytes_max = TOKEN_MESSAGE_BYTES_MAX if has_token else MESSAGE_BYTES_MAX
        if len(message) > bytes_max:
            too_long = f"a message is longer than {bytes_max} bytes"
            raise self._rejected(Rejected(too_long, told=f"Authentication failed: {too_long}"))
        if self.session is not None and self._mechanism is not self.session.mechanism:
            raise self._refused(
                f"SASL mechanism '{self._mechanism}' requested by client is not supported for re-authentication of "
                f"mechanism '{self.session.mechanism}'"
            )
        try:
            step = self._exchange.received(message)
        except Rejected as rejected:
            raise self._rejected(rejected) from None
        return self._finished(step, now) if isinstance(step, Authenticated) else step

    def password_checked(self, is_right: bool, now: Moment) -> LoggedIn:
        """Return the end of an exchange that asked to check a password."""
        assert isinstance(self._exchange, PlainServer), "only PLAIN asks to check a password"
        try:
            return self._finished(self._exchange.checked(is_right), now)
        except Rejected as rejected:
            raise self._rejected(rejected) from None

    def token_checked(self, user: str, expires_ms: int, now: Moment) -> LoggedIn:
        """Return the end of an exchange that asked to check a token. It is valid until `expires_ms` since 1970."""
        assert isinstance(self._exchange, OAuthBearerServer), "only OAUTHBEARER asks to check a token"
        try:
            return self._finished(self._exchange.token_checked(user, expires_ms), now)
        except Rejected as rejected:
            raise self._rejected(rejected) from None

    def token_refused(self, reason: str) -> Challenge:
        """Return what the client is told of a token that is not valid. Its next message ends the login."""
        assert isinstance(self._exchange, OAuthBearerServer), "only OAUTHBEARER asks to check a token"
        return self._exchange.refused(reason)

    def token_not_verified(self, reason: str) -> LoginFailed:
        """Return the end of an exchange whose token cannot be verified at present."""
        failed = self._refused(reason)
        return LoginFailed(failed.error_code, failed.reason, failed.told, is_passing=True)

    def _finished(self, authenticated: Authenticated, now: Moment) -> LoggedIn:
        principal, before = Principal(authenticated.user), self.session
        if before is not None and principal != before.principal:
            was, is_now = (f"{each.kind}.{each.name}" for each in (before.principal, principal))
            raise self._refused(f"Cannot change principals during re-authentication from {was}: {is_now}")
        limits_ms = []
        if self._rules.reauthentication_ms_max > 0:
            limits_ms.append(self._rules.reauthentication_ms_max)
        if authenticated.expires_ms is not None:
            limits_ms.append(max(0, authenticated.expires_ms - now.wall_ms))
        lifetime_ms = min(limits_ms, default=None)
        has_token = self._mechanism is SaslMechanism.OAUTHBEARER
        self.session = Session(
            principal=principal,
            mechanism=self._mechanism,
            user_creation=None if has_token else self._users().creation(principal.name),
            lifetime_ms=lifetime_ms or 0,
            ends_at_ms=None if lifetime_ms is None else now.monotonic_ms + lifetime_ms,
        )
        self._phase, self._exchange = _Phase.LOGGED_IN, None
        return LoggedIn(authenticated.message, self.session)

    def _new_exchange(self, mechanism: SaslMechanism) -> _Exchange:
        match mechanism:
            case SaslMechanism.PLAIN:
                return PlainServer()
            case SaslMechanism.OAUTHBEARER:
                return OAuthBearerServer()
            case SaslMechanism.SCRAM_SHA_256 | SaslMechanism.SCRAM_SHA_512:
                scram = ScramMechanism(mechanism.value)
                return ScramServer(scram, self._new_nonce(), lambda user: self._users().credential(user, scram))
            case _:
                assert_never(mechanism)

    def _rejected(self, rejected: Rejected) -> LoginFailed:
        again = "re-authentication" if self.session is not None else "authentication"
        told = f"Authentication failed during {again} due to invalid credentials with SASL mechanism {self._mechanism}"
        return self._refused(rejected.told or told, rejected.reason)

    def _refused(self, told: str, reason: str | None = None) -> LoginFailed:
        reason = f"{self._mechanism} login failed: {reason or told}"
        return self._failed(ErrorCode.SASL_AUTHENTICATION_FAILED, reason, told)

    def _misplaced(self, api: str) -> LoginFailed:
        during = "handshake" if self._phase in (_Phase.BEGUN, _Phase.VERSIONS_KNOWN) else "authentication"
        text = f"Unexpected Kafka request of type {api} during SASL {during}."
        return self._failed(ErrorCode.ILLEGAL_SASL_STATE, text, text)

    def _failed(self, error_code: ErrorCode, reason: str, told: str) -> LoginFailed:
        self._phase, self._exchange = _Phase.FAILED, None
        return LoginFailed(error_code, reason, told)
