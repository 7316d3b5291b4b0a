"""docs/mirror.md: a mirror for each data centre, and buffers of sockets over long lines."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kraft.mirror.clients import FETCH_BYTES

PAGE: Final = " ".join((Path(__file__).parents[3] / "docs" / "mirror.md").read_text().split())
_MIB: Final = 1024 * 1024


def test_the_page_advises_a_mirror_for_each_data_centre_and_sizes_sockets_by_rate_times_delay() -> None:
    assert "One cluster for each data centre, and a mirror between them, beats one cluster stretched over both" in PAGE
    on_the_way_bytes = 1e9 / 8 * 0.1
    assert "`net.ipv4.tcp_rmem`, whose last value should be at least rate times delay (1 Gbit/s over 100 ms: " in PAGE
    assert f"1 Gbit/s over 100 ms: {round(on_the_way_bytes / _MIB)} MiB" in PAGE
    for key, value in FETCH_BYTES.items():
        assert f"`A.consumer.{key}` ({int(value) // _MIB} MiB)" in PAGE
