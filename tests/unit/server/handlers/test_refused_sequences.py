from __future__ import annotations

from pathlib import Path

import pytest

from kraft.log.change import run_now
from kraft.log.format.record_batch import SEQUENCE_MAX
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import LeaderEpoch
from kraft.server.handlers import refused_sequences
from kraft.server.handlers.refused_sequences import REMEMBERED_S, NamedPartition, RefusedSequences
from kraft.server.replica.partition import Partition
from tests.support.cluster_images import ORDERS
from tests.support.server.replicas import Broker, batch, lead

PARTITION: NamedPartition = ("orders", 0)


@pytest.fixture(name="partition")
def _partition(tmp_path: Path) -> Partition:
    partition = Broker(tmp_path).open()
    lead(partition)
    return partition


def of(sequence: int, epoch: int = 0, producer_id: int = 5) -> bytes:
    return batch("a", producer_id=producer_id, producer_epoch=epoch, sequence=sequence)


def noted(
    records: bytes, code: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER, partition: NamedPartition = PARTITION
) -> RefusedSequences:
    refused = RefusedSequences()
    refused.note(partition, records, code, 0.0)
    return refused


def is_refused(refused: RefusedSequences, partition: Partition, records: bytes, now_s: float = 1.0) -> ErrorCode | None:
    try:
        refused.check(partition, records, now_s)
    except Refusal as refusal:
        return refusal.error_code
    return None


def test_what_was_sent_behind_a_refused_batch_is_refused_as_it_was(partition: Partition) -> None:
    refused = noted(of(3), ErrorCode.NOT_ENOUGH_REPLICAS)
    assert is_refused(refused, partition, of(4)) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert is_refused(refused, partition, of(9)) is ErrorCode.NOT_ENOUGH_REPLICAS


def test_when_it_has_come_again_the_rest_may_follow(partition: Partition) -> None:
    refused = noted(of(3))
    assert is_refused(refused, partition, of(4)) is not None
    assert is_refused(refused, partition, of(3)) is None
    assert is_refused(refused, partition, of(4)) is None
    assert not refused


def test_the_first_that_was_refused_is_the_one_that_has_to_come(partition: Partition) -> None:
    refused = noted(of(3))
    refused.note(PARTITION, of(4), ErrorCode.NOT_LEADER_OR_FOLLOWER, 1.0)
    assert is_refused(refused, partition, of(4), 2.0) is not None
    assert is_refused(refused, partition, of(3), 2.0) is None


def test_sequences_begin_again_at_0(partition: Partition) -> None:
    refused = noted(of(SEQUENCE_MAX))
    assert is_refused(refused, partition, of(0)) is not None
    assert is_refused(refused, partition, of(SEQUENCE_MAX - 1)) is None


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(of(4, epoch=1), id="a new epoch"),
        pytest.param(of(4, producer_id=6), id="another producer"),
        pytest.param(batch("a"), id="a producer without an id"),
        pytest.param(of(2), id="a retry of what came before"),
        pytest.param(b"\0" * 80, id="bytes that are no batch"),
    ],
)
def test_others_are_let_pass(partition: Partition, other: bytes) -> None:
    assert is_refused(noted(of(3)), partition, other) is None


def test_it_is_forgotten_after_a_moment(partition: Partition) -> None:
    refused = noted(of(3))
    assert is_refused(refused, partition, of(4), REMEMBERED_S - 0.1) is not None
    assert is_refused(refused, partition, of(4, producer_id=9), REMEMBERED_S) is None
    assert not refused, "whoever comes next forgets it, so that nobody pays for it any longer"
    assert is_refused(refused, partition, of(4), REMEMBERED_S) is None


def test_a_refused_batch_that_another_broker_appended_is_not_waited_for(partition: Partition) -> None:
    refused = noted(of(0))
    partition.log.append_as_leader(of(0), LeaderEpoch(0), 0, run_now)
    assert is_refused(refused, partition, of(1)) is None


def test_a_refusal_of_an_epoch_that_is_over_holds_nothing_up(partition: Partition) -> None:
    refused = noted(of(3))
    partition.log.append_as_leader(of(0, epoch=1), LeaderEpoch(0), 0, run_now)
    assert is_refused(refused, partition, of(4)) is None


def test_a_topic_that_was_asked_for_by_an_unknown_id_is_found_by_its_name(partition: Partition) -> None:
    refused = noted(of(0), ErrorCode.UNKNOWN_TOPIC_ID, (str(ORDERS), 0))
    assert is_refused(refused, partition, of(1)) is ErrorCode.UNKNOWN_TOPIC_ID
    assert is_refused(refused, partition, of(0)) is None


@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER])
def test_what_no_producer_sends_again_as_it_is_is_not_waited_for(code: ErrorCode) -> None:
    assert not noted(of(3), code)


def test_no_more_are_remembered_than_there_is_room_for(partition: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused_sequences, "PRODUCERS_MAX", 2)
    refused = RefusedSequences()
    for producer_id in (1, 2, 3):
        refused.note(PARTITION, of(0, producer_id=producer_id), ErrorCode.NOT_LEADER_OR_FOLLOWER, 0.0)
    assert len(refused) == 2
    assert is_refused(refused, partition, of(1, producer_id=1)) is None
    assert is_refused(refused, partition, of(1, producer_id=3)) is not None
