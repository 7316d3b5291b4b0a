from __future__ import annotations

import dataclasses
import pickle

import pytest

from kraft.client import TopicPartition
from spark_connector.options import Edge, OptionError, SourceOptions, batch_options, shared_options, stream_options

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
    stream = SourceOptions(bootstrap_servers=("localhost:9094",), topics=("flights",), starting_offsets=Edge.LATEST)
    assert stream_options(REQUIRED) == stream
    assert batch_options(REQUIRED) == dataclasses.replace(stream, starting_offsets=Edge.EARLIEST)


def test_names_are_matched_in_any_case_as_spark_does() -> None:
    options = stream_options(
        {
            "Kraft.Bootstrap.Servers": "a:1, b:2",
            "SUBSCRIBE": "x, y,x",
            "startingoffsets": "Earliest",
            "maxoffsetspertrigger": "500",
            "FAILONDATALOSS": "False",
            "includeheaders": "TRUE",
        }
    )
    assert options == SourceOptions(
        bootstrap_servers=("a:1", "b:2"),
        topics=("x", "y"),
        starting_offsets=Edge.EARLIEST,
        offsets_per_trigger_max=500,
        fail_on_data_loss=False,
        include_headers=True,
    )


@pytest.mark.parametrize("name", ["bootstrap.servers", "kraft.bootstrap.servers", "kafka.bootstrap.servers"])
def test_the_addresses_go_by_three_names(name: str) -> None:
    assert stream_options({name: "[::1]:9094", "subscribe": "x"}).bootstrap_servers == ("[::1]:9094",)


def test_explicit_offsets_are_read_from_sparks_json() -> None:
    options = stream_options({**REQUIRED, "startingOffsets": '{"flights": {"0": 12, "1": -2, "2": -1}}'})
    assert options.starting_offsets == {
        TopicPartition("flights", 0): 12,
        TopicPartition("flights", 1): -2,
        TopicPartition("flights", 2): -1,
    }


def test_options_survive_the_way_to_a_worker() -> None:
    options = batch_options({**REQUIRED, "startingOffsets": '{"flights": {"0": 12}}'})
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301 - the bytes are our own


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "x"}, ["bootstrap.servers", "missing"]),
        ({"bootstrap.servers": " ", "subscribe": "x"}, ["bootstrap.servers", "empty"]),
        ({"bootstrap.servers": "localhost", "subscribe": "x"}, ["bootstrap.servers", "'localhost' is not host:port"]),
        ({"kafka.bootstrap.servers": "a:1,b:70000", "subscribe": "x"}, ["kafka.bootstrap.servers", "'b:70000'"]),
        ({**REQUIRED, "kafka.bootstrap.servers": "a:1"}, ["bootstrap.servers and kafka.bootstrap.servers"]),
        ({"bootstrap.servers": "a:1"}, ["subscribe is missing"]),
        ({**REQUIRED, "startingOffsets": "soonest"}, ["startingOffsets", "'soonest'", "earliest, latest or JSON"]),
        ({**REQUIRED, "startingOffsets": '{"flights": [1]}'}, ["startingOffsets", "[1]", "'flights'"]),
        ({**REQUIRED, "startingOffsets": '{"flights": {"0": -3}}'}, ["startingOffsets", "-3 of flights-0"]),
        ({**REQUIRED, "startingOffsets": '{"flights": {"0": 9223372036854775808}}'}, ["startingOffsets"]),
        ({**REQUIRED, "startingOffsets": "[" * 100_000}, ["startingOffsets"]),
        ({**REQUIRED, "maxOffsetsPerTrigger": "0"}, ["maxOffsetsPerTrigger", "'0'", "above zero"]),
        ({**REQUIRED, "maxOffsetsPerTrigger": "many"}, ["maxOffsetsPerTrigger", "'many'"]),
        ({**REQUIRED, "failOnDataLoss": "yes"}, ["failOnDataLoss", "'yes'"]),
        ({**REQUIRED, "includeHeaders": "1"}, ["includeHeaders", "'1'"]),
        ({**REQUIRED, "subscribePattern": "f.*"}, ["subscribePattern", "not supported yet"]),
        ({**REQUIRED, "minpartitions": "4"}, ["minPartitions", "not supported yet"]),
        ({**REQUIRED, "kraft.group.id": "g"}, ["kraft.group.id", "not supported yet"]),
        ({**REQUIRED, "kafka.security.protocol": "SSL"}, ["kafka.security.protocol", "not supported yet"]),
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


def test_a_stream_has_no_ending_offsets() -> None:
    with pytest.raises(OptionError, match="endingOffsets: a stream has no end"):
        stream_options({**REQUIRED, "endingOffsets": "latest"})


@pytest.mark.parametrize("name", ["isolation.level", "kraft.isolation.level", "kafka.isolation.level"])
def test_committed_records_are_read_unless_the_option_says_otherwise(name: str) -> None:
    given = {"bootstrap.servers": "localhost:9094", "subscribe": "orders"}
    assert batch_options(given).reads_committed
    assert not batch_options({**given, name: "read_uncommitted"}).reads_committed
    assert batch_options({**given, name: "Read_Committed"}).reads_committed
    with pytest.raises(OptionError, match="'all' is neither read_committed nor read_uncommitted"):
        batch_options({**given, name: "all"})
