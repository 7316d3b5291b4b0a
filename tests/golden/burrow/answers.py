"""What Burrow answered to the scenarios, in lines that a test compares."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

SCRIPTED_FILE: Final = Path(__file__).with_name("scripted.txt")
WALKS_FILE: Final = Path(__file__).with_name("walks.txt")
ANSWER_FILE: Final = Path(__file__).with_name("answer.json")
"""One whole answer, as Burrow sends it."""

BEGIN_MS: Final = 946_684_800_000
"""Time at which the virtual clock of Go begins."""

STATES: Final = ("NOTFOUND", "OK", "WARN", "ERR", "STOP", "STALL", "REWIND")

Answer = Mapping[str, Any]


def full_line(answer: Answer) -> str:
    """Return all that a status of a group says, sorted by topic and partition."""
    partitions = sorted(answer["partitions"], key=lambda each: (each["topic"], each["partition"]))
    highest = None if answer["maxlag"] is None else answer["maxlag"]["current_lag"]
    lag = f"lag {answer['totallag']} {highest}"
    head = f"{answer['status']} of {answer['partition_count']}, {answer['complete']:.2f}, {lag}"
    return "; ".join([head, *map(_partition, partitions)])


def _partition(each: Answer) -> str:
    commits = f"{_commit(each['start'])} to {_commit(each['end'])}"
    return (
        f"{each['topic']}-{each['partition']} {each['status']} {each['current_lag']} {each['complete']:.1f} {commits}"
    )


def _commit(commit: Answer | None) -> str:
    if commit is None:
        return "none"
    return f"{commit['offset']}@{(commit['timestamp'] - BEGIN_MS) / 1_000:g}-{commit['lag']}"


def short_line(answer: Answer) -> str:
    """Return the state of the group, those of its partitions, and its lag."""
    partitions = sorted(answer["partitions"], key=lambda each: each["partition"])
    numbers = "".join(str(STATES.index(each["status"])) for each in partitions)
    return f"{STATES.index(answer['status'])}:{numbers}:{answer['totallag']}"
