from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kraft.quorum.config import PAYLOAD_BYTES_MAX, QuorumConfig, VoterAddress

VOTERS = {voter: VoterAddress(host="localhost", port=9093 + voter) for voter in (1, 2, 3)}
SOUND: dict[str, Any] = {"node_id": 1, "cluster_id": "c", "voters": VOTERS, "directory": Path("data")}


def test_the_peers_are_the_other_voters() -> None:
    assert QuorumConfig(**SOUND).peer_ids == (2, 3)


def test_an_address_is_written_as_grpc_reads_it() -> None:
    assert str(VoterAddress(host="::1", port=9093)) == "[::1]:9093"
    assert str(VOTERS[1]) == "localhost:9094"


def test_voters_of_a_new_cluster_stand_one_after_the_other() -> None:
    windows = [QuorumConfig(**(SOUND | {"node_id": voter})).first_election_ms for voter in VOTERS]
    assert windows == [(160, 210), (310, 360), (460, 510)]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"node_id": 4}, "node.id 4"),
        ({"voters": {1: VOTERS[1], -2: VOTERS[2]}}, "controller.quorum.voters"),
        ({"cluster_id": ""}, "cluster.id"),
        ({"election_timeout_ms_min": 1000}, "election timeouts"),
        ({"append_period_ms": 200}, "election timeouts"),
        ({"beat_ms": 0}, "beat_ms"),
        ({"payload_bytes_max": PAYLOAD_BYTES_MAX + 1}, "payload_bytes_max"),
    ],
)
def test_what_cannot_work_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        QuorumConfig(**(SOUND | change))
