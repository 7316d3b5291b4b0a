"""Clients of clusters: one for each user who has logged in, and one for each cluster that is open."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from kraft.client import Admin, AuthenticationFailed, Consumer, ErrorCode, KraftError, Producer, Refusal
from kraft.client.cluster.network import Network
from kraft.console.asking import CLIENT_MS
from kraft.console.config import ClusterConfig, Secret
from kraft.console.oidc.access_tokens import AccessTokens
from kraft.health.facts import PROBE_MS
from kraft.model.password import Password

REFUSED_MS = 1_000
"""How long a new client tries when no broker is at any address."""


class WrongLogin(Exception):
    """The cluster refuses the user or the password."""


class NoAnswer(Exception):
    """Whether the login is right could not be found out, and why."""


class UserClient(Struct, frozen=True, kw_only=True):
    """A client that acts as a user, and what further clients of the same user are opened with."""

    cluster: ClusterConfig
    user: str
    password: Password
    admin: Admin
    tokens: AccessTokens | None = None
    """Of a login at an OpenID provider, in the place of a password."""

    @property
    def ended(self) -> str:
        """Return why the login has ended by itself: a sentence for the user; empty while it goes on."""
        return "" if self.tokens is None else self.tokens.ended

    def elsewhere(self, servers: str, timeout_ms: int) -> Admin:
        """Return a client at other addresses of the cluster; the caller closes it."""
        return open_admin(self.cluster, self.user, self._secret, servers, timeout_ms)

    def consumer(self, **settings: Any) -> Consumer:
        """Return a consumer that acts as the user; the caller closes it."""
        return Consumer(self.cluster.bootstrap_servers, **self._common(), **settings)

    def producer(self, **settings: Any) -> Producer:
        """Return a producer that acts as the user; the caller closes it."""
        return Producer(self.cluster.bootstrap_servers, **self._common(), **settings)

    def _common(self) -> dict[str, Any]:
        return _settings(self.cluster, self.user, self._secret)

    @property
    def _secret(self) -> Secret:
        return self.password.text if self.tokens is None else self.tokens.current

    def close(self) -> None:
        self.admin.close()


def open_client(cluster: ClusterConfig, user: str, password: str) -> UserClient:
    admin = open_admin(cluster, user, password)
    return UserClient(cluster=cluster, user=user, password=Password(password), admin=admin)


def open_client_with_tokens(cluster: ClusterConfig, user: str, tokens: AccessTokens) -> UserClient:
    admin = open_admin(cluster, user, tokens.current)
    return UserClient(cluster=cluster, user=user, password=Password(""), admin=admin, tokens=tokens)


def open_admin(
    cluster: ClusterConfig, user: str, secret: Secret, servers: str | None = None, timeout_ms: int = PROBE_MS
) -> Admin:
    """Return a client that acts as the user; it connects at its first call. The caller closes it."""
    return Admin(
        cluster.bootstrap_servers if servers is None else servers,
        default_api_timeout_ms=timeout_ms,
        **_settings(cluster, user, secret),
    )


def _settings(cluster: ClusterConfig, user: str, secret: Secret) -> dict[str, Any]:
    return {
        "network": Network(software="kraft-console"),
        "client_id": "kraft-console",
        "bootstrap_refused_timeout_ms": REFUSED_MS,
        **cluster.settings(user, secret),
    }


def logged_in(cluster: ClusterConfig, user: str, password: str) -> UserClient:
    """Log in at the cluster itself, and return the client. Raises WrongLogin or NoAnswer."""
    return checked(open_client(cluster, user, password))


def checked(client: UserClient) -> UserClient:
    """Return the client once it has logged in; otherwise it is closed. Raises WrongLogin or NoAnswer."""
    try:
        client.admin.describe_cluster(timeout_ms=CLIENT_MS)
    except AuthenticationFailed as error:
        client.close()
        # With any other code, listener and console do not fit: the user can do nothing about it.
        wrong = error.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
        raise (WrongLogin if wrong else NoAnswer)(str(error)) from error
    except Refusal:
        # Whoever may not ask this has logged in all the same.
        return client
    except KraftError as error:
        client.close()
        raise NoAnswer(str(error)) from error
    return client
