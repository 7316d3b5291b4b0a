from __future__ import annotations

from typing import Any

import pytest

from kraft.client.model.errors import InvalidSetting, NotSupportedYet
from kraft.client.model.settings import ConsumerSettings, ProducerSettings, parse_addresses, settings_of
from kraft.log.format.compression import Codec


def producer(**given: Any) -> ProducerSettings:
    return settings_of(ProducerSettings, "localhost:9094", given)


def consumer(**given: Any) -> ConsumerSettings:
    return settings_of(ConsumerSettings, "localhost:9094", given)


def test_defaults_are_all_replicas_and_idempotence() -> None:
    settings = producer()
    assert (settings.acks, settings.enable_idempotence, settings.compression_type) == (-1, True, Codec.NONE)


def test_names_may_be_written_with_dots_and_values_as_text() -> None:
    settings = producer(**{"linger.ms": "20", "enable.idempotence": "false", "compression.type": "lz4"})
    assert (settings.linger_ms, settings.enable_idempotence, settings.compression_type) == (20, False, Codec.LZ4)


@pytest.mark.parametrize(("word", "acks"), [("all", -1), (-1, -1), ("1", 1), (0, 0)])
def test_acks_have_kafkas_words(word: object, acks: int) -> None:
    assert producer(acks=word).acks == acks


def test_a_transactional_id_implies_idempotence_and_all_acks() -> None:
    settings = producer(**{"transactional.id": "payments", "transaction.timeout.ms": "5000"})
    assert (settings.transactional_id, settings.transaction_timeout_ms) == ("payments", 5_000)
    assert (settings.acks, settings.enable_idempotence) == (-1, True)


@pytest.mark.parametrize(("level", "reads_committed"), [("read_committed", True), ("read_uncommitted", False)])
def test_a_consumer_reads_what_its_isolation_level_says(level: str, reads_committed: bool) -> None:
    assert consumer(**{"isolation.level": level}).reads_committed is reads_committed
    assert consumer().reads_committed is False


def test_fewer_acks_turn_idempotence_off_unless_it_is_asked_for() -> None:
    assert producer(acks=1).enable_idempotence is False
    with pytest.raises(InvalidSetting, match=r"enable\.idempotence=true needs acks=all, not acks=1"):
        producer(acks=1, enable_idempotence=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"acks": "two"}, "acks=two is not one of all, -1, 0, 1"),
        ({"linger_sm": 5}, "a producer has no setting linger.sm; did you mean linger.ms?"),
        ({"linger_ms": "soon"}, "linger.ms='soon' is not a number"),
        ({"linger_ms": -1}, "linger.ms=-1 must be at least 0"),
        ({"enable_idempotence": "maybe"}, "enable.idempotence='maybe' is not true or false"),
        ({"compression_type": "rar"}, "compression.type=rar is not one of none, gzip, snappy, lz4, zstd"),
        ({"batch_size": 2 << 20}, "batch.size=2097152 is above max.request.size=1048576"),
        ({"delivery_timeout_ms": 1000}, "delivery.timeout.ms=1000 is below request.timeout.ms"),
        ({"max_in_flight_requests_per_connection": 6}, "allows at most max.in.flight"),
        ({"transactional.id": ""}, "transactional.id is empty"),
        ({"transactional.id": "t", "acks": 1}, "transactional.id needs acks=all, not acks=1"),
        (
            {"transactional.id": "t", "acks": 0, "enable.idempotence": "false"},
            "transactional.id needs acks=all, not acks=0",
        ),
        (
            {"transactional.id": "t", "enable.idempotence": "false"},
            "transactional.id needs enable.idempotence=true, not false",
        ),
        ({"transaction.timeout.ms": 0}, "transaction.timeout.ms=0 must be at least 1"),
        ({"send.buffer.bytes": 131072}, "send.buffer.bytes=131072 needs wire.protocol=kafka"),
        ({"receive.buffer.bytes": -2}, "receive.buffer.bytes=-2 must be at least -1"),
    ],
)
def test_a_wrong_setting_of_a_producer_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        producer(**given)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("word", "policy"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("none", "none"),
        ("smallest", "earliest"),
        ("largest", "latest"),
        ("Earliest", "earliest"),
    ],
)
def test_reset_policies_have_kafkas_words_of_today_and_of_old(word: str, policy: str) -> None:
    assert consumer(auto_offset_reset=word).auto_offset_reset == policy
    assert consumer(**{"auto.offset.reset": word}).auto_offset_reset == policy


def test_a_number_of_32_bits_cannot_be_larger() -> None:
    with pytest.raises(InvalidSetting, match=r"fetch\.max\.bytes=2147483648 must be at most 2147483647"):
        consumer(fetch_max_bytes=1 << 31)
    assert producer(buffer_memory=1 << 40, max_block_ms=(1 << 63) - 1).buffer_memory == 1 << 40


def test_a_wrong_reset_policy_is_named_with_those_there_are() -> None:
    words = r"earliest, latest, none, nor of the old names smallest, largest"
    with pytest.raises(InvalidSetting, match=rf"auto\.offset\.reset=oldest is not one of {words}"):
        consumer(auto_offset_reset="oldest")


def test_a_reset_by_duration_is_refused_as_not_supported_yet() -> None:
    with pytest.raises(NotSupportedYet, match=r"auto\.offset\.reset=by_duration:PT1H: .*offsets_for_times"):
        consumer(auto_offset_reset="by_duration:PT1H")


def test_a_consumer_in_a_group_uses_the_consumer_protocol() -> None:
    settings = consumer(**{"group.id": "billing", "client.rack": "a"})
    assert (settings.group_id, settings.group_protocol, settings.enable_auto_commit) == ("billing", "consumer", True)


@pytest.mark.parametrize("key", ["session.timeout.ms", "heartbeat.interval.ms"])
def test_a_key_of_the_classic_protocol_alone_chooses_it(key: str) -> None:
    assert consumer(**{key: 6_000}).group_protocol == "classic"
    with pytest.raises(InvalidSetting, match=r"has no effect with group\.protocol=consumer"):
        consumer(**{key: 6_000, "group.protocol": "consumer"})


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("range", ("range",)),
        (["roundrobin", "range"], ("roundrobin", "range")),
        ("range, cooperative-sticky", ("range", "cooperative-sticky")),
        ("org.apache.kafka.clients.consumer.CooperativeStickyAssignor", ("cooperative-sticky",)),
    ],
)
def test_assignors_have_their_names_or_those_of_kafkas_classes(given: object, names: tuple[str, ...]) -> None:
    settings = consumer(partition_assignment_strategy=given)
    assert (settings.partition_assignment_strategy, settings.group_protocol) == (names, "classic")


def test_old_names_of_keys_are_understood() -> None:
    settings = consumer(
        **{
            "fetch.message.max.bytes": 7,
            "auto.commit.enable": "false",
            "topic.metadata.refresh.interval.ms": "9",
            "consumer_timeout_ms": 1000,
        }
    )
    assert (settings.max_partition_fetch_bytes, settings.enable_auto_commit) == (7, False)
    assert (settings.metadata_max_age_ms, settings.consumer_timeout_ms) == (9, 1000)
    assert producer(**{"request.required.acks": "1", "queue.buffering.max.ms": 3}).linger_ms == 3
    old = producer(**{"message.send.max.retries": "3", "queue.enqueue.timeout.ms": -1, "batch.num.messages": "200"})
    assert (old.retries, old.max_block_ms, old.batch_num_messages) == (3, (1 << 63) - 1, 200)
    assert producer(**{"queue.enqueue.timeout.ms": "0"}).max_block_ms == 0
    with pytest.raises(InvalidSetting, match=r"buffer\.memory bounds them by their bytes: give that instead"):
        producer(queue_buffering_max_messages=5)
    with pytest.raises(InvalidSetting, match=r"fetch\.message\.max\.bytes is the old name of max\.partition"):
        consumer(fetch_message_max_bytes=7, max_partition_fetch_bytes=8)


def test_without_retries_a_producer_is_not_idempotent() -> None:
    assert not producer(retries="0").enable_idempotence
    assert producer(retries=1).enable_idempotence
    with pytest.raises(InvalidSetting, match=r"enable\.idempotence=true needs retries above 0"):
        producer(retries=0, enable_idempotence=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"group_id": ""}, "group.id is empty"),
        ({"group_id": 5}, "group.id=5 is not text"),
        ({"group_protocol": "share"}, "group.protocol=share is not one of consumer, classic"),
        ({"partition_assignment_strategy": "sticky"}, "'sticky' is not one of range, roundrobin, cooperative-sticky"),
        ({"partition_assignment_strategy": []}, "partition.assignment.strategy is empty"),
        ({"heartbeat_interval_ms": 45_000}, "must be below session.timeout.ms=45000"),
        ({"group_remote_assignor": "range", "group_protocol": "classic"}, "group.remote.assignor has no effect"),
        ({"max_poll_interval_ms": 0}, "max.poll.interval.ms=0 must be at least 1"),
        ({"consumer_timeout_ms": -2}, "consumer.timeout.ms=-2 must be at least -1"),
        ({"isolation_level": "committed"}, "isolation.level=committed is not one of"),
        ({"zookeeper.connect": "localhost:2181"}, "there is no ZooKeeper"),
        ({"enable_auto_commit": "maybe"}, "enable.auto.commit='maybe' is not true or false"),
    ],
)
def test_a_wrong_setting_of_a_consumer_in_a_group_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        consumer(**given)
    assert message in str(caught.value)


def test_keys_of_security_become_one_value_and_show_no_password() -> None:
    given: dict[str, Any] = {
        "security_protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "hunter2",
        "ssl_cafile": None,
    }
    settings = consumer(**given)
    assert settings.security.protocol == "SASL_SSL"
    assert "hunter2" not in repr(settings)
    assert "alice" in repr(settings)
    assert consumer(security=settings.security).security == settings.security


def test_security_is_given_once() -> None:
    security = consumer(security_protocol="SSL").security
    with pytest.raises(InvalidSetting, match=r"security and security\.protocol say the same"):
        consumer(security=security, security_protocol="SSL")
    with pytest.raises(InvalidSetting, match="security has to be a ClientSecurity"):
        consumer(security="SSL")


def test_addresses_are_split_at_commas() -> None:
    assert parse_addresses("a:1, b:2,") == ("a:1", "b:2")
    assert parse_addresses(["[::1]:9094"]) == ("[::1]:9094",)


def test_an_address_without_a_port_gets_the_default_one() -> None:
    assert parse_addresses("localhost,b:2, 10.0.0.1,[::1]") == ("localhost:9094", "b:2", "10.0.0.1:9094", "[::1]:9094")


@pytest.mark.parametrize(
    "address",
    [
        "",
        " , ",
        "::1",
        "a:b:1",
        "a b",
        "[localhost]",
        "http://a:1",
        "localhost:",
        ":9094",
        "localhost:0",
        "localhost:99999",
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidSetting, match=r"bootstrap\.servers"):
        parse_addresses(address)


@pytest.mark.parametrize(
    ("given", "logged"),
    [
        ({"session.timeout.ms": 10_000}, ["group.protocol=classic, because session.timeout.ms is set"]),
        ({"session.timeout.ms": 10_000, "group.protocol": "classic"}, []),
        ({}, []),
    ],
)
def test_a_protocol_that_another_setting_chooses_is_logged(
    given: dict[str, object], logged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kraft.client")
    settings_of(ConsumerSettings, "localhost", given)
    assert [each.message for each in caplog.records] == logged


@pytest.mark.parametrize("name", ["value_serializer", "key.serializer", "value_deserializer"])
def test_there_are_no_serializers(name: str) -> None:
    kind = ConsumerSettings if "deserializer" in name else ProducerSettings
    with pytest.raises(InvalidSetting, match=r"no setting \w+\.\w*serializer: keys and values are bytes; leave it out"):
        settings_of(kind, "localhost", {name: bytes})
