from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraft.log.transactions.open_transactions import OpenTransactions
from kraft.model.ids import Offset


def test_the_oldest_undecided_transaction_is_unstable() -> None:
    open_transactions = OpenTransactions([(8, Offset(20)), (7, Offset(10))])
    assert (open_transactions.first_undecided, open_transactions.first_unstable()) == (10, 10)


def test_a_decided_transaction_is_unstable_until_its_marker_is_replicated() -> None:
    open_transactions = OpenTransactions([(7, Offset(10))])
    open_transactions.decide(7, Offset(15))
    open_transactions.replicate(Offset(15))
    assert (open_transactions.first_undecided, open_transactions.first_unstable()) == (None, 10)
    open_transactions.replicate(Offset(16))
    assert open_transactions.first_unstable() is None


def test_a_rebuilt_state_keeps_what_is_not_replicated_and_not_truncated() -> None:
    before = OpenTransactions([(7, Offset(10)), (8, Offset(11))])
    before.decide(7, Offset(15))
    before.decide(8, Offset(16))
    after = OpenTransactions([(8, Offset(11))])
    after.take_unreplicated(before, log_end=Offset(16))
    after.replicate(Offset(15))
    assert after.first_unstable() == 10
    after.replicate(Offset(16))
    assert after.first_unstable() == 11


@given(st.lists(st.tuples(st.sampled_from(["begin", "decide", "replicate"]), st.integers(0, 3), st.integers(0, 6))))
def test_it_holds_back_what_a_plain_list_holds_back(steps: list[tuple[str, int, int]]) -> None:
    open_transactions = OpenTransactions()
    undecided: dict[int, int] = {}
    unreplicated: list[tuple[int, int]] = []
    high_watermark = 0
    for offset, (step, producer_id, ahead) in enumerate(steps):
        match step:
            case "begin" if producer_id not in undecided:
                open_transactions.begin(producer_id, Offset(offset))
                undecided[producer_id] = offset
            case "decide" if producer_id in undecided:
                open_transactions.decide(producer_id, Offset(offset))
                unreplicated.append((undecided.pop(producer_id), offset))
            case "replicate":
                high_watermark = min(offset, high_watermark + ahead)
                open_transactions.replicate(Offset(high_watermark))
            case _:
                pass
        held = [*undecided.values(), *(first for first, marker in unreplicated if marker >= high_watermark)]
        assert open_transactions.first_unstable() == min(held, default=None)
        assert open_transactions.first_undecided == min(undecided.values(), default=None)
