"""The client's settings: Kafka's names with underscores, units last, checked when a client is made.

Dotted names (`linger.ms`) are accepted too, as they stand in a `.properties` file.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar

from kraft.client.errors import InvalidSetting, NotBuiltYet
from kraft.log.format.compression import CODEC_OF_NAME, Codec

Settings = TypeVar("Settings", bound="ClientSettings")

DEFAULT_PORT: Final = 9094
"""Of the GRPC listener in the README's example and in `kraft dev`."""

DEFAULT_BOOTSTRAP_SERVERS: Final = f"localhost:{DEFAULT_PORT}"

_ADDRESS: Final = re.compile(r"(?P<host>[^\[\]:/\s]+|\[[0-9A-Fa-f:.%]+\])(:(?P<port>[0-9]{1,5}))?")

_ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}
_OFFSET_RESETS: Final = ("earliest", "latest", "none")
_OLD_OFFSET_RESETS: Final = {"smallest": "earliest", "largest": "latest"}


_MAY_BE_ZERO: Final = {
    "bootstrap_refused_timeout_ms",
    "fetch_max_wait_ms",
    "linger_ms",
    "retry_backoff_ms",
    "retry_backoff_max_ms",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """What every client has. The docstring under a field is Kafka's key, with what differs from Kafka."""

    bootstrap_servers: tuple[str, ...]
    """bootstrap.servers: addresses of gRPC listeners; the rest of the cluster is learnt from whichever answers."""

    request_timeout_ms: int = 30_000
    """request.timeout.ms"""

    default_api_timeout_ms: int = 60_000
    """default.api.timeout.ms: how long a call may look for a broker that answers it."""

    metadata_max_age_ms: int = 300_000
    """metadata.max.age.ms"""

    bootstrap_refused_timeout_ms: int = 0
    """bootstrap.refused.timeout.ms (not in Kafka): how long a new client tries when every address refuses connections.
    0: as long as default.api.timeout.ms. Once a broker has answered, this setting no longer applies."""

    retry_backoff_ms: int = 100
    """retry.backoff.ms"""

    retry_backoff_max_ms: int = 1_000
    """retry.backoff.max.ms"""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is int and value < self._least(field.name):
                raise InvalidSetting(f"{_dotted(field.name)}={value} must be at least {self._least(field.name)}")
        if self.retry_backoff_max_ms < self.retry_backoff_ms:
            raise InvalidSetting(
                f"retry.backoff.max.ms={self.retry_backoff_max_ms} is below retry.backoff.ms={self.retry_backoff_ms}"
            )

    def _least(self, name: str) -> int:
        return 0 if name in _MAY_BE_ZERO else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminSettings(ClientSettings):
    """Of the admin client; nothing beyond the common ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings(ClientSettings):
    """Of a producer."""

    acks: int = -1
    """acks: "all" (or -1), 1 or 0."""

    enable_idempotence: bool = True
    """enable.idempotence: on when acks=all, as in Kafka; without it a retry may store a record twice."""

    compression_type: Codec = Codec.NONE
    """compression.type: none, gzip, snappy, lz4 or zstd."""

    linger_ms: int = 5
    """linger.ms"""

    batch_size: int = 256 * 1024
    """batch.size, before compression. Kafka's 16 KiB costs a broker several times the work for each record."""

    buffer_memory: int = 32 * 1024 * 1024
    """buffer.memory: bytes of records not yet acknowledged; above it, sending waits."""

    max_block_ms: int = 60_000
    """max.block.ms: how long sending waits for metadata or memory."""

    max_request_size: int = 1024 * 1024
    """max.request.size: the largest record, and the most that one request carries."""

    max_in_flight_requests_per_connection: int = 5
    """max.in.flight.requests.per.connection: at most 5 with idempotence, since brokers remember five batches."""

    delivery_timeout_ms: int = 120_000
    """delivery.timeout.ms: after it, a record's future fails with the last reason."""

    def __post_init__(self) -> None:
        # Zero-argument super() does not work in a slotted dataclass before Python 3.14.
        ClientSettings.__post_init__(self)
        if self.enable_idempotence and self.acks != -1:
            raise InvalidSetting(f"enable.idempotence=true needs acks=all, not acks={self.acks}")
        if self.enable_idempotence and self.max_in_flight_requests_per_connection > 5:
            raise InvalidSetting(
                "enable.idempotence=true allows at most max.in.flight.requests.per.connection=5, "
                f"not {self.max_in_flight_requests_per_connection}"
            )
        if self.batch_size > self.max_request_size:
            raise InvalidSetting(
                f"batch.size={self.batch_size} is above max.request.size={self.max_request_size}; raise the latter too"
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
    """Of a consumer."""

    auto_offset_reset: str = "latest"
    """auto.offset.reset: earliest, latest or none; where to read when there is no position, or it is out of range.

    The older words smallest and largest stand for earliest and latest. After a truncation of the log both policies go
    on at the first offset that differs, and none raises LogTruncated.
    """

    fetch_min_bytes: int = 1
    """fetch.min.bytes"""

    fetch_max_wait_ms: int = 500
    """fetch.max.wait.ms"""

    fetch_max_bytes: int = 8 * 1024 * 1024
    """fetch.max.bytes: bounds one answer, and what is read ahead from one leader (at most twice this is held)."""

    max_partition_fetch_bytes: int = 1024 * 1024
    """max.partition.fetch.bytes"""

    max_poll_records: int = 500
    """max.poll.records"""

    check_crcs: bool = True
    """check.crcs"""

    def __post_init__(self) -> None:
        ClientSettings.__post_init__(self)
        if self.auto_offset_reset not in _OFFSET_RESETS:
            words = f"{', '.join(_OFFSET_RESETS)}, nor of the older words {', '.join(_OLD_OFFSET_RESETS)}"
            raise InvalidSetting(f"auto.offset.reset={self.auto_offset_reset} is none of {words}")


def settings_of(kind: type[Settings], bootstrap_servers: str | Sequence[str], given: Mapping[str, Any]) -> Settings:
    """The settings of one client from what its user wrote. Raises InvalidSetting or NotBuiltYet."""
    named = {name.replace(".", "_"): value for name, value in given.items()}
    if named.pop("group_id", None) is not None:
        raise NotBuiltYet("group.id: consumer groups are not built yet; use assign and seek")
    known = {field.name: field.type for field in fields(kind)}
    for name in named:
        if name not in known:
            raise InvalidSetting(_unknown(kind, name, list(known)))
    if kind is ProducerSettings:
        _read_producer_words(named)
    if kind is ConsumerSettings:
        _read_consumer_words(named)
    for name, value in named.items():
        named[name] = _typed(name, value, str(known[name]))
    return kind(bootstrap_servers=parse_addresses(bootstrap_servers), **named)


def parse_addresses(bootstrap_servers: str | Sequence[str]) -> tuple[str, ...]:
    """`host:port` addresses out of a list, or a text with commas; the default port where one has none.

    Raises InvalidSetting.
    """
    parts = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else list(bootstrap_servers)
    addresses = tuple(_with_port(part.strip()) for part in parts if part.strip())
    if not addresses:
        raise InvalidSetting("bootstrap.servers is empty; give it as HOST[:PORT][,HOST[:PORT]...]")
    return addresses


def _with_port(address: str) -> str:
    """`HOST:PORT` of `HOST` or `HOST:PORT`; an IPv6 host stands in brackets. Raises InvalidSetting."""
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found["port"] or DEFAULT_PORT) < 65536:
        raise InvalidSetting(f"bootstrap.servers: {address!r} is not HOST or HOST:PORT")
    return address if found["port"] else f"{found['host']}:{DEFAULT_PORT}"


def _read_producer_words(named: dict[str, Any]) -> None:
    """Replaces the words that Kafka uses for acks and codecs."""
    if "acks" in named:
        word = str(named["acks"]).lower()
        if word not in _ACKS:
            raise InvalidSetting(f"acks={named['acks']} is none of all, -1, 0, 1")
        named["acks"] = _ACKS[word]
        named.setdefault("enable_idempotence", named["acks"] == -1)
    if not isinstance(named.get("compression_type", Codec.NONE), Codec):
        word = str(named["compression_type"]).lower()
        if word not in CODEC_OF_NAME:
            raise InvalidSetting(f"compression.type={word} is none of {', '.join(CODEC_OF_NAME)}")
        named["compression_type"] = CODEC_OF_NAME[word]


def _read_consumer_words(named: dict[str, Any]) -> None:
    """Replaces the words that Kafka uses, or once used, for where to read. Raises NotBuiltYet."""
    if "auto_offset_reset" in named:
        word = str(named["auto_offset_reset"]).lower()
        if word.startswith("by_duration"):
            raise NotBuiltYet(
                f"auto.offset.reset={named['auto_offset_reset']}: resets by duration are not built yet; "
                "use offsets_for_times and seek"
            )
        named["auto_offset_reset"] = _OLD_OFFSET_RESETS.get(word, word)


def _typed(name: str, value: Any, wanted: str) -> Any:
    """Numbers and truths may be given as text, as they stand in a file."""
    try:
        match wanted:
            case "int":
                return int(value)
            case "bool" if isinstance(value, str):
                return {"true": True, "false": False}[value.lower()]
            case _:
                return value
    except (ValueError, TypeError, KeyError):
        allowed = "a number" if wanted == "int" else "true or false"
        raise InvalidSetting(f"{_dotted(name)}={value!r} is not {allowed}") from None


def _unknown(kind: type[ClientSettings], name: str, known: list[str]) -> str:
    client = kind.__name__.removesuffix("Settings").lower()
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {_dotted(near[0])}?" if near else ""
    return f"a {client} has no setting {_dotted(name)}{hint}"


def _dotted(name: str) -> str:
    return name.replace("_", ".")
