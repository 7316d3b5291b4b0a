"""Where a key, its certificates and the trusted CAs come from, and what TLS requires of the other side."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct

from kraft.model.password import Password


class StoreType(StrEnum):
    """The format of a store file. Java's own, JKS, is not read."""

    PEM = "PEM"
    PKCS12 = "PKCS12"


class KeyStoreFile(Struct, frozen=True, kw_only=True):
    """A private key and its certificates, in a file."""

    path: Path
    type: StoreType = StoreType.PEM
    password: Password | None = None
    """The password of a PKCS12 file."""
    key_password: Password | None = None
    """The password of an encrypted key in a PEM file."""


class KeyStoreText(Struct, frozen=True, kw_only=True):
    """A private key and its certificates as PEM text."""

    certificate_chain: str
    key: Password
    key_password: Password | None = None


KeyStore: TypeAlias = KeyStoreFile | KeyStoreText


class TrustStoreFile(Struct, frozen=True, kw_only=True):
    """The certificates of the trusted CAs, in a file."""

    path: Path
    type: StoreType = StoreType.PEM
    password: Password | None = None
    """The password of a PKCS12 file."""


class TrustStoreText(Struct, frozen=True, kw_only=True):
    """The certificates of the trusted CAs as PEM text."""

    certificates: str


TrustStore: TypeAlias = TrustStoreFile | TrustStoreText


class ClientAuth(StrEnum):
    """Whether a client has to show a certificate."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


class TlsVersion(StrEnum):
    """Java's name of a version. Older ones are not offered."""

    TLS_1_2 = "TLSv1.2"
    TLS_1_3 = "TLSv1.3"


DEFAULT_PRINCIPAL_RULES: Final = "DEFAULT"
"""The principal of a certificate is its distinguished name (KIP-371)."""


class TlsSettings(Struct, frozen=True, kw_only=True):
    """TLS of a listener, or of a client."""

    key_store: KeyStore | None = None
    """A listener always has one; a client only to show a certificate."""
    trust_store: TrustStore | None = None
    """None: a client trusts the CAs of its system; a listener asks for no certificate."""
    client_auth: ClientAuth = ClientAuth.NONE
    """Of a listener."""
    protocols: tuple[TlsVersion, ...] = tuple(TlsVersion)
    cipher_suites: tuple[str, ...] = ()
    """Names as Java or OpenSSL write them; empty: OpenSSL's choice."""
    principal_mapping_rules: str = DEFAULT_PRINCIPAL_RULES
    """Of a listener: which principal a certificate stands for."""
    verifies_host: bool = True
    """Of a client: the certificate of the server has to name the host to which it connected."""
