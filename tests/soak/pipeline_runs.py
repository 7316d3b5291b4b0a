"""`python -m tests.soak.pipeline_runs`: log lines from rsyslog and Python's logging to a real OpenSearch, under faults.

Half of the lines are written to rsyslog, half to `LogHandler`, some of which the index cannot take. `kraft sink` loads
them. Meanwhile the engine is killed and started again twice, the leader of a partition is killed once, and so is the
sink. At the end each line is in the index or in the dead letters, and once.
"""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final

import msgspec
import psutil
import typer

from kraft.client import Admin, Consumer, TopicPartition
from kraft.client.logging import LogHandler
from kraft.local.launching import KRAFT
from kraft.testing import Cluster
from tests.support.records import create_topic
from tests.support.search_engine.opensearch import SearchEngine, engine_jars
from tests.support.search_engine.rsyslog import Syslog, rsyslog

PARTITIONS: Final = 6
POISON_EVERY: Final = 1_000
TOPIC: Final = "logs"
DEAD: Final = "dead-letters"
INDEX: Final = "logs"
AWAY_S: Final = 3.0
"""How long the engine is away each time, beside its start."""

_PAGE: Final = 10_000
_LOOK_S: Final = 1.0
_SETTLED_S: Final = 600.0
_NUMBER: Final = re.compile(r"(rsyslog|handler) (\d+)")


class Pipeline:
    """All processes of a run."""

    def __init__(self, directory: Path, cluster: Cluster, engine: SearchEngine, lines: int) -> None:
        self.cluster, self.engine, self.lines = cluster, engine, lines
        self.poison = {number for number in range(lines // 2) if number % POISON_EVERY == 7}
        self._file = directory / "sink.properties"
        self._log = (directory / "sink.log").open("wb")
        self._log_path = directory / "sink.log"
        self._file.write_text(
            f"bootstrap.servers={cluster.bootstrap_servers}\ntopics={TOPIC}\ngroup.id=search\n"
            f"connection.url={engine.url}\nindex={INDEX}\nerrors.deadletterqueue.topic.name={DEAD}\n"
            "retry.backoff.max.ms=2000\n"
        )
        self._sink: subprocess.Popen[bytes] | None = None

    def start_sink(self) -> None:
        self._sink = subprocess.Popen([*KRAFT, "sink", "-c", str(self._file)], stdout=self._log, stderr=self._log)

    def kill_sink(self) -> None:
        assert self._sink is not None
        self._sink.kill()
        self._sink.wait(30)

    def stop_sink(self) -> tuple[float, str]:
        """Return its processor time in seconds, and what it said at its end."""
        assert self._sink is not None
        times = psutil.Process(self._sink.pid).cpu_times()
        self._sink.terminate()
        self._sink.wait(60)
        return times.user + times.system, self._log_path.read_text(errors="replace").splitlines()[-1]

    def stored(self) -> int:
        """Return how many documents a search finds now; the last count while the engine is away."""
        try:
            return int(self.engine.ask("GET", f"/{INDEX}/_count")["count"])
        except (OSError, AssertionError, ValueError):
            return -1

    def wait_for(self, documents: int, deadline_s: float) -> None:
        until_s, most = time.monotonic() + deadline_s, 0
        while (now := self.stored()) < documents:
            if now > most:
                most, until_s = now, time.monotonic() + deadline_s
            if time.monotonic() > until_s:
                raise TimeoutError(f"{most} documents of {documents}, and none more for {deadline_s:g} s")
            # There is no signal for it.
            time.sleep(_LOOK_S)  # Polled: the engine does not tell what it has.

    def restart_engine(self) -> None:
        self.engine.kill()
        # The fault is an engine that is away for a while.
        time.sleep(AWAY_S)  # It is away for so long.
        self.engine.start()
        self.engine.wait_ready()

    def kill_leader(self) -> None:
        with Admin(self.cluster.bootstrap_servers) as admin:
            (described,) = admin.describe_topics([TOPIC])
        leader = self.cluster.node(described.metadata.partitions[0].leader_id)
        leader.kill()
        time.sleep(AWAY_S)  # As above.
        leader.start()
        self.cluster.wait_ready()

    def kill_and_start_sink(self) -> None:
        self.kill_sink()
        self.start_sink()

    # --- what is there at the end ------------------------------------------------------------------------------

    def in_index(self) -> Counter[str]:
        """Return how often each line is in the index."""
        self.engine.ask("POST", f"/{INDEX}/_refresh")
        query = {"size": _PAGE, "_source": ["message"], "sort": ["_doc"]}
        page = self.engine.ask("POST", f"/{INDEX}/_search?scroll=1m", query)
        found: Counter[str] = Counter()
        while hits := page["hits"]["hits"]:
            found.update(_name(each["_source"]["message"]) for each in hits)
            page = self.engine.ask("POST", "/_search/scroll", {"scroll": "1m", "scroll_id": page["_scroll_id"]})
        return found

    def in_dead_letters(self) -> Counter[str]:
        with Consumer(self.cluster.bootstrap_servers, consumer_timeout_ms=3_000) as consumer:
            consumer.assign([TopicPartition(DEAD, each) for each in consumer.partitions_for(DEAD)])
            consumer.seek_to_beginning()
            return Counter(_name(msgspec.json.decode(each.value or b"")["message"]) for each in consumer)


def _name(message: str) -> str:
    found = _NUMBER.search(message)
    return message if found is None else found[0]


def write_to_rsyslog(listening: Path, lines: int) -> None:
    syslog = Syslog(listening)
    for number in range(lines):
        syslog.write(f"rsyslog {number} GET /orders/{number % 997} 200 {number % 89} ms from 10.0.{number % 200}.7")
    syslog.close()


def write_to_handler(handler: LogHandler, lines: int, poison: set[int]) -> None:
    logger = logging.getLogger("orders.payment")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
    for number in range(lines):
        took: Any = "long" if number in poison else number % 89
        logger.info("handler %d order %d paid", number, number % 997, extra={"took_ms": took})
    logger.removeHandler(handler)


@contextmanager
def started(lines: int, directory: Path) -> Iterator[Pipeline]:
    with SearchEngine(engine_jars(), runs_long=True) as engine, Cluster(nodes=3) as cluster:
        engine.start()
        create_topic(cluster.bootstrap_servers, TOPIC, partitions=PARTITIONS)
        engine.wait_ready()
        # The engine guesses from the first value otherwise, which may be the wrong one.
        engine.ask("PUT", f"/{INDEX}", {"mappings": {"properties": {"took_ms": {"type": "long"}}}})
        pipeline = Pipeline(directory, cluster, engine, lines)
        pipeline.start_sink()
        try:
            yield pipeline
        finally:
            pipeline.kill_sink()


def run(lines: int, tell: Callable[[str], None] = lambda _: None) -> bool:
    """Return whether each line is there once."""
    with TemporaryDirectory(prefix="kraft-pipeline-") as name, started(lines, Path(name)) as pipeline:
        cluster, half, expected = pipeline.cluster, lines // 2, lines // 2 * 2 - len(pipeline.poison)
        handler = LogHandler(
            TOPIC, cluster.kafka_bootstrap_servers, when_full="block", block_ms=600_000, close_ms=120_000
        )
        with rsyslog(Path(name) / "rsyslog", cluster.kafka_bootstrap_servers, TOPIC) as listening:
            began_s = time.monotonic()
            writers = [
                threading.Thread(target=write_to_rsyslog, args=(listening, half)),
                threading.Thread(target=write_to_handler, args=(handler, half, pipeline.poison)),
            ]
            for each in writers:
                each.start()
            faults = (
                (0.2, "engine", pipeline.restart_engine),
                (0.4, "leader", pipeline.kill_leader),
                (0.6, "sink", pipeline.kill_and_start_sink),
                (0.8, "engine", pipeline.restart_engine),
            )
            for part, what, fault in faults:
                pipeline.wait_for(int(part * expected), _SETTLED_S)
                at_s = time.monotonic()
                fault()
                back_s = time.monotonic() - at_s
                tell(f"{at_s - began_s:6.1f} s: kill -9 of the {what}; started again after {back_s:.1f} s")
            for each in writers:
                each.join(_SETTLED_S)
            tell(f"{time.monotonic() - began_s:6.1f} s: all lines are written")
            handler.close()
            pipeline.wait_for(expected, _SETTLED_S)
            took_s = time.monotonic() - began_s
        cpu_s, said = pipeline.stop_sink()
        tell(f"{took_s:6.1f} s: {expected} documents, {expected / took_s:,.0f} a second")
        tell(f"the sink's last process used {cpu_s:.1f} s of processor time")
        tell(said)
        return judged(pipeline, handler, tell)


def judged(pipeline: Pipeline, handler: LogHandler, tell: Callable[[str], None]) -> bool:
    half = pipeline.lines // 2
    poison = {f"handler {number}" for number in pipeline.poison}
    written = {f"{whose} {number}" for whose in ("rsyslog", "handler") for number in range(half)}
    index, dead = pipeline.in_index(), pipeline.in_dead_letters()
    lost, twice = written - set(index) - set(dead), [line for line, times in index.items() if times > 1]
    foreign = set(index) - (written - poison)
    tell(f"of {len(written)} lines {len(lost)} are lost, {len(twice)} are in the index twice")
    tell(f"{len(foreign)} documents do not belong there")
    tell(f"of {len(poison)} poison lines {len(set(dead) & poison)} are in the dead letters")
    tell(f"{dead.total() - len(dead)} dead letters are repeated")
    tell(f"the handler: {handler.sent} sent, {handler.dropped} dropped, {handler.failed} failed")
    for line in [*sorted(lost)[:5], *twice[:5], *sorted(foreign)[:5]]:
        tell(f"  {line}")
    return not lost and not twice and not foreign and set(dead) == poison


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(lines: Annotated[int, typer.Option(min=1_000)] = 1_000_000) -> None:
    """Send lines through the whole pipeline while its parts are killed."""
    is_right = run(lines, lambda text: print(text, flush=True))
    print("each line is there once" if is_right else "NOT as promised")
    sys.exit(0 if is_right else 1)


if __name__ == "__main__":
    app(prog_name="python -m tests.soak.pipeline_runs")
