from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraft.tls.unsent import ENCRYPTED_AT_ONCE_BYTES, RECORD_DATA_BYTES, UnsentPieces


@given(st.lists(st.sampled_from([1, 100, RECORD_DATA_BYTES - 1, RECORD_DATA_BYTES, 3 * ENCRYPTED_AT_ONCE_BYTES + 7])))
def test_all_bytes_come_out_in_their_order_in_pieces_of_bounded_size(sizes: list[int]) -> None:
    unsent = UnsentPieces()
    written = [bytes((number % 256,)) * size for number, size in enumerate(sizes)]
    unsent.extend(written)
    assert unsent.size_bytes == sum(sizes)
    taken = []
    while unsent.size_bytes:
        taken.append(bytes(unsent.take()))
        assert 0 < len(taken[-1]) <= ENCRYPTED_AT_ONCE_BYTES
    assert b"".join(taken) == b"".join(written)


def test_small_pieces_come_together_up_to_a_full_record() -> None:
    unsent = UnsentPieces()
    unsent.extend([bytes(RECORD_DATA_BYTES // 4)] * 6)
    assert [len(unsent.take()) for _ in range(2)] == [RECORD_DATA_BYTES, RECORD_DATA_BYTES // 2]


def test_nothing_is_left_after_clear() -> None:
    unsent = UnsentPieces()
    unsent.extend([b"data"])
    unsent.clear()
    assert unsent.size_bytes == 0
