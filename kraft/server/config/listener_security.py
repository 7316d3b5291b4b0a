"""What a listener requires of its clients before it reads their requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraft.model.password import Password
from kraft.sasl.mechanisms import SaslMechanism
from kraft.server.config.security_settings import OAuthBearerSettings
from kraft.server.config.values import SecurityProtocol
from kraft.tls.stores import ClientAuth, TlsSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """How the clients of a listener log in."""

    mechanisms: tuple[SaslMechanism, ...]
    reauthentication_ms_max: int = 0
    """Time after which a client has to log in again (KIP-368); 0: never, but for tokens that expire."""
    receive_bytes_max: int = 524_288
    """Largest request before login."""
    plain_users: tuple[tuple[str, Password], ...] = ()
    """Users that the file itself names, with their passwords."""
    oauth_bearer: OAuthBearerSettings | None = None
    """None: OAUTHBEARER is not enabled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSecurity:
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: TlsSettings | None = None
    """None if and only if the protocol has no TLS."""
    sasl: SaslSettings | None = None
    """None if and only if the protocol has no SASL."""

    @property
    def authenticates(self) -> bool:
        """True if nobody gets in without showing who it is."""
        return self.sasl is not None or (self.tls is not None and self.tls.client_auth is ClientAuth.REQUIRED)

    @property
    def sends_passwords_in_clear(self) -> bool:
        """True if whoever listens on the network can read passwords, or tokens, which are as good."""
        clear = (SaslMechanism.PLAIN, SaslMechanism.OAUTHBEARER)
        return self.tls is None and self.sasl is not None and any(each in clear for each in self.sasl.mechanisms)


OPEN: Final = ListenerSecurity()
"""Neither encrypted nor authenticated."""
