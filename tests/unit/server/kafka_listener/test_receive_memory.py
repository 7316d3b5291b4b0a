from __future__ import annotations

import pytest

from kraft.server.kafka_listener.receive_memory import SMALL_BYTES_MAX, SPARE_BYTES_MAX, ReceiveMemory


@pytest.mark.parametrize(
    ("size_bytes", "is_kept"),
    [(SMALL_BYTES_MAX, False), (SMALL_BYTES_MAX + 1, True), (SPARE_BYTES_MAX, True), (SPARE_BYTES_MAX + 1, False)],
)
def test_a_buffer_is_kept_for_the_next_request_unless_it_is_small_or_takes_much_memory(
    size_bytes: int, *, is_kept: bool
) -> None:
    memory = ReceiveMemory(1 << 20)
    used = memory.buffer(size_bytes)
    memory.reuse(used)
    assert (memory.buffer(size_bytes).obj is used.obj) == is_kept
    assert memory.buffer(size_bytes).obj is not used.obj, "it is given to one request at a time"
