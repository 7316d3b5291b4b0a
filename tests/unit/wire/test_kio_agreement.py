"""A small turn of `python -m tests.soak.kio_agreement`: once every message in every version."""

from __future__ import annotations

from itertools import islice

import pytest

from kraft.wire.declaration import Message
from tests.soak.kio_agreement import check, turns
from tests.support.random_messages import message_versions

SEED = 11
TURNS = list(islice(turns(SEED), sum(1 for _ in message_versions())))


@pytest.mark.parametrize(("message", "version", "seed"), TURNS)
def test_kio_reads_what_we_write_and_writes_the_same(message: type[Message], version: int, seed: int) -> None:
    check(message, version, seed)
