"""The file of `kraft sink`: everything that is wrong is told, with the remedy."""

from __future__ import annotations

import pytest

from kraft.sink.config import InvalidSinkFile, SinkConfig, sink_config

GOOD = {
    "bootstrap.servers": "localhost:9094",
    "topics": "logs",
    "group.id": "sink",
    "connection.url": "http://localhost:9200",
    "index": "logs-%Y.%m.%d",
    "errors.deadletterqueue.topic.name": "dead-letters",
}


def read(**given: str) -> SinkConfig:
    return sink_config({**GOOD, **{key.replace("__", "."): value for key, value in given.items()}})


def test_six_keys_are_enough() -> None:
    config = sink_config(GOOD)
    assert config.topics == ("logs",)
    assert config.engine.urls == ("http://localhost:9200",)
    assert (config.batch_count, config.in_flight_max) == (2_000, 2)


def test_an_empty_file_gets_a_line_for_each_key_that_is_missing() -> None:
    with pytest.raises(InvalidSinkFile) as raised:
        sink_config({})
    assert {each.split(" ")[0] for each in raised.value.problems} == set(GOOD)


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("topics", "logs,a b", "a b: "),
        ("consumer.enable.auto.commit", "true", "consumer.enable.auto.commit is set by the sink itself: remove it"),
        ("consumer.group_id", "other", "consumer.group_id is set by the sink itself: remove it"),
        ("topics", "logs,dead-letters", "errors.deadletterqueue.topic.name=dead-letters is read itself"),
        ("batch__size", "0", "batch.size=0 is not possible: give a whole number from 1 to 100000"),
        ("linger__ms", "½", "linger.ms=½ is not possible"),
        ("connection__compression", "lz4", "connection.compression=lz4 is not known: give one of none, gzip"),
        ("value__format", "avro", "value.format=avro is not known: give one of json, text"),
        ("connection__url", "localhost:9200", "connection.url=localhost:9200 is not http://HOST:PORT"),
        ("connection__url", "http://a:b@localhost", "connection.url has a login"),
        ("connection__url", "http://[::1", "connection.url=http://[::1 is not"),
        ("connection__url", "http://localhost/ä", "connection.url=http://localhost/ä is not"),
        ("connection__url", f"http://{'a' * 70}", "connection.url=http://aaa"),
        ("connection__api__key", "a\r\nb: c", "connection.api.key has characters"),
        ("connection__username", "me", "connection.username and connection.password belong together"),
        ("connection__ssl__enabled__protocols", "SSLv3", "connection.ssl.*: "),
        ("document__id__prefix", 'a"b', 'document.id.prefix=a"b is not possible'),
        ("index", "Logs", "index=Logs makes Logs"),
        ("retry__backoff__max__ms", "50", "retry.backoff.max.ms is below retry.backoff.ms"),
        ("metrics__address", "9404", "metrics.address=9404: expected host:port"),
        ("security__protocol", "nothing", "security.protocol"),
        ("wire__protocol", "http", "wire.protocol"),
        ("conection__url", "http://localhost", "conection.url is not known"),
    ],
)
def test_what_is_wrong_is_told_with_the_remedy(key: str, value: str, problem: str) -> None:
    with pytest.raises(InvalidSinkFile) as raised:
        read(**{key: value})
    assert any(each.startswith(problem) for each in raised.value.problems), raised.value.problems


def test_a_login_goes_to_other_machines_by_tls_only() -> None:
    login = {"connection__username": "me", "connection__password": "secret"}
    with pytest.raises(InvalidSinkFile, match="in the clear"):
        read(connection__url="http://search:9200", **login)
    config = read(connection__url="https://search:9200", **login)
    assert "secret" not in repr(config)


def test_two_logins_are_one_too_many() -> None:
    with pytest.raises(InvalidSinkFile, match="two logins"):
        read(connection__username="me", connection__password="secret", connection__api__key="key")


def test_settings_of_clients_are_passed_on() -> None:
    config = read(wire__protocol="kafka", consumer__max__poll__records="10", security__protocol="SSL")
    assert str(config.client["wire_protocol"]) == "kafka"
    assert config.client["security"].tls is not None
    assert config.consumer == {"max.poll.records": "10"}
