"""`kraft metadata`: read the files of the metadata log, with or without a running node."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, assert_never
from uuid import UUID

import typer
from msgspec import Struct
from msgspec.structs import asdict

from kraft.cli.options import Output, OutputFormat
from kraft.cli.printing import say

if TYPE_CHECKING:
    from kraft.quorum.journal_format import Frame
    from kraft.quorum.membership import Membership

app = typer.Typer(help="Read the files of the metadata log. No node has to run.", no_args_is_help=True)

Files = Annotated[
    list[str], typer.Argument(metavar="FILE", help="Journals (quorum*.journal) and snapshots (*.checkpoint).")
]

Fact = dict[str, Any]
"""One line of a dump: its type, and its fields by name."""


@app.callback()
def metadata() -> None:
    """Read the files of the metadata log. No node has to run."""


@app.command("dump")
def dump(files: Files, output: OutputFormat = Output.TABLE) -> None:
    """Print the entries and records of journals and snapshots.

    A damaged file is printed as far as it can be read. Then one line names the damage, and the exit code is 1.
    """
    from kraft.cli.log.kafka_lines import safe
    from kraft.model.errors import Corruption

    is_anything_wrong = False
    for path in files:
        place, reason = "", ""
        try:
            if output is Output.TABLE:
                print(f"Dumping {safe(path)}")
            for fact in _facts(path):
                print(json.dumps({"file": path, **fact}) if output is Output.JSON else _line(fact))
        except Corruption as corruption:
            place, reason = f" at byte {corruption.position}", corruption.reason
            if output is Output.JSON:
                damage = {"type": "damage", "position": corruption.position, "reason": corruption.reason}
                print(json.dumps({"file": path, **damage}))
        except BrokenPipeError:
            # The reader of the output is gone; the file is not at fault.
            raise
        except OSError as error:
            reason = error.strerror or str(error)
        if reason:
            is_anything_wrong = True
            sys.stdout.flush()
            print(f"kraft: {safe(path)}{place}: {safe(reason)}", file=sys.stderr)
    if is_anything_wrong:
        raise typer.Exit(1)


@app.command("shell", context_settings={"ignore_unknown_options": True})
def shell(
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="A log directory of a node, which may be running.")
    ],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="One command to run, such as: ls /topics")
    ] = None,
) -> None:
    """Walk through the metadata as through files.

    The commands are ls, cd, cat, find and tree.

    Without COMMAND it asks for commands, or reads them from standard input. The files are only read. What a controller
    has written last may not be committed yet.
    """
    from kraft.cli.metadata_shell.loading import load
    from kraft.cli.metadata_shell.shell import MetadataShell
    from kraft.cli.printing import fail

    try:
        opened = MetadataShell(lambda: load(directory), say=lambda error: say(f"kraft: {error}"))
    except OSError as error:
        fail(f"{directory}: {error.strerror or error}")
    if command:
        opened.onecmd(shlex.join(command))
    elif sys.stdin.isatty():
        opened.run()
    else:
        for line in sys.stdin:
            if opened.onecmd(line.strip()):
                break
    if opened.failed and (command or not sys.stdin.isatty()):
        raise typer.Exit(1)


def _facts(path: str) -> Iterator[Fact]:
    """Yield the content of a file. Raises OSError, and Corruption after all that can be read."""
    from kraft.model.errors import Corruption
    from kraft.quorum import journal_format, snapshots
    from kraft.runtime.disk import RealDisk

    data = RealDisk().read_file(path)
    if journal_format.is_journal(data):
        return _journal(path, data)
    if snapshots.is_snapshot(data):
        return _snapshot(path, data)
    raise Corruption(path, 0, "neither a quorum journal nor a metadata snapshot")


def _journal(path: str, data: bytes) -> Iterator[Fact]:
    from kraft.quorum import journal_format

    end = journal_format.HEADER_BYTES
    for frame in journal_format.frames(path, data):
        yield from _frame(path, frame)
        end = frame.end
    if end < len(data):
        # A crash may leave a torn end; nothing in it was acknowledged.
        yield {"type": "torn", "position": end, "bytes": len(data) - end}


def _frame(path: str, frame: Frame) -> Iterator[Fact]:
    from kraft.quorum.journal_format import (
        BaseRecord,
        EntryRecord,
        MembershipRecord,
        StartRecord,
        TrimRecord,
        TruncationRecord,
        VoteRecord,
    )

    for record in frame.records:
        match record:
            case EntryRecord():
                yield from _entry(path, frame.position, record)
            case VoteRecord(term=term, voted_for=voted_for):
                yield {"type": "vote", "position": frame.position, "term": term, "voted_for": voted_for}
            case TruncationRecord(from_index=from_index):
                yield {"type": "truncation", "position": frame.position, "from_index": from_index}
            case BaseRecord(index=index, term=term):
                yield {"type": "base", "position": frame.position, "index": index, "term": term}
            case TrimRecord(index=index, term=term):
                yield {"type": "trim", "position": frame.position, "index": index, "term": term}
            case StartRecord(number=number, index=index, term=term):
                yield {"type": "start", "position": frame.position, "segment": number, "index": index, "term": term}
            case MembershipRecord(membership=membership):
                yield _membership(frame.position, membership)
            case _:
                assert_never(record)


def _membership(position: int, membership: Membership) -> Fact:
    return {
        "type": "membership",
        "position": position,
        "node_id": membership.node_id,
        "incarnation": membership.incarnation.hex(),
        "founders": {str(voter): incarnation.hex() for voter, incarnation in sorted(membership.founders.items())},
        "admitted_after": membership.admitted_after,
    }


def _entry(path: str, position: int, entry: Any) -> Iterator[Fact]:
    from kraft.model.errors import Corruption
    from kraft.quorum import command

    fact = {"type": "entry", "position": position, "index": entry.index, "term": entry.term}
    try:
        decoded = command.decode(entry.command)
    except ValueError as error:
        raise Corruption(path, position, f"entry {entry.index}: {error}") from error
    if decoded is None:
        yield fact | {"kind": "no-op"}
        return
    # An entry stored in another term than it was decided in changes nothing.
    yield fact | {"kind": decoded.kind.name.lower(), "is_void": decoded.decided_term != entry.term}
    yield from _records(path, position, decoded.payload, entry.index)


def _snapshot(path: str, data: bytes) -> Iterator[Fact]:
    from kraft.quorum import snapshots

    snapshot_id = snapshots.decode_header(path, data)
    yield {"type": "snapshot", "position": 0, "index": snapshot_id.index, "term": snapshot_id.term}
    for chunk in snapshots.decode_chunks(path, data):
        yield {"type": "chunk", "position": chunk.position, "bytes": len(chunk.content)}
        yield from _records(path, chunk.position, chunk.content, snapshot_id.index)


def _records(path: str, position: int, payload: bytes, index: int) -> Iterator[Fact]:
    from kraft.model.errors import Corruption
    from kraft.rpc.metadata_codec import decode_records

    try:
        records = decode_records(payload, index)
    except Corruption as corruption:
        raise Corruption(path, position, f"entry {index}: {corruption.reason}") from None
    for record in records:
        # Bytes are what is kept of passwords: whoever has them can try passwords, or pose as the server.
        fields = {name: _plain(value) for name, value in asdict(record).items() if not isinstance(value, bytes)}
        yield {"type": "record", "record": type(record).__name__, "fields": fields}


def _plain(value: Any) -> Any:
    """Return the value as JSON types."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, Struct):
        return {name: _plain(field) for name, field in asdict(value).items()}
    return value


def _line(fact: Fact) -> str:
    """Return a line for people; records are marked with a bar under their entry."""
    if fact["type"] == "record":
        return f"| {fact['record']} {_words(fact['fields'])}".rstrip()
    return f"{fact['type']} {_words({name: value for name, value in fact.items() if name != 'type'})}"


def _words(fields: dict[str, Any]) -> str:
    return " ".join(f"{name}: {_word(value)}" for name, value in fields.items())


def _word(value: Any) -> str:
    from kraft.cli.log.kafka_lines import safe

    if isinstance(value, dict):
        return f"({_words(value)})"
    if isinstance(value, list):
        return f"[{', '.join(map(_word, value))}]"
    if isinstance(value, str):
        return safe(value) or '""'
    return json.dumps(value)
