from __future__ import annotations

import pytest

from kraft.client import NoBrokerReachable, TransactionDescription
from kraft.client.cluster import leader_calls
from kraft.metadata.topic_names import TRANSACTIONS_TOPIC
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.describe_producers import ProducerState
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.support.client.scripted_transactions import ScriptedTransaction
from tests.unit.client.clients import admin_of


def cluster_with_transactions() -> FakeCluster:
    """Coordinators are chosen by the length of the id; broker 2 has no followers."""
    cluster = FakeCluster()
    cluster.create("orders", 3)
    cluster.scripted_transactions = {
        "payer": ScriptedTransaction(producer_id=7, start_ms=1_000, partitions=[tp("orders", 1), tp("orders")]),
        "old": ScriptedTransaction(producer_id=8, state="CompleteCommit", start_ms=500),
        "none": ScriptedTransaction(producer_id=9, state="Empty"),
    }
    return cluster


def producer(producer_id: int, start: int = -1) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=3,
        last_sequence=5,
        last_timestamp=1_000,
        coordinator_epoch=-1,
        current_txn_start_offset=start,
    )


# --- list and describe ---------------------------------------------------------------------------------------------


async def test_transactional_ids_of_all_brokers_are_listed() -> None:
    cluster = cluster_with_transactions()
    async with admin_of(cluster) as admin:
        listed = await admin.list_transactions()
        assert [(each.transactional_id, each.coordinator_id, each.producer_id, each.state) for each in listed] == [
            ("none", 2, 9, "Empty"),
            ("old", 1, 8, "CompleteCommit"),
            ("payer", 3, 7, "Ongoing"),
        ]
        for filters, expected in (
            ({"states": ["Ongoing", "Empty"]}, ["none", "payer"]),
            ({"producer_ids": [8, 9]}, ["none", "old"]),
            ({"duration_ms": 600}, ["old"]),
            ({"pattern": "p.*"}, ["payer"]),
        ):
            found = await admin.list_transactions(**filters)
            assert [each.transactional_id for each in found] == expected
        with pytest.raises(ValueError, match="'Ongoin': no such state of a transaction"):
            await admin.list_transactions(states=["Ongoin"])


async def test_a_coordinator_that_loads_is_asked_again() -> None:
    cluster = cluster_with_transactions()
    loading = Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading")
    cluster.brokers[1].refusals = {"list_transactions": loading, "describe_transactions": loading}
    async with admin_of(cluster) as admin:
        assert len(await admin.list_transactions()) == 3
        assert isinstance((await admin.describe_transactions(["old"]))["old"], TransactionDescription)


async def test_transactions_are_described_by_their_coordinators() -> None:
    cluster = cluster_with_transactions()
    async with admin_of(cluster) as admin:
        described = await admin.describe_transactions(["payer", "gone", "none"])
        assert list(described) == ["payer", "gone", "none"]
        payer, gone, none = described.values()
        assert isinstance(payer, TransactionDescription)
        assert (payer.coordinator.node_id, payer.state, payer.producer_id, payer.timeout_ms) == (
            3,
            "Ongoing",
            7,
            60_000,
        )
        assert payer.partitions == (tp("orders", 1), tp("orders"))
        assert (payer.start_ms, payer.duration_ms(3_500)) == (1_000, 2_500)
        assert isinstance(none, TransactionDescription)
        assert (none.start_ms, none.duration_ms(3_500)) == (None, None)
        assert isinstance(gone, Refusal)
        assert gone.error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


@pytest.mark.parametrize("is_refused", [False, True], ids=["seen", "not seen"])
async def test_whoever_looks_for_a_transaction_asks_for_no_coordinator_before_there_is_one(is_refused: bool) -> None:
    cluster = cluster_with_transactions()
    cluster.refused_topics = {TRANSACTIONS_TOPIC} if is_refused else set()
    # Nobody says to have the id, as if nobody had one.
    cluster.brokers[3].kill()
    async with admin_of(cluster) as admin:
        with pytest.raises(Refusal, match="payer") as raised:
            await admin.find_transaction("payer")
        codes = {False: ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, True: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert raised.value.error_code is codes[is_refused]
        assert not [each for each in cluster.calls if "find_coordinator" in each]


@pytest.mark.parametrize("is_refused", [False, True], ids=["seen", "not seen"])
async def test_a_transaction_is_found(is_refused: bool) -> None:
    cluster = cluster_with_transactions()
    cluster.create(TRANSACTIONS_TOPIC, 3)
    cluster.refused_topics = {TRANSACTIONS_TOPIC} if is_refused else set()
    async with admin_of(cluster) as admin:
        assert (await admin.find_transaction("payer")).producer_id == 7
        with pytest.raises(Refusal, match="there is no transactional id 'gone'") as raised:
            await admin.find_transaction("gone")
        assert raised.value.error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


# --- producers -----------------------------------------------------------------------------------------------------


async def test_producers_are_described_by_the_leaders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_calls, "PARTITIONS_AT_ONCE", 1)
    cluster = cluster_with_transactions()
    cluster.create("more", 3)
    cluster.scripted_producers = {tp("orders", 1): [producer(7, 4), producer(8)]}
    async with admin_of(cluster) as admin:
        asked = [tp("orders", 2), tp("orders", 1), tp("more", 1), tp("orders", 9), tp("gone")]
        found = await admin.describe_producers(asked)
        assert list(found) == asked
        assert [found[each] for each in asked[:3]] == [(), (producer(7, 4), producer(8)), ()]
        for missing, message in (
            (tp("orders", 9), "topic 'orders' has partitions 0 to 2, not 9"),
            (tp("gone"), "topic 'gone' does not exist"),
        ):
            refusal = found[missing]
            assert isinstance(refusal, Refusal)
            assert (refusal.error_code, refusal.message) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)


async def test_a_new_leader_is_looked_for() -> None:
    cluster = cluster_with_transactions()
    cluster.scripted_producers = {tp("orders", 1): [producer(7, 4)]}
    cluster.brokers[2].refusals["describe_producers"] = Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved")
    async with admin_of(cluster) as admin:
        assert await admin.describe_producers([tp("orders", 1)]) == {tp("orders", 1): (producer(7, 4),)}
        assert cluster.calls.count("broker-2:9094 describe_producers") == 2


async def test_a_partition_without_a_leader_is_an_error_of_its_own() -> None:
    cluster = cluster_with_transactions()
    cluster.move_leader("orders", 0, -1)
    cluster.brokers[2].hangs = True
    async with admin_of(cluster, default_api_timeout_ms=4_000) as admin:
        found = await admin.describe_producers([tp("orders", number) for number in range(3)])
        leaderless, hanging, described = found.values()
        assert isinstance(leaderless, Refusal)
        assert leaderless.error_code is ErrorCode.LEADER_NOT_AVAILABLE
        assert isinstance(hanging, NoBrokerReachable)
        assert "broker-2:9094" in str(hanging)
        assert described == ()


async def test_one_broker_describes_what_it_has_a_replica_of() -> None:
    cluster = cluster_with_transactions()
    cluster.scripted_producers = {tp("orders"): [producer(7, 4)]}
    async with admin_of(cluster) as admin:
        assert await admin.describe_producers([tp("orders")], broker_id=3) == {tp("orders"): (producer(7, 4),)}
        (refusal,) = (await admin.describe_producers([tp("orders")], broker_id=2)).values()
        assert isinstance(refusal, Refusal)
        assert refusal.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        with pytest.raises(Refusal, match="there is no broker 9 in service"):
            await admin.describe_producers([tp("orders")], broker_id=9)


# --- abort ---------------------------------------------------------------------------------------------------------


async def test_a_transaction_is_aborted_at_the_leader() -> None:
    cluster = cluster_with_transactions()
    cluster.scripted_producers = {tp("orders", 1): [producer(7, 4)]}
    cluster.brokers[2].refusals["abort_transaction"] = Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved")
    async with admin_of(cluster) as admin:
        await admin.abort_transaction(tp("orders", 1), 7, 3, -1)
        (after,) = cluster.scripted_producers[tp("orders", 1)]
        assert (after.current_txn_start_offset, after.coordinator_epoch) == (-1, 0)
        with pytest.raises(Refusal, match="orders-1: the epoch is not the producer's") as caught:
            await admin.abort_transaction(tp("orders", 1), 7, 2, 0)
        assert caught.value.error_code is ErrorCode.INVALID_PRODUCER_EPOCH
        with pytest.raises(Refusal, match="'gone' does not exist"):
            await admin.abort_transaction(tp("gone"), 7, 2, 0)
