"""Settings of the client: Kafka's keys with underscores, checked when a client is created.

Kafka's dotted keys (`linger.ms`), as in a `.properties` file, are accepted too.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final, TypeVar

from kraft.client.model.errors import InvalidSetting, NotSupportedYet
from kraft.client.model.group_settings import check_group, dotted, parse_group_names
from kraft.client.model.old_settings import replace_old_names
from kraft.client.model.security import OPEN, ClientSecurity, client_security, is_security_key
from kraft.log.format.compression import CODEC_OF_NAME, Codec
from kraft.model.errors import not_unicode

Settings = TypeVar("Settings", bound="ClientSettings")

DEFAULT_PORT: Final = 9094
"""Port of the GRPC listener in the README's example and in `kraft dev`."""

KAFKA_PORT: Final = 9092
"""Port of the listener of Kafka's protocol there, and of Apache Kafka."""

LOCAL_BROKER: Final = f"localhost:{DEFAULT_PORT}"

BY_THE_SYSTEM: Final = -1
"""Size of a socket's buffer that the system chooses, and changes as it is used."""

_ADDRESS: Final = re.compile(r"(?P<host>[^\[\]:/\s]+|\[[0-9A-Fa-f:.%]+\])(:(?P<port>[0-9]{1,5}))?")

_ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}
_OFFSET_RESETS: Final = ("earliest", "latest", "none")
_OLD_OFFSET_RESETS: Final = {"smallest": "earliest", "largest": "latest"}

_READ_COMMITTED: Final = "read_committed"
_ISOLATION_LEVELS: Final = ("read_uncommitted", _READ_COMMITTED)

_MAY_BE_ZERO: Final = {
    "auto_commit_interval_ms",
    "bootstrap_refused_timeout_ms",
    "fetch_max_wait_ms",
    "linger_ms",
    "max_block_ms",
    "retries",
    "retry_backoff_ms",
    "retry_backoff_max_ms",
}

_SOCKET_BUFFERS: Final = ("send_buffer_bytes", "receive_buffer_bytes")

_INT_MAX: Final = (1 << 31) - 1

_LONG: Final = {
    "buffer_memory",
    "linger_ms",
    "max_block_ms",
    "metadata_max_age_ms",
    "retry_backoff_ms",
    "retry_backoff_max_ms",
}
"""Numbers of 64 bits in Kafka; the others have 32."""


Partitioner = Callable[[str, bytes | None, bytes | None, int], int]
"""Chooses the partition of a record: takes topic, key, value, and the number of partitions, and returns one of them."""


class WireProtocol(StrEnum):
    """What a client speaks with brokers."""

    GRPC = "grpc"
    KAFKA = "kafka"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Settings of every client. The docstring under a field names Kafka's key and says what differs from Kafka."""

    bootstrap_servers: tuple[str, ...]
    """bootstrap.servers: addresses of gRPC listeners, or of those of wire.protocol; the first that answers names the
    other brokers."""

    wire_protocol: WireProtocol = WireProtocol.GRPC
    """wire.protocol (not in Kafka): grpc, or kafka, by which the clients also work with Apache Kafka."""

    request_timeout_ms: int = 30_000
    """request.timeout.ms: how long one attempt of a request waits for its response."""

    default_api_timeout_ms: int = 60_000
    """default.api.timeout.ms: the timeout of a call, retries included."""

    metadata_max_age_ms: int = 300_000
    """metadata.max.age.ms: age at which metadata is refreshed, even if no request showed that it is wrong."""

    bootstrap_refused_timeout_ms: int = 0
    """bootstrap.refused.timeout.ms (not in Kafka): how long a new client tries when every address refuses connections,
    has an unknown host, or is not that of a GRPC listener. 0: as long as default.api.timeout.ms. Once a broker has
    answered, this setting no longer applies."""

    retry_backoff_ms: int = 100
    """retry.backoff.ms: the pause before the first retry; it doubles with each further one."""

    retry_backoff_max_ms: int = 1_000
    """retry.backoff.max.ms: the longest pause before a retry."""

    client_id: str = "kraft"
    """client.id: name of the program, shown to operators beside the members of a group."""

    send_buffer_bytes: int = BY_THE_SYSTEM
    """send.buffer.bytes: size of the socket's buffer, with wire.protocol=kafka. -1: the system sizes it by its use. (In
    Kafka 128 KiB for producers and consumers.) Long fast lines may need more than the system gives."""

    receive_buffer_bytes: int = BY_THE_SYSTEM
    """receive.buffer.bytes: as send.buffer.bytes. (In Kafka 32 KiB for producers, 64 KiB for consumers.)"""

    security: ClientSecurity = OPEN
    """security.protocol, sasl.* and ssl.*: TLS, and how the client logs in; or all of it as one value."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, str):
                _check_text(field.name, value)
            if type(value) is int and value < self._least(field.name):
                raise InvalidSetting(f"{dotted(field.name)}={value} must be at least {self._least(field.name)}")
            if type(value) is int and value > _INT_MAX and field.name not in _LONG:
                raise InvalidSetting(f"{dotted(field.name)}={value} must be at most {_INT_MAX}")
        if self.retry_backoff_max_ms < self.retry_backoff_ms:
            raise InvalidSetting(
                f"retry.backoff.max.ms={self.retry_backoff_max_ms} is below retry.backoff.ms={self.retry_backoff_ms}"
            )
        for name in _SOCKET_BUFFERS:
            size_bytes = getattr(self, name)
            if size_bytes != BY_THE_SYSTEM and self.wire_protocol is not WireProtocol.KAFKA:
                raise InvalidSetting(
                    f"{dotted(name)}={size_bytes} needs wire.protocol=kafka: over gRPC the system sizes the buffers of"
                    " sockets; remove the line"
                )

    def _least(self, name: str) -> int:
        if name in _SOCKET_BUFFERS:
            return BY_THE_SYSTEM
        return 0 if name in _MAY_BE_ZERO else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminSettings(ClientSettings):
    """Settings of an admin client: the common ones only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings(ClientSettings):
    """Settings of a producer."""

    acks: int = -1
    """acks: "all" (or -1), 1 or 0."""

    enable_idempotence: bool = True
    """enable.idempotence: on by default with acks=all, as in Kafka; without it a retry may store a record twice."""

    compression_type: Codec = Codec.NONE
    """compression.type: none, gzip, snappy, lz4 or zstd."""

    linger_ms: int = 5
    """linger.ms: how long a batch that is not full waits for more records."""

    batch_size: int = 256 * 1024
    """batch.size: bytes before compression. With Kafka's 16 KiB a broker does several times the work per record."""

    batch_num_messages: int = _INT_MAX
    """batch.num.messages (of older clients, and of librdkafka): the most records of a batch."""

    buffer_memory: int = 32 * 1024 * 1024
    """buffer.memory: bytes of records that are not acknowledged yet; `send` waits while it is full."""

    max_block_ms: int = 60_000
    """max.block.ms: how long `send` waits for metadata or for buffer memory. 0: it fails where it had to wait."""

    max_request_size: int = 1024 * 1024
    """max.request.size: bytes of the largest record, and of the largest request."""

    max_in_flight_requests_per_connection: int = 5
    """max.in.flight.requests.per.connection: at most 5 with idempotence, because brokers remember five batches."""

    delivery_timeout_ms: int = 120_000
    """delivery.timeout.ms: a record that is not acknowledged by then fails with the last reason."""

    retries: int = _INT_MAX
    """retries: how often a batch is sent again, at most, within delivery.timeout.ms, which is the better bound. With 0,
    enable.idempotence is false by default, as in Kafka."""

    transactional_id: str | None = None
    """transactional.id: names the producer across restarts; records are then sent in transactions only."""

    transaction_timeout_ms: int = 60_000
    """transaction.timeout.ms: the coordinator aborts a transaction that takes longer."""

    partitioner: Partitioner | None = None
    """partitioner (a function; in Kafka a class, partitioner.class): chooses the partition of each record that names
    none. By default the hash of the key does. It runs on the clients' event loop, so that it has to be quick."""

    transactional_id_temporary: bool = False
    """transactional.id.temporary: the coordinator deletes the id as soon as its transaction has ended."""

    def __post_init__(self) -> None:
        # Zero-argument super() does not work in a slotted dataclass before Python 3.14.
        ClientSettings.__post_init__(self)
        if self.partitioner is not None and not callable(self.partitioner):
            raise InvalidSetting(
                f"partitioner={self.partitioner!r} is no function: give one of topic, key, value and partition count"
            )
        if self.transactional_id == "":
            raise InvalidSetting("transactional.id is empty; give a name, or leave it out")
        if self.transactional_id is not None and self.acks != -1:
            raise InvalidSetting(f"transactional.id needs acks=all, not acks={self.acks}")
        if self.transactional_id is not None and not self.enable_idempotence:
            raise InvalidSetting("transactional.id needs enable.idempotence=true, not false")
        if self.enable_idempotence and self.acks != -1:
            raise InvalidSetting(f"enable.idempotence=true needs acks=all, not acks={self.acks}")
        if self.enable_idempotence and self.max_in_flight_requests_per_connection > 5:
            raise InvalidSetting(
                "enable.idempotence=true allows at most max.in.flight.requests.per.connection=5, "
                f"not {self.max_in_flight_requests_per_connection}"
            )
        if self.enable_idempotence and self.retries == 0:
            raise InvalidSetting("enable.idempotence=true needs retries above 0; delivery.timeout.ms bounds them")
        if self.batch_size > self.max_request_size:
            raise InvalidSetting(
                f"batch.size={self.batch_size} is above max.request.size={self.max_request_size}; "
                "lower batch.size or raise max.request.size"
            )
        if self.delivery_timeout_ms < self.request_timeout_ms + self.linger_ms:
            raise InvalidSetting(
                f"delivery.timeout.ms={self.delivery_timeout_ms} is below request.timeout.ms + linger.ms"
                f"={self.request_timeout_ms + self.linger_ms}"
            )

    def _least(self, name: str) -> int:
        return -1 if name == "acks" else ClientSettings._least(self, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings(ClientSettings):
    """Settings of a consumer."""

    auto_offset_reset: str = "latest"
    """auto.offset.reset: earliest, latest or none; where to read when there is no position, or it is out of range.

    The old names smallest and largest mean earliest and latest. After the log was truncated, earliest and latest
    continue at the first offset that differs, and none raises LogTruncated.
    """

    fetch_min_bytes: int = 1
    """fetch.min.bytes: a broker answers once it has this many bytes, or after fetch.max.wait.ms."""

    fetch_max_wait_ms: int = 500
    """fetch.max.wait.ms: how long a broker waits for fetch.min.bytes."""

    fetch_max_bytes: int = 8 * 1024 * 1024
    """fetch.max.bytes: limits one response, and what is read ahead from one leader (at most twice this in memory)."""

    max_partition_fetch_bytes: int = 1024 * 1024
    """max.partition.fetch.bytes: limits the bytes of one partition in a response."""

    max_poll_records: int = 500
    """max.poll.records: the most records that one poll returns."""

    check_crcs: bool = True
    """check.crcs: verify the CRC of each batch that is read."""

    isolation_level: str = "read_uncommitted"
    """isolation.level: read_uncommitted or read_committed, which returns neither records of aborted transactions nor
    any from the last stable offset on."""

    consumer_timeout_ms: int = -1
    """consumer.timeout.ms: an iteration ends when no record has come for so long. -1: it has no end."""

    group_id: str | None = None
    """group.id: the group that `subscribe` joins, and whose committed offsets are where reading starts."""

    group_instance_id: str | None = None
    """group.instance.id: makes the consumer a static member, which keeps its partitions while it restarts."""

    group_protocol: str = "consumer"
    """group.protocol: consumer (KIP-848) or classic. Kafka's default is classic; here it is classic only if one of the
    keys that the classic protocol alone has is given. Reasons: docs/adr/0031-clients-in-groups.md."""

    group_remote_assignor: str | None = None
    """group.remote.assignor: the assignor on the broker, uniform or range; with group.protocol=consumer."""

    partition_assignment_strategy: tuple[str, ...] = ("range", "roundrobin", "cooperative-sticky")
    """partition.assignment.strategy: assignors in the order of preference, by name or by Kafka's class; with
    group.protocol=classic. Rebalances are cooperative only if cooperative-sticky is the only one."""

    session_timeout_ms: int = 45_000
    """session.timeout.ms: a member without heartbeats leaves the group after it; with group.protocol=classic."""

    heartbeat_interval_ms: int = 3_000
    """heartbeat.interval.ms: with group.protocol=classic; otherwise the broker sets it."""

    max_poll_interval_ms: int = 300_000
    """max.poll.interval.ms: a consumer that is not polled for so long leaves the group until it is polled again."""

    client_rack: str | None = None
    """client.rack: the rack of the consumer, for assignors."""

    enable_auto_commit: bool = True
    """enable.auto.commit: commit what earlier polls returned, in polls, before partitions are revoked, and on close."""

    auto_commit_interval_ms: int = 5_000
    """auto.commit.interval.ms: the least time between commits in polls."""

    def __post_init__(self) -> None:
        ClientSettings.__post_init__(self)
        check_group(self)
        if self.isolation_level not in _ISOLATION_LEVELS:
            raise InvalidSetting(f"isolation.level={self.isolation_level} is not one of {', '.join(_ISOLATION_LEVELS)}")
        if self.auto_offset_reset not in _OFFSET_RESETS:
            raise InvalidSetting(
                f"auto.offset.reset={self.auto_offset_reset} is not one of {', '.join(_OFFSET_RESETS)}, "
                f"nor of the old names {', '.join(_OLD_OFFSET_RESETS)}"
            )

    @property
    def reads_committed(self) -> bool:
        return self.isolation_level == _READ_COMMITTED

    def _least(self, name: str) -> int:
        return -1 if name == "consumer_timeout_ms" else ClientSettings._least(self, name)


def settings_of(kind: type[Settings], bootstrap_servers: str | Sequence[str], given: Mapping[str, Any]) -> Settings:
    """Return the settings of one client from the given keys and values. Raises InvalidSetting or NotSupportedYet."""
    named = {name.replace(".", "_"): value for name, value in given.items()}
    problems = replace_old_names(kind, named)
    bootstrap_servers = named.pop("bootstrap_servers", bootstrap_servers)
    security = _security(named)
    if "wire_protocol" in named:
        named["wire_protocol"] = wire_protocol(named["wire_protocol"])
    known = {field.name: field.type for field in fields(kind)}
    problems += [_unknown(kind, name, list(known)) for name in named if name not in known]
    if problems:
        # All of a file at once: each costs an edit and a start otherwise.
        raise InvalidSetting("; ".join(problems))
    if kind is ProducerSettings:
        _parse_producer_names(named)
    if kind is ConsumerSettings:
        _parse_consumer_names(named)
    for name, value in named.items():
        named[name] = _typed(name, value, str(known[name]))
    port = KAFKA_PORT if named.get("wire_protocol") is WireProtocol.KAFKA else DEFAULT_PORT
    return kind(bootstrap_servers=parse_addresses(bootstrap_servers, port), security=security, **named)


def wire_protocol(value: object) -> WireProtocol:
    """Return the protocol with that name. Raises InvalidSetting."""
    try:
        return WireProtocol(str(value).lower())
    except ValueError:
        raise InvalidSetting(f"wire.protocol={value} is not one of {', '.join(WireProtocol)}") from None


def _security(named: dict[str, Any]) -> ClientSecurity:
    """Take the settings of security out of all settings. Raises InvalidSetting."""
    found = {dotted(name): named.pop(name) for name in list(named) if is_security_key(dotted(name))}
    # As for kafka-python, None is no value.
    keys = {name: value for name, value in found.items() if value is not None}
    security = named.pop("security", None)
    if security is None:
        return client_security(keys)
    if keys:
        raise InvalidSetting(f"security and {next(iter(keys))} say the same: give one of them")
    if not isinstance(security, ClientSecurity):
        raise InvalidSetting("security has to be a ClientSecurity, as client_security returns it")
    return security


def parse_addresses(bootstrap_servers: str | Sequence[str], port: int = DEFAULT_PORT) -> tuple[str, ...]:
    """Return `host:port` addresses from a list or a comma-separated text; `port` is that of those without one.

    Raises InvalidSetting.
    """
    parts = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else bootstrap_servers
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, str) for part in parts):
        raise InvalidSetting(
            f"bootstrap.servers: expected 'HOST[:PORT],...' or a list of such, not {bootstrap_servers!r}; "
            "give other settings by name, or a dict of them as **settings"
        )
    addresses = tuple(_with_port(part.strip(), port) for part in parts if part.strip())
    if not addresses:
        raise InvalidSetting("bootstrap.servers is empty; give it as HOST[:PORT][,HOST[:PORT]...]")
    return addresses


def _with_port(address: str, port: int) -> str:
    """Return `HOST:PORT` for `HOST` or `HOST:PORT`; an IPv6 host is in brackets. Raises InvalidSetting."""
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found["port"] or port) < 65536:
        raise InvalidSetting(f"bootstrap.servers: {address!r} is not HOST or HOST:PORT")
    return address if found["port"] else f"{found['host']}:{port}"


def _parse_producer_names(named: dict[str, Any]) -> None:
    """Replace Kafka's names of acks and codecs by their values."""
    if "acks" in named:
        word = str(named["acks"]).lower()
        if word not in _ACKS:
            raise InvalidSetting(f"acks={named['acks']} is not one of all, -1, 0, 1")
        named["acks"] = _ACKS[word]
        if named["acks"] != -1:
            named.setdefault("enable_idempotence", False)
    if str(named.get("retries", "")) == "0":
        named.setdefault("enable_idempotence", False)
    if not isinstance(named.get("compression_type", Codec.NONE), Codec):
        word = str(named["compression_type"]).lower()
        if word not in CODEC_OF_NAME:
            raise InvalidSetting(f"compression.type={word} is not one of {', '.join(CODEC_OF_NAME)}")
        named["compression_type"] = CODEC_OF_NAME[word]


def _parse_consumer_names(named: dict[str, Any]) -> None:
    """Replace the old names of reset policies by the present ones. Raises InvalidSetting or NotSupportedYet."""
    parse_group_names(named)
    if "auto_offset_reset" in named:
        word = str(named["auto_offset_reset"]).lower()
        if word.startswith("by_duration"):
            raise NotSupportedYet(
                f"auto.offset.reset={named['auto_offset_reset']}: resets by duration are not supported yet; "
                "use offsets_for_times and seek"
            )
        named["auto_offset_reset"] = _OLD_OFFSET_RESETS.get(word, word)


def _typed(name: str, value: Any, wanted: str) -> Any:
    """Return the value as its type; numbers and booleans may be text, as in a file. Raises InvalidSetting."""
    try:
        match wanted:
            case "int":
                return int(value)
            case "bool" if isinstance(value, str):
                return {"true": True, "false": False}[value.lower()]
            case "str" | "str | None" if value is not None and not isinstance(value, str):
                raise TypeError
            case _:
                return value
    except (ValueError, TypeError, KeyError):
        allowed = {"int": "a number", "bool": "true or false"}.get(wanted, "text")
        raise InvalidSetting(f"{dotted(name)}={value!r} is not {allowed}") from None


def _unknown(kind: type[ClientSettings], name: str, known: list[str]) -> str:
    client = kind.__name__.removesuffix("Settings").lower()
    if name.endswith("serializer"):
        return f"a {client} has no setting {dotted(name)}: keys and values are bytes; leave it out"
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {dotted(near[0])}?" if near else ""
    return f"a {client} has no setting {dotted(name)}{hint}"


def _check_text(name: str, value: str) -> None:
    """Raise InvalidSetting for text that has no UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidSetting(f"{dotted(name)}: {not_unicode(error).message}") from None
