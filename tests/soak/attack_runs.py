"""Three attacks at once on a real node for half a minute, while an honest producer and consumer go on.

    python -m tests.soak.attack_runs --seconds 30

The attackers are strangers who may connect: one sends Produce requests with as many entries as fit, one lists
transactions by a pattern that is as hard as patterns get, and one lets members join a classic group and closes their
connections, so that their sessions end together again and again. The node logs how long its event loop computed in its
longest turn, which other programs on the machine do not change much. Ends with 1 if a turn reached 50 ms of computing,
or if an honest record was lost, duplicated or not read.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import cycle
from typing import Final

from kraft.client import Admin, Consumer, TopicPartition
from kraft.testing import Cluster
from kraft.wire.api_keys import ApiKey, request_type
from kraft.wire.declaration import Message
from tests.soak.loads import worst_loads
from tests.soak.loads.numbered_load import NumberedLoad, compare
from tests.soak.turn_runs import FIXED, KNOWN, MEASURED, PREPARE_S, TOPIC, longest
from tests.support.kafka.kafka_connection import Connection
from tests.support.kafka.largest_requests import PARTITIONS, LargestRequests
from tests.support.waiting import until_every_broker_knows
from tests.support.working_thread import WorkingThread

_HONEST: Final = "honest"
_DEADLINE_S: Final = 60.0
_PRODUCE: Final = 9
"""The last version that names topics by name only."""
_LISTED: Final = 2


class Attack(WorkingThread):
    """A context manager: sends requests over one connection after the other, and reads the answers."""

    def __init__(self, name: str, server: str, requests: Iterator[tuple[Message, int]]) -> None:
        super().__init__(name, _DEADLINE_S)
        self.name = name
        self.outcomes: Counter[str] = Counter()
        self._server = server
        self._requests = requests

    def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                self._attack_once()
            except (OSError, AssertionError) as error:
                # The node may refuse a stranger.
                self.outcomes[type(error).__name__] += 1

    def _attack_once(self) -> None:
        with Connection(self._server) as connection:
            connection.socket.settimeout(_DEADLINE_S)
            while not self._stopping.is_set():
                request, version = next(self._requests)
                connection.send(request, version)
                self.outcomes["closed" if connection.frame() is None else "answered"] += 1


class JoinAttack(Attack):
    """Members join a group over connections of their own, which close at once."""

    def _attack_once(self) -> None:
        request, version = next(self._requests)
        with Connection(self._server) as connection:
            connection.send(request, version)
        self.outcomes["joined"] += 1


class HonestConsumer(WorkingThread):
    """A context manager: reads a partition to its end; knows its longest wait for a record, and how many it read."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__("honest consumer", _DEADLINE_S)
        self.read = 0
        self.waited_s_max = 0.0
        self._servers = servers
        self._partition = TopicPartition(topic, 0)

    def _work(self) -> None:
        with Consumer(self._servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([self._partition])
            last_s = time.monotonic()
            while not self._stopping.is_set():
                found = len(consumer.poll(100))
                now_s = time.monotonic()
                if found:
                    if self.read:
                        self.waited_s_max = max(self.waited_s_max, now_s - last_s)
                    self.read, last_s = self.read + found, now_s


def _attacks(server: str, requests: LargestRequests) -> list[Attack]:
    produce = request_type(ApiKey.PRODUCE)
    produces = [(requests.build(produce, _PRODUCE, shape), _PRODUCE) for shape in requests.shapes(produce, _PRODUCE)]
    listing = worst_loads.list_by_pattern(server)
    joins = ((worst_loads.join("attacked"), worst_loads.JOIN_WITHOUT_ID) for _ in cycle([None]))
    return [
        Attack("produce entries", server, cycle(produces)),
        Attack("patterns", server, cycle([(listing, _LISTED)])),
        JoinAttack("joins", server, joins),
    ]


def run(seconds: float, tell: Callable[[str], None]) -> bool:
    """Return True if no turn was as long as the goal. Raises AssertionError about honest records."""
    cluster = Cluster(nodes=1, overrides=worst_loads.SETTINGS)
    cluster.node(1)._command = MEASURED
    acknowledged_s: list[float] = []
    with cluster:
        kafka, rpc = cluster.kafka_bootstrap_servers, cluster.bootstrap_servers
        with Admin(rpc) as admin:
            admin.create_topic(TOPIC, PARTITIONS, 1)
            admin.create_topic(_HONEST, 1, 1)
            until_every_broker_knows(rpc, TOPIC, PREPARE_S)
            (topic,) = admin.describe_topics([TOPIC])
        worst_loads.prepare(kafka)
        attacks = _attacks(kafka, LargestRequests(KNOWN, topic.metadata.topic_id, FIXED))
        note = partial(_note, acknowledged_s)
        with NumberedLoad(rpc, _HONEST, burst=1, burst_pause_s=0.01, on_acknowledged=note) as load:
            load.wait_for_acknowledgements(100)
            position, began = cluster.node(1).log_path.stat().st_size, len(acknowledged_s)
            with HonestConsumer(rpc, _HONEST) as consumer:
                with ExitStack() as running:
                    for attack in attacks:
                        running.enter_context(attack)
                    time.sleep(seconds)
                gaps_s = [
                    later - earlier
                    for earlier, later in zip(acknowledged_s[began:], acknowledged_s[began + 1 :], strict=False)
                ]
                load.pause(deadline_s=_DEADLINE_S)
                _read_all(consumer, load)
            contents = compare(rpc, _HONEST, load)
        cluster.node(1).check_running()
        outcomes = "; ".join(f"{each.name}: {dict(each.outcomes)}" for each in attacks)
        result = longest(cluster.node(1).log_path, position, f"three attacks for {seconds:g} s", outcomes)
    tell(str(result))
    tell(
        f"honest: {len(gaps_s):,} acknowledged, at most {max(gaps_s):.2f} s apart; {consumer.read:,} read, at most "
        f"{consumer.waited_s_max:.2f} s apart"
    )
    assert contents.is_exact, str(contents)
    return not result.is_over


def _note(acknowledged_s: list[float], _number: int) -> None:
    acknowledged_s.append(time.monotonic())


def _read_all(consumer: HonestConsumer, load: NumberedLoad) -> None:
    ends_s = time.monotonic() + _DEADLINE_S
    while consumer.read < load.acknowledged_count:
        consumer.check()
        assert time.monotonic() < ends_s, f"{consumer.read} of {load.acknowledged_count} records were read"
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="Length of the attacks")
    sys.exit(0 if run(parser.parse_args().seconds, partial(print, flush=True)) else 1)


if __name__ == "__main__":
    main()
