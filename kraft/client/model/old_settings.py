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

_WITHOUT_END: Final = "-1"
_LONG_MAX: Final = (1 << 63) - 1


def replace_old_names(kind: type[ClientSettings], named: dict[str, Any]) -> None:
    """Replace old names of keys by the present ones, with the values that mean the same. Raises InvalidSetting."""
    if "zookeeper_connect" in named:
        raise InvalidSetting("zookeeper.connect: there is no ZooKeeper; give the brokers as bootstrap.servers")
    if "queue_buffering_max_messages" in named:
        raise InvalidSetting(
            "queue.buffering.max.messages counts records; buffer.memory bounds them by their bytes: give that instead"
        )
    if str(named.get("queue_enqueue_timeout_ms", "")) == _WITHOUT_END:
        named["queue_enqueue_timeout_ms"] = _LONG_MAX
    for old, new in {**_OLD_NAMES, **_OLD_NAMES_OF.get(kind.__name__, {})}.items():
        if old in named:
            if new in named:
                raise InvalidSetting(f"{dotted(old)} is the old name of {dotted(new)}; give only one of them")
            named[new] = named.pop(old)
