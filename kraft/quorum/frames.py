"""Frames of the streams between voters: messages as protobuf."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kraft.quorum import command
from kraft.quorum.config import FRAME_BYTES_MAX
from kraft.quorum.journal import FIRST_INDEX, Entry
from kraft.quorum.membership import INCARNATION_BYTES
from kraft.quorum.messages import (
    Admission,
    AppendEntries,
    AppendEntriesResponse,
    BadMessage,
    Demotion,
    Message,
    PreVoteRequest,
    PreVoteResponse,
    QuorumIntroduction,
    SnapshotPart,
    VoteRequest,
    VoteResponse,
)
from kraft.quorum.pb import raft_pb2

KINDS: Final[dict[str, type[Any]]] = {
    "append": AppendEntries,
    "append_response": AppendEntriesResponse,
    "vote_request": VoteRequest,
    "vote_response": VoteResponse,
    "snapshot_part": SnapshotPart,
    "pre_vote_request": PreVoteRequest,
    "pre_vote_response": PreVoteResponse,
    "introduction": QuorumIntroduction,
    "admission": Admission,
    "demotion": Demotion,
}
"""Kinds of messages, by the field of RaftMessage that holds each. Its protobuf has the same fields; only the entries of
an append have another form there."""

_NAMES: Final = {kind: name for name, kind in KINDS.items()}

_BATCH_BYTES_TARGET = FRAME_BYTES_MAX // 2
"""A batch ends before the message that would exceed this. A single message stays below the other half."""


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


def founders_to_proto(founders: Mapping[int, bytes]) -> list[raft_pb2.RaftFounder]:
    return [raft_pb2.RaftFounder(voter_id=voter, incarnation=founders[voter]) for voter in sorted(founders)]


def founders_from_proto(founders: Iterable[raft_pb2.RaftFounder]) -> dict[int, bytes]:
    """Return the founders by voter. Raises BadMessage."""
    by_voter = {founder.voter_id: founder.incarnation for founder in founders}
    if any(len(incarnation) != INCARNATION_BYTES for incarnation in by_voter.values()):
        raise BadMessage("a founder's incarnation has another length")
    return by_voter


def _to_proto(message: Message) -> raft_pb2.RaftMessage:
    if isinstance(message, AppendEntries):
        return raft_pb2.RaftMessage(append=_append_to_proto(message))
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    if "founders" in fields:
        fields["founders"] = founders_to_proto(fields["founders"])
    content: dict[str, Any] = {_NAMES[type(message)]: fields}
    return raft_pb2.RaftMessage(**content)


def _from_proto(message: raft_pb2.RaftMessage) -> Message:
    name = message.WhichOneof("content")
    if name == "append":
        return _append_from_proto(message.append)
    if name is None:
        raise BadMessage("the message has no content, or is of a kind that this version does not know")
    if name == "snapshot_part":
        _check_part(message.snapshot_part)
    kind, content = KINDS[name], getattr(message, name)
    fields = {field: getattr(content, field) for field in kind.__struct_fields__}
    if "founders" in fields:
        fields["founders"] = founders_from_proto(content.founders)
    decoded: Message = kind(**fields)
    return decoded


def _append_to_proto(message: AppendEntries) -> raft_pb2.RaftAppend:
    return raft_pb2.RaftAppend(
        term=message.term,
        previous_index=message.previous_index,
        previous_term=message.previous_term,
        entries=[raft_pb2.RaftEntry(term=term, command=data) for data, _, term in message.entries],
        commit_index=message.commit_index,
        quorum_id=message.quorum_id,
    )


def _check_part(part: raft_pb2.RaftSnapshotPart) -> None:
    if not 0 < part.index_term <= part.term or part.index <= FIRST_INDEX:
        raise BadMessage(
            f"a leader of term {part.term} sent a snapshot at entry {part.index} of term {part.index_term}"
        )


def _append_from_proto(append: raft_pb2.RaftAppend) -> AppendEntries:
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
    return AppendEntries(
        term=append.term,
        previous_index=append.previous_index,
        previous_term=append.previous_term,
        entries=tuple(entries),
        commit_index=append.commit_index,
        quorum_id=append.quorum_id,
    )


def _check_command(index: int, data: bytes) -> None:
    try:
        command.decode(data)
    except ValueError as error:
        raise BadMessage(f"entry {index}: {error}") from error
