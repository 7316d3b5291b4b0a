"""Configs of client metrics: which clients are asked for which of their metrics, and how often. Source: KIP-714.

A resource is a subscription: its configs say what is asked for, and `match` of whom. A client that several
subscriptions match is asked for what all of them want, at the shortest interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Final, TypeVar
from uuid import UUID

import crc32c
from msgspec import Struct

from kraft.model.config_types import INT32_MAX, IntegerBetween
from kraft.model.configs import ConfigType
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.name_regex import InvalidRegex, NameRegex

METRICS: Final = "metrics"
INTERVAL: Final = "interval.ms"
MATCH: Final = "match"

EVERY_METRIC: Final = "*"

INTERVAL_MS_DEFAULT: Final = 300_000
"""The longest interval that any client is given, as in Kafka: also if its subscriptions have longer ones."""

INTERVAL_MS_MIN: Final = 100
INTERVAL_MS_MAX: Final = 3_600_000

SUBSCRIPTIONS_MAX: Final = 100
"""Limit on the subscriptions of a cluster: a client is matched with all of them."""

PREFIXES_MAX: Final = 500
"""Who would be asked for more is asked for everything: Kafka's clients have some hundred metrics."""

NAME_CHARACTERS_MAX: Final = 1_000
METRICS_CHARACTERS_MAX: Final = 8_192
"""Limit on the text of `metrics`: Kafka's clients have some 200 of them."""

MATCH_CHARACTERS_MAX: Final = 1_024
"""Limit on the text of `match`, of all resources of a request together: reading expressions takes time."""

CLIENT_INSTANCE_ID: Final = "client_instance_id"
CLIENT_ID: Final = "client_id"
CLIENT_SOFTWARE_NAME: Final = "client_software_name"
CLIENT_SOFTWARE_VERSION: Final = "client_software_version"
CLIENT_SOURCE_ADDRESS: Final = "client_source_address"
CLIENT_SOURCE_PORT: Final = "client_source_port"

MATCHED: Final = (
    CLIENT_INSTANCE_ID,
    CLIENT_ID,
    CLIENT_SOFTWARE_NAME,
    CLIENT_SOFTWARE_VERSION,
    CLIENT_SOURCE_ADDRESS,
    CLIENT_SOURCE_PORT,
)
"""What `match` may compare with regular expressions."""

_EXPRESSIONS_KEPT: Final = SUBSCRIPTIONS_MAX * len(MATCHED)

T = TypeVar("T")


class ClientMetricsKey(Struct, frozen=True, kw_only=True):
    key: str
    type: ConfigType
    default: str
    documentation: str
    text_in_effect: Callable[[str], str]
    """Returns the canonical form of a value that is set."""


class Subscription(Struct, frozen=True, kw_only=True):
    """What a resource says."""

    metrics: tuple[str, ...] = ()
    """Prefixes of names; EVERY_METRIC for all."""

    interval_ms: int = INTERVAL_MS_DEFAULT
    match: tuple[tuple[str, str], ...] = ()
    """Expressions, each with what it has to match; empty: every client is meant."""


class Wanted(Struct, frozen=True, kw_only=True):
    """What one client is asked for."""

    metrics: tuple[str, ...]
    interval_ms: int


def subscriptions_of(configs: Mapping[str, Mapping[str, str]]) -> tuple[Subscription, ...]:
    """Return the subscriptions of an image. A controller of a newer version may have set what is not known here."""
    return tuple(_subscription(own) for _, own in sorted(configs.items()))


def takes_long(subscriptions: Iterable[Subscription]) -> bool:
    """Return whether `wanted` is for a thread."""
    subscriptions = tuple(subscriptions)
    return any(each.match for each in subscriptions) or sum(len(each.metrics) for each in subscriptions) > PREFIXES_MAX


def wanted(subscriptions: Iterable[Subscription], client: Mapping[str, str]) -> Wanted:
    """Return what a client is asked for; `client` has what it is by the names of MATCHED, without what is not known."""
    interval_ms = INTERVAL_MS_DEFAULT
    metrics: set[str] = set()
    for each in subscriptions:
        if _is_meant(each, client):
            metrics.update(each.metrics)
            interval_ms = min(interval_ms, each.interval_ms)
    if EVERY_METRIC in metrics or len(metrics) > PREFIXES_MAX:
        metrics = {EVERY_METRIC}
    return Wanted(metrics=tuple(sorted(metrics)), interval_ms=interval_ms)


def subscription_id(of: Wanted, client_instance_id: UUID) -> int:
    """Return the id by which a client refers to what it was asked for: another one for anything else.

    Kafka's, if there is at most one metric: the order of several is that of a hash table there.
    """
    checksum = crc32c.crc32c(f"[{', '.join(of.metrics)}]{of.interval_ms}".encode())
    halves = (client_instance_id.int >> 64) ^ client_instance_id.int
    number = checksum ^ (halves >> 32) ^ halves
    return int.from_bytes((number & 0xFFFFFFFF).to_bytes(4, "big"), "big", signed=True)


def check_client_metrics(configs: Mapping[str, str]) -> None:
    """Raise Refusal unless a subscription can have these configs: with Kafka's code for each reason."""
    for key in configs:
        if key not in CLIENT_METRICS_CONFIGS:
            nearest = get_close_matches(key[:100], CLIENT_METRICS_CONFIGS, n=1)
            has = f"client metrics have {', '.join(CLIENT_METRICS_CONFIGS)}"
            remedy = f"did you mean '{nearest[0]}'?" if nearest else has
            raise Refusal(ErrorCode.INVALID_REQUEST, f"there is no client metrics config {key[:60]!r}: {remedy}")
    _checked(METRICS, configs.get(METRICS, ""), _metrics)
    _checked(MATCH, configs.get(MATCH, ""), _read_match)
    if INTERVAL in configs:
        interval_ms = _checked(INTERVAL, configs[INTERVAL], _whole_number)
        if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
            problem = f"{INTERVAL}={interval_ms}: expected {INTERVAL_MS_MIN} to {INTERVAL_MS_MAX} (one hour)"
            raise Refusal(ErrorCode.INVALID_REQUEST, problem)


def _checked(key: str, text: str, read: Callable[[str], T]) -> T:
    try:
        return read(text)
    except ValueError as error:
        raise Refusal(ErrorCode.INVALID_CONFIG, f"{key}={_shown(text)!r}: expected {error}") from None


def _metrics(text: str) -> tuple[str, ...]:
    if len(text) > METRICS_CHARACTERS_MAX:
        raise ValueError(f"at most {METRICS_CHARACTERS_MAX} characters")
    return tuple(dict.fromkeys(_items(text)))


def _read_match(text: str) -> tuple[tuple[str, str], ...]:
    pairs = _pairs(text)
    for _, expression in pairs:
        try:
            NameRegex(expression)
        except InvalidRegex as error:
            raise ValueError(f"regular expressions, but {_shown(expression)!r} is none: {error}") from None
    return pairs


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    if len(text) > MATCH_CHARACTERS_MAX:
        raise ValueError(f"at most {MATCH_CHARACTERS_MAX} characters")
    # The last one of a name is meant, as in Kafka.
    pairs: dict[str, str] = {}
    for item in _items(text):
        name, *expressions = (part.strip() for part in item.split("="))
        if name not in MATCHED or len(expressions) != 1 or not expressions[0]:
            raise ValueError(f"NAME=REGEX,... with names of {', '.join(MATCHED)}")
        pairs[name] = expressions[0]
    return tuple(pairs.items())


def _items(text: str) -> list[str]:
    """Return the items of a list, without spaces around them."""
    if not text.strip():
        return []
    items = [item.strip() for item in text.split(",")]
    if not all(items):
        raise ValueError("items with commas between them, none of which is empty")
    return items


def _whole_number(text: str) -> int:
    return IntegerBetween(least=-INT32_MAX - 1, most=INT32_MAX).read(text.strip())


def _subscription(own: Mapping[str, str]) -> Subscription:
    try:
        return Subscription(
            metrics=_metrics(own.get(METRICS, "")),
            interval_ms=_whole_number(own.get(INTERVAL, str(INTERVAL_MS_DEFAULT))),
            match=_pairs(own.get(MATCH, "")),
        )
    except ValueError:
        # Values are checked before they are set. What only a newer version accepts asks nothing of any client here.
        return Subscription()


def _is_meant(subscription: Subscription, client: Mapping[str, str]) -> bool:
    try:
        return all(name in client and _compiled(regex).matches(client[name]) for name, regex in subscription.match)
    except InvalidRegex:
        return False


@lru_cache(_EXPRESSIONS_KEPT)
def _compiled(expression: str) -> NameRegex:
    return NameRegex(expression)


def _shown(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text[:60])


def _listed(text: str) -> str:
    """Return the text of a list as it is shown."""
    return ",".join(dict.fromkeys(item.strip() for item in text.split(",") if item.strip()))


CLIENT_METRICS_CONFIGS: Final[Mapping[str, ClientMetricsKey]] = {
    each.key: each
    for each in (
        ClientMetricsKey(
            key=INTERVAL,
            type=ConfigType.INT,
            default=str(INTERVAL_MS_DEFAULT),
            documentation="Time between two pushes of a client, in milliseconds; more than 300000 counts as that.",
            text_in_effect=str.strip,
        ),
        ClientMetricsKey(
            key=MATCH,
            type=ConfigType.LIST,
            default="",
            documentation="Clients that are meant, as NAME=REGEX,... by what they are; all if it is empty.",
            text_in_effect=_listed,
        ),
        ClientMetricsKey(
            key=METRICS,
            type=ConfigType.LIST,
            default="",
            documentation="Prefixes of the names of metrics that clients are asked for; * for all.",
            text_in_effect=_listed,
        ),
    )
}
