from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraft.client.sans_io.batches import decode_columns
from kraft.log.format.record_batch import build_batch, read_header, split
from kraft.log.format.record_codec import Record
from kraft.model.fetch import AbortedTransaction
from tests.support.client.fake_cluster import tp
from tests.support.client.fake_partition import FakePartition


class Log:
    """A partition to which producers write records, with and without transactions; their values are the offsets."""

    def __init__(self) -> None:
        self.partition = FakePartition(leader_id=1)

    def write(self, producer_id: int = -1, *, transactional: bool = False) -> int:
        offset = self.partition.end_offset
        record = Record(-1, 0, None, b"%d" % offset)
        batch = build_batch([record], producer_id=producer_id, producer_epoch=0, transactional=transactional)
        if transactional:
            self.partition.open_transactions.setdefault(producer_id, offset)
        self.partition._store(batch)
        return offset

    def end(self, producer_id: int, *, commit: bool) -> None:
        self.partition.append_marker(producer_id, 0, commit=commit)

    def visible(self, start: int = 0) -> list[int]:
        """Return the offsets that a reader of committed records sees, who fetches from `start` on."""
        records = self.partition.read(start, 1 << 20, self.partition.last_stable_offset)
        aborted = self.partition.aborted_from(start)
        parts = list(decode_columns(tp("orders"), records, start, aborted=aborted))
        if parts:
            assert parts[-1].next_offset == self.partition.last_stable_offset, "the position passes what is not seen"
        return [offset for part in parts for offset in part.columns.offsets]


def test_records_of_an_aborted_transaction_are_left_out_up_to_its_marker() -> None:
    log = Log()
    log.write(7, transactional=True)
    log.write(7, transactional=True)
    log.end(7, commit=False)
    kept = log.write(7, transactional=True)
    log.end(7, commit=True)
    assert log.visible() == [kept]


def test_transactions_of_other_producers_between_are_kept() -> None:
    log = Log()
    log.write(7, transactional=True)
    others = [log.write(8, transactional=True), log.write(), log.write(9)]
    log.write(7, transactional=True)
    log.end(8, commit=True)
    log.write(7, transactional=True)
    log.end(7, commit=False)
    assert log.visible() == others


def test_a_fetch_in_the_middle_of_an_aborted_transaction_leaves_the_rest_out() -> None:
    log = Log()
    log.write(7, transactional=True)
    middle = log.write(7, transactional=True)
    log.write(7, transactional=True)
    log.end(7, commit=False)
    kept = log.write(7, transactional=True)
    log.end(7, commit=True)
    assert log.visible(middle) == [kept]


def test_a_response_without_anything_visible_moves_the_position_on() -> None:
    log = Log()
    log.write(7, transactional=True)
    log.end(7, commit=False)
    assert log.visible() == []
    assert log.visible(1) == []


def test_what_a_producer_wrote_without_a_transaction_is_kept() -> None:
    log = Log()
    log.write(7, transactional=True)
    plain = log.write(7)
    log.end(7, commit=False)
    assert log.visible() == [plain]


STEPS = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from(["write", "write", "plain", "commit", "abort"])), max_size=40
)


@given(STEPS, st.integers(0, 40))
def test_exactly_the_committed_records_are_seen_wherever_a_fetch_begins(
    steps: list[tuple[int, str]], start: int
) -> None:
    log = Log()
    open_offsets: dict[int, list[int]] = {1: [], 2: [], 3: []}
    committed: list[int] = []
    for producer_id, step in steps:
        match step:
            case "write":
                open_offsets[producer_id].append(log.write(producer_id, transactional=True))
            case "plain":
                committed.append(log.write())
            case _:
                log.end(producer_id, commit=step == "commit")
                committed += open_offsets[producer_id] if step == "commit" else []
                open_offsets[producer_id] = []
    stable = log.partition.last_stable_offset
    start = min(start, stable)
    assert log.visible(start) == sorted(each for each in committed if start <= each < stable)


def test_the_list_may_name_a_producer_twice() -> None:
    log = Log()
    for _ in range(2):
        log.write(7, transactional=True)
        log.end(7, commit=False)
    assert [each.first_offset for each in log.partition.aborted_from(0)] == [0, 2]
    assert log.visible() == []


def test_a_transaction_without_a_batch_in_the_response_changes_nothing() -> None:
    log = Log()
    kept = log.write(7, transactional=True)
    log.end(7, commit=True)
    records = log.partition.read(0, 1 << 20)
    aborted = [AbortedTransaction(producer_id=7, first_offset=100)]
    parts = decode_columns(tp("orders"), records, 0, aborted=aborted)
    assert [offset for part in parts for offset in part.columns.offsets] == [kept]
    assert [read_header(batch).is_control for _, batch in split(records)] == [False, True]
