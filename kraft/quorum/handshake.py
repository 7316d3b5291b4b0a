"""The handshake of two voters: the first frames prove that both belong to the same quorum."""

from __future__ import annotations

from kraft.quorum.config import QuorumConfig
from kraft.quorum.pb import raft_pb2

HANDSHAKE_DEADLINE_S = 5.0


class VoterMismatch(Exception):
    """The other side is not the voter that the configuration names; the message says in one line what differs."""


def hello(config: QuorumConfig, receiver_id: int, incarnation_id: bytes = b"") -> raft_pb2.RaftFrame:
    return raft_pb2.RaftFrame(
        hello=raft_pb2.RaftHello(
            cluster_id=config.cluster_id,
            sender_id=config.node_id,
            receiver_id=receiver_id,
            voter_ids=sorted(config.voters),
            incarnation_id=incarnation_id,
        )
    )


def check_hello(config: QuorumConfig, frame: raft_pb2.RaftFrame) -> int:
    """Return the node id of the voter that sent this first frame. Raises VoterMismatch."""
    if frame.WhichOneof("content") != "hello":
        raise VoterMismatch("the first frame is not a hello")
    received = frame.hello
    if received.cluster_id != config.cluster_id:
        raise VoterMismatch(
            f"cluster.id differs: node {config.node_id} has {config.cluster_id!r}, node {received.sender_id} has"
            f" {received.cluster_id[:64]!r}"
        )
    if received.receiver_id != config.node_id:
        raise VoterMismatch(
            f"this is node {config.node_id}, but node {received.receiver_id} was called: compare node.id with"
            " controller.quorum.voters"
        )
    if list(received.voter_ids) != sorted(config.voters):
        raise VoterMismatch(
            f"controller.quorum.voters differ: node {config.node_id} has {sorted(config.voters)}, node"
            f" {received.sender_id} has {list(received.voter_ids[:16])}"
        )
    if received.sender_id == config.node_id:
        raise VoterMismatch(f"node.id {config.node_id} is this node's own: give each node its own node.id")
    if received.sender_id not in config.peer_ids:
        raise VoterMismatch(f"node {received.sender_id} is not in controller.quorum.voters")
    return received.sender_id
