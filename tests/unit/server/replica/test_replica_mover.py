from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from errno import EIO
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kraft.log.change import run_now
from kraft.log.group_commit import SyncTicket
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import LeaderEpoch, LogDirectory, Offset, TopicPartition
from kraft.replication.effects import RestartAt, TruncateTo
from kraft.runtime.disk import RealDisk
from kraft.server.loop.periods import loop_time_s
from kraft.server.replica import replica_move
from kraft.server.replica.move_directories import begin_copy
from tests.support.cluster_images import ORDERS
from tests.support.server.moving import LETTERS, Mover, WatchedDisk, settled, until_copied, written
from tests.support.server.replicas import (
    ORDERS_0,
    append_to,
    batch,
    follow,
    lead,
    leaders_batch,
    loop_ms,
    made,
    outcome,
    values_in,
    values_of,
)


@pytest.mark.parametrize("segment_bytes", [150, 1 << 20])
def test_a_replica_is_served_from_the_other_log_directory(
    mover: Mover, paths: list[LogDirectory], segment_bytes: int
) -> None:
    partition = written(mover, *LETTERS, segment_bytes=segment_bytes)
    before = partition.log

    async def scenario() -> None:
        with capture_logs() as logged:
            await mover.moved(partition, paths[1])
        assert [each["event"] for each in logged] == ["replica move started", "replica moved"]
        assert (logged[1]["moved_from"], logged[1]["directory"], logged[1]["log_end"]) == (paths[0], paths[1], 10)
        assert partition.log is not before
        assert partition.log.config == before.config
        assert (partition.log_directory, mover.places()) == (paths[1], [paths[1]])
        assert (mover.names(paths[0]), mover.names(paths[1])) == ([], ["orders-0"])
        append_to(partition, batch("k"), -1)
        mover.sync()
        assert partition.log.synced_end_offset == 11
        assert values_in(partition) == [*LETTERS, "k"]
        assert mover.checkpoints == 1

    mover.run(scenario)
    partition.close()
    assert values_in(Mover(RealDisk(), paths).open()) == [*LETTERS, "k"]


def test_state_outside_the_batches_is_moved_as_well(mover: Mover, paths: list[LogDirectory]) -> None:
    partition = mover.open(segment_bytes=200)
    lead(partition, replicas=(1,))
    append_to(partition, batch("gone", producer_id=7, sequence=0), -1)
    for value in LETTERS:
        append_to(partition, batch(value, "more"), -1)
    lead(partition, replicas=(1,), epoch=3)
    append_to(partition, batch("new", producer_id=8, sequence=0), -1)
    mover.sync()
    # Inside a batch, and in the middle of a segment.
    made(partition, partition.advance_log_start(Offset(8)))
    before = partition.log

    async def scenario() -> None:
        await mover.moved(partition, paths[1])

    mover.run(scenario)
    partition.close()
    again = Mover(RealDisk(), paths).open().log
    for after in (partition.log, again):
        assert (after.log_start_offset, after.log_end_offset) == (8, 22)
        assert after.epoch_cache.entries == before.epoch_cache.entries
        assert after.latest_epoch == 3
        assert dict(after.producers) == dict(before.producers)
        assert set(after.producers) == {7, 8}


def test_records_are_appended_while_a_replica_moves(disk: WatchedDisk, paths: list[LogDirectory]) -> None:
    with ThreadPoolExecutor(1) as thread:
        mover = Mover(disk, paths, executor=thread)
        partition = mover.open(segment_bytes=20_000)
        lead(partition, replicas=(1,))
        expected = [f"{number:05d}" for number in range(5_000)]
        for value in expected[:2_000]:
            append_to(partition, batch(value), -1)
        mover.sync()

        async def scenario() -> None:
            moving = asyncio.ensure_future(mover.moved(partition, paths[1]))
            for value in expected[2_000:]:
                append_to(partition, batch(value), -1)
                await asyncio.sleep(0)
                if value.endswith("00"):
                    mover.sync()
            await moving
            mover.sync()

        mover.run(scenario, in_real_time=True)
    assert partition.log_directory == paths[1]
    assert values_in(partition) == expected


def test_a_produce_that_waits_for_a_sync_is_answered_by_the_swap(mover: Mover, paths: list[LogDirectory]) -> None:
    partition = written(mover, "a")

    async def scenario() -> None:
        append_to(partition, batch("b"), -1)
        produced = partition.park_produce(Offset(2))
        ticket = partition.replica_log.prepare_sync()
        assert isinstance(ticket, SyncTicket)
        assert outcome(produced) is None
        await mover.moved(partition, paths[1])
        assert outcome(produced) is ErrorCode.NONE
        # What the sync of the log that is gone says, and be it that it failed, is of no interest any more.
        ticket.error, ticket.has_run = OSError(EIO, "input/output error"), True
        partition.replica_log.complete_sync(ticket)
        assert mover.failed == []
        append_to(partition, batch("c"), -1)
        mover.sync()
        assert partition.log.synced_end_offset == 3

    mover.run(scenario)


@pytest.mark.parametrize(("cut", "kept"), [(TruncateTo(offset=Offset(4)), "abcd"), (RestartAt(offset=Offset(20)), "")])
def test_a_truncation_is_repeated_on_the_copy(
    mover: Mover, paths: list[LogDirectory], cut: TruncateTo | RestartAt, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = mover.open(segment_bytes=150)
    follow(partition)
    for at, letter in enumerate(LETTERS):
        made(partition, partition.append_as_follower(leaders_batch(letter, at=at)))
        mover.sync()
    monkeypatch.setattr(replica_move, "PIECE_BYTES", 1)

    async def scenario() -> None:
        await mover.moves.move(partition, paths[1])
        move = partition.replica_log.move
        assert move is not None
        await until_copied(move, 8)
        made(partition, partition.truncate(cut))
        end = partition.log.log_end_offset
        for at, letter in enumerate("xyz", start=end):
            made(partition, partition.append_as_follower(leaders_batch(letter, at=at, epoch=1)))
            mover.sync()
        await settled(partition)
        assert partition.log_directory == paths[1]
        assert values_in(partition) == [*kept, *"xyz"]
        assert partition.log.log_start_offset == (0 if kept else 20)
        assert partition.log.latest_epoch == 1
        # It goes on following, by the log that it has now.
        assert partition.follower is not None
        position = partition.follower.next_fetch()
        assert position is not None
        assert (position.fetch_offset, position.last_fetched_epoch) == (end + 3, 1)
        made(partition, partition.append_as_follower(leaders_batch("w", at=end + 3, epoch=1)))
        mover.sync()
        assert values_in(partition) == [*kept, *"xyzw"]

    mover.run(scenario)


def test_records_that_are_deleted_before_they_are_copied_are_left_out(
    mover: Mover, paths: list[LogDirectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = written(mover, *LETTERS, segment_bytes=150, retention_ms=-1)
    monkeypatch.setattr(replica_move, "PIECE_BYTES", 1)

    async def scenario() -> None:
        await mover.moves.move(partition, paths[1])
        move = partition.replica_log.move
        assert move is not None
        await until_copied(move, 2)
        made(partition, partition.advance_log_start(Offset(7)))
        made(partition, partition.apply_retention())
        await settled(partition)
        assert partition.log_directory == paths[1]
        assert (partition.log.log_start_offset, values_in(partition)) == (7, ["h", "i", "j"])

    mover.run(scenario)


def test_a_log_that_compaction_has_left_holes_in_moves_with_them(mover: Mover, paths: list[LogDirectory]) -> None:
    partition = mover.open(segment_bytes=150)
    follow(partition)
    for at, letter in ((3, "d"), (4, "e"), (9, "j"), (10, "k"), (15, "p")):
        made(partition, partition.append_as_follower(leaders_batch(letter, at=at)))
        mover.sync()
    assert partition.log.is_sparse

    async def scenario() -> None:
        await mover.moved(partition, paths[1])

    mover.run(scenario)
    partition.close()
    for log in (partition.log, Mover(RealDisk(), paths).open().log):
        assert (log.log_start_offset, log.log_end_offset, log.is_sparse) == (0, 16, True)
    reopened = Mover(RealDisk(), paths).open()
    assert values_of(reopened.replica_log.read(Offset(5), 1, Offset(16), at_least_one=True)) == ["j"]


def test_an_empty_replica_moves(mover: Mover, paths: list[LogDirectory]) -> None:
    partition = written(mover)

    async def scenario() -> None:
        await mover.moved(partition, paths[1])
        assert (partition.log_directory, values_in(partition)) == (paths[1], [])

    mover.run(scenario)


def test_a_replica_that_moves_back_forth_and_back_again_is_the_same(mover: Mover, paths: list[LogDirectory]) -> None:
    partition = written(mover, *LETTERS)

    async def scenario() -> None:
        for target in (1, 2, 0, 1, 0):
            await mover.moved(partition, paths[target])
            assert mover.places() == [paths[target]]
        assert values_in(partition) == [*LETTERS]

    mover.run(scenario)
    assert [mover.names(path) for path in paths] == [["orders-0"], [], []]


def test_the_swap_waits_for_a_compaction_that_writes_beside_the_log(mover: Mover, paths: list[LogDirectory]) -> None:
    partition = written(mover, *LETTERS)

    async def scenario() -> None:
        with partition.replica_log.files_in_use:
            await mover.moves.move(partition, paths[1])
            await asyncio.sleep(10)
            append_to(partition, batch("k"), -1)
            assert partition.log_directory == paths[0]
        await settled(partition)

    mover.run(scenario)
    assert (partition.log_directory, values_in(partition)) == (paths[1], [*LETTERS, "k"])


def test_more_than_a_little_is_never_copied_in_the_swap(
    mover: Mover, paths: list[LogDirectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = written(mover, *LETTERS)
    monkeypatch.setattr(replica_move, "LAST_BYTES_MAX", 100)
    monkeypatch.setattr(replica_move, "PIECE_BYTES", 100)

    async def scenario() -> None:
        with partition.replica_log.files_in_use:
            await mover.moves.move(partition, paths[1])
            await asyncio.sleep(1)
            move = partition.replica_log.move
            assert move is not None
            assert move.log_end_offset == 10
            for letter in "klmnopqr":
                append_to(partition, batch(letter), -1)
        read = partition.replica_log.read
        assert not move.catches_up(partition.log, lambda start, size: read(start, size, Offset(18), True))
        await settled(partition)

    mover.run(scenario)
    assert (partition.log_directory, values_in(partition)) == (paths[1], [*LETTERS, *"klmnopqr"])


# --- other wishes ----------------------------------------------------------------------------------------------------


def test_a_move_to_the_current_directory_cancels_the_earlier_move(mover: Mover, paths: list[LogDirectory]) -> None:
    partition = written(mover, *LETTERS)

    async def scenario() -> None:
        await mover.moves.move(partition, paths[0])
        assert partition.replica_log.move is None
        mover.is_full = True
        await mover.moves.move(partition, paths[1])
        await asyncio.sleep(0.1)
        assert len(mover.names(paths[1])) == 1
        await mover.moves.move(partition, paths[0])
        assert partition.replica_log.move is None
        await asyncio.sleep(2)
        assert mover.names(paths[1]) == []

    mover.run(scenario)
    assert (partition.log_directory, values_in(partition)) == (paths[0], [*LETTERS])


def test_a_move_to_another_directory_replaces_the_first(mover: Mover, paths: list[LogDirectory]) -> None:
    partition = written(mover, *LETTERS)

    async def scenario() -> None:
        mover.is_full = True
        await mover.moves.move(partition, paths[1])
        first = partition.replica_log.move
        await mover.moves.move(partition, paths[1])
        assert partition.replica_log.move is first, "it is on its way"
        await asyncio.sleep(0.1)
        await mover.moves.move(partition, paths[2])
        mover.is_full = False
        await settled(partition)
        await asyncio.sleep(2)
        assert [mover.names(path) for path in paths] == [[], [], ["orders-0"]]

    mover.run(scenario)
    assert values_in(partition) == [*LETTERS]


def test_no_move_is_begun_while_a_log_directory_is_offline(disk: WatchedDisk, paths: list[LogDirectory]) -> None:
    mover = Mover(disk, paths, offline=[paths[2]])
    partition = written(mover, "a")

    async def scenario() -> None:
        with pytest.raises(Refusal, match=f"no replica can be moved while {paths[2]} is offline") as refusal:
            await mover.moves.move(partition, paths[1])
        assert refusal.value.error_code is ErrorCode.KAFKA_STORAGE_ERROR
        await mover.moves.move(partition, paths[0])

    mover.run(scenario)


def test_a_name_that_is_too_long_for_a_copy_is_refused(mover: Mover, paths: list[LogDirectory]) -> None:
    partition = mover.open(TopicPartition("x" * 220, 0))

    async def scenario() -> None:
        with pytest.raises(Refusal, match="is too long for a move") as refusal:
            await mover.moves.move(partition, paths[1])
        assert refusal.value.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION

    mover.run(scenario)


# --- restarts --------------------------------------------------------------------------------------------------------


def test_an_unfinished_move_is_begun_again_by_the_next_process(
    mover: Mover, paths: list[LogDirectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = written(mover, *LETTERS, segment_bytes=150)

    async def scenario() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(replica_move, "PIECE_BYTES", 1)
            await mover.moves.move(partition, paths[1])
            move = partition.replica_log.move
            assert move is not None
            await until_copied(move, 5)

    mover.run(scenario)
    partition.close()
    assert [len(mover.names(path)) for path in paths] == [1, 1, 0]

    again = Mover(RealDisk(), paths)
    reopened = again.open()
    lead(reopened, replicas=(1,))
    # Meanwhile the log may be another one: nothing of the old copy counts.
    reopened.log.truncate_to(Offset(3))
    reopened.log.append_as_leader(batch("x"), LeaderEpoch(5), 0, run_now)

    async def after_the_restart() -> None:
        await asyncio.sleep(0.1)
        await settled(reopened)

    again.run(after_the_restart)
    assert (reopened.log_directory, values_in(reopened)) == (paths[1], ["a", "b", "c", "x"])
    assert [again.names(path) for path in paths] == [[], ["orders-0"], []]


def test_a_copy_without_a_replica_is_removed_at_the_start(mover: Mover, paths: list[LogDirectory]) -> None:
    begin_copy(RealDisk(), paths[1], TopicPartition("gone", 3), ORDERS, "0" * 31 + "a")
    begin_copy(RealDisk(), paths[0], ORDERS_0, ORDERS, "0" * 31 + "b")
    begin_copy(RealDisk(), paths[2], ORDERS_0, ORDERS, "0" * 31 + "c")
    Path(paths[2], f"orders-0.{'0' * 31}c-future", "partition.metadata").unlink()
    partition = written(mover, "a")

    async def scenario() -> None:
        await asyncio.sleep(0.1)
        assert partition.replica_log.move is None

    mover.run(scenario)
    assert [mover.names(path) for path in paths] == [["orders-0"], [], []]


def test_a_replica_that_is_not_here_yet_is_created_in_the_preferred_directory(
    mover: Mover, paths: list[LogDirectory]
) -> None:
    async def scenario() -> None:
        mover.moves.prefer(TopicPartition("orders", 9), paths[2])

    mover.run(scenario)
    mover.paths = (paths[2],)
    assert mover.open(TopicPartition("orders", 9)).log_directory == paths[2]


# --- the throttle --------------------------------------------------------------------------------------------


def test_moves_keep_to_the_rate_which_may_change_meanwhile(
    mover: Mover, paths: list[LogDirectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_move, "PIECE_BYTES", 50)
    monkeypatch.setattr(replica_move, "LAST_BYTES_MAX", 50)
    partition = written(mover, *LETTERS)
    size_bytes = partition.log.size_bytes
    rate = size_bytes // 10
    mover.throttle.set_rate(rate, 0)

    async def scenario() -> None:
        began_s = loop_time_s()
        await mover.moves.move(partition, paths[1])
        await asyncio.sleep(4)
        move = partition.replica_log.move
        assert move is not None
        # The burst of a second, and one batch above it.
        assert 4 <= move.size_bytes / rate <= 6.1
        mover.throttle.set_rate(10 * rate, loop_ms())
        await settled(partition)
        assert partition.log_directory == paths[1]
        assert loop_time_s() - began_s <= 6

    mover.run(scenario)


def test_a_move_that_is_stopped_by_its_rate_is_cancelled_at_once_and_goes_on_with_another(
    mover: Mover, paths: list[LogDirectory]
) -> None:
    partition = written(mover, *LETTERS)
    mover.throttle.set_rate(0, 0)

    async def scenario() -> None:
        await mover.moves.move(partition, paths[1])
        await asyncio.sleep(60)
        assert mover.places() == [paths[0]]
        assert len(mover.names(paths[1])) == 1
        await mover.moves.move(partition, paths[0])
        await asyncio.sleep(1)
        assert mover.names(paths[1]) == []
        await mover.moves.move(partition, paths[1])
        mover.throttle.set_rate(1_000, loop_ms())
        await settled(partition)
        assert partition.log_directory == paths[1]

    mover.run(scenario)
