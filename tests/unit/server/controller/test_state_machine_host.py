from __future__ import annotations

import asyncio
from uuid import NAMESPACE_OID, uuid5

import pytest

from kraft.metadata.features import METADATA_VERSION, UnsupportedFeatureLevel
from kraft.metadata.image import EMPTY_IMAGE
from kraft.metadata.records import ClusterInitialised, FeatureLevelSet, MetadataRecord, PartitionChanged, TopicCreated
from kraft.model.errors import Corruption, ErrorCode, Refusal
from kraft.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from kraft.rpc.metadata_codec import decode_records, encode_records
from kraft.server.cluster.metadata_snapshots import LoadedImage
from kraft.server.controller.decided_entries import ENTRY_BYTES_MAX
from kraft.server.controller.state_machine_host import StateMachineHost
from tests.support.cluster_images import ORDERS, cluster, registered, with_topic
from tests.unit.server.controller.fake_quorum import PAYLOAD_BYTES_MAX, FakeQuorum
from tests.unit.server.controller.hosting import create, leading, look, settle

pytestmark = pytest.mark.real_time


async def test_an_answer_is_given_only_after_the_decision_was_committed_and_replayed() -> None:
    async with leading() as (host, quorum):
        answer = asyncio.create_task(host.submit(create("orders")))
        await settle()
        assert quorum.payloads
        assert not answer.done()
        assert host.image.topic("orders") is None
        quorum.commit()
        assert await answer == "created orders"
        assert host.image.topic("orders") is not None


async def test_an_answer_that_changes_nothing_is_given_only_by_a_controller_that_proves_to_lead() -> None:
    async with leading() as (host, quorum):
        assert await host.submit(look) == []
        assert (quorum.barriers, quorum.payloads) == (1, [])
        quorum.barrier_fails = True
        with pytest.raises(Refusal, match="NOT_CONTROLLER"):
            await host.submit(look)


async def test_commands_that_wait_together_leave_as_one_entry_and_each_sees_those_before_it() -> None:
    async with leading() as (host, quorum):
        answers = [asyncio.create_task(host.submit(create(topic))) for topic in ("a", "b", "c")]
        looked = asyncio.create_task(host.submit(look))
        await settle()
        assert len(quorum.payloads) == 1
        assert not looked.done(), "it tells of topics that are not committed"
        quorum.commit()
        assert await asyncio.gather(*answers) == ["created a", "created b", "created c"]
        assert await looked == ["a", "b", "c"]


async def test_a_refusal_that_rests_on_an_uncommitted_decision_waits_for_it() -> None:
    async with leading() as (host, quorum):
        first = asyncio.create_task(host.submit(create("orders")))
        second = asyncio.create_task(host.submit(create("orders")))
        await settle()
        assert not second.done(), "the topic does not exist yet, and perhaps never will"
        quorum.commit()
        assert await first == "created orders"
        with pytest.raises(Refusal, match="TOPIC_ALREADY_EXISTS"):
            await second


async def test_a_refusal_that_rests_on_a_decision_that_failed_is_none() -> None:
    async with leading() as (host, quorum):
        answers = [asyncio.create_task(host.submit(create("orders"))) for _ in range(2)]
        await settle()
        quorum.lose()
        refusals = await asyncio.gather(*answers, return_exceptions=True)
        assert [refusal.error_code for refusal in refusals if isinstance(refusal, Refusal)] == [
            ErrorCode.NOT_CONTROLLER,
            ErrorCode.NOT_CONTROLLER,
        ]


async def test_a_refusal_on_committed_ground_is_immediate() -> None:
    async with leading(commits_at_once=True) as (host, _):
        await host.submit(create("orders"))
        with pytest.raises(Refusal, match="TOPIC_ALREADY_EXISTS"):
            await host.submit(create("orders"))


async def test_entries_are_shared_up_to_32_kib() -> None:
    async with leading(commits_at_once=True) as (host, quorum):
        names = [f"{number:03}-{'x' * 1_000}" for number in range(100)]
        answers = await asyncio.gather(*(host.submit(create(name)) for name in names))
        assert answers == [f"created {name}" for name in names]
        sizes = [len(payload) for payload in quorum.payloads]
        assert max(sizes) <= ENTRY_BYTES_MAX
        assert len(sizes) == 4
        assert sum(len(decode_records(payload, 1)) for payload in quorum.payloads) == 100


async def test_a_command_that_is_larger_than_a_shared_entry_has_one_of_its_own() -> None:
    async with leading(commits_at_once=True) as (host, quorum):
        await asyncio.gather(*(host.submit(create(name)) for name in ("a", "b" * (ENTRY_BYTES_MAX + 1), "c")))
        assert [len(decode_records(payload, 1)) for payload in quorum.payloads] == [1, 1, 1]


async def test_a_command_that_no_entry_can_hold_is_refused_and_the_next_one_is_decided() -> None:
    async with leading(commits_at_once=True) as (host, _):
        with pytest.raises(Refusal) as refused:
            await host.submit(create("x" * PAYLOAD_BYTES_MAX))
        assert refused.value.error_code is ErrorCode.INVALID_REQUEST
        assert "split the request" in refused.value.message
        assert await host.submit(create("orders")) == "created orders"


async def test_waiting_commands_are_refused_when_leadership_is_lost() -> None:
    async with leading() as (host, quorum):
        proposed = asyncio.create_task(host.submit(create("a")))
        await settle()
        queued = asyncio.create_task(host.submit(create("b")))
        await settle()
        quorum.lose()
        for answer in (proposed, queued):
            with pytest.raises(Refusal, match="NOT_CONTROLLER"):
                await answer
        with pytest.raises(Refusal, match="NOT_CONTROLLER: this is not the active controller: controller 2 is"):
            await host.submit(create("c"))


async def test_nothing_is_decided_under_a_new_term_on_what_an_old_one_proposed() -> None:
    async with leading() as (host, quorum):
        first = asyncio.create_task(host.submit(create("orders")))
        await settle()
        quorum.lose()
        quorum.lead(2)
        with pytest.raises(Refusal, match="NOT_CONTROLLER"):
            await first
        again = asyncio.create_task(host.submit(create("orders")))
        await settle()
        quorum.commit()
        assert await again == "created orders"


@pytest.mark.parametrize("but_commits", [True, False])
async def test_after_an_unknown_outcome_the_host_catches_up_by_a_barrier_before_it_decides(but_commits: bool) -> None:
    async with leading() as (host, quorum):
        unknown = asyncio.create_task(host.submit(create("orders")))
        await settle()
        quorum.time_out(but_commits=but_commits)
        with pytest.raises(Refusal, match="NOT_CONTROLLER"):
            await unknown
        again = asyncio.create_task(host.submit(create("orders")))
        await settle()
        # If the first did commit, the second changes nothing; a barrier then confirms that this node still leads.
        assert quorum.barriers == (2 if but_commits else 1)
        if but_commits:
            with pytest.raises(Refusal, match="TOPIC_ALREADY_EXISTS"):
                await again
        else:
            quorum.commit()
            assert await again == "created orders"


async def test_while_the_barrier_fails_commands_are_refused_and_it_is_retried() -> None:
    async with leading() as (host, quorum):
        unknown = asyncio.create_task(host.submit(create("orders")))
        await settle()
        quorum.time_out(but_commits=False)
        quorum.barrier_fails = True
        refused = asyncio.create_task(host.submit(create("other")))
        for answer in (unknown, refused):
            with pytest.raises(Refusal, match="NOT_CONTROLLER"):
                await answer
        quorum.barrier_fails, quorum.commits_at_once = False, True
        assert await host.submit(create("third")) == "created third"
        assert quorum.barriers == 2


async def test_a_command_whose_caller_is_gone_is_not_decided() -> None:
    async with leading() as (host, quorum):
        first = asyncio.create_task(host.submit(create("a")))
        await settle()
        gone = asyncio.create_task(host.submit(create("b")))
        await settle()
        gone.cancel()
        await asyncio.wait([gone])
        quorum.commit()
        await first
        await settle()
        assert len(quorum.payloads) == 1
        assert not quorum.waiting


async def test_a_caller_that_goes_while_its_decision_is_proposed_spoils_nothing_for_the_others() -> None:
    async with leading() as (host, quorum):
        gone, stays = (asyncio.create_task(host.submit(create(topic))) for topic in ("a", "b"))
        await settle()
        gone.cancel()
        await settle()
        quorum.commit()
        assert await stays == "created b"
        assert host.image.topic("a") is not None


async def test_what_other_voters_decided_is_replayed_and_kept_for_those_who_follow() -> None:
    host = StateMachineHost(lambda active: None)
    quorum = FakeQuorum(host)
    host.attach(quorum)
    waiting = asyncio.create_task(host.progress(5))
    await settle()
    quorum.tell(ClusterInitialised(cluster_id="c"), gap=3)
    quorum.tell(registered(7, epoch=1))
    await waiting
    assert [entry.index for entry in host.entries.after(0) or []] == [3, 4]
    assert (host.committed_index, host.image.cluster_id) == (4, "c")
    assert host.registration_index == {BrokerId(7): 4}


def test_a_snapshot_of_a_level_beyond_its_own_support_is_not_used() -> None:
    image = cluster(1).replay([FeatureLevelSet(feature=METADATA_VERSION, level=9)])
    host = StateMachineHost(lambda active: None)
    with pytest.raises(UnsupportedFeatureLevel, match=r"the cluster is at level 9 of metadata\.version"):
        host.start_from(LoadedImage(image=image, index=4, term=2))
    assert (host.image, host.committed_index) == (EMPTY_IMAGE, 0)


def test_from_a_snapshot_on_only_later_entries_change_anything() -> None:
    before = EMPTY_IMAGE.replay([ClusterInitialised(cluster_id="c"), registered(7, epoch=1)])
    host = StateMachineHost(lambda active: None)
    host.start_from(LoadedImage(image=before, index=4, term=2))
    assert (host.committed_index, host.registration_index) == (4, {BrokerId(7): 4})
    # The quorum delivers the entries of its journal, from the first on.
    for index in (3, 4):
        host.on_committed(index, 2, b"not even looked at")
    assert host.current_image() == LoadedImage(image=before, index=4, term=2)
    quorum = FakeQuorum(host)
    quorum.index = 4
    quorum.tell(TopicCreated(topic="orders", topic_id=TopicId(uuid5(NAMESPACE_OID, "orders"))))
    assert host.image.topic("orders") is not None
    assert [entry.index for entry in host.entries.after(4) or []] == [5]
    assert host.entries.after(3) is None
    assert host.current_image().index == 5


async def test_every_follower_that_waits_is_woken_by_one_entry() -> None:
    host = StateMachineHost(lambda active: None)
    waiting = [asyncio.create_task(host.progress(5)) for _ in range(3)]
    await settle()
    FakeQuorum(host).tell(ClusterInitialised(cluster_id="c"))
    await asyncio.wait_for(asyncio.gather(*waiting), 1)


def test_an_entry_that_this_version_does_not_know_ends_the_voter() -> None:
    with pytest.raises(Corruption):
        StateMachineHost(lambda active: None).on_committed(1, 1, b"\xff\xff")


def test_leadership_is_announced_and_withdrawn() -> None:
    announced: list[bool] = []
    host = StateMachineHost(announced.append)
    host.on_leadership(3)
    assert host.active
    host.on_leadership(None)
    assert announced == [True, False]
    with pytest.raises(Refusal, match="none is known"):
        host.check_active()


async def test_elections_that_may_lose_records_are_counted_by_the_active_controller_alone() -> None:
    def change(leader: int, epoch: int) -> list[MetadataRecord]:
        made = PartitionChanged(
            topic_id=ORDERS,
            partition=0,
            isr=[BrokerId(leader)],
            leader=BrokerId(leader),
            leader_epoch=LeaderEpoch(epoch),
            partition_epoch=PartitionEpoch(epoch),
        )
        return [made]

    async with leading() as (host, _):
        host.start_from(LoadedImage(image=with_topic(cluster(1, 2, 3), [1, 2, 3], isr=[1, 2]), index=1, term=1))
        host.on_committed(2, 1, encode_records(change(2, 1)))
        assert host.unclean_elections == 0
        host.on_committed(3, 1, encode_records(change(3, 2)))
        assert host.unclean_elections == 1
        host.on_leadership(None)
        host.on_committed(4, 2, encode_records(change(1, 3)))
        assert host.unclean_elections == 1
