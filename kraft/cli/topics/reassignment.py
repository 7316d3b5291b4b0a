"""`kraft topics reassign`, with the output of kafka-reassign-partitions.sh, which scripts parse."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from msgspec import Struct

from kraft.cli.options import Output
from kraft.cli.printing import Say, joined, print_json, say
from kraft.cli.topics.partition_files import (
    as_assignment,
    assignment_text,
    read_assignment,
    read_directories,
    read_topics,
)
from kraft.cli.topics.removed_throttles import removed_as_json, report_removed, say_replaced
from kraft.metadata.racks import uneven_racks
from kraft.model.errors import KraftError, Refusal
from kraft.model.ids import TopicPartition
from kraft.moves.assignments import (
    Assignment,
    ReassignmentFailed,
    assignment_of,
    check_brokers,
    current_of,
    failures,
)
from kraft.moves.directory_moves import (
    Directories,
    by_partition,
    check_directories,
    in_words,
    start_moves,
    states,
)
from kraft.moves.even import ChosenBroker, EvenSpread, chosen_brokers
from kraft.moves.throttled_replicas import REPLICATION_RATES, PartitionMove, is_throttled, moves_of, removal
from kraft.moves.throttles import (
    DIRECTORIES_RATE,
    RATES,
    RemovedThrottles,
    configs_of_topics,
    limit_brokers,
    limit_moves,
    remove_throttles,
)

if TYPE_CHECKING:
    from kraft.client import Admin, OngoingPartitionReassignment

TOPICS_FILE = "--topics-to-move-json-file"
ASSIGNMENT_FILE = "--reassignment-json-file"
BROKER_LIST = "--broker-list"

VERIFY_WARNING = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)
"""Kafka's warning, word for word."""

_REGISTERED: Final = "kraft brokers list shows the registered ones"


def generate(admin: Admin, topics_file: Path, broker_list: str, *, rack_aware: bool, output: Output) -> None:
    """Print the current assignment of the topics and one on the given brokers. Nothing is moved."""
    topics = read_topics(topics_file, TOPICS_FILE)
    chosen = _chosen_brokers(admin, _broker_ids(broker_list), rack_aware=rack_aware)
    current: dict[TopicPartition, list[int]] = {}
    even: dict[TopicPartition, list[int]] = {}
    spread = EvenSpread(chosen)
    for topic in topics:
        assignment = assignment_of(admin, [topic])
        current |= assignment
        even |= spread.proposed(assignment)
    if uneven := uneven_racks(broker.rack for broker in chosen):
        say(uneven)
    if output is Output.JSON:
        print_json({"current": as_assignment(current), "proposed": as_assignment(even)})
        return
    print(f"Current partition replica assignment\n{assignment_text(current)}\n")
    print(f"Proposed partition reassignment configuration\n{assignment_text(even)}")


class Throttle(Struct, frozen=True, kw_only=True):
    """Limits in bytes per second of each broker: of moves to other brokers, and between its log directories."""

    replication: int | None = None
    directories: int | None = None


def execute(
    admin: Admin, assignment_file: Path, *, additional: bool, output: Output, throttle: Throttle, deadline_s: float
) -> None:
    """Print the current assignment for a rollback, throttle the moves if wanted, then start them."""
    wanted = read_assignment(assignment_file, ASSIGNMENT_FILE)
    directories = read_directories(assignment_file, ASSIGNMENT_FILE)
    if throttle.directories is not None and not directories:
        raise ReassignmentFailed("the file names no log_dirs: remove --replica-alter-log-dirs-throttle")
    under_way = admin.list_partition_reassignments()
    if not additional and under_way:
        raise ReassignmentFailed(
            "Cannot execute because there is an existing partition assignment.  "
            "Use --additional to override this and create a new partition assignment in addition to the existing one. "
            "The --additional flag can also be used to change the throttle by resubmitting the current reassignment."
        )
    current = current_of(admin, wanted, "correct the file")
    check_brokers(admin, wanted, current, _REGISTERED)
    check_directories(admin, directories)
    show = print if output is Output.TABLE else _say_nothing
    show(f"Current partition replica assignment\n\n{assignment_text(current)}\n")
    show("Save this to use as the --reassignment-json-file option during rollback")
    # Before the moves: none may run faster, even if this command dies here.
    with _noting_what_is_left(assignment_file):
        _set_throttle(admin, throttle, moves_of(wanted, current, under_way), directories, show)
    outcome = _started(admin, wanted, assignment_file)
    started = [each for each in wanted if outcome[each] is None]
    if output is Output.JSON:
        print_json(
            {
                "rollback": as_assignment(current),
                "started": _names(started),
                "throttle": throttle.replication,
                "replica_alter_log_dirs_throttle": throttle.directories,
            }
        )
    elif started:
        print(f"Successfully started partition reassignment{_s(started)} for {_joined(started)}")
    _check_all("reassigning", outcome)
    start_moves(admin, directories, deadline_s, show)


def _set_throttle(
    admin: Admin,
    throttle: Throttle,
    moves: Mapping[TopicPartition, PartitionMove],
    directories: Directories,
    show: Say,
) -> None:
    if throttle != Throttle():
        show(VERIFY_WARNING)
    if throttle.replication is not None:
        say_replaced(limit_moves(admin, moves, throttle.replication))
        show(f"The inter-broker throttle limit was set to {throttle.replication} B/s")
    if throttle.directories is not None:
        brokers = sorted({replica.broker_id for replica in directories})
        say_replaced(limit_brokers(admin, brokers, [DIRECTORIES_RATE], throttle.directories))
        show(f"The replica-alter-dir throttle limit was set to {throttle.directories} B/s")


@contextmanager
def _noting_what_is_left(assignment_file: Path) -> Iterator[None]:
    """Let an error say that the moves were not started, and how to remove what was set."""
    try:
        yield
    except KraftError as error:
        error.add_note(
            "The moves were not started, but a throttle may be set: remove it with kraft topics reassign "
            f"{ASSIGNMENT_FILE} {assignment_file} --verify"
        )
        raise


def _started(admin: Admin, wanted: Assignment, assignment_file: Path) -> dict[TopicPartition, Refusal | None]:
    """Start the moves. An error without an answer says how to find out whether they were started."""
    from kraft.client import Unreachable
    from kraft.client.cluster.any_broker import is_transient

    try:
        return admin.alter_partition_reassignments(wanted)
    except (Refusal, Unreachable) as error:
        if isinstance(error, Unreachable) or is_transient(error.error_code):
            error.add_note(
                "It is unknown whether the moves were started: look with kraft topics reassign "
                f"{ASSIGNMENT_FILE} {assignment_file} --verify"
            )
        raise


def verify(admin: Admin, assignment_file: Path, *, output: Output, preserve_throttles: bool = False) -> None:
    """Print the progress of each move of the file, and remove the throttles when all of them are over."""
    wanted = read_assignment(assignment_file, ASSIGNMENT_FILE)
    # In this order: a move that is no longer listed is complete in the topics described next.
    under_way = admin.list_partition_reassignments(list(wanted))
    existing = admin.find_topics(sorted({each.topic for each in wanted}))
    current = assignment_of(admin, existing) if existing else {}
    there = [each for each in sorted(wanted) if each in current]
    directories = read_directories(assignment_file, ASSIGNMENT_FILE)
    moves = states(admin, directories)
    if output is Output.TABLE:
        print("Status of partition reassignment:")
        for each in there:
            print(_status_line(each, wanted[each], current[each], is_under_way=each in under_way))
        for replica, move in moves.items():
            print(in_words(replica, move))
    is_over = not under_way and not any(move.is_active for move in moves.values())
    removed = _removed(admin, wanted, directories) if is_over and not preserve_throttles else None
    if output is Output.JSON:
        over = set() if removed is None else set(wanted)
        lists = removal(configs_of_topics(admin, existing), over).kept
        statuses = [_status(each, wanted[each], current[each], under_way.get(each)) for each in there]
        directory_moves = by_partition(moves)
        print_json(
            [
                {**each, "throttled": is_throttled(name, lists), "log_dirs": directory_moves.get(name, [])}
                for name, each in zip(there, statuses, strict=True)
            ]
        )
    if removed is not None:
        report_removed(removed, say if output is Output.JSON else print)
    if missing := sorted(set(wanted) - set(there)):
        do_not = "does not" if len(missing) == 1 else "do not"
        raise ReassignmentFailed(f"partition{_s(missing)} {_joined(missing)} {do_not} exist: correct the file")


def _removed(admin: Admin, over: Collection[TopicPartition], directories: Directories) -> RemovedThrottles:
    try:
        return remove_throttles(admin, over, RATES if directories else REPLICATION_RATES)
    except KraftError as error:
        error.add_note("Throttles may be left: verify again to remove them, or add --preserve-throttles to keep them")
        raise


def _status_line(name: TopicPartition, wanted: Sequence[int], current: Sequence[int], *, is_under_way: bool) -> str:
    if is_under_way:
        return f"Reassignment of partition {name} is still in progress."
    if current == wanted:
        return f"Reassignment of partition {name} is completed."
    return (
        f"There is no active reassignment of partition {name}, "
        f"but replica set is {joined(current)} rather than {joined(wanted)}."
    )


def cancel(
    admin: Admin, assignment_file: Path, *, output: Output, deadline_s: float, preserve_throttles: bool = False
) -> None:
    """Cancel the moves of the file that are unfinished, and remove the throttles of all of them."""
    wanted = read_assignment(assignment_file, ASSIGNMENT_FILE)
    directories = read_directories(assignment_file, ASSIGNMENT_FILE)
    active = sorted(admin.list_partition_reassignments(list(wanted)))
    outcome = admin.alter_partition_reassignments(dict.fromkeys(active)) if active else {}
    cancelled = [each for each in active if outcome[each] is None]
    show = print if output is Output.TABLE else _say_nothing
    if cancelled:
        show(f"Successfully cancelled partition reassignment{_s(cancelled)} for: {_joined(cancelled)}")
    elif not active:
        show("None of the specified partition reassignments are active.")
    moving = {replica: move for replica, move in states(admin, directories).items() if move.is_active}
    # A copy is given up by moving the replica to where it is.
    start_moves(admin, {each: move.current for each, move in moving.items() if move.current}, deadline_s, show)
    if directories and not moving:
        show("None of the specified partition moves are active.")
    # A move that could not be cancelled goes on, and stays throttled.
    over = set(wanted) - {each for each in active if outcome[each] is not None}
    removed = None if preserve_throttles else _removed(admin, over, directories)
    if output is Output.JSON:
        print_json(
            {
                "cancelled": _names(cancelled),
                "cancelled_log_dirs": [name for names in by_partition(moving).values() for name in names],
                "throttles": None if removed is None else removed_as_json(removed),
            }
        )
    if removed is not None:
        report_removed(removed, say if output is Output.JSON else print)
    _check_all("cancelling", outcome)


def list_all(admin: Admin, *, output: Output) -> None:
    """Print all unfinished moves."""
    found = admin.list_partition_reassignments()
    if output is Output.JSON:
        print_json(
            [
                {
                    "topic": each.topic,
                    "partition": each.partition,
                    "replicas": found[each].replicas,
                    "adding_replicas": found[each].adding_replicas,
                    "removing_replicas": found[each].removing_replicas,
                }
                for each in sorted(found)
            ]
        )
        return
    print("Current partition reassignments:" if found else "No partition reassignments found.")
    for each in sorted(found):
        parts = [f"{each}: replicas: {joined(found[each].replicas)}."]
        parts += [f"adding: {joined(found[each].adding_replicas)}."] if found[each].adding_replicas else []
        parts += [f"removing: {joined(found[each].removing_replicas)}."] if found[each].removing_replicas else []
        print(" ".join(parts))


# --- current and possible assignments -------------------------------------------------------------------------


def _broker_ids(broker_list: str) -> list[int]:
    texts = [text.strip() for text in broker_list.split(",")]
    if not all(text.isascii() and text.isdigit() for text in texts):
        raise typer.BadParameter(
            f"{broker_list!r} is not a list of broker ids: expected ID[,...]", param_hint=BROKER_LIST
        )
    broker_ids = [int(text) for text in texts]
    if len(set(broker_ids)) < len(broker_ids):
        raise typer.BadParameter(f"Broker list contains duplicate entries: {broker_list}", param_hint=BROKER_LIST)
    return broker_ids


def _chosen_brokers(admin: Admin, broker_ids: Sequence[int], *, rack_aware: bool) -> list[ChosenBroker]:
    no_racks = "Add --disable-rack-aware in command line to make replica assignment without rack information."
    return chosen_brokers(admin, broker_ids, rack_aware=rack_aware, unknown=_REGISTERED, no_racks=no_racks)


# --- output ---------------------------------------------------------------------------------------------------


def _say_nothing(_: str) -> None:
    """Show no line: programs get the result."""


def _check_all(doing: str, outcome: Mapping[TopicPartition, Refusal | None]) -> None:
    if failed := failures(doing, outcome):
        raise ReassignmentFailed(failed)


def _status(
    name: TopicPartition, wanted: Sequence[int], current: Sequence[int], under_way: OngoingPartitionReassignment | None
) -> dict[str, Any]:
    settled = "completed" if current == wanted else "not active"
    status = settled if under_way is None else "in progress"
    return {
        "topic": name.topic,
        "partition": name.partition,
        "status": status,
        "replicas": list(current),
        "target_replicas": list(wanted),
    }


def _names(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic": each.topic, "partition": each.partition} for each in sorted(partitions)]


def _joined(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(map(str, sorted(partitions)))


def _s(partitions: Sequence[TopicPartition]) -> str:
    return "" if len(partitions) == 1 else "s"
