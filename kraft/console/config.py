"""The file of `kraft console`: read by its keys, checked, frozen. All that is wrong with it is told at once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from kraft.client import ClientSecurity, InvalidSetting, client_security
from kraft.client.model.settings import parse_addresses, wire_protocol
from kraft.console.oidc import settings as oidc
from kraft.console.oidc.settings import OidcSettings, oidc_settings
from kraft.console.records.decoding.registry import RegistryConfig
from kraft.console.records.file_keys import is_records_key, registry_config, roles_of, viewing_rules
from kraft.console.records.permissions import Role, ViewingRules
from kraft.model.addresses import is_loopback
from kraft.model.errors import KraftError
from kraft.tls.stores import TlsSettings

DEFAULT_LISTENER: Final = "HTTP://localhost:8080"
DEFAULT_IDLE_MS: Final = 30 * 60_000
DEFAULT_LIFETIME_MS: Final = 12 * 60 * 60_000

MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", oidc.MECHANISM)
"""By which users log in."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_OWN_KEYS: Final = (
    "listeners",
    "advertised.listeners",
    "clusters",
    "allowed.hosts",
    "trusted.proxies",
    "session.idle.timeout.ms",
    "session.max.lifetime.ms",
)
_CLUSTER_KEYS: Final = ("bootstrap.servers", "wire.protocol", "security.protocol", "sasl.mechanism")
_INT_MAX: Final = 2**31 - 1


class InvalidConsoleFile(KraftError):
    """The file cannot be used; each problem is one line, with the remedy."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


Network: TypeAlias = IPv4Network | IPv6Network
Secret: TypeAlias = str | Callable[[], str]


class ClusterConfig(Struct, frozen=True, kw_only=True):
    """A cluster that the console shows. No address ever comes from a browser."""

    name: str
    bootstrap_servers: str
    wire_protocol: str = "grpc"
    security: Mapping[str, str] = {}
    """Keys of the client's security, without credentials: these are of whoever logs in."""

    viewing: ViewingRules = ViewingRules()
    """Who may view records."""

    registry: RegistryConfig | None = None
    """Where the schemas of records are."""

    oidc: OidcSettings | None = None
    """Where users log in with OAUTHBEARER."""

    @property
    def needs_login(self) -> bool:
        return _is_sasl(self.security)

    def settings(self, user: str, secret: Secret) -> dict[str, Any]:
        """Return the settings of a client for this user; of nobody, where the cluster is open.

        The secret is a password, or with OIDC a function that returns the token of now.
        """
        login: dict[str, Any] = {"sasl.username": user, "sasl.password": secret} if self.needs_login else {}
        if self.oidc is not None:
            login = {"sasl.oauth.token.provider": secret}
        return {**self.security, **login, "wire.protocol": self.wire_protocol}


class ConsoleConfig(Struct, frozen=True, kw_only=True):
    host: str
    port: int
    tls: TlsSettings | None
    """None: HTTP, on loopback only."""

    allowed_hosts: frozenset[str]
    """Values of the Host header that are answered, in lower case: others are names that an attacker chose."""

    clusters: Mapping[str, ClusterConfig]
    session_idle_ms: int = DEFAULT_IDLE_MS
    session_lifetime_ms: int = DEFAULT_LIFETIME_MS
    advertised: str = ""
    """The origin by which browsers reach the console, if it is another: that of a proxy."""

    trusted_proxies: tuple[Network, ...] = ()
    """Whose X-Forwarded-For is believed."""

    @property
    def origin(self) -> str:
        """Return where it listens."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.tls is None else 'https'}://{host}:{self.port}"

    @property
    def public_origin(self) -> str:
        return self.advertised or self.origin

    @property
    def is_secure(self) -> bool:
        """Return whether browsers reach it by HTTPS."""
        return self.public_origin.startswith("https:")

    @property
    def origins(self) -> frozenset[str]:
        """Return the origins of its own pages."""
        scheme, own = self.public_origin.partition(":")[0], self.origin.partition(":")[0]
        names = (
            [f"localhost:{self.port}", f"127.0.0.1:{self.port}", f"[::1]:{self.port}"] if is_loopback(self.host) else []
        )
        return frozenset(
            [*(f"{scheme}://{each}" for each in self.allowed_hosts), *(f"{own}://{each}" for each in names)]
        )


def console_config(given: Mapping[str, str]) -> ConsoleConfig:
    """Return what the file says. Raises InvalidConsoleFile with everything that is wrong."""
    problems: list[str] = []
    host, port, tls = _listener(given, problems)
    roles = roles_of(given, problems)
    clusters = {each.name: each for each in _clusters(given, roles, problems)}
    problems += _unknown_keys(given, clusters)
    advertised = _advertised(given, problems)
    reached_by = [host, *([urlsplit(advertised).hostname or ""] if advertised else []), *_names(given)]
    if not all(is_loopback(urlsplit(f"//{each}").hostname or each) for each in reached_by):
        problems += [
            f"cluster.{each.name}: nobody has to log in there, and others than this machine reach the console: set"
            f" cluster.{each.name}.security.protocol=SASL_SSL, or let the console listen on localhost,"
            " without other names in allowed.hosts and advertised.listeners"
            for each in clusters.values()
            if not each.needs_login
        ]
    idle_ms = _duration(given, "session.idle.timeout.ms", DEFAULT_IDLE_MS, problems)
    lifetime_ms = _duration(given, "session.max.lifetime.ms", DEFAULT_LIFETIME_MS, problems)
    proxies = _proxies(given, problems)
    if problems:
        raise InvalidConsoleFile(problems)
    return ConsoleConfig(
        host=host,
        port=port,
        tls=tls,
        allowed_hosts=_allowed_hosts(given, host, port) | ({urlsplit(advertised).netloc} if advertised else set()),
        advertised=advertised,
        trusted_proxies=proxies,
        clusters=clusters,
        session_idle_ms=idle_ms,
        session_lifetime_ms=lifetime_ms,
    )


def _listener(given: Mapping[str, str], problems: list[str]) -> tuple[str, int, TlsSettings | None]:
    text = given.get("listeners", DEFAULT_LISTENER).strip()
    wanted = (
        f"listeners={text} is not HTTP://HOST:PORT or HTTPS://HOST:PORT: give one of them, such as {DEFAULT_LISTENER}"
    )
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or port is None or parts.path or parts.query or parts.username:
        problems.append(wanted)
        return "localhost", 0, None
    if parts.scheme == "http":
        if not is_loopback(host):
            problems.append(
                f"listeners={text} would send passwords in the clear to other machines: use HTTPS with"
                " ssl.keystore.location, or listen on localhost"
            )
        return host, port, None
    return host, port, _server_tls(given, problems)


def _server_tls(given: Mapping[str, str], problems: list[str]) -> TlsSettings | None:
    keys = {key: value for key, value in given.items() if key.startswith(("ssl.keystore.", "ssl.key."))}
    if not keys:
        problems.append("listeners has HTTPS, which needs a key and a certificate: set ssl.keystore.location")
        return None
    try:
        return client_security({"security.protocol": "SSL", **keys}).tls
    except InvalidSetting as error:
        problems.append(str(error))
        return None


def _clusters(given: Mapping[str, str], roles: Mapping[str, Role], problems: list[str]) -> Iterator[ClusterConfig]:
    names = [each.strip() for each in given.get("clusters", "").split(",") if each.strip()]
    if not names:
        problems.append("clusters names no cluster: set it, such as clusters=prod, with cluster.prod.bootstrap.servers")
    for name, count in Counter(names).items():
        if count > 1:
            problems.append(f"clusters names {name} {count} times: name it once")
        if not _NAME.fullmatch(name):
            problems.append(f"clusters={name} is no name: use lower-case letters, digits and hyphens, 40 at most")
            continue
        prefix = f"cluster.{name}."
        own = {key.removeprefix(prefix): value for key, value in given.items() if key.startswith(prefix)}
        yield from _cluster(name, own, roles, problems)


def _cluster(
    name: str, own: Mapping[str, str], roles: Mapping[str, Role], problems: list[str]
) -> Iterator[ClusterConfig]:
    prefix, before = f"cluster.{name}.", len(problems)
    security: dict[str, str] = {}
    for key, value in own.items():
        if key.startswith("ssl.") or key in ("security.protocol", "sasl.mechanism"):
            security[key] = value
        elif key.startswith("sasl."):
            problems.append(f"{prefix}{key}: the console keeps no login; remove it: users log in with their own")
        elif key not in (*_CLUSTER_KEYS, *oidc.KEYS) and not is_records_key(key):
            known = f"{', '.join((*_CLUSTER_KEYS, *oidc.KEYS))}, ssl.*, records.view, mask.* and schema.registry.*"
            problems.append(f"{prefix}{key} is not known: keys are {known}")
    found = ClusterConfig(
        name=name,
        bootstrap_servers=own.get("bootstrap.servers", ""),
        wire_protocol=own.get("wire.protocol", "grpc"),
        security=security,
        viewing=viewing_rules(prefix, own, not _is_sasl(security), roles, problems),
        registry=registry_config(prefix, own, problems),
        oidc=oidc_settings(prefix, own, problems),
    )
    if not found.bootstrap_servers:
        problems.append(f"{prefix}bootstrap.servers is missing: set it to HOST:PORT of one broker or more")
    mechanism = security.get("sasl.mechanism", "").upper()
    if found.needs_login and mechanism not in MECHANISMS:
        problems.append(f"{prefix}sasl.mechanism is missing or not supported: set it to one of {', '.join(MECHANISMS)}")
    elif mechanism == oidc.MECHANISM and found.oidc is None and not any(key in own for key in oidc.KEYS):
        problems.append(f"{prefix}sasl.mechanism=OAUTHBEARER needs {prefix}oidc.issuer and {prefix}oidc.client.id")
    elif found.oidc is not None and (mechanism != oidc.MECHANISM or not found.needs_login):
        problems.append(
            f"{prefix}oidc.issuer has tokens, which brokers take with {prefix}security.protocol=SASL_SSL and"
            f" {prefix}sasl.mechanism=OAUTHBEARER: set both"
        )
    if len(problems) == before:
        try:
            wire_protocol(found.wire_protocol)
            parse_addresses(found.bootstrap_servers)
            security_of(found)
        except InvalidSetting as error:
            problems.append(f"{prefix}{error}")
        else:
            yield found


def _is_sasl(security: Mapping[str, str]) -> bool:
    return security.get("security.protocol", "").upper().startswith("SASL")


def security_of(cluster: ClusterConfig, user: str = "user", password: str = "password") -> ClientSecurity:
    """Return the security of a client for this user. Raises InvalidSetting."""
    settings = cluster.settings(user, password if cluster.oidc is None else lambda: password)
    return client_security({key: value for key, value in settings.items() if key != "wire.protocol"})


def _unknown_keys(given: Mapping[str, str], clusters: Mapping[str, ClusterConfig]) -> list[str]:
    named = {each.strip() for each in given.get("clusters", "").split(",")} | set(clusters)
    found = []
    for key in given:
        if key in _OWN_KEYS or key.startswith(("ssl.keystore.", "ssl.key.", "role.")):
            continue
        if key.startswith("cluster."):
            if key.split(".")[1] not in named:
                found.append(f"{key}: cluster {key.split('.')[1]} is not in clusters: add it there, or remove the key")
            continue
        found.append(f"{key} is not known: keys are {', '.join(_OWN_KEYS)}, ssl.keystore.*, role.* and cluster.NAME.*")
    return found


def _advertised(given: Mapping[str, str], problems: list[str]) -> str:
    text = given.get("advertised.listeners", "").strip()
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        parts, host, port = urlsplit(""), "", None
    if parts.scheme not in ("http", "https") or not host or parts.path.strip("/") or parts.query or parts.username:
        problems.append(
            f"advertised.listeners={text} is not HTTPS://HOST[:PORT]: give what browsers show of the address"
        )
        return ""
    if parts.scheme == "http" and not is_loopback(host):
        problems.append(f"advertised.listeners={text} would send passwords in the clear: use HTTPS, at a proxy, too")
    name = f"[{host}]" if ":" in host else host
    is_usual = port in (None, {"http": 80, "https": 443}[parts.scheme])
    return f"{parts.scheme}://{name}" if is_usual else f"{parts.scheme}://{name}:{port}"


def _proxies(given: Mapping[str, str], problems: list[str]) -> tuple[Network, ...]:
    found = []
    for text in given.get("trusted.proxies", "").split(","):
        try:
            found += [ip_network(text.strip())] if text.strip() else []
        except ValueError:
            problems.append(f"trusted.proxies={text.strip()} is no address: give that of the proxy, such as 127.0.0.1")
    return tuple(found)


def _duration(given: Mapping[str, str], key: str, default: int, problems: list[str]) -> int:
    text = given.get(key, str(default)).strip()
    if not (text.isascii() and text.isdigit() and len(text) < 12 and 1_000 <= int(text) <= _INT_MAX):
        problems.append(f"{key}={text} is no time: give whole milliseconds, from 1000 to {_INT_MAX}")
        return default
    return int(text)


def _allowed_hosts(given: Mapping[str, str], host: str, port: int) -> frozenset[str]:
    names = _names(given)
    own = ["localhost", "127.0.0.1", "[::1]"] if is_loopback(host) else [f"[{host}]" if ":" in host else host.lower()]
    return frozenset([*names, *(f"{each}:{port}" for each in [*names, *own])])


def _names(given: Mapping[str, str]) -> list[str]:
    return [each.strip().lower() for each in given.get("allowed.hosts", "").split(",") if each.strip()]
