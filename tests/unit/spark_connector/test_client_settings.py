from __future__ import annotations

import pytest

from spark_connector.client_settings import client_settings
from spark_connector.given import Given, OptionError


def parsed(**options: str) -> dict[str, str]:
    given = {name.replace("__", "."): value for name, value in options.items()}
    return dict(client_settings(Given(given), list(given)))


@pytest.mark.parametrize("name", ["isolation.level", "kraft.isolation.level", "kafka.isolation.level"])
def test_committed_records_are_read_unless_the_option_says_otherwise(name: str) -> None:
    assert client_settings(Given({}), []) == (("isolation.level", "read_committed"),)
    assert client_settings(Given({name: "Read_Uncommitted"}), [name]) == (("isolation.level", "read_uncommitted"),)
    with pytest.raises(OptionError, match=r"isolation.level=all is not one of read_uncommitted, read_committed"):
        client_settings(Given({name: "all"}), [name])


def test_options_of_their_own_are_no_settings() -> None:
    assert parsed(kafka__bootstrap__servers="a:1", kafka__group__id="g") == parsed()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("kafka.auto.offset.reset", ["is not supported", "startingOffsets"]),
        ("kafka.key.deserializer", ["is not supported", "keys are binary"]),
        ("kraft.value.deserializer", ["is not supported", "values are binary"]),
        ("kafka.key.serializer", ["is not supported", "binary"]),
        ("kafka.enable.auto.commit", ["is not supported", "checkpoint"]),
        ("kafka.interceptor.classes", ["is not supported"]),
        ("kafka.session.timeout.ms", ["has no effect", "not a member of a group"]),
        ("kafka.max.poll.records", ["has no effect"]),
        ("kafka.ssl.truststore.location", ["has no effect without security.protocol"]),
        ("kafka.fetch.max.byte", ["no setting fetch.max.byte; did you mean fetch.max.bytes?"]),
        ("kafka.bootstrap.server", ["did you mean bootstrap.servers?"]),
    ],
)
def test_what_must_not_be_set_or_has_no_effect_is_refused_in_one_line(name: str, words: list[str]) -> None:
    with pytest.raises(OptionError) as refused:
        client_settings(Given({name: "x"}), [name])
    assert "\n" not in str(refused.value)
    for word in [name.split(".", 1)[1], *words]:
        assert word in str(refused.value)


def test_a_wrong_value_is_named() -> None:
    with pytest.raises(OptionError, match=r"client settings: fetch.max.bytes='many' is not a number"):
        parsed(kafka__fetch__max__bytes="many")
    with pytest.raises(OptionError, match=r"security\.protocol=TLS is not one of"):
        parsed(kafka__security__protocol="TLS")


def test_options_of_security_are_those_of_sparks_own_kafka_source() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="hunter2";'
    given = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": jaas,
    }
    assert dict(client_settings(Given(given), list(given)))["sasl.jaas.config"] == jaas
    with pytest.raises(OptionError, match=r"ScramLoginModule") as refused:
        client_settings(Given({**given, "kafka.sasl.mechanism": "SCRAM-SHA-256"}), list(given))
    assert "hunter2" not in str(refused.value)


def test_one_setting_has_one_value() -> None:
    assert parsed(kafka__fetch__max__bytes="5", kraft__fetch__max__bytes="5")["fetch.max.bytes"] == "5"
    with pytest.raises(OptionError, match=r"options kraft\.fetch\.max\.bytes and kafka\.fetch\.max\.bytes have diff"):
        parsed(kafka__fetch__max__bytes="5", kraft__fetch__max__bytes="6")
