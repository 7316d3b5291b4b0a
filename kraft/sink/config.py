"""The file of `kraft sink`: read by its keys, checked, frozen. All that is wrong with it is told at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from kraft.client.model.errors import InvalidSetting
from kraft.client.model.security import client_security, is_security_key
from kraft.client.model.settings import parse_addresses, wire_protocol
from kraft.metadata.topic_names import check_topic_name
from kraft.model.addresses import is_loopback
from kraft.model.errors import KraftError
from kraft.model.password import Password
from kraft.server.config.readers import metrics_address
from kraft.server.config.values import Listener
from kraft.sink.documents import ValueFormat, index_problem
from kraft.tls.stores import TlsSettings

_ID_PREFIX: Final = re.compile(r"[A-Za-z0-9._-]{0,64}")
_VISIBLE: Final = re.compile(r"[!-~]*")

Choice = TypeVar("Choice", bound=StrEnum)

_ENGINE_TLS: Final = "connection."


class InvalidSinkFile(KraftError):
    """The file cannot be used; each problem is one line, with the remedy."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"


class EngineConfig(Struct, frozen=True, kw_only=True):
    """How the search engine is reached."""

    urls: tuple[str, ...]
    """connection.url: the nodes of one engine; the next one is asked after a failure."""

    user: str = ""
    """connection.username"""

    password: Password = Password("")
    """connection.password"""

    api_key: Password = Password("")
    """connection.api.key: in place of both."""

    compression: Compression = Compression.NONE
    """connection.compression"""

    timeout_s: float = 60.0
    """read.timeout.ms: longest time of a request with its answer."""

    tls: TlsSettings | None = None
    """connection.ssl.*; None for the certificate authorities of the system."""


class SinkConfig(Struct, frozen=True, kw_only=True):
    topics: tuple[str, ...]
    group_id: str
    client: Mapping[str, Any]
    """Settings of every client: addresses, protocol and security."""

    consumer: Mapping[str, str]
    """consumer.*: further settings of the consumer."""

    engine: EngineConfig
    index: str
    """index: name of the index, with {topic} and the fields of a date, such as logs-%Y.%m.%d."""

    value_format: ValueFormat
    """value.format"""

    dead_letters: str
    """errors.deadletterqueue.topic.name"""

    id_prefix: str = ""
    """document.id.prefix: begins each id, for a topic that was deleted and created again under its name."""

    batch_count: int = 2_000
    """batch.size: documents in one request."""

    batch_bytes: int = 5 << 20
    """bulk.size.bytes: bytes in one request, before compression."""

    linger_ms: int = 500
    """linger.ms: how long a request that is not full waits for more documents."""

    in_flight_max: int = 2
    """max.in.flight.requests: requests at a time."""

    retry_first_ms: int = 100
    """retry.backoff.ms: the pause before the first retry; it doubles with each further one."""

    retry_max_ms: int = 30_000
    """retry.backoff.max.ms"""

    metrics: Listener | None = None
    """metrics.address"""


_NUMBERS: Final = {
    "batch.size": (2_000, 1, 100_000),
    "bulk.size.bytes": (5 << 20, 1_024, 100 << 20),
    "linger.ms": (500, 0, 60_000),
    "max.in.flight.requests": (2, 1, 32),
    "retry.backoff.ms": (100, 1, 60_000),
    "retry.backoff.max.ms": (30_000, 1, 600_000),
    "read.timeout.ms": (60_000, 100, 600_000),
}
"""Default, lowest and highest."""

_OWN_SETTINGS: Final = frozenset(
    {"bootstrap.servers", "group.id", "enable.auto.commit", "auto.commit.interval.ms", "wire.protocol"}
)
"""Settings of the consumer that the sink needs as they are: it commits what the engine has acknowledged."""

KEYS: Final = (
    "bootstrap.servers",
    "wire.protocol",
    "topics",
    "group.id",
    "connection.url",
    "connection.username",
    "connection.password",
    "connection.api.key",
    "connection.compression",
    "index",
    "value.format",
    "document.id.prefix",
    "errors.deadletterqueue.topic.name",
    "metrics.address",
    *_NUMBERS,
)


def sink_config(given: Mapping[str, str]) -> SinkConfig:
    """Return what the file says. Raises InvalidSinkFile with everything that is wrong."""
    reading = _Reading(given)
    topics = tuple(dict.fromkeys(each.strip() for each in given.get("topics", "").split(",") if each.strip()))
    if not topics:
        reading.problems.append("topics names no topic: set it, such as topics=logs")
    dead_letters = reading.needed("errors.deadletterqueue.topic.name", "the topic for refused documents")
    for name in (*topics, *([dead_letters] if dead_letters else [])):
        reading.topic(name)
    if dead_letters in topics:
        reading.problems.append(f"errors.deadletterqueue.topic.name={dead_letters} is read itself: name another topic")
    index = reading.needed("index", "the name of the index, such as logs-%Y.%m.%d")
    if index and topics and (problem := index_problem(index, topics)):
        reading.problems.append(f"index={index} {problem}")
    prefix = given.get("document.id.prefix", "")
    if not _ID_PREFIX.fullmatch(prefix):
        reading.problems.append(
            f"document.id.prefix={prefix} is not possible: use up to 64 letters, digits, dots, hyphens and underscores"
        )
    numbers = {key: reading.number(key) for key in _NUMBERS}
    if numbers["retry.backoff.max.ms"] < numbers["retry.backoff.ms"]:
        reading.problems.append("retry.backoff.max.ms is below retry.backoff.ms: raise it")
    config = SinkConfig(
        topics=topics,
        group_id=reading.needed("group.id", "the name of the group that reads"),
        client=reading.client(),
        consumer={key.removeprefix("consumer."): value for key, value in given.items() if key.startswith("consumer.")},
        engine=reading.engine(numbers["read.timeout.ms"]),
        index=index,
        value_format=reading.one_of("value.format", ValueFormat, ValueFormat.JSON),
        dead_letters=dead_letters,
        id_prefix=prefix,
        batch_count=numbers["batch.size"],
        batch_bytes=numbers["bulk.size.bytes"],
        linger_ms=numbers["linger.ms"],
        in_flight_max=numbers["max.in.flight.requests"],
        retry_first_ms=numbers["retry.backoff.ms"],
        retry_max_ms=numbers["retry.backoff.max.ms"],
        metrics=reading.metrics(),
    )
    reading.unknown()
    if reading.problems:
        raise InvalidSinkFile(reading.problems)
    return config


class _Reading:
    """Reads keys, and keeps what is wrong with them."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given
        self.problems: list[str] = []

    def needed(self, key: str, what: str) -> str:
        if not (found := self._given.get(key, "").strip()):
            self.problems.append(f"{key} is missing: set it to {what}")
        return found

    def topic(self, name: str) -> None:
        try:
            check_topic_name(name)
        except KraftError as error:
            self.problems.append(f"{name}: {error}")

    def number(self, key: str) -> int:
        default, lowest, highest = _NUMBERS[key]
        text = self._given.get(key, str(default)).strip()
        if text.isascii() and text.isdigit() and len(text) < 12 and lowest <= int(text) <= highest:
            return int(text)
        self.problems.append(f"{key}={text} is not possible: give a whole number from {lowest} to {highest}")
        return default

    def one_of(self, key: str, kind: type[Choice], default: Choice) -> Choice:
        text = self._given.get(key, default).strip().lower()
        known = [str(each) for each in kind]
        if text in known:
            return kind(text)
        self.problems.append(f"{key}={text} is not known: give one of {', '.join(known)}")
        return default

    def client(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"bootstrap_servers": self.needed("bootstrap.servers", "HOST:PORT of a broker")}
        security = {key: value for key, value in self._given.items() if is_security_key(key)}
        try:
            if settings["bootstrap_servers"]:
                parse_addresses(settings["bootstrap_servers"])
            if security:
                settings["security"] = client_security(security)
            if "wire.protocol" in self._given:
                settings["wire_protocol"] = wire_protocol(self._given["wire.protocol"])
        except InvalidSetting as error:
            self.problems.append(str(error))
        return settings

    def engine(self, timeout_ms: int) -> EngineConfig:
        given = self._given
        has_login = bool(given.get("connection.username") or given.get("connection.api.key"))
        urls = tuple(each.strip().rstrip("/") for each in given.get("connection.url", "").split(",") if each.strip())
        if not urls:
            self.problems.append(
                "connection.url is missing: set it to the search engine, such as http://localhost:9200"
            )
        for each in urls:
            self._url(each, has_login)
        if "connection.username" in given and "connection.api.key" in given:
            self.problems.append("connection.username and connection.api.key are two logins: give one of them")
        if ("connection.username" in given) != ("connection.password" in given):
            self.problems.append("connection.username and connection.password belong together: give both")
        if _VISIBLE.fullmatch(given.get("connection.api.key", "").strip()) is None:
            self.problems.append("connection.api.key has characters that no key has: give it as the engine encoded it")
        return EngineConfig(
            urls=urls,
            user=given.get("connection.username", ""),
            password=Password(given.get("connection.password", "")),
            api_key=Password(given.get("connection.api.key", "").strip()),
            compression=self.one_of("connection.compression", Compression, Compression.NONE),
            timeout_s=timeout_ms / 1_000,
            tls=self._engine_tls(),
        )

    def _url(self, text: str, has_login: bool) -> None:
        try:
            parts = urlsplit(text)
            host = (parts.hostname or "").encode("idna")
            is_one = parts.scheme in ("http", "https") and bool(host) and parts.port != 0
            is_one = is_one and _VISIBLE.fullmatch(parts.path) is not None
        except ValueError:
            parts, is_one = urlsplit(""), False
        if not is_one or parts.query or parts.fragment:
            self.problems.append(
                f"connection.url={text} is not http://HOST:PORT or https://HOST:PORT: give one of them"
            )
        elif parts.username is not None:
            self.problems.append("connection.url has a login: give it as connection.username and connection.password")
        elif parts.scheme == "http" and has_login and not is_loopback(parts.hostname or ""):
            self.problems.append(f"connection.url={text} would send the login in the clear: use https")

    def _engine_tls(self) -> TlsSettings | None:
        prefix = f"{_ENGINE_TLS}ssl."
        keys = {key.removeprefix(_ENGINE_TLS): value for key, value in self._given.items() if key.startswith(prefix)}
        if not keys:
            return None
        try:
            return client_security({"security.protocol": "SSL", **keys}).tls
        except InvalidSetting as error:
            self.problems.append(f"connection.ssl.*: {error}")
            return None

    def metrics(self) -> Listener | None:
        text = self._given.get("metrics.address", "").strip()
        if not text:
            return None
        try:
            return metrics_address(text)
        except ValueError as error:
            self.problems.append(f"metrics.address={text}: {error}")
            return None

    def unknown(self) -> None:
        for key in self._given:
            if key.startswith("consumer.") and key.removeprefix("consumer.").replace("_", ".") in _OWN_SETTINGS:
                self.problems.append(f"{key} is set by the sink itself: remove it")
            if key in KEYS or is_security_key(key) or key.startswith(("consumer.", f"{_ENGINE_TLS}ssl.")):
                continue
            known = ", ".join(KEYS)
            self.problems.append(f"{key} is not known: keys are {known}, connection.ssl.*, consumer.* and security's")
