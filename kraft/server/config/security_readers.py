"""Readers of what listeners require of their clients."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from kraft.model.config_keys import items_of, reads, whole_number
from kraft.model.configs import ConfigType
from kraft.sasl.mechanisms import SaslMechanism
from kraft.server.config.values import CONTROLLER, SecurityProtocol
from kraft.tls.cipher_suites import cipher_suites
from kraft.tls.principal_rules import PrincipalRules
from kraft.tls.stores import ClientAuth, StoreType, TlsVersion

_HOST_AND_COUNT: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+):(?P<count>[0-9]+)")

_OLD_TLS_VERSIONS: Final = ("SSL", "SSLV2", "SSLV3", "TLSV1", "TLSV1.1")


@reads(ConfigType.LIST)
def security_protocols(text: str) -> tuple[tuple[str, SecurityProtocol], ...]:
    """Return names in capitals, and protocols. Kafka's sample maps names of listeners that it does not have."""
    found: dict[str, SecurityProtocol] = {}
    for item in items_of(text):
        name, separator, protocol = (part.strip().upper() for part in item.partition(":"))
        if not separator or not name or not protocol:
            raise ValueError("expected NAME:PROTOCOL, separated by commas")
        if name == CONTROLLER and protocol not in (SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL):
            raise ValueError(f"{name} can only be mapped to PLAINTEXT or SSL")
        if protocol not in list(SecurityProtocol):
            raise ValueError(f"{protocol} is not a security protocol: expected {' or '.join(SecurityProtocol)}")
        if name in found:
            raise ValueError(f"{name} is named twice: map each listener once")
        found[name] = SecurityProtocol(protocol)
    return tuple(found.items())


@reads(ConfigType.LIST)
def listener_names(text: str) -> tuple[str, ...]:
    names = tuple(name.upper() for name in items_of(text))
    if CONTROLLER in names:
        raise ValueError(f"{CONTROLLER} is for nodes only, which always authenticate each other: remove it")
    return names


@reads(ConfigType.STRING)
def store_type(text: str) -> StoreType:
    if text.upper() == "JKS":
        raise ValueError(
            "JKS is Java's own format: convert the store with keytool -importkeystore -srckeystore STORE.jks"
            " -destkeystore STORE.p12 -deststoretype PKCS12, and set PKCS12"
        )
    if text.upper() not in list(StoreType):
        raise ValueError(f"expected {' or '.join(StoreType)}")
    return StoreType(text.upper())


@reads(ConfigType.STRING)
def client_auth(text: str) -> ClientAuth:
    if text.lower() not in list(ClientAuth):
        raise ValueError(f"expected {' or '.join(ClientAuth)}")
    return ClientAuth(text.lower())


@reads(ConfigType.LIST)
def tls_versions(text: str) -> tuple[TlsVersion, ...]:
    items = items_of(text)
    if old := next((item for item in items if item.upper() in _OLD_TLS_VERSIONS), None):
        raise ValueError(f"{old} is not secure and never offered: expected {' or '.join(TlsVersion)}, or both")
    if not items or any(item not in list(TlsVersion) for item in items):
        raise ValueError(f"expected {' or '.join(TlsVersion)}, or both")
    return tuple(version for version in TlsVersion if version in items)


@reads(ConfigType.LIST)
def names(text: str) -> tuple[str, ...]:
    """Return a list of any names, in its order."""
    return tuple(items_of(text))


@reads(ConfigType.LIST)
def suites(text: str) -> tuple[str, ...]:
    """Return the names of cipher suites that OpenSSL has."""
    found = tuple(items_of(text))
    cipher_suites(found)
    return found


@reads(ConfigType.STRING)
def principal_rules(text: str) -> str:
    """Return rules that can be read."""
    PrincipalRules(text)
    return text


@reads(ConfigType.LIST)
def mechanisms(text: str) -> tuple[SaslMechanism, ...]:
    items = items_of(text)
    expected = f"expected one or more of {', '.join(SaslMechanism)}"
    if "GSSAPI" in (item.upper() for item in items):
        raise ValueError(f"Kerberos (GSSAPI) is not supported: {expected}")
    if not items or any(item not in list(SaslMechanism) for item in items):
        raise ValueError(expected)
    return tuple(SaslMechanism(item) for item in dict.fromkeys(items))


@reads(ConfigType.STRING)
def jwks_url(text: str) -> str:
    """Read the URL of keys. Keys that came over http could be those of anybody between here and there."""
    try:
        url = urlsplit(text)
    except ValueError:
        url = urlsplit("")
    is_https = url.scheme == "https" and url.hostname and url.username is None
    is_file = url.scheme == "file" and url.path and not url.netloc
    if not (is_https or is_file):
        raise ValueError("expected https://HOST/PATH, or file:///PATH of a file with the keys")
    return text


@reads(ConfigType.STRING)
def connections_per_host(text: str) -> tuple[tuple[str, int], ...]:
    found: dict[str, int] = {}
    for item in items_of(text):
        matched = _HOST_AND_COUNT.fullmatch(item)
        if matched is None:
            raise ValueError(f"{item!r} is not HOST:COUNT: expected such pairs, separated by commas")
        host = matched["host"].strip("[]")
        if host in found:
            raise ValueError(f"{host} is named twice: name each host once")
        found[host] = whole_number(0)(matched["count"])
    return tuple(found.items())
