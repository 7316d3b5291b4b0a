"""Keys of cluster.NAME.oidc.*: the provider at which users of a cluster log in."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from kraft.model.addresses import is_loopback
from kraft.model.password import Password

KEYS: Final = (
    "oidc.issuer",
    "oidc.client.id",
    "oidc.client.secret",
    "oidc.client.secret.file",
    "oidc.scopes",
    "oidc.ca",
    "oidc.user.claim",
)
MECHANISM: Final = "OAUTHBEARER"

_SECRET_BYTES_MAX: Final = 4_096


class OidcSettings(Struct, frozen=True, kw_only=True):
    issuer: str
    client_id: str
    client_secret: Password | None = None
    """None: a public client, which PKCE alone protects."""

    scopes: str = "openid"
    ca: Path | None = None
    """Certificates of the CAs that the provider's own is signed by, as PEM; None: those of the system."""

    user_claim: str = "sub"
    """The claim of the ID token by which the console names the user; brokers decide by the access token alone."""

    @property
    def host(self) -> str:
        """Return the provider as people know it."""
        return urlsplit(self.issuer).netloc

    def context(self) -> ssl.SSLContext:
        """Return who is trusted to be the provider. Raises OSError if the file cannot be used."""
        return ssl.create_default_context(cafile=None if self.ca is None else str(self.ca))


def is_safe_url(url: str, issuer: str = "") -> bool:
    """Return whether the URL is https; http serves on loopback, for a provider that is asked so itself."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or parts.username is not None or parts.fragment or not (url.isascii() and url.isprintable()):
        return False
    if parts.scheme == "https":
        return True
    return parts.scheme == "http" and is_loopback(host) and urlsplit(issuer or url).scheme == "http"


def oidc_settings(prefix: str, own: Mapping[str, str], problems: list[str]) -> OidcSettings | None:
    """Return what the keys say; None, with lines in `problems`, if they cannot be used, and None if there are none."""
    given = {key: value.strip() for key, value in own.items() if key in KEYS}
    if not given:
        return None
    before = len(problems)
    problems += [
        f"{prefix}{key} is missing: set it to {what}"
        for key, what in (
            ("oidc.issuer", "the URL of the OpenID provider"),
            ("oidc.client.id", "the id under which the provider knows the console"),
        )
        if not given.get(key)
    ]
    issuer, ca = given.get("oidc.issuer", ""), given.get("oidc.ca", "")
    if issuer and (not is_safe_url(issuer) or urlsplit(issuer).query):
        problems.append(f"{prefix}oidc.issuer={issuer} is no URL of a provider: give https://HOST[/PATH]")
    scopes = given.get("oidc.scopes", "openid").replace(",", " ").split()
    if "openid" not in scopes:
        problems.append(f"{prefix}oidc.scopes has no openid, without which there is no ID token: add it")
    found = OidcSettings(
        issuer=issuer,
        client_id=given.get("oidc.client.id", ""),
        client_secret=_secret(prefix, given, problems),
        scopes=" ".join(scopes),
        ca=Path(ca) if ca else None,
        user_claim=given.get("oidc.user.claim", "sub"),
    )
    try:
        found.context()
    except OSError as error:
        problems.append(f"{prefix}oidc.ca={ca} has no certificates that can be read: {error.strerror or error}")
    return found if len(problems) == before else None


def _secret(prefix: str, given: Mapping[str, str], problems: list[str]) -> Password | None:
    text, file = given.get("oidc.client.secret", ""), given.get("oidc.client.secret.file", "")
    if text and file:
        problems.append(
            f"{prefix}oidc.client.secret and {prefix}oidc.client.secret.file say the same: give one of them"
        )
    if file:
        try:
            with Path(file).open(encoding="utf-8") as opened:
                text = opened.read(_SECRET_BYTES_MAX).strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            problems.append(f"{prefix}oidc.client.secret.file={file} cannot be read: {reason}")
    return Password(text) if text else None
