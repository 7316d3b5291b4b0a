"""The codec of Kafka's wire protocol, beside kio's and kafka-python's, in turns in one process.

`python -m benchmarks.wire_codec` needs the development dependencies, where the two others are.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from statistics import median
from typing import Annotated, Any, Final
from uuid import UUID

import typer

from benchmarks.report import Cell, Output, Report, print_report, say
from kraft.wire.codec import decode, encode
from kraft.wire.declaration import Message
from kraft.wire.schema.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kraft.wire.schema.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kraft.wire.schema.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

RECORDS_BYTES: Final = 64 << 10
TOPICS: Final = 100
PARTITIONS_A_TOPIC: Final = 6
_ROUND_NS_MIN: Final = 2_000_000
_PEERS: Final = ("kio", "kafka-python")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The same work for each codec, under the codec's name."""

    name: str
    runs: dict[str, Callable[[], object]]


def measure(rounds: int) -> Report:
    return Report(
        title="Kafka's wire protocol: microseconds a message, ours beside two others",
        durability="nothing is written",
        rows=[_row(task, rounds) for task in _tasks()],
        notes=[
            f"Medians of {rounds} rounds, the codecs in turns. Ratios say how many times as long the other one takes.",
            f"Produce and Fetch carry one partition with {RECORDS_BYTES >> 10} KiB of records, without the header.",
            f"Metadata has {TOPICS} topics of {PARTITIONS_A_TOPIC} partitions on 3 brokers.",
            "Ours reads records as a view and writes them as the buffer they came in; the others copy them.",
            "kio decodes in Rust and encodes in Python; kafka-python writes Python from declarations, as we do.",
            "Processor time of the process, so that other load on the machine counts less.",
            "; ".join(f"{peer} {version(peer)}" for peer in _PEERS),
        ],
    )


def _tasks() -> list[Task]:
    return [
        _decoding("decode Produce", _produce_request(RECORDS_BYTES), 9),
        _decoding("decode Produce of 1 MiB", _produce_request(1 << 20), 9),
        _encoding("encode Produce answer", _produce_response(), 9),
        _encoding("encode Fetch answer", _fetch_response(), 12),
        _encoding("encode Metadata answer", _metadata_response(), 12),
        _decoding("decode Metadata answer", _metadata_response(), 12),
    ]


def _decoding(name: str, message: Message, number: int) -> Task:
    data = b"".join(encode(message, number))
    runs: dict[str, Callable[[], object]] = {"ours": partial(decode, type(message), number, data)}
    for peer in _PEERS:
        read, _ = _peer(peer, message, number)
        runs[peer] = partial(read, data)
    return Task(name=name, runs=runs)


def _encoding(name: str, message: Message, number: int) -> Task:
    data = b"".join(encode(message, number))
    runs: dict[str, Callable[[], object]] = {"ours": partial(encode, message, number)}
    for peer in _PEERS:
        read, write = _peer(peer, message, number)
        theirs = read(data)
        assert write(theirs) == data, f"{peer} writes other bytes: the figures would compare nothing"
        runs[peer] = partial(write, theirs)
    return Task(name=name, runs=runs)


def _peer(name: str, message: Message, number: int) -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    """Return the functions with which a peer decodes and encodes this kind of message."""
    return _kio(message, number) if name == "kio" else _kafka_python(message, number)


def _kio(message: Message, number: int) -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    from kio.index import load_request_schema, load_response_schema
    from kio.serial import entity_reader, entity_writer

    load = load_request_schema if type(message).__name__.endswith("Request") else load_response_schema
    kind: Any = load(type(message).message_key, number)
    reader, writer = entity_reader(kind), entity_writer(kind)

    def write(theirs: Any) -> bytes:
        out = io.BytesIO()
        writer(out, theirs)
        return out.getvalue()

    return lambda data: reader(data, 0)[0], write


def _kafka_python(message: Message, number: int) -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    from kafka.protocol import consumer, metadata, producer

    name = type(message).__name__
    kind: Any = next(getattr(each, name) for each in (consumer, metadata, producer) if hasattr(each, name))

    def read(data: bytes) -> Any:
        theirs = kind.decode(data, version=number)
        # Decoding leaves this unset, and encoding asks for it.
        theirs._header = None
        return theirs

    def write(theirs: Any) -> bytes:
        written: bytes = theirs.encode(version=number)
        return written

    return read, write


def _row(task: Task, rounds: int) -> dict[str, Cell]:
    say(f"wire codec: {task.name}")
    repeats = {name: _repeats(run) for name, run in task.runs.items()}
    figures: dict[str, list[float]] = {name: [] for name in task.runs}
    for _ in range(rounds):
        for name, run in task.runs.items():
            figures[name].append(_call_us(run, repeats[name]))
    medians = {name: median(measured) for name, measured in figures.items()}
    row: dict[str, Cell] = {"task": task.name}
    row |= {f"{name} us": round(medians[name], 2) for name in medians}
    row |= {f"{peer} / ours": round(medians[peer] / medians["ours"], 1) for peer in _PEERS}
    return row


def _repeats(run: Callable[[], object]) -> int:
    """Return how often a round runs it, so that the clock's own cost does not count."""
    _call_us(run, 1)
    return max(1, round(_ROUND_NS_MIN / max(_call_us(run, 1) * 1000, 1)))


def _call_us(run: Callable[[], object], repeats: int) -> float:
    begun = time.process_time_ns()
    for _ in range(repeats):
        run()
    return (time.process_time_ns() - begun) / repeats / 1000


# --- what is encoded and decoded ---------------------------------------------------------------------------------


def _produce_request(records_bytes: int) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=bytes(records_bytes))
    topic = TopicProduceData(name="orders", partition_data=(partition,))
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=(topic,))


def _produce_response() -> ProduceResponse:
    partition = PartitionProduceResponse(index=0, error_code=0, base_offset=1_000_000, log_start_offset=0)
    return ProduceResponse(responses=(TopicProduceResponse(name="orders", partition_responses=(partition,)),))


def _fetch_response() -> FetchResponse:
    partition = PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=1_000_000,
        last_stable_offset=1_000_000,
        log_start_offset=0,
        aborted_transactions=None,
        records=bytes(RECORDS_BYTES),
    )
    return FetchResponse(responses=(FetchableTopicResponse(topic="orders", partitions=(partition,)),))


def _metadata_response() -> MetadataResponse:
    partitions = tuple(
        MetadataResponsePartition(
            error_code=0,
            partition_index=index,
            leader_id=1 + index % 3,
            leader_epoch=4,
            replica_nodes=(1, 2, 3),
            isr_nodes=(1, 2, 3),
        )
        for index in range(PARTITIONS_A_TOPIC)
    )
    topics = tuple(
        MetadataResponseTopic(
            error_code=0, name=f"topic-{number}", topic_id=UUID(int=number + 1), partitions=partitions
        )
        for number in range(TOPICS)
    )
    brokers = tuple(MetadataResponseBroker(node_id=node_id, host="localhost", port=9092) for node_id in (1, 2, 3))
    return MetadataResponse(brokers=brokers, cluster_id="kJ2Yk0mVT0ma0wV2Yk0mVQ", controller_id=1, topics=topics)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    rounds: Annotated[int, typer.Option(min=1, help="Each measures all codecs in turns.")] = 41,
    output: Annotated[Output, typer.Option(help="For people or for programs.")] = Output.TABLE,
) -> None:
    """Decode and encode Kafka's messages, beside kio and kafka-python."""
    print_report(measure(rounds), output)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.wire_codec")
