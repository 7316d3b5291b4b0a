"""Messages between voters: as values, and as the engine's dictionaries; `frames` has their protobuf.

Only these messages cross the network. The engine has more: forwarded commands, leadership transfer, snapshots of its
own. None of them can be expressed here, so none can arrive. Parts of snapshots, pre-votes and what concerns
memberships are ours; the engine never sees them. Messages of a version without quorum ids and incarnations have empty
ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from msgspec import Struct, field

from kraft.quorum.journal import Entry
from kraft.quorum.membership import Membership

EngineMessage = dict[str, Any]


class BadMessage(ValueError):
    """Another voter sent something that no correct voter sends."""


class AppendEntries(Struct, frozen=True, kw_only=True):
    """Entries for a follower, as the engine represents them; the indexes have no gaps."""

    term: int
    previous_index: int
    previous_term: int
    entries: tuple[Entry, ...]
    commit_index: int
    quorum_id: bytes = b""


class AppendEntriesResponse(Struct, frozen=True, kw_only=True):
    """Response to an append; that of a learner does not count. All but the indexes is our addition to the engine's."""

    term: int
    next_index: int
    success: bool
    reset: bool
    incarnation: bytes = b""
    is_learner: bool = False


class VoteRequest(Struct, frozen=True, kw_only=True):
    term: int
    last_log_index: int
    last_log_term: int
    incarnation: bytes = b""
    founders: Mapping[int, bytes] = field(default_factory=dict)


class VoteResponse(Struct, frozen=True, kw_only=True):
    term: int


class PreVoteRequest(Struct, frozen=True, kw_only=True):
    """Asks whether the receiver would vote for the sender in `term`; with `forms`, in a quorum that they would form."""

    term: int
    last_log_index: int
    last_log_term: int
    incarnation: bytes = b""
    founders: Mapping[int, bytes] = field(default_factory=dict)
    forms: bool = False


class PreVoteResponse(Struct, frozen=True, kw_only=True):
    """Pre-vote granted for `term`, or refused by a voter that is already in `term`."""

    term: int
    granted: bool
    quorum_id: bytes = b""


class QuorumIntroduction(Struct, frozen=True, kw_only=True):
    """Names the sender's quorum to a voter that belongs to none."""

    incarnation: bytes
    founders: Mapping[int, bytes]


class Admission(Struct, frozen=True, kw_only=True):
    """The leader of `term` admits the learner of this incarnation: it may vote in later terms."""

    term: int
    incarnation: bytes


class Demotion(Struct, frozen=True, kw_only=True):
    """The leader of `term` found that this incarnation lost entries that it had acknowledged."""

    term: int
    incarnation: bytes


class SnapshotPart(Struct, frozen=True, kw_only=True):
    """Chunk of the snapshot that ends at entry `index`, sent by the leader of `term`; `number` starts at 0."""

    term: int
    index: int
    index_term: int
    number: int
    content: bytes
    is_last: bool
    quorum_id: bytes = b""


ForEngine = AppendEntries | AppendEntriesResponse | VoteRequest | VoteResponse
ForMembership = QuorumIntroduction | Admission | Demotion
Message = ForEngine | PreVoteRequest | PreVoteResponse | SnapshotPart | ForMembership


_FIELDS_BYTES = 96
"""Maximum size of a message's fields without its content or founders."""

_ENTRY_BYTES = 64
"""Maximum size of the fields of an entry without its command, and of a founder."""


def size_bytes(message: Message) -> int:
    """Return about the size of the message, encoded or in memory; never less than its encoded size."""
    match message:
        case AppendEntries():
            return _FIELDS_BYTES + sum(len(data) + _ENTRY_BYTES for data, _, _ in message.entries)
        case SnapshotPart():
            return _FIELDS_BYTES + len(message.content)
        case VoteRequest() | PreVoteRequest() | QuorumIntroduction():
            return _FIELDS_BYTES + _ENTRY_BYTES * len(message.founders)
        case _:
            return _FIELDS_BYTES


# --- the engine's dictionaries ---------------------------------------------------------------------------------


def from_engine(message: EngineMessage, term: int, sender: Membership) -> ForEngine | None:
    """Return the message that the engine sends in `term`; None for one that must not leave this process."""
    match message["type"]:
        case "append_entries" if "entries" in message:
            return AppendEntries(
                term=message["term"],
                previous_index=message["prevLogIdx"],
                previous_term=message["prevLogTerm"],
                entries=tuple(message["entries"]),
                commit_index=message["commit_index"],
                quorum_id=sender.quorum_id,
            )
        case "next_node_idx":
            return AppendEntriesResponse(
                term=term,
                next_index=message["next_node_idx"],
                success=message["success"],
                reset=message["reset"],
                incarnation=sender.incarnation,
                is_learner=sender.is_learner,
            )
        case "request_vote":
            return VoteRequest(
                term=message["term"],
                last_log_index=message["last_log_index"],
                last_log_term=message["last_log_term"],
                incarnation=sender.incarnation,
                founders=sender.founders,
            )
        case "response_vote":
            return VoteResponse(term=message["term"])
        case _:
            return None


def to_engine(message: ForEngine) -> EngineMessage:
    match message:
        case AppendEntries():
            return {
                "type": "append_entries",
                "term": message.term,
                "prevLogIdx": message.previous_index,
                "prevLogTerm": message.previous_term,
                "entries": list(message.entries),
                "commit_index": message.commit_index,
            }
        case AppendEntriesResponse():
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
