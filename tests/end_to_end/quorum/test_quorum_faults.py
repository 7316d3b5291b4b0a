"""Controllers killed, paused, cut off under load: the short forms of `quorum_fault_runs`, and tests of their checks."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from chaos.toxiproxy import ToxiproxyMissing
from kraft.metadata.image import EMPTY_IMAGE
from kraft.metadata.records import ClusterInitialised, FeatureLevelSet, MetadataRecord, TopicConfigSet, TopicCreated
from kraft.model.ids import TopicId
from kraft.quorum import command
from kraft.quorum.command import CommandKind, EntryCommand
from kraft.quorum.journal import QuorumJournal
from kraft.rpc.metadata_codec import encode_records
from kraft.runtime.disk import RealDisk
from tests.soak import stale_leader_runs, voter_kill_runs
from tests.soak.loads.metadata_images import read_image
from tests.soak.loads.numbered_changes import CONFIG, Facts
from tests.soak.loads.quorum_load import VOTERS

TOPIC_ID = TopicId(UUID(int=1))


def test_after_kill_9_of_all_controllers_at_once_everything_acknowledged_is_there() -> None:
    (made,) = voter_kill_runs.kill_all(times=1, seed=1, tell=print)
    assert made.acknowledged_changes > 0
    assert made.contents.acknowledged > 0
    assert made.contents.is_exact


def test_after_kill_9_of_the_active_controller_another_goes_on_and_no_produce_fails() -> None:
    found = voter_kill_runs.kill_controller(times=1, seed=1, separate=False, tell=print)
    assert found.contents.acknowledged > 0
    assert found.contents.is_exact


@pytest.mark.slow
def test_the_death_of_a_controller_that_is_no_broker_costs_no_record() -> None:
    found = voter_kill_runs.kill_controller(times=1, seed=1, separate=True, tell=print)
    # Controllers have the first ids, so the one that was killed serves no producer.
    assert found.kills[0].node_id <= VOTERS
    assert found.contents.acknowledged > 0
    assert found.contents.is_exact


@pytest.mark.slow
def test_nothing_stale_is_acted_on_when_a_paused_leader_goes_on() -> None:
    found = stale_leader_runs.pause_leader(times=1, seed=1, hold_s=(3.5, 3.5), tell=print)
    assert [made.fault for made in found.found] == ["paused"]
    assert found.contents.is_exact


@pytest.mark.slow
def test_nothing_that_an_isolated_leader_is_asked_for_is_done() -> None:
    try:
        found = stale_leader_runs.isolate_leader(times=1, seed=1, hold_s=(2.0, 2.0), tell=print)
    except ToxiproxyMissing as reason:
        pytest.skip(str(reason))
    assert found.found[0].asked > 0
    assert found.contents.is_exact


# --- what they judge by --------------------------------------------------------------------------------------


def test_a_lost_acknowledged_change_is_reported() -> None:
    facts = Facts()
    facts.of("orders", CONFIG).acknowledged = 7
    topic = [TopicCreated(topic="orders", topic_id=TOPIC_ID)]
    assert facts.differences(EMPTY_IMAGE) == [f"orders: {CONFIG} is None, 7 was acknowledged, None asked"]
    assert facts.differences(EMPTY_IMAGE.replay(topic)) == [f"orders: {CONFIG} is None, 7 was acknowledged, None asked"]
    for value, differences in (("7", 0), ("6", 1), ("8", 1)):
        set_to = TopicConfigSet(topic_id=TOPIC_ID, key=CONFIG, value=value)
        assert len(facts.differences(EMPTY_IMAGE.replay([*topic, set_to]))) == differences


def test_a_change_without_an_outcome_may_be_there_or_not_but_nothing_else_may() -> None:
    facts = Facts()
    fact = facts.of("orders", CONFIG)
    fact.acknowledged, fact.perhaps = 7, 8
    topic = [TopicCreated(topic="orders", topic_id=TOPIC_ID)]
    for value, differences in (("6", 1), ("7", 0), ("8", 0), ("9", 1)):
        set_to = TopicConfigSet(topic_id=TOPIC_ID, key=CONFIG, value=value)
        assert len(facts.differences(EMPTY_IMAGE.replay([*topic, set_to]))) == differences


def test_an_image_is_read_from_a_journal_without_what_was_cut_off_or_is_void(tmp_path: Path) -> None:
    journal = QuorumJournal(tmp_path, RealDisk())
    first = journal.last_index + 1
    journal.add(_payload(1, [ClusterInitialised(cluster_id="here")]), first, 1)
    journal.add(_payload(1, [FeatureLevelSet(feature="cut.off", level=1)]), first + 1, 1)
    journal.sync()
    journal.deleteEntriesFrom(1)
    journal.add(_payload(1, [FeatureLevelSet(feature="void", level=1)]), first + 1, 2)
    journal.add(_payload(2, [FeatureLevelSet(feature="kept", level=1)]), first + 2, 2)
    journal.sync()
    journal.close()
    image = read_image(tmp_path)
    assert image.cluster_id == "here"
    assert dict(image.features) == {"kept": 1}


def _payload(decided_term: int, records: list[MetadataRecord]) -> bytes:
    entry = EntryCommand(
        kind=CommandKind.PAYLOAD,
        decided_term=decided_term,
        request_id=bytes(command.REQUEST_ID_BYTES),
        payload=encode_records(records),
    )
    return bytes([command.REGULAR]) + command.encode_body(entry)
