"""Names that settings have in older clients of Kafka, and settings of features that are not supported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kraft.client.model.errors import InvalidSetting
from kraft.client.model.group_settings import dotted

if TYPE_CHECKING:
    from kraft.client.model.settings import ClientSettings

_OLD_NAMES: Final = {"topic_metadata_refresh_interval_ms": "metadata_max_age_ms"}

_OLD_NAMES_OF: Final[Mapping[str, Mapping[str, str]]] = {
    "ProducerSettings": {
        "compression_codec": "compression_type",
        "metadata_broker_list": "bootstrap_servers",
        "message_send_max_retries": "retries",
        "queue_buffering_max_ms": "linger_ms",
        "queue_enqueue_timeout_ms": "max_block_ms",
        "request_required_acks": "acks",
    },
    "ConsumerSettings": {
        "auto_commit_enable": "enable_auto_commit",
        "fetch_message_max_bytes": "max_partition_fetch_bytes",
        "fetch_wait_max_ms": "fetch_max_wait_ms",
    },
}
"""Names of older clients of Kafka, for each kind of settings."""

_NO_ZOOKEEPER: Final = "there is no ZooKeeper, so leave it out"
_BYTES: Final = "keys and values are bytes, so leave it out"

_GONE: Final[Mapping[str, str]] = {
    "zookeeper_connect": "there is no ZooKeeper: give the brokers as bootstrap.servers",
    "zookeeper_connection_timeout_ms": _NO_ZOOKEEPER,
    "zookeeper_session_timeout_ms": _NO_ZOOKEEPER,
    "zookeeper_sync_time_ms": _NO_ZOOKEEPER,
    "serializer_class": _BYTES,
    "key_serializer_class": _BYTES,
    "producer_type": "a producer sends in the background, and flush waits for what was sent: leave it out",
    "queue_buffering_max_messages": "buffer.memory bounds them by their bytes: give that instead",
    "connections_max_idle_ms": "brokers close connections that are not used, and clients open them again: leave it out",
}
"""Keys of Kafka's clients for what does not exist here, or no longer, with the remedy for each."""

_WITHOUT_END: Final = "-1"
_LONG_MAX: Final = (1 << 63) - 1


def replace_old_names(kind: type[ClientSettings], named: dict[str, Any]) -> list[str]:
    """Replace old names of keys by the present ones, with the values that mean the same. Raises InvalidSetting.

    Takes out what does not exist, and returns the remedy for each.
    """
    gone = [f"{dotted(name)}: {remedy}" for name, remedy in _GONE.items() if name in named]
    if str(named.get("queue_enqueue_timeout_ms", "")) == _WITHOUT_END:
        named["queue_enqueue_timeout_ms"] = _LONG_MAX
    for old, new in {**_OLD_NAMES, **_OLD_NAMES_OF.get(kind.__name__, {})}.items():
        if old in named:
            if new in named:
                raise InvalidSetting(f"{dotted(old)} is the old name of {dotted(new)}; give only one of them")
            named[new] = named.pop(old)
    for name in _GONE.keys() & named.keys():
        del named[name]
    return gone
