"""A decision of several entries is one transaction of the metadata: all of it counts, or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from uuid import NAMESPACE_OID, uuid5

import pytest

from kraft.metadata.decision import Decision, RecordsOnDemand
from kraft.metadata.features import METADATA_VERSION, SETTINGS_AS_METADATA
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import (
    FeatureLevelSet,
    MetadataRecord,
    MetadataTransactionAborted,
    MetadataTransactionBegun,
    MetadataTransactionEnded,
    TopicConfigSet,
    TopicCreated,
)
from kraft.model.errors import Refusal
from kraft.model.ids import TopicId
from kraft.rpc.metadata_codec import decode_records
from kraft.server.controller.decided_entries import ENTRY_BYTES_MAX
from kraft.server.controller.state_machine_host import StateMachineHost
from tests.unit.server.controller.fake_quorum import PAYLOAD_BYTES_MAX, FakeQuorum
from tests.unit.server.controller.hosting import create, leading, settle

pytestmark = pytest.mark.real_time

CONFIGS = 3_000


def create_large(topic: str, *, value: str = "1") -> Callable[[MetadataImage], Decision[str]]:
    """A topic with more records than one entry holds."""

    def decide(image: MetadataImage) -> Decision[str]:
        created = create(topic)(image)
        topic_id = TopicId(uuid5(NAMESPACE_OID, topic))
        configs = [TopicConfigSet(topic_id=topic_id, key=f"key-{number}", value=value) for number in range(CONFIGS)]
        return Decision(records=RecordsOnDemand([*created.records, *configs]), response=created.response)

    return decide


def split(quorum: FakeQuorum) -> None:
    """Every node of the cluster knows transactions."""
    quorum.tell(FeatureLevelSet(feature=METADATA_VERSION, level=SETTINGS_AS_METADATA))


def decoded(quorum: FakeQuorum) -> list[list[MetadataRecord]]:
    return [decode_records(payload, 1) for payload in quorum.payloads]


async def answered(answer: asyncio.Task[str], quorum: FakeQuorum) -> str:
    """Commit every proposal until the response is there."""
    while not answer.done():
        await settle()
        if quorum.waiting:
            quorum.commit()
    return await answer


async def test_a_large_decision_takes_entries_of_32_kib_and_counts_when_the_last_is_committed() -> None:
    async with leading() as (host, quorum):
        split(quorum)
        before = host.current_image()
        answer = asyncio.create_task(host.submit(create_large("orders")))
        while len(quorum.payloads) < 3:
            await settle()
            assert host.current_image() == before, "a snapshot has nothing of it"
            assert not answer.done()
            if len(quorum.payloads) < 3:
                quorum.commit()
        assert await answered(answer, quorum) == "created orders"
        assert len(host.image.topics[TopicId(uuid5(NAMESPACE_OID, "orders"))].configs) == CONFIGS
        assert host.committed_index == quorum.index
        entries = decoded(quorum)
        assert len(entries) > 3
        assert max(map(len, quorum.payloads)) <= ENTRY_BYTES_MAX + 16
        assert (entries[0][0], entries[-1][-1]) == (MetadataTransactionBegun(), MetadataTransactionEnded())
        assert [len(entry.payload) for entry in host.entries.after(1) or []] == list(map(len, quorum.payloads))


async def test_commands_before_and_after_a_large_one_keep_their_order() -> None:
    async with leading(commits_at_once=True) as (host, quorum):
        split(quorum)
        commands = [create("a"), create_large("b"), create("b"), create("c")]
        answers = await asyncio.gather(*(host.submit(decide) for decide in commands), return_exceptions=True)
        assert answers[:2] == ["created a", "created b"]
        assert isinstance(answers[2], Refusal)
        assert answers[3] == "created c"
        assert [type(record) for record in decoded(quorum)[0]] == [TopicCreated]
        assert sorted(host.image.topic_ids) == ["a", "b", "c"]


async def test_while_some_node_would_not_know_transactions_one_entry_holds_everything() -> None:
    async with leading(commits_at_once=True) as (host, quorum):
        assert await host.submit(create_large("orders")) == "created orders"
        assert [len(entry) for entry in decoded(quorum)] == [CONFIGS + 1]


async def test_a_new_controller_aborts_the_unfinished_transaction_of_its_predecessor() -> None:
    host = StateMachineHost(lambda active: None)
    quorum = FakeQuorum(host, commits_at_once=True)
    host.attach(quorum)
    split(quorum)
    quorum.tell(
        MetadataTransactionBegun(), TopicCreated(topic="orders", topic_id=TopicId(uuid5(NAMESPACE_OID, "orders")))
    )
    assert (host.committed_index, host.image.topic("orders")) == (1, None)
    quorum.lead(2)
    running = asyncio.create_task(host.run())
    await settle()
    assert decoded(quorum) == [[MetadataTransactionAborted()]]
    assert host.committed_index == quorum.index
    assert await host.submit(create("orders")) == "created orders"
    running.cancel()
    await asyncio.wait([running])


@pytest.mark.parametrize("but_commits", [True, False])
async def test_a_transaction_whose_entry_has_an_unknown_outcome_is_aborted_by_its_author(but_commits: bool) -> None:
    async with leading() as (host, quorum):
        split(quorum)
        answer = asyncio.create_task(host.submit(create_large("orders")))
        await settle()
        quorum.commit()
        await settle()
        quorum.time_out(but_commits=but_commits)
        with pytest.raises(Refusal, match="NOT_CONTROLLER"):
            await answer
        again = asyncio.create_task(host.submit(create("orders")))
        assert await answered(again, quorum) == "created orders"
        assert [MetadataTransactionAborted()] in decoded(quorum)
        assert host.image.topics[TopicId(uuid5(NAMESPACE_OID, "orders"))].configs == {}


async def test_a_transaction_with_a_record_that_no_entry_can_hold_is_aborted_without_another_command() -> None:
    async with leading(commits_at_once=True) as (host, quorum):
        split(quorum)

        def decide(image: MetadataImage) -> Decision[str]:
            records = [*create_large("orders")(image).records, *create("x" * PAYLOAD_BYTES_MAX)(image).records]
            return Decision(records=records, response="")

        with pytest.raises(Refusal, match="split the request"):
            await host.submit(decide)
        async with asyncio.timeout(5):
            while decode_records(quorum.payloads[-1], 1) != [MetadataTransactionAborted()]:
                await host.progress(0.1)
        assert host.committed_index == quorum.index
        assert host.image.topic("orders") is None


async def test_other_tasks_have_their_turn_while_a_large_decision_is_made() -> None:
    async with leading(commits_at_once=True) as (host, quorum):
        split(quorum)
        seen: list[int] = []

        def decided() -> Iterator[MetadataRecord]:
            for number in range(5_000):
                seen.append(number)
                yield TopicCreated(topic=f"{number}", topic_id=TopicId(uuid5(NAMESPACE_OID, str(number))))

        records = RecordsOnDemand(decided())
        answer = asyncio.create_task(host.submit(lambda image: Decision(records=records, response="done")))
        turns = set()
        while not answer.done():
            await asyncio.sleep(0)
            turns.add(len(seen))
        assert await answer == "done"
        assert len(turns) >= len(quorum.payloads) - 1 > 3
