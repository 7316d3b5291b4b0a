"""The handshake of two voters: the first frames prove that both belong to the same quorum."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from kraft.quorum.config import QuorumConfig
from kraft.quorum.frames import founders_from_proto, founders_to_proto
from kraft.quorum.messages import BadMessage
from kraft.quorum.pb import raft_pb2

HANDSHAKE_DEADLINE_S = 5.0


class VoterMismatch(Exception):
    """The other side is not the voter that the configuration names; the message says in one line what differs."""


class Greeting(Struct, frozen=True, kw_only=True):
    """What a voter says of itself at the beginning of a stream; `process_id` is another one in each process."""

    process_id: bytes = b""
    incarnation: bytes = b""
    founders: Mapping[int, bytes] = field(default_factory=dict)
    is_learner: bool = False
    is_confirmed: bool = True
    """False keeps the founders from the other voter, which must not join them yet."""
    term: int = 0
    last_log_index: int = 0


OnVoter = Callable[[int], None]
"""Gets the node id of another voter."""


def _is_ignored(_peer: int, _greeting: Greeting) -> None:
    return


class Greetings(Struct, frozen=True, kw_only=True):
    """Returns this voter's greeting for a stream, and takes that of another voter, before its first message."""

    ours: Callable[[], Greeting] = Greeting
    received: Callable[[int, Greeting], None] = _is_ignored


def hello(config: QuorumConfig, receiver_id: int, greeting: Greeting) -> raft_pb2.RaftFrame:
    return raft_pb2.RaftFrame(
        hello=raft_pb2.RaftHello(
            cluster_id=config.cluster_id,
            sender_id=config.node_id,
            receiver_id=receiver_id,
            voter_ids=sorted(config.voters),
            process_id=greeting.process_id,
            incarnation=greeting.incarnation,
            founders=founders_to_proto(greeting.founders if greeting.is_confirmed else {}),
            is_learner=greeting.is_learner,
            term=greeting.term,
            last_log_index=greeting.last_log_index,
        )
    )


def greeting_in(config: QuorumConfig, received: raft_pb2.RaftHello, ours: Greeting) -> Greeting:
    """Return what the other voter says of itself. Raises VoterMismatch if it belongs to another quorum."""
    try:
        founders = founders_from_proto(received.founders)
    except BadMessage as error:
        raise VoterMismatch(str(error)) from None
    if founders and founders.keys() != config.voters.keys():
        raise VoterMismatch(
            f"the quorum of node {received.sender_id} was formed with the nodes {sorted(founders)[:16]}, but"
            f" controller.quorum.voters of node {config.node_id} names {sorted(config.voters)}"
        )
    if founders and ours.founders and founders != ours.founders:
        raise VoterMismatch(
            f"node {config.node_id} and node {received.sender_id} belong to two quorums of cluster"
            f" {config.cluster_id}, which do not mix: choose one, and on each controller of the other move the"
            " directory __cluster_metadata away and start it again"
        )
    return Greeting(
        process_id=received.process_id,
        incarnation=received.incarnation,
        founders=founders,
        is_learner=received.is_learner,
        term=received.term,
        last_log_index=received.last_log_index,
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
