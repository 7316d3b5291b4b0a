"""`python -m benchmarks.metadata_scale`: what the metadata costs in time and memory, by the number of partitions.

Controllers are real processes, with their journal, snapshots and elections; the brokers have no logs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import structlog
import typer

from benchmarks.metadata_cluster import (
    CALL_DEADLINE_S,
    CLUSTER_ID,
    ScaleBroker,
    ScaleCluster,
    Waits,
    followed,
    scale_cluster,
)
from benchmarks.report import Cell, Output, Report, file_system, print_report, say
from kraft.metadata.delta import delta
from kraft.metadata.image import MetadataImage
from kraft.metadata.new_topics import new_topic
from kraft.metadata.records import PartitionChanged
from kraft.model.errors import ErrorCode, Refusal, error_code
from kraft.model.ids import PartitionEpoch
from kraft.quorum.snapshots import SnapshotStore
from kraft.rpc.topic_calls import CREATE_TOPICS
from kraft.runtime.clock import SystemClock
from kraft.runtime.disk import RealDisk
from kraft.server.cluster.metadata_loader import MetadataLoader
from kraft.server.cluster.metadata_snapshots import (
    LoadedImage,
    MetadataSnapshots,
    SnapshotPolicy,
    decode_image,
    encode_image,
)
from kraft.wire.schema.create_topics import CreateTopicsRequest

PARTITIONS: Final = (1_000, 10_000, 50_000)
TOPIC_PARTITIONS: Final = 100
LARGE_TOPIC_PARTITIONS: Final = 1_000
FAILOVERS: Final = 5
CHANGES: Final = 500
_NEVER: Final = SnapshotPolicy(entry_bytes_between=1 << 40, interval_ms=0)


def measure(directory: Path, partitions: Sequence[int], failovers: int = FAILOVERS) -> Report:
    columns: dict[str, dict[str, Cell]] = {}
    for number in partitions:
        say(f"metadata scale: {number} partitions")
        place = directory / str(number)
        place.mkdir()
        columns[f"{number:,}"] = asyncio.run(_column(place, number, failovers))
    return Report(
        title="The metadata, by the number of partitions",
        durability="every entry is fdatasynced by a majority of three controllers before it is answered",
        rows=[
            {"partitions": name, **{number: column[name] for number, column in columns.items()}}
            for name in next(iter(columns.values()), {})
        ],
        notes=_notes(directory, failovers),
    )


def _notes(directory: Path, failovers: int) -> list[str]:
    setting = (
        "Three controllers as processes; three brokers without logs in the process of the benchmark, replication "
        f"factor 3, each broker in every partition. Topics of {TOPIC_PARTITIONS} partitions, created one after the "
        f"other, then one of {LARGE_TOPIC_PARTITIONS}."
    )
    restart = (
        "Broker restart, as after kill -9: its snapshot is read (load), it registers again and leaves every ISR "
        "(register), and receives the metadata until it has this in its image (caught up, from the registration on)."
    )
    change = (
        f"One change: of a partition's in-sync set, {CHANGES} times, p50: the next image, and what it means for a "
        "broker."
    )
    wait = (
        "Longest wait: of any answer to heartbeats every 10 ms, meanwhile; so long the event loop of the active "
        "controller was busy, or its process waited for a core."
    )
    memory = (
        "Image: of one image in a process, by tracemalloc. Controller: growth of the active one's resident memory by "
        "the creation, with the entries that it keeps for followers."
    )
    return [
        setting,
        (
            f"Failover: kill -9 of the active controller until another commits, {failovers} times; its restart "
            "afterwards from the start of its process until it has the whole log."
        ),
        restart,
        change,
        wait,
        memory,
        f"{file_system(directory)}; load average at the end: {os.getloadavg()[0]:.1f}.",
    ]


async def _column(directory: Path, partitions: int, failovers: int) -> dict[str, Cell]:
    async with scale_cluster(directory) as cluster:
        waits = Waits(cluster.brokers[1])
        return {
            **await _creation(cluster, waits, partitions),
            **await _failover(cluster, failovers),
            **await _restart(cluster, waits, directory),
        }


# --- creation ---------------------------------------------------------------------------------------------------------


async def _creation(cluster: ScaleCluster, waits: Waits, partitions: int) -> dict[str, Cell]:
    active = await cluster.active()
    before_bytes = active.resident_bytes()
    topics_ms: list[float] = []
    async with waits.watched():
        began_s = time.perf_counter()
        while len(topics_ms) < partitions // TOPIC_PARTITIONS:
            topics_ms.append(await _create(cluster, f"topic-{len(topics_ms)}", TOPIC_PARTITIONS))
        seconds = time.perf_counter() - began_s
        resident_bytes = active.resident_bytes() - before_bytes
        large_ms = await _create(cluster, "large", LARGE_TOPIC_PARTITIONS)
    last = topics_ms[-10:]
    return {
        "creation, s": seconds,
        "the last topics of 100: p50 ms": median(last),
        "a topic of 1,000: ms": large_ms,
        "longest wait in creation, ms": waits.longest_ms,
        "controller, MiB": resident_bytes / (1 << 20),
    }


async def _create(cluster: ScaleCluster, name: str, partitions: int) -> float:
    topic = new_topic(name, partitions=partitions, replication_factor=3)
    request = CreateTopicsRequest(topics=(topic,), timeout_ms=int(CALL_DEADLINE_S * 1_000))
    began_s = time.perf_counter()
    created = await cluster.brokers[0].controllers.call(
        CREATE_TOPICS, request, CALL_DEADLINE_S, attempt_timeout_s=CALL_DEADLINE_S
    )
    (result,) = created.topics
    if result.error_code != ErrorCode.NONE:
        raise Refusal(error_code(result.error_code), result.error_message or "")
    return (time.perf_counter() - began_s) * 1_000


# --- failover ---------------------------------------------------------------------------------------------------------


async def _failover(cluster: ScaleCluster, failovers: int) -> dict[str, Cell]:
    active_s, restart_s = [], []
    for _ in range(failovers):
        active = await cluster.active()
        await cluster.caught_up()
        active.kill()
        began_s = time.perf_counter()
        await cluster.active()
        active_s.append(time.perf_counter() - began_s)
        began_s = time.perf_counter()
        active.start()
        await cluster.caught_up()
        restart_s.append(time.perf_counter() - began_s)
    return {
        "failover: p50 s": median(active_s),
        "failover: max s": max(active_s),
        "controller restart, caught up: p50 s": median(restart_s),
    }


# --- a broker ---------------------------------------------------------------------------------------------------------


async def _restart(cluster: ScaleCluster, waits: Waits, directory: Path) -> dict[str, Cell]:
    """Restart of a broker with all partitions, as another process than the one that wrote the snapshot."""
    broker = cluster.brokers[0]
    say("metadata scale: a broker restarts")
    first = await followed(cluster, broker)
    store = directory / "broker-snapshots"
    snapshots = _snapshots(store, first)
    await snapshots.write()
    snapshots.close()
    image = first.image
    del first
    began_s = time.perf_counter()
    snapshots = _snapshots(store, MetadataLoaderOfNothing())
    loaded = await snapshots.load()
    load_s = time.perf_counter() - began_s
    snapshots.close()
    async with waits.watched():
        began_s = time.perf_counter()
        await broker.register()
        register_s = time.perf_counter() - began_s
    began_s = time.perf_counter()
    caught_up = await followed(cluster, broker, loaded)
    caught_up_s = time.perf_counter() - began_s
    await broker.come_into_service()
    return {
        "broker restart: load, s": load_s,
        "broker restart: register, s": register_s,
        "longest wait while it registers, ms": waits.longest_ms,
        "broker restart: caught up, s": caught_up_s,
        **_one_change(caught_up.image, broker),
        "image, MiB": _image_bytes(image) / (1 << 20),
    }


class MetadataLoaderOfNothing:
    """Holds nothing that could be written: for snapshots that are only read."""

    entry_bytes_total = 0

    def current_image(self) -> LoadedImage:
        raise AssertionError("nothing is written")


def _snapshots(directory: Path, holder: MetadataLoader | MetadataLoaderOfNothing) -> MetadataSnapshots:
    return MetadataSnapshots(
        SnapshotStore(RealDisk(), str(directory)),
        holder,
        policy=_NEVER,
        cluster_id=CLUSTER_ID,
        monotonic_ms=SystemClock().monotonic_ms,
        failed=_failed,
    )


def _failed(reason: str) -> None:
    raise RuntimeError(reason)


def _one_change(image: MetadataImage, broker: ScaleBroker) -> dict[str, Cell]:
    """Cost of an entry with one change, for every node and, in addition, for a broker."""
    topic = next(iter(image.topics.values()))
    partition = topic.partitions[0]
    changed = PartitionChanged(
        topic_id=topic.topic_id,
        partition=0,
        isr=list(partition.isr),
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=PartitionEpoch(partition.partition_epoch + 1),
    )
    after = image.replay([changed])
    return {
        "one change: image, us": _microseconds(lambda: image.replay([changed])),
        "one change: delta, us": _microseconds(lambda: delta(image, after, broker.broker_id)),
    }


def _microseconds(step: Callable[[], object]) -> float:
    taken_us = []
    for _ in range(CHANGES):
        began_s = time.perf_counter()
        step()
        taken_us.append((time.perf_counter() - began_s) * 1e6)
    return median(taken_us)


def _image_bytes(image: MetadataImage) -> int:
    chunks = list(encode_image(image))
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        held = decode_image(chunks, 0)
        after, _ = tracemalloc.get_traced_memory()
        assert held == image, "a snapshot holds the image"
    finally:
        tracemalloc.stop()
    return after - before


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    partitions: Annotated[list[int] | None, typer.Option(min=100, help="Once for each row.")] = None,
    failovers: Annotated[int, typer.Option(min=1)] = FAILOVERS,
    directory: Annotated[
        Path | None, typer.Option(help="Where to write; by default where temporary files go.", exists=True)
    ] = None,
    output: Annotated[Output, typer.Option(help="For people or for programs.")] = Output.TABLE,
) -> None:
    """The metadata of 1,000, 10,000 and 50,000 partitions: creation, failover, restart, changes, memory."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with TemporaryDirectory(prefix="kraft-scale-", dir=directory) as scratch:
        print_report(measure(Path(scratch), partitions or PARTITIONS, failovers), output)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.metadata_scale")
