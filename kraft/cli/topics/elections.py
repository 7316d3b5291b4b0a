"""`kraft topics elect-leaders`, with the output of kafka-leader-election.sh, which scripts parse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kraft.cli.options import Output
from kraft.cli.printing import print_json
from kraft.model.errors import ErrorCode, KraftError
from kraft.model.ids import TopicPartition
from kraft.model.partitions import ElectionType

if TYPE_CHECKING:
    from kraft.client import Admin


class ElectionsFailed(KraftError):
    """Some leaders were not elected; one line."""


def elect(
    admin: Admin, election_type: ElectionType, partitions: Sequence[TopicPartition] | None, output: Output
) -> None:
    """Elect leaders and print the result. Raises ElectionsFailed if a needed election failed."""
    outcome = admin.elect_leaders(election_type, partitions)
    failed = {
        each: refusal
        for each, refusal in sorted(outcome.items())
        if refusal is not None and refusal.error_code is not ErrorCode.ELECTION_NOT_NEEDED
    }
    elected = [each for each, refusal in sorted(outcome.items()) if refusal is None]
    unneeded = sorted(outcome.keys() - failed.keys() - set(elected))
    if output is Output.JSON:
        print_json(
            [
                {
                    "topic": each.topic,
                    "partition": each.partition,
                    "elected": each in elected,
                    "error": failed[each].error_code.name if each in failed else None,
                }
                for each in sorted(outcome)
            ]
        )
    else:
        if elected:
            kind = election_type.name
            print(f"Successfully completed leader election ({kind}) for partitions {_joined(elected)}")
        if unneeded:
            print(f"Valid replica already elected for partitions {_joined(unneeded)}")
        for each, refusal in failed.items():
            print(f"Error completing leader election ({election_type.name}) for partition: {each}: {refusal}")
        if not outcome:
            # Kafka's tool prints nothing.
            print("No partition needs an election.")
    if failed:
        raise ElectionsFailed(f"{len(failed)} replica(s) could not be elected")


def _joined(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, partitions))
