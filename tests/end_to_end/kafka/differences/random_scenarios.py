"""Two things that a broker remembers of its clients, led through states that nobody thought of: from one seed each.

What is asked next depends on the seed and on what is to be expected, never on answers: both brokers are asked the same.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from kraft.wire.schema.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kraft.wire.schema.fetch import FetchPartition
from tests.end_to_end.kafka.differences.batches import batch
from tests.end_to_end.kafka.differences.fetch_scenarios import fetch, wanted
from tests.end_to_end.kafka.differences.peer import TIMEOUT_MS, Peer
from tests.end_to_end.kafka.differences.produce_scenarios import produce

_SEED: Final = 7
_STEPS: Final = 150
_PARTITIONS: Final = 4
_FETCH_VERSION: Final = 12


def produce_idempotently_at_random(peer: Peer) -> None:
    """Two producers that go on, repeat themselves, leave out, and begin new epochs."""
    chance = Random(_SEED)
    topic_id = peer.create_topic("by-chance")
    next_of: dict[int, tuple[int, int]] = {}
    """Epoch and sequence that follow, by the producer's id."""
    for step in range(_STEPS):
        producer_id, count = chance.choice((70, 80)), chance.choice((1, 1, 2, 3))
        epoch, sequence = next_of.get(producer_id, (0, 0))
        sent = chance.choice(
            (
                *[(epoch, sequence)] * 4,
                (epoch, max(0, sequence - count)),
                (epoch, max(0, sequence - chance.randint(1, 12))),
                (epoch, sequence + chance.randint(1, 5)),
                (epoch, 0),
                (epoch + 1, 0),
                (epoch + 3, 0),
                (epoch + 1, chance.randint(1, 3)),
                (max(0, epoch - 1), sequence),
            )
        )
        if sent in ((epoch, sequence), (epoch + 1, 0), (epoch + 3, 0)):
            next_of[producer_id] = (sent[0], sent[1] + count)
        records = batch(*"abc"[:count], producer=(producer_id, *sent))
        peer.ask(
            f"{step}: producer {producer_id}, epoch {sent[0]}, sequence {sent[1]}, {count} records",
            produce(9, "by-chance", topic_id, records),
            9,
        )


def fetch_in_sessions_at_random(peer: Peer) -> None:
    """A consumer that adds, changes and forgets partitions, to which others write and whose beginning moves."""
    chance = Random(_SEED)
    topic_id = peer.create_topic("watched", _PARTITIONS)
    starts, ends = [0] * _PARTITIONS, [0] * _PARTITIONS
    session_id, epoch = 0, 0
    for step in range(_STEPS):
        partition, kind = chance.randrange(_PARTITIONS), chance.random()
        if kind < 0.3:
            count = chance.randint(1, 3)
            peer.call(produce(9, "watched", topic_id, batch(*"abc"[:count]), partition=partition), 9)
            ends[partition] += count
        elif kind < 0.36:
            starts[partition] = chance.randint(starts[partition], ends[partition])
            peer.call(_deletion(partition, starts[partition]), 2)
        else:
            begins = epoch == 0 or kind > 0.96
            some = _some_partitions(chance, ends)
            forgotten = [] if begins else [each for each in range(_PARTITIONS) if chance.random() < 0.1]
            epoch = 0 if begins else epoch
            request = fetch(
                _FETCH_VERSION,
                "watched",
                topic_id,
                some or [wanted()] if begins else some,
                session=(session_id, epoch),
                forgotten=[each for each in forgotten if each not in [one.partition for one in some]],
            )
            answer = peer.ask(f"{step}: epoch {epoch}", request, _FETCH_VERSION, keep=_by_partition)
            session_id, epoch = answer.session_id, epoch + 1


def _some_partitions(chance: Random, ends: list[int]) -> list[FetchPartition]:
    return [
        wanted(partition=each, offset=chance.choice((chance.randint(0, ends[each]), ends[each], ends[each])))
        for each in chance.sample(range(_PARTITIONS), chance.randint(0, 3))
    ]


def _deletion(partition: int, before: int) -> DeleteRecordsRequest:
    one = DeleteRecordsPartition(partition_index=partition, offset=before)
    return DeleteRecordsRequest(topics=(DeleteRecordsTopic(name="watched", partitions=(one,)),), timeout_ms=TIMEOUT_MS)


def _by_partition(answer: Any) -> Any:
    for topic in answer["responses"]:
        topic["partitions"].sort(key=lambda each: int(each["partition_index"]))
    return answer


SCENARIOS: Final = (produce_idempotently_at_random, fetch_in_sessions_at_random)
