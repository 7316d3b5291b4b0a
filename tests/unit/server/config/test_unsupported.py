"""Keys of Kafka's that do nothing here: their writer is warned, and nobody is refused for the sake of a port."""

from __future__ import annotations

import pytest

from kraft.server.config.unsupported import refusal, warning

OLD_ADDRESSES = "port host.name advertised.host.name"
NOT_BUILT = """
    num.network.threads num.io.threads queued.max.requests socket.send.buffer.bytes socket.receive.buffer.bytes
    num.replica.fetchers replica.socket.timeout.ms replica.socket.receive.buffer.bytes
    controller.socket.timeout.ms controller.message.queue.size
    offsets.topic.num.partitions offsets.topic.replication.factor quota.producer.default quota.consumer.default
    fetch.purgatory.purge.interval.requests producer.purgatory.purge.interval.requests
"""


@pytest.mark.parametrize("key", NOT_BUILT.split())
def test_a_key_that_is_not_built_is_warned_of_as_such(key: str) -> None:
    assert refusal(key, "1") is None
    assert str(warning(key)).startswith("not built yet: has no effect (Kafka's settings for ")


@pytest.mark.parametrize("key", OLD_ADDRESSES.split())
def test_an_old_key_for_an_address_is_warned_of_with_what_to_write_instead(key: str) -> None:
    assert refusal(key, "1") is None
    assert warning(key) == "has no effect: listeners and advertised.listeners say the addresses"
