"""Messages between voters: as values, as the engine's dictionaries, and as protobuf.

Only these messages cross the network. The engine has more: forwarded commands, leadership transfer, snapshots of its
own. None of them can be expressed here, so none can arrive. Parts of snapshots and pre-votes are ours; the engine never
sees them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, assert_never

from msgspec import Struct

from kraft.quorum import command
from kraft.quorum.config import FRAME_BYTES_MAX
from kraft.quorum.journal import FIRST_INDEX, Entry
from kraft.quorum.pb import raft_pb2

EngineMessage = dict[str, Any]

_BATCH_BYTES_TARGET = FRAME_BYTES_MAX // 2
"""A batch ends before the message that would exceed this. A single message stays below the other half."""


class BadMessage(ValueError):
    """Another voter sent something that no correct voter sends."""


class Append(Struct, frozen=True, kw_only=True):
    """Entries for a follower, as the engine represents them; the indexes have no gaps."""

    term: int
    previous_index: int
    previous_term: int
    entries: tuple[Entry, ...]
    commit_index: int


class AppendResponse(Struct, frozen=True, kw_only=True):
    """Response to an append. `term` is our addition: the engine's responses do not name their term."""

    term: int
    next_index: int
    success: bool
    reset: bool


class VoteRequest(Struct, frozen=True, kw_only=True):
    term: int
    last_log_index: int
    last_log_term: int


class VoteResponse(Struct, frozen=True, kw_only=True):
    term: int


class PreVoteRequest(Struct, frozen=True, kw_only=True):
    """Asks whether the receiver would vote for the sender in `term`."""

    term: int
    last_log_index: int
    last_log_term: int


class PreVoteResponse(Struct, frozen=True, kw_only=True):
    """Pre-vote granted for `term`, or refused by a voter that is already in `term`."""

    term: int
    granted: bool


class SnapshotPart(Struct, frozen=True, kw_only=True):
    """Chunk of the snapshot that ends at entry `index`, sent by the leader of `term`; `number` starts at 0."""

    term: int
    index: int
    index_term: int
    number: int
    content: bytes
    is_last: bool


ForEngine = Append | AppendResponse | VoteRequest | VoteResponse
Message = ForEngine | PreVoteRequest | PreVoteResponse | SnapshotPart


_FIELDS_BYTES = 64
"""Maximum size of a message's fields without its content, and of an entry's fields without its command."""


def size_bytes(message: Message) -> int:
    """Return about the size of the message, encoded or in memory; never less than its encoded size."""
    match message:
        case Append():
            return _FIELDS_BYTES + sum(len(data) + _FIELDS_BYTES for data, _, _ in message.entries)
        case SnapshotPart():
            return _FIELDS_BYTES + len(message.content)
        case _:
            return _FIELDS_BYTES


# --- the engine's dictionaries ---------------------------------------------------------------------------------


def from_engine(message: EngineMessage, term: int) -> ForEngine | None:
    """Return the message that the engine sends in `term`; None for one that must not leave this process."""
    match message["type"]:
        case "append_entries" if "entries" in message:
            return Append(
                term=message["term"],
                previous_index=message["prevLogIdx"],
                previous_term=message["prevLogTerm"],
                entries=tuple(message["entries"]),
                commit_index=message["commit_index"],
            )
        case "next_node_idx":
            return AppendResponse(
                term=term, next_index=message["next_node_idx"], success=message["success"], reset=message["reset"]
            )
        case "request_vote":
            return VoteRequest(
                term=message["term"],
                last_log_index=message["last_log_index"],
                last_log_term=message["last_log_term"],
            )
        case "response_vote":
            return VoteResponse(term=message["term"])
        case _:
            return None


def to_engine(message: ForEngine) -> EngineMessage:
    match message:
        case Append():
            return {
                "type": "append_entries",
                "term": message.term,
                "prevLogIdx": message.previous_index,
                "prevLogTerm": message.previous_term,
                "entries": list(message.entries),
                "commit_index": message.commit_index,
            }
        case AppendResponse():
            return {
                "type": "next_node_idx",
                "next_node_idx": message.next_index,
                "success": message.success,
                "reset": message.reset,
            }
        case VoteRequest():
            return {
                "type": "request_vote",
                "term": message.term,
                "last_log_index": message.last_log_index,
                "last_log_term": message.last_log_term,
            }
        case VoteResponse():
            return {"type": "response_vote", "term": message.term}
        case _:
            assert_never(message)


def heartbeat(term: int, commit_index: int) -> EngineMessage:
    """Return an append without a previous entry.

    The engine takes leader, term and commit index from it; it neither truncates its log nor responds.
    """
    return {"type": "append_entries", "term": term, "commit_index": commit_index}


# --- protobuf --------------------------------------------------------------------------------------------------


def to_frames(messages: Iterable[Message]) -> list[raft_pb2.RaftFrame]:
    """Pack the messages, in order, into as few frames as the maximum size allows; without any, one empty frame."""
    frames = [raft_pb2.RaftFrame(batch=raft_pb2.RaftBatch())]
    batch_bytes = 0
    for message in messages:
        encoded = _to_proto(message)
        encoded_bytes = encoded.ByteSize()
        if batch_bytes > 0 and batch_bytes + encoded_bytes > _BATCH_BYTES_TARGET:
            frames.append(raft_pb2.RaftFrame())
            batch_bytes = 0
        frames[-1].batch.messages.append(encoded)
        batch_bytes += encoded_bytes
    return frames


def from_frame(frame: raft_pb2.RaftFrame) -> list[Message]:
    """Return the messages of a frame. Raises BadMessage for anything but a batch of valid messages."""
    if frame.WhichOneof("content") != "batch":
        raise BadMessage("the frame is not a batch")
    return [_from_proto(message) for message in frame.batch.messages]


def _to_proto(message: Message) -> raft_pb2.RaftMessage:
    match message:
        case Append():
            entries = [raft_pb2.RaftEntry(term=term, command=data) for data, _, term in message.entries]
            return raft_pb2.RaftMessage(
                append=raft_pb2.RaftAppend(
                    term=message.term,
                    previous_index=message.previous_index,
                    previous_term=message.previous_term,
                    entries=entries,
                    commit_index=message.commit_index,
                )
            )
        case AppendResponse():
            return raft_pb2.RaftMessage(
                append_response=raft_pb2.RaftAppendResponse(
                    term=message.term, next_index=message.next_index, success=message.success, reset=message.reset
                )
            )
        case VoteRequest():
            return raft_pb2.RaftMessage(
                vote_request=raft_pb2.RaftVoteRequest(
                    term=message.term, last_log_index=message.last_log_index, last_log_term=message.last_log_term
                )
            )
        case VoteResponse():
            return raft_pb2.RaftMessage(vote_response=raft_pb2.RaftVoteResponse(term=message.term))
        case PreVoteRequest():
            return raft_pb2.RaftMessage(
                pre_vote_request=raft_pb2.RaftPreVoteRequest(
                    term=message.term, last_log_index=message.last_log_index, last_log_term=message.last_log_term
                )
            )
        case PreVoteResponse():
            return raft_pb2.RaftMessage(
                pre_vote_response=raft_pb2.RaftPreVoteResponse(term=message.term, granted=message.granted)
            )
        case SnapshotPart():
            return raft_pb2.RaftMessage(
                snapshot_part=raft_pb2.RaftSnapshotPart(
                    term=message.term,
                    index=message.index,
                    index_term=message.index_term,
                    number=message.number,
                    content=message.content,
                    is_last=message.is_last,
                )
            )
        case _:
            assert_never(message)


def _from_proto(message: raft_pb2.RaftMessage) -> Message:
    match message.WhichOneof("content"):
        case "append":
            return _append_from_proto(message.append)
        case "append_response":
            response = message.append_response
            return AppendResponse(
                term=response.term, next_index=response.next_index, success=response.success, reset=response.reset
            )
        case "vote_request":
            request = message.vote_request
            return VoteRequest(
                term=request.term, last_log_index=request.last_log_index, last_log_term=request.last_log_term
            )
        case "vote_response":
            return VoteResponse(term=message.vote_response.term)
        case "pre_vote_request":
            pre_vote = message.pre_vote_request
            return PreVoteRequest(
                term=pre_vote.term, last_log_index=pre_vote.last_log_index, last_log_term=pre_vote.last_log_term
            )
        case "pre_vote_response":
            pre_vote_response = message.pre_vote_response
            return PreVoteResponse(term=pre_vote_response.term, granted=pre_vote_response.granted)
        case "snapshot_part":
            part = message.snapshot_part
            if not 0 < part.index_term <= part.term or part.index <= FIRST_INDEX:
                raise BadMessage(
                    f"a leader of term {part.term} sent a snapshot at entry {part.index} of term {part.index_term}"
                )
            return SnapshotPart(
                term=part.term,
                index=part.index,
                index_term=part.index_term,
                number=part.number,
                content=part.content,
                is_last=part.is_last,
            )
        case _:
            raise BadMessage("the message has no content, or is of a kind that this version does not know")


def _append_from_proto(append: raft_pb2.RaftAppend) -> Append:
    if append.previous_index < FIRST_INDEX:
        raise BadMessage("the append begins before the first entry")
    entries: list[Entry] = []
    term = append.previous_term
    for index, entry in enumerate(append.entries, append.previous_index + 1):
        if not term <= entry.term <= append.term:
            raise BadMessage(f"entry {index} of term {entry.term} is out of order")
        term = entry.term
        _check_command(index, entry.command)
        entries.append((entry.command, index, term))
    return Append(
        term=append.term,
        previous_index=append.previous_index,
        previous_term=append.previous_term,
        entries=tuple(entries),
        commit_index=append.commit_index,
    )


def _check_command(index: int, data: bytes) -> None:
    try:
        command.decode(data)
    except ValueError as error:
        raise BadMessage(f"entry {index}: {error}") from error
