from __future__ import annotations

import pytest

from kraft.model.printable import counted, readable_size


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        ((1 << 20) - 1, "1.0 MiB"),
        (1 << 20, "1.0 MiB"),
        (1_073_741_824, "1.0 GiB"),
        (5 << 40, "5.0 TiB"),
        (5000 << 40, "5000.0 TiB"),
    ],
)
def test_a_size_has_the_largest_unit_of_which_it_is_one_or_more(size_bytes: int, text: str) -> None:
    assert readable_size(size_bytes) == text


def test_a_noun_is_plural_unless_there_is_one() -> None:
    assert [counted(count, "record") for count in (0, 1, 1_200)] == ["0 records", "1 record", "1,200 records"]
    assert [counted(count, "batch", "batches") for count in (1, 2)] == ["1 batch", "2 batches"]
