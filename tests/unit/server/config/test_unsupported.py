"""Kafka's keys that have no effect here are warned of; only security settings are refused."""

from __future__ import annotations

import pytest

from kraft.server.config.unsupported import refusal, warning

NOT_SUPPORTED = """
    group.coordinator.threads background.threads
"""


@pytest.mark.parametrize("key", NOT_SUPPORTED.split())
def test_a_key_that_is_not_supported_is_warned_of(key: str) -> None:
    assert refusal(key, "1") is None
    assert str(warning(key)).startswith("has no effect: not supported yet (Kafka's settings for ")


NOT_BUILT = """
    num.network.threads num.io.threads queued.max.requests socket.send.buffer.bytes socket.receive.buffer.bytes
    num.replica.fetchers replica.socket.timeout.ms replica.socket.receive.buffer.bytes
    controller.socket.timeout.ms controller.message.queue.size
    log.cleanup.interval.mins log.retention.bytes.per.topic replica.lag.max.messages kafka.csv.metrics.dir
    fetch.purgatory.purge.interval.requests producer.purgatory.purge.interval.requests
"""


@pytest.mark.parametrize("key", NOT_BUILT.split())
def test_a_key_for_what_does_not_exist_here_is_warned_of_with_the_reason(key: str) -> None:
    assert refusal(key, "1") is None
    said = str(warning(key))
    assert said.startswith("has no effect: ")
    assert "not supported yet" not in said


@pytest.mark.parametrize("key", ["producer_byte_rate", "connection_creation_rate"])
def test_a_client_quota_is_no_setting_of_nodes(key: str) -> None:
    assert warning(key) == "has no effect: it is a client quota; set it with kraft quotas alter"
