"""Rate and CPU of `kraft mirror` and of MirrorMaker 2, on the same work: `python -m benchmarks.mirror`.

Two Krafts of one node hold the records; both programs reach them by Kafka's protocol, with four tasks, and mirror a
topic that is full before they start. The clock starts with the program. A JVM and its connectors need some seconds, so
there is also the time from the first record on; CPU is that of the whole program.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final

import typer

from benchmarks.cpu_clock import process_cpu_s
from benchmarks.report import Cell, Output, Report, print_report, say
from kraft.client import Admin, Consumer, Producer, TopicPartition
from kraft.testing import Cluster
from tests.support.kafka.kafka_jars import server_command
from tests.support.maven_jars import maven_jars

POM: Final = Path(__file__).with_name("mirrormaker.xml")
PARTITIONS: Final = 4
DEADLINE_S: Final = 300.0
_POLL_S: Final = 0.05
_KAFKA: Final[dict[str, Any]] = {"wire_protocol": "kafka"}
_ONE: Final = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


def fill(servers: str, records: int, value_bytes: int) -> None:
    with Admin(servers, **_KAFKA) as admin:
        admin.create_topic("load", PARTITIONS, 1)
    values = [b"%0*d" % (value_bytes, each) for each in range(1_000)]
    with Producer(servers, compression_type="lz4", **_KAFKA) as producer:
        for _ in range(records // len(values)):
            for each in values:
                producer.send("load", each)


def mirrored(consumer: Consumer, topic: str) -> int:
    """Return the end of the log, markers included; 0 before there is one."""
    places = [TopicPartition(topic, each) for each in range(PARTITIONS)]
    return sum(consumer.end_offsets(places).values())


def measure(command: list[str], target: str, topic: str, records: int, log: Path) -> dict[str, Cell]:
    with log.open("wb") as file, Consumer(target, **_KAFKA) as consumer, Admin(target, **_KAFKA) as admin:
        began_s = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        try:
            first_s, count = 0.0, 0
            while count < records:
                if process.poll() is not None or time.monotonic() - began_s > DEADLINE_S:
                    raise RuntimeError(f"{command[0]} did not mirror: {log.read_text(errors='replace')[-2_000:]}")
                time.sleep(_POLL_S)  # Polled: neither program tells when it is done.
                count = mirrored(consumer, topic) if topic in admin.list_topics() else 0
                first_s = first_s or (time.monotonic() if count else 0.0)
            ended_s = time.monotonic()
            cpu_s = process_cpu_s(process.pid)
        finally:
            process.kill()
            process.wait()
    return {
        "seconds": round(ended_s - began_s, 1),
        "from the first record": round(ended_s - first_s, 2),
        "records/s": round(records / (ended_s - began_s)),
        "CPU s": round(cpu_s, 2),
        "CPU us/record": round(cpu_s / records * 1e6, 1),
    }


def file_of(path: Path, source: str, target: str, more: Mapping[str, str]) -> Path:
    settings = {
        "clusters": "A, B",
        "A.bootstrap.servers": source,
        "B.bootstrap.servers": target,
        "A->B.enabled": "true",
        "A->B.topics": "load",
        "tasks.max": str(PARTITIONS),
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "config.storage.replication.factor": "1",
        **more,
    }
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


def commands(directory: Path, source: str, target: str) -> dict[str, list[str]]:
    """Return what is compared; each mirrors into topics of its own cluster, so `target` is one of several."""
    wire = {"wire.protocol": "kafka"}
    kraft = [sys.executable, "-m", "kraft", "mirror", "start", "-c"]
    once = file_of(directory / "once.properties", source, target, wire)
    least = file_of(directory / "least.properties", source, target, {**wire, "exactly.once.source.support": "disabled"})
    theirs = file_of(directory / "mm2.properties", source, target, {"B.producer.compression.type": "lz4"})
    jars = maven_jars(POM, "mirrormaker")
    java = server_command(jars, "org.apache.kafka.connect.mirror.MirrorMaker", str(theirs))
    return {
        "kraft mirror, exactly once": [*kraft, str(once)],
        "kraft mirror, at least once": [*kraft, str(least)],
        "MirrorMaker 2, at least once": java,
    }


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    records: Annotated[int, typer.Option(min=1_000)] = 1_000_000,
    value_bytes: Annotated[int, typer.Option(min=1)] = 100,
    output: Output = Output.TABLE,
) -> None:
    """Mirror a full topic with each program, into a fresh cluster."""
    rows: list[dict[str, Cell]] = []
    with TemporaryDirectory(prefix="mirror-") as name, Cluster(1, overrides=_ONE) as source:
        directory = Path(name)
        fill(source.kafka_bootstrap_servers, records, value_bytes)
        for which in range(3):
            with Cluster(1, overrides=_ONE) as target:
                address = target.kafka_bootstrap_servers
                what, command = list(commands(directory, source.kafka_bootstrap_servers, address).items())[which]
                say(what)
                found = measure(command, address, "A.load", records, directory / "log")
                rows.append({"program": what, **found})
    print_report(
        Report(
            title=f"mirror {records:,} records of {value_bytes} bytes in lz4, {PARTITIONS} partitions",
            durability="acks=all, synced by one node",
            rows=rows,
            notes=["The end of the target's log is polled; markers of transactions count as records there."],
        ),
        output,
    )


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.mirror")
