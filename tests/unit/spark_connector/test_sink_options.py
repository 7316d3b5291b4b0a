"""Options of the sink: what is accepted, and the one line that refuses the rest."""

from __future__ import annotations

import pytest

from spark_connector.given import OptionError
from spark_connector.sink_options import DEFAULTS, sink_options

SERVERS = {"kafka.bootstrap.servers": "a:9094,b:9094"}


def test_options_have_the_names_of_the_official_sink() -> None:
    options = sink_options({**SERVERS, "topic": "orders", "checkpointLocation": "/c", "path": "p"})
    assert options.bootstrap_servers == ("a:9094", "b:9094")
    assert options.topic == "orders"
    assert options.is_exactly_once
    assert dict(options.settings) == DEFAULTS


def test_settings_of_the_producer_are_passed_through() -> None:
    options = sink_options({**SERVERS, "kafka.Compression.type": "zstd", "kraft.transaction.timeout.ms": "60000"})
    assert dict(options.settings) == {**DEFAULTS, "compression.type": "zstd", "transaction.timeout.ms": "60000"}


def test_the_guarantee_may_be_lowered() -> None:
    for word in ("at-least-once", "AT_LEAST_ONCE"):
        assert not sink_options({**SERVERS, "delivery.guarantee": word}).is_exactly_once


def test_a_write_of_an_application_has_an_id_and_a_version() -> None:
    options = sink_options({**SERVERS, "txnAppId": "nightly", "txnVersion": "7"})
    assert (options.app_id, options.app_version) == ("nightly", 7)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"topic": "orders"}, "option bootstrap.servers is missing"),
        ({**SERVERS, "topik": "orders"}, "option topik is unknown to the kraft sink, did you mean topic"),
        ({**SERVERS, "topic": " "}, "option topic is empty"),
        ({**SERVERS, "delivery.guarantee": "twice"}, "'twice' is neither exactly-once nor at-least-once"),
        ({**SERVERS, "kafka.transactional.id": "x"}, "kafka.transactional.id is not supported: each task has one"),
        ({**SERVERS, "kafka.value.serializer": "x"}, "kafka.value.serializer is not supported: values are binary"),
        (
            {**SERVERS, "kafka.acks": "1"},
            "option acks=1 needs delivery.guarantee=at-least-once: exactly-once writes with acks=all",
        ),
        ({**SERVERS, "subscribe": "orders"}, "option subscribe is for reading; topic gives the topic to write to"),
        ({**SERVERS, "kafka.lingre.ms": "1"}, "client setting .*lingre"),
        (
            {**SERVERS, "kafka.linger.ms": "1", "kraft.linger.ms": "2"},
            "options kraft.linger.ms and kafka.linger.ms have different values; give one of them",
        ),
        ({**SERVERS, "txnAppId": "nightly"}, "txnAppId and txnVersion belong together"),
        ({**SERVERS, "txnAppId": "a", "txnVersion": "-1"}, "txnVersion: '-1' is not a whole number"),
        (
            {**SERVERS, "txnAppId": "a", "txnVersion": "1", "delivery.guarantee": "at-least-once"},
            "txnAppId needs delivery.guarantee=exactly-once",
        ),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(options: dict[str, str], error: str) -> None:
    with pytest.raises(OptionError, match=error) as refused:
        sink_options(options)
    assert "\n" not in str(refused.value)
