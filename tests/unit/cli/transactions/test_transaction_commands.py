"""`kraft transactions` from arguments to what it prints, against a fake cluster."""

from __future__ import annotations

import json
import time

import pytest

from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.describe_producers import ProducerState
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.support.client.scripted_transactions import ScriptedTransaction
from tests.unit.cli.shell import Shell

O0, O1 = tp("orders", 0), tp("orders", 1)
MINUTE_MS = 60_000


def now_ms() -> int:
    return int(time.time() * 1_000)


def producer(producer_id: int, start: int = -1, age_ms: int = 20 * MINUTE_MS) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=3,
        last_sequence=5,
        last_timestamp=now_ms() - age_ms,
        coordinator_epoch=-1,
        current_txn_start_offset=start,
    )


@pytest.fixture(autouse=True)
def transactions(cluster: FakeCluster) -> None:
    """In `orders`, producer ids 7 and 8 are known to coordinators; 7 has partition 0 in its transaction, 8 has none."""
    cluster.create("orders", partitions=3)
    cluster.create("users")
    cluster.scripted_transactions = {
        "payer": ScriptedTransaction(producer_id=7, start_ms=now_ms() - 2 * MINUTE_MS, partitions=[O0]),
        "old": ScriptedTransaction(producer_id=8, producer_epoch=2, state="CompleteCommit", start_ms=1_000),
        "new one": ScriptedTransaction(producer_id=9, state="Empty"),
    }


def cells(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines()]


# --- list and describe ---------------------------------------------------------------------------------------------


def test_transactional_ids_are_listed_in_kafkas_columns(kraft: Shell) -> None:
    assert kraft.succeed("transactions", "list") == (
        "TransactionalId  Coordinator  ProducerId  TransactionState\n"
        "new one          2            9           Empty\n"
        "old              1            8           CompleteCommit\n"
        "payer            3            7           Ongoing\n"
    )
    for options, expected in (
        (("--state", "ongoing,EMPTY"), ["new one", "payer"]),
        (("--duration-filter", "1001"), ["old"]),
        (("--pattern", "[e-p]+"), []),
        (("--transactional-id-pattern", "[d-o]+"), ["old"]),
        (("--producer-id", "7", "--producer-id", "8", "--state", "Ongoing"), ["payer"]),
    ):
        listed = json.loads(kraft.succeed("transactions", "list", *options, "--output", "json"))
        assert [each["transactional_id"] for each in listed] == expected
    (payer,) = json.loads(kraft.succeed("transactions", "list", "--state", "Ongoing", "--output", "json"))
    assert payer == {"transactional_id": "payer", "coordinator_id": 3, "producer_id": 7, "state": "Ongoing"}


def test_a_state_that_does_not_exist_is_a_usage_error(kraft: Shell) -> None:
    assert kraft.run("transactions", "list", "--state", "Ongoin") == 2
    assert "'Ongoin' is not one of Empty, Ongoing, " in kraft.err


def test_transactions_are_described_in_kafkas_columns(kraft: Shell) -> None:
    titles, payer, old, new = cells(
        kraft.succeed("transactions", "describe", "payer", "--transactional-id", "old", "--transactional-id", "new one")
    )
    assert titles == [
        *("CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState"),
        *("TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions"),
        "Duration(s)",
    ]
    assert (payer[:6], payer[8]) == (["3", "payer", "7", "0", "Ongoing", "60000"], "orders-0")
    assert int(payer[7]) >= 2 * MINUTE_MS
    assert int(payer[9]) >= 120
    assert (old[:7], old[8:]) == (["1", "old", "8", "2", "CompleteCommit", "60000", "1000"], ["None", "None"])
    assert new[1:] == ["new", "one", "9", "0", "Empty", "60000", "None", "None", "None", "None"]


def test_an_id_that_does_not_exist_is_named_after_the_others(kraft: Shell) -> None:
    assert kraft.run("transactions", "describe", "gone", "payer", "--bootstrap-server", "broker-1:9094") == 1
    assert "payer" in kraft.out
    assert kraft.err == "kraft: TRANSACTIONAL_ID_NOT_FOUND: there is no transactional id 'gone'\n"
    assert kraft.run("transactions", "describe") == 2
    assert "no transactional id is given: name one" in kraft.err


def test_a_description_as_json(kraft: Shell) -> None:
    (described,) = json.loads(kraft.succeed("transactions", "describe", "payer", "--output", "json"))
    assert described.pop("duration_seconds") >= 120
    assert described.pop("start_ms") <= now_ms() - 2 * MINUTE_MS
    assert described == {
        "transactional_id": "payer",
        "coordinator": {"broker_id": 3, "host": "broker-3", "port": 9094},
        "producer_id": 7,
        "producer_epoch": 0,
        "state": "Ongoing",
        "timeout_ms": 60_000,
        "partitions": [{"topic": "orders", "partition": 0}],
    }


# --- producers -----------------------------------------------------------------------------------------------------


def test_producers_are_described_in_kafkas_columns(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.scripted_producers[O0] = [producer(7, 4), producer(8)]
    arguments = ("transactions", "describe-producers", "--topic", "orders", "--partition", "0")
    titles, first, second = cells(kraft.succeed(*arguments))
    assert titles == [
        *("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp"),
        *("CurrentTransactionStartOffset", "Age(s)"),
    ]
    assert (first[:4], first[5]) == (["7", "3", "-1", "5"], "4")
    assert int(first[6]) >= 1_200
    assert second[5] == "None"
    described = json.loads(kraft.succeed(*arguments, "--broker-id", "3", "--output", "json"))
    assert [each["transaction_start_offset"] for each in described] == [4, None]
    assert kraft.fail(*arguments, "--broker-id", "2") == "kraft: NOT_LEADER_OR_FOLLOWER: NOT_LEADER_OR_FOLLOWER\n"


# --- hanging transactions ------------------------------------------------------------------------------------------


def hanging(kraft: Shell, *options: str) -> list[list[str]]:
    return [row[:6] + row[8:] for row in cells(kraft.succeed("transactions", "find-hanging", *options))[1:]]


def test_open_transactions_that_do_not_hang_are_counted(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.scripted_producers = {O0: [producer(5, 3, age_ms=0), producer(8)]}
    assert hanging(kraft) == []
    assert kraft.err == "Open: 1 transaction, of which none hangs: see kraft transactions list --state Ongoing\n"


def test_hanging_transactions_are_those_that_no_coordinator_has(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.scripted_producers = {
        O0: [producer(6, 9), producer(7, 4), producer(8)],
        O1: [producer(8, 2), producer(7, 1), producer(5, 3, age_ms=0)],
        tp("users"): [producer(4, 0)],
    }
    titles = cells(kraft.succeed("transactions", "find-hanging"))[0]
    assert titles == [
        *("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp"),
        *("Duration(min)", "Duration(s)", "HoldsLastStableOffset", "TransactionalId"),
    ]
    rows = hanging(kraft)
    assert [row[:6] + row[7:] for row in rows] == [
        ["orders", "0", "6", "3", "-1", "9", "false", "None"],
        ["orders", "1", "7", "3", "-1", "1", "true", "payer"],
        ["orders", "1", "8", "3", "-1", "2", "false", "old"],
        ["users", "0", "4", "3", "-1", "0", "true", "None"],
    ]
    assert all(int(row[6]) >= 1_200 for row in rows)
    assert kraft.err.splitlines()[-1] == (
        "To abort it: kraft transactions abort --topic users --partition 0 --start-offset 0 --execute "
        "--bootstrap-server broker-1:9094,broker-2:9094"
    )
    assert len(kraft.err.splitlines()) == 4
    assert [row[0] for row in hanging(kraft, "users")] == ["users"]
    assert [row[2] for row in hanging(kraft, "orders", "--partition", "1")] == ["7", "8"]
    assert hanging(kraft, "--max-transaction-timeout", "21") == []
    assert [row[0] for row in hanging(kraft, "--broker-id", "1")] == ["orders", "orders", "orders", "users"]


def test_a_transaction_that_ends_during_the_search_does_not_hang(
    kraft: Shell, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kraft.health import hanging as module

    cluster.scripted_producers = {O0: [producer(6, 9)]}
    before = module.hanging_of

    def ends(*arguments: object) -> object:
        found = before(*arguments)  # type: ignore[arg-type]  # As it is called.
        cluster.scripted_producers = {O0: [producer(6)]}
        return found

    monkeypatch.setattr(module, "hanging_of", ends)
    assert hanging(kraft) == []


def test_partitions_that_cannot_be_searched_are_counted(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.scripted_producers = {O1: [producer(6, 9)]}
    cluster.move_leader("orders", 0, -1)
    arguments = ("transactions", "find-hanging", "--bootstrap-server", "broker-1:9094", "--timeout-ms", "500")
    assert kraft.run(*arguments, "--output", "json") == 1
    (found,) = json.loads(kraft.out)
    assert found.pop("duration_seconds") >= 1_200
    assert found.pop("last_timestamp_ms") <= now_ms() - 20 * MINUTE_MS
    assert found == {
        "topic": "orders",
        "partition": 1,
        "producer_id": 6,
        "producer_epoch": 3,
        "coordinator_epoch": -1,
        "start_offset": 9,
        "holds_last_stable_offset": True,
        "transactional_id": None,
    }
    assert kraft.err == (
        "kraft: 1 partition could not be searched; the first error is: LEADER_NOT_AVAILABLE: orders-0 has no leader\n"
    )


def test_a_partition_needs_a_topic(kraft: Shell) -> None:
    assert kraft.run("transactions", "find-hanging", "--partition", "1") == 2
    assert "needs a topic: name one" in kraft.err


# --- abort ---------------------------------------------------------------------------------------------------------

ABORT = ("transactions", "abort", "--topic", "orders", "--partition", "0")


def test_a_hanging_transaction_is_shown_and_then_aborted(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.scripted_producers = {O0: [producer(8, 2), producer(6, 9)]}
    (row,) = cells(kraft.succeed(*ABORT, "--start-offset", "9"))[1:]
    assert (row[:6], row[9:]) == (["orders", "0", "6", "3", "-1", "9"], ["false", "None"])
    assert kraft.err == "Dry run: nothing was changed. Add --execute to abort this transaction.\n"
    shown = json.loads(kraft.succeed(*ABORT, "--start-offset", "9", "--execute", "--output", "json"))
    assert (shown["executed"], shown["hanging"], shown["producer_id"]) == (True, True, 6)
    assert kraft.err == "Aborted in orders-0.\n"
    after = cluster.scripted_producers[O0][1]
    assert (after.current_txn_start_offset, after.producer_epoch, after.coordinator_epoch) == (-1, 3, 0)
    error = kraft.fail(*ABORT, "--start-offset", "9")
    assert error.startswith("kraft: no open transaction in orders-0 begins at offset 9: `kraft transactions describe-")


def test_a_producer_is_named_with_its_epochs(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.scripted_producers = {O0: [producer(6, 9)]}
    named = ("--producer-id", "6", "--producer-epoch", "4", "--coordinator-epoch", "2")
    kraft.succeed(*ABORT, *named, "--execute")
    (after,) = cluster.scripted_producers[O0]
    assert (after.producer_epoch, after.coordinator_epoch) == (4, 2)
    assert "belongs to producer id 6" in kraft.fail(*ABORT, *named)


def test_a_transaction_that_its_coordinator_has_is_not_aborted(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.scripted_producers = {O0: [producer(7, 4)]}
    objection = (
        "the transaction does not hang: its coordinator, broker 3, has it as Ongoing of transactional id 'payer'"
    )
    kraft.succeed(*ABORT, "--start-offset", "4")
    # With --execute it would be refused.
    assert kraft.err == f"Warning: {objection}: its producer or its timeout ends it.\nDry run: nothing was changed.\n"
    error = kraft.fail(*ABORT, "--start-offset", "4", "--execute")
    assert error == f"kraft: {objection}: its producer or its timeout ends it\n"
    assert cluster.scripted_producers[O0][0].current_txn_start_offset == 4


def test_the_leaders_refusal_is_one_line(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.scripted_producers = {O0: [producer(6, 9)]}
    refusal = Refusal(ErrorCode.TRANSACTION_COORDINATOR_FENCED, "the marker of a later coordinator is in the log")
    cluster.brokers[1].refusals["abort_transaction"] = refusal
    assert kraft.fail(*ABORT, "--start-offset", "9", "--execute") == (
        "kraft: TRANSACTION_COORDINATOR_FENCED: orders-0: the marker of a later coordinator is in the log\n"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "exactly one is required"),
        (("--start-offset", "1", "--producer-id", "1"), "exactly one is required"),
        (("--producer-id", "1", "--coordinator-epoch", "1"), "is required with --producer-id"),
        (("--start-offset", "1", "--coordinator-epoch", "1"), "is used with --producer-id only"),
        (("--start-offset", "-1"), "--start-offset"),
    ],
)
def test_one_transaction_has_to_be_named(kraft: Shell, options: tuple[str, ...], said: str) -> None:
    assert kraft.run(*ABORT, *options) == 2
    assert said in kraft.err
    assert kraft.run("transactions", "abort", "--start-offset", "1") == 2
    assert "no topic is given: name one" in kraft.err
    assert kraft.run("transactions", "abort", "orders", "--start-offset", "1") == 2
    assert "no partition is given: name one" in kraft.err
