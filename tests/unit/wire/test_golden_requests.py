"""Requests of real clients are decoded correctly, and encoded to the same bytes. The files are in tests/golden."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kraft.log.format.record_batch import iter_records, validate
from kraft.wire.api_keys import ApiKey, request_type
from kraft.wire.codec import decode
from kraft.wire.frame import SIZE_BYTES, RequestHeader, decode_request_header, encode_request
from kraft.wire.schema.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from tests.golden.make_requests import FOLDER, KEY, TIMESTAMP_MS, VALUE
from tests.golden.recording_broker import GROUP, MEMBER, TOPIC, TOPIC_ID

CLIENTS = ("aiokafka", "kafka-python", "librdkafka")
FILES = sorted(FOLDER.glob("*.bin"))


def read(file: Path) -> tuple[RequestHeader, Any]:
    frame = file.read_bytes()
    header, position = decode_request_header(frame)
    return header, decode(request_type(header.api_key), header.api_version, frame, position)


def request_of(client: str, api: str) -> Any:
    (file,) = FOLDER.glob(f"{client}-{api}-v*.bin")
    return read(file)[1]


def test_there_is_one_of_each_kind_from_each_client() -> None:
    ordinary = [file.stem for file in FILES if "all-topics" not in file.stem]
    counts = {client: sum(name.startswith(client) for name in ordinary) for client in CLIENTS}
    assert counts == dict.fromkeys(CLIENTS, 13)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_request_is_written_as_its_client_wrote_it(file: Path) -> None:
    header, request = read(file)
    written = b"".join(encode_request(request, header.api_version, header.correlation_id, header.client_id))
    assert file.read_bytes().startswith(written[SIZE_BYTES:])
    api = ApiKey(header.api_key).name.lower().replace("_", "-")
    assert file.stem.endswith(f"-{api}-v{header.api_version}")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_only_librdkafka_asking_for_all_topics_sends_bytes_behind_its_request(file: Path) -> None:
    header, request = read(file)
    written = b"".join(encode_request(request, header.api_version, header.correlation_id, header.client_id))
    surplus = len(file.read_bytes()) - (len(written) - SIZE_BYTES)
    assert surplus == (3 if file.stem.startswith("librdkafka-all-topics") else 0)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_produce_request_holds_the_batch(client: str) -> None:
    request = request_of(client, "produce")
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    batch = validate(partition.records)
    (record,) = iter_records(partition.records)
    assert (request.acks, topic.name, partition.index) == (-1, TOPIC, 0)
    assert (record.key, record.value, record.timestamp_ms) == (KEY, VALUE, TIMESTAMP_MS)
    assert (batch.producer_id, batch.producer_epoch) == (4000, 3)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_fetch_request_asks_from_the_start(client: str) -> None:
    (topic,) = request_of(client, "fetch").topics
    (partition,) = topic.partitions
    # By id since version 13, which only librdkafka has come to.
    assert (topic.topic, topic.topic_id == TOPIC_ID) == (("", True) if client == "librdkafka" else (TOPIC, False))
    assert (partition.partition, partition.fetch_offset) == (0, 0)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_commit_names_group_member_and_offset(client: str) -> None:
    request = request_of(client, "offset-commit")
    (topic,) = request.topics
    (partition,) = topic.partitions
    assert (request.group_id, request.member_id, request.generation_id_or_member_epoch) == (GROUP, MEMBER, 1)
    assert (topic.name, partition.partition_index) == (TOPIC, 0)
    # confluent-kafka sends the zero at the end of C's strings along.
    assert (partition.committed_offset, partition.committed_metadata.rstrip("\0")) == (7, "note")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_member_says_what_it_subscribes_to(client: str) -> None:
    metadata = request_of(client, "join-group").protocols[0].metadata
    subscription = decode(ConsumerProtocolSubscription, int.from_bytes(metadata[:2], "big"), metadata, 2)
    assert subscription.topics == (TOPIC,)


@pytest.mark.parametrize("client", CLIENTS)
def test_the_leader_of_the_group_assigns(client: str) -> None:
    (member,) = request_of(client, "sync-group").assignments
    version = int.from_bytes(member.assignment[:2], "big")
    assignment = decode(ConsumerProtocolAssignment, version, member.assignment, 2)
    assert [(each.topic, each.partitions) for each in assignment.assigned_partitions] == [(TOPIC, (0,))]
    assert member.member_id == MEMBER
