from __future__ import annotations

import dataclasses
import logging

import pytest

from kraft.client import TopicPartition
from spark_connector.bounds import Edge, FirstAt
from spark_connector.given import OptionError
from spark_connector.options import SourceOptions, batch_options, shared_options, stream_options
from spark_connector.patience import Patience
from spark_connector.subscription import Assigned, Pattern, Topics

REQUIRED = {"bootstrap.servers": "localhost:9094", "subscribe": "flights"}


def refusal(options: dict[str, str]) -> str:
    """The message that both a batch and a stream are answered; always one line."""
    messages = []
    for parse in (batch_options, stream_options, shared_options):
        with pytest.raises(OptionError) as refused:
            parse(options)
        messages.append(str(refused.value))
    assert len(set(messages)) == 1
    assert "\n" not in messages[0]
    return messages[0]


def test_a_stream_begins_with_what_arrives_and_a_batch_with_the_earliest_record() -> None:
    stream = SourceOptions(
        bootstrap_servers=("localhost:9094",), subscription=Topics(("flights",)), starting=Edge.LATEST
    )
    assert stream_options(REQUIRED) == stream
    assert batch_options(REQUIRED) == dataclasses.replace(stream, starting=Edge.EARLIEST)


def test_names_are_matched_in_any_case_as_spark_does() -> None:
    options = stream_options(
        {
            "Kraft.Bootstrap.Servers": "a:1, b:2",
            "SUBSCRIBE": "x, y,x",
            "startingoffsets": "Earliest",
            "maxoffsetspertrigger": "500",
            "minOFFSETSpertrigger": "50",
            "maxTriggerDelay": "2m",
            "maxBytesPerTrigger": "1000000",
            "MINPARTITIONS": "8",
            "maxRecordsPerPartition": "10000",
            "FAILONDATALOSS": "False",
            "includeheaders": "TRUE",
            "Kafka.Group.Id": "spark",
            "groupIdPrefix": "needless",
            "kafkaConsumer.pollTimeoutMs": "5000",
            "Kafka.fetch.max.bytes": "500",
        }
    )
    assert options == SourceOptions(
        bootstrap_servers=("a:1", "b:2"),
        subscription=Topics(("x", "y")),
        starting=Edge.EARLIEST,
        offsets_per_trigger_max=500,
        offsets_per_trigger_min=50,
        trigger_delay_max_s=120.0,
        bytes_per_trigger_max=1_000_000,
        tasks_min=8,
        records_per_task_max=10_000,
        fail_on_data_loss=False,
        include_headers=True,
        patience=Patience(read_s=5.0),
        group_id="spark",
        client_settings=(("fetch.max.bytes", "500"), ("isolation.level", "read_committed")),
    )


@pytest.mark.parametrize("name", ["bootstrap.servers", "kraft.bootstrap.servers", "kafka.bootstrap.servers"])
def test_the_addresses_go_by_three_names(name: str) -> None:
    assert stream_options({name: "[::1]:9094", "subscribe": "x"}).bootstrap_servers == ("[::1]:9094",)


def test_topics_may_be_given_by_a_pattern_or_by_their_partitions() -> None:
    servers = {"bootstrap.servers": "localhost:9094"}
    assert stream_options({**servers, "subscribePattern": " f.* "}).subscription == Pattern("f.*")
    assigned = stream_options({**servers, "assign": '{"b": [1, 0], "a": [2]}'}).subscription
    assert assigned == Assigned(frozenset({TopicPartition("a", 2), TopicPartition("b", 0), TopicPartition("b", 1)}))


def test_a_time_for_all_goes_before_times_of_partitions_and_these_before_offsets() -> None:
    given = {**REQUIRED, "startingOffsets": "earliest", "endingOffsets": "latest"}
    assert batch_options(given).starting is Edge.EARLIEST
    given |= {
        "startingOffsetsByTimestamp": '{"flights": {"0": 5}}',
        "endingOffsetsByTimestamp": '{"flights": {"0": 7}}',
    }
    first = TopicPartition("flights", 0)
    assert batch_options(given).starting == FirstAt(
        option="startingOffsetsByTimestamp", timestamps_ms={first: 5}, else_latest=False
    )
    assert batch_options(given).ending == FirstAt(
        option="endingOffsetsByTimestamp", timestamps_ms={first: 7}, else_latest=True
    )
    given |= {"startingTimestamp": "1000", "endingTimestamp": "2000", "startingOffsetsByTimestampStrategy": "LATEST"}
    assert batch_options(given).starting == FirstAt(option="startingTimestamp", timestamps_ms=1000, else_latest=True)
    assert batch_options(given).ending == FirstAt(option="endingTimestamp", timestamps_ms=2000, else_latest=True)


def test_retries_may_give_a_cluster_more_time_and_never_less() -> None:
    def patience(**options: str) -> Patience:
        return stream_options(
            {**REQUIRED, **{f"fetchOffset.{name}": value for name, value in options.items()}}
        ).patience

    assert patience(numRetries="3", retryIntervalMs="10") == Patience(settle_s=10.0, poll_s=0.05)
    assert patience(numRetries="60") == Patience(settle_s=60.0, poll_s=1.0)
    assert patience(retryIntervalMs="5000") == Patience(settle_s=15.0, poll_s=1.0)


def test_options_of_streams_are_logged_for_a_batch_and_not_ignored_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "spark_connector"):
        batch_options({**REQUIRED, "maxOffsetsPerTrigger": "5", "maxTriggerDelay": "1m"})
    assert "option not used: maxOffsetsPerTrigger is for streams" in caplog.text
    assert "option not used: maxTriggerDelay is for streams" in caplog.text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "x"}, ["bootstrap.servers", "missing"]),
        ({"bootstrap.servers": " ", "subscribe": "x"}, ["bootstrap.servers", "empty"]),
        ({"bootstrap.servers": "localhost", "subscribe": "x"}, ["bootstrap.servers", "'localhost' is not host:port"]),
        ({"kafka.bootstrap.servers": "a:1,b:70000", "subscribe": "x"}, ["kafka.bootstrap.servers", "'b:70000'"]),
        ({**REQUIRED, "kafka.bootstrap.servers": "a:1"}, ["bootstrap.servers and kafka.bootstrap.servers"]),
        ({"bootstrap.servers": "a:1"}, ["subscribe is missing", "subscribePattern, or assign"]),
        ({"bootstrap.servers": "a:1", "subscribe": " ,"}, ["subscribe is empty"]),
        ({"bootstrap.servers": "a:1", "subscribePattern": " "}, ["subscribePattern is empty"]),
        ({"bootstrap.servers": "a:1", "subscribePattern": "f(*"}, ["subscribePattern", "'f(*'", "regular expression"]),
        ({"bootstrap.servers": "a:1", "subscribePattern": "f*+\\p{Alpha}"}, ["not a regular expression of Python"]),
        ({"bootstrap.servers": "a:1", "assign": "flights"}, ["assign", 'JSON like {"topic": [0, 1]}', "'flights'"]),
        ({"bootstrap.servers": "a:1", "assign": '{"a": [-1]}'}, ["assign", "-1 is not a partition number"]),
        ({"bootstrap.servers": "a:1", "assign": '{"a": [1.5]}'}, ["assign", "1.5 is not a partition number"]),
        ({"bootstrap.servers": "a:1", "assign": '{"a": [true]}'}, ["assign", "True is not a partition number"]),
        ({"bootstrap.servers": "a:1", "assign": '{"a": [4294967296]}'}, ["assign", "4294967296 is not a partition"]),
        ({**REQUIRED, "assign": '{"a": [0]}'}, ["options subscribe and assign exclude each other"]),
        ({**REQUIRED, "startingOffsets": "soonest"}, ["startingOffsets", "'soonest'", "earliest, latest or JSON"]),
        ({**REQUIRED, "startingOffsets": '{"flights": [1]}'}, ["startingOffsets", "[1]", "'flights'"]),
        ({**REQUIRED, "startingOffsets": '{"flights": {"0": -3}}'}, ["startingOffsets", "-3 of flights-0"]),
        ({**REQUIRED, "startingOffsets": '{"flights": {"0": 9223372036854775808}}'}, ["startingOffsets"]),
        ({**REQUIRED, "startingOffsets": "[" * 100_000}, ["startingOffsets"]),
        ({**REQUIRED, "startingOffsets": '{"a": {"0": %s}}' % ("9" * 5_000)}, ["startingOffsets"]),
        (
            {**REQUIRED, "startingOffsets": '{"a": {"0": 1, "1": 2, "0": 5}}'},
            ["startingOffsets", "'0' is given twice"],
        ),
        ({**REQUIRED, "startingOffsets": '{"a": {"-1": 0}}'}, ["startingOffsets", "'-1' is not a partition number"]),
        ({**REQUIRED, "startingOffsets": '{"a": {"9999999999": 0}}'}, ["startingOffsets", "largest partition number"]),
        ({**REQUIRED, "startingOffsets": '{"a": {"0": 1.5}}'}, ["startingOffsets", "1.5 is not an offset"]),
        ({**REQUIRED, "startingOffsets": '{"a": {"0": NaN}}'}, ["startingOffsets", "nan is not an offset"]),
        ({**REQUIRED, "startingTimestamp": "-5"}, ["startingTimestamp", "'-5'", "milliseconds since 1970"]),
        ({**REQUIRED, "startingTimestamp": "2024-01-01"}, ["startingTimestamp", "'2024-01-01'"]),
        ({**REQUIRED, "startingOffsetsByTimestamp": '{"a": {"0": -1}}'}, ["startingOffsetsByTimestamp", "-1 of a-0"]),
        (
            {**REQUIRED, "startingOffsetsByTimestampStrategy": "nearest"},
            ["Strategy", "'nearest' is not error or latest"],
        ),
        (
            {**REQUIRED, "minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"},
            ["minOffsetsPerTrigger", "6 is above"],
        ),
        ({**REQUIRED, "maxTriggerDelay": "soon"}, ["maxTriggerDelay", "'soon' is not a duration"]),
        ({**REQUIRED, "maxBytesPerTrigger": "1m"}, ["maxBytesPerTrigger", "'1m' is not a whole number"]),
        ({**REQUIRED, "minPartitions": "4294967296"}, ["minPartitions", "at most 2147483647"]),
        ({**REQUIRED, "maxRecordsPerPartition": "-1"}, ["maxRecordsPerPartition", "'-1'"]),
        ({**REQUIRED, "fetchOffset.numRetries": "x"}, ["fetchOffset.numRetries", "'x'"]),
        ({**REQUIRED, "kafkaConsumer.pollTimeoutMs": "0"}, ["kafkaConsumer.pollTimeoutMs", "'0'"]),
        ({**REQUIRED, "groupIdPrefix": " "}, ["groupIdPrefix is empty"]),
        ({**REQUIRED, "kafka.group.id": ""}, ["kafka.group.id is empty"]),
        ({**REQUIRED, "topic": "flights"}, ["option topic is for writing"]),
        ({**REQUIRED, "maxOffsetsPerTrigger": "0"}, ["maxOffsetsPerTrigger", "'0'", "above zero"]),
        ({**REQUIRED, "maxOffsetsPerTrigger": "many"}, ["maxOffsetsPerTrigger", "'many'"]),
        ({**REQUIRED, "failOnDataLoss": "yes"}, ["failOnDataLoss", "'yes'"]),
        ({**REQUIRED, "includeHeaders": "1"}, ["includeHeaders", "'1'"]),
        ({**REQUIRED, "maxOffsetPerTrigger": "5"}, ["maxOffsetPerTrigger", "did you mean maxOffsetsPerTrigger?"]),
        ({**REQUIRED, "zzz": "5"}, ["option zzz is unknown to the kraft source"]),
    ],
)
def test_a_wrong_option_is_named_in_one_line(options: dict[str, str], words: list[str]) -> None:
    message = refusal(options)
    for word in words:
        assert word in message


def test_what_spark_adds_itself_is_no_wrong_option() -> None:
    assert stream_options({**REQUIRED, "path": "flights"}) == stream_options(REQUIRED)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("startingOffsets", "latest"),
        ("startingOffsets", '{"flights": {"0": -1}}'),
        ("endingOffsets", "earliest"),
        ("endingOffsets", '{"flights": {"0": -2}}'),
    ],
)
def test_a_batch_that_could_never_read_anything_is_refused(name: str, value: str) -> None:
    with pytest.raises(OptionError, match=f"option {name}: a batch .* reads nothing"):
        batch_options({**REQUIRED, name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("endingOffsets", "latest"), ("endingTimestamp", "5"), ("endingOffsetsByTimestamp", '{"flights": {"0": 5}}')],
)
def test_a_stream_has_no_end(name: str, value: str) -> None:
    with pytest.raises(OptionError, match=f"{name}: a stream has no end"):
        stream_options({**REQUIRED, name: value})


def test_an_end_before_the_start_is_refused() -> None:
    given = {**REQUIRED, "startingOffsets": '{"flights": {"0": 5}}', "endingOffsets": '{"flights": {"0": 4}}'}
    with pytest.raises(OptionError, match="endingOffsets: flights-0 ends at 4, before its start at 5"):
        batch_options(given)
