from __future__ import annotations

from kraft.cli.demo.outage import silence_s
from kraft.cli.demo.publishing import Acknowledgement
from kraft.client import TopicPartition

KILLED, OTHER = TopicPartition("flights", 4), TopicPartition("flights", 0)


def acknowledged(at_s: float, *partitions: TopicPartition) -> Acknowledgement:
    return Acknowledgement(acknowledged_at_s=at_s, flights=500, partitions=frozenset(partitions))


def test_silence_lasts_from_the_kill_to_the_next_acknowledgement_of_that_partition() -> None:
    acknowledgements = [acknowledged(9.9, KILLED), acknowledged(11.0, OTHER), acknowledged(13.5, KILLED, OTHER)]
    assert silence_s(acknowledgements, KILLED, since_s=10.0) == 3.5


def test_an_answer_that_was_on_its_way_when_the_leader_died_does_not_end_the_silence() -> None:
    acknowledgements = [acknowledged(10.25, KILLED), acknowledged(13.5, KILLED), acknowledged(14.0, KILLED)]
    assert silence_s(acknowledgements, KILLED, since_s=10.0) == 3.25


def test_silence_before_the_kill_has_another_cause() -> None:
    acknowledgements = [acknowledged(1.0, KILLED), acknowledged(9.0, KILLED), acknowledged(10.5, KILLED)]
    assert silence_s(acknowledgements, KILLED, since_s=10.0) == 0.5
