"""Sends every API its largest lawful requests, and measures the longest hold of the event loop for each.

    python -m tests.soak.turn_runs --only Kafka --only "gRPC Fetch" --only groups:

Starts a real node. Every request of Kafka's protocol and every call of gRPC's public listener is sent with each of its
lists filled, as far as the limits on a request let it. Then come the loads of `tests/soak/loads/worst_loads.py`: large
groups, patterns, deletions, overdue transactions. The figure is the processor time that the loop's thread took without
a look at anything else, so a busy machine does not change it much. Ends with a table of those that reached 50 ms, and
with 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc

from kraft.client import Admin
from kraft.rpc import calls, group_calls, topic_calls, transaction_calls
from kraft.rpc.call import Call, Stream
from kraft.testing import Cluster
from kraft.wire.api_keys import ApiKey, request_type
from kraft.wire.declaration import Identifier, Message, Struct
from tests.soak.loads import worst_loads
from tests.support.kafka.kafka_connection import Connection
from tests.support.kafka.largest_requests import PARTITIONS, LargestRequests, Shape
from tests.support.kafka.single_requests import response
from tests.support.largest_calls import LargestCalls
from tests.support.waiting import until_every_broker_knows

COMPUTED_MS_GOAL: Final = 50.0
SETTLE_S: Final = 0.2
"""Time after a response in which what follows from the request is measured, too."""

DEADLINE_S: Final = 60.0
PREPARE_S: Final = 300.0

TOPIC: Final = "many"
MEASURED: Final = (sys.executable, "-m", "tests.soak.loads.measured_node")
KNOWN: Final = {
    "topic": TOPIC,
    "group_instance": "instance",
    "transactional": "id",
    "member": "member",
    "host": "localhost",
    "group": "group",
    "names": TOPIC,
    "name": TOPIC,
    "resource": TOPIC,
    "key": "retention.ms",
}
"""Texts by a word in a field's name."""

FIXED: Final = {
    "replica_id": -1,
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "timeout_ms": 10_000,
    "validate_only": True,
    "acks": 1,
    "resource_type": 2,
    "replication_factor": 1,
    "num_partitions": 1,
    "api_versions": None,
    "configuration_keys": None,
    "topic_partitions": (),
}
"""Values by the names of fields. A member that joins has to say that it owns no partitions."""

_NOT_SENT: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
_LAST: Final = frozenset({ApiKey.DELETE_TOPICS, ApiKey.UNREGISTER_BROKER, ApiKey.UPDATE_FEATURES})
"""What changes the cluster for the others."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The longest turn of the loop while something was done."""

    name: str
    outcome: str
    computed_ms: float
    held_ms: float
    places: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.computed_ms >= COMPUTED_MS_GOAL

    @property
    def kind(self) -> str:
        """The protocol of a request, or the kind of another load: the first word of the name."""
        return self.name.split(" ", 1)[0].removesuffix(":")

    def __str__(self) -> str:
        places = "".join(f"\n      {each}" for each in self.places) if self.is_over else ""
        mark = "!" if self.is_over else " "
        return f"{mark} {self.computed_ms:8.1f} ms ({self.held_ms:8.1f} held)  {self.name}: {self.outcome}{places}"


@dataclass(slots=True)
class Battery:
    cluster: Cluster
    only: tuple[str, ...] = ()
    results: list[Measured] = field(default_factory=list)

    def measure(self, name: str, work: Callable[[], str]) -> None:
        if self.only and not any(each.lower() in name.lower() for each in self.only):
            return
        log = self.cluster.node(1).log_path
        position = log.stat().st_size
        outcome = work()
        time.sleep(SETTLE_S)
        self.cluster.node(1).check_running()
        result = longest(log, position, name, outcome)
        self.results.append(result)
        print(result, flush=True)


def longest(log: Path, position: int, name: str, outcome: str) -> Measured:
    """Return the longest turn in a measured node's log from `position` on."""
    computed = held = 0.0
    places: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    with log.open() as lines:
        lines.seek(position)
        for line in lines:
            if '"event loop places"' in line:
                seen = tuple(json.loads(line)["places"])
            elif '"event loop blocked"' in line:
                entry = json.loads(line)
                held = max(held, entry["held_ms"])
                if entry["loop_cpu_ms"] > computed:
                    computed, places = entry["loop_cpu_ms"], seen
    return Measured(name, outcome, computed, held, places)


# --- Kafka's listener ------------------------------------------------------------------------------------------------


def kafka_cases(server: str, requests: LargestRequests) -> Iterator[tuple[str, Callable[[], str]]]:
    for key in sorted(_served_keys(server), key=lambda key: (key in _LAST, key)):
        kind = request_type(key)
        for version in _versions(kind):
            for shape in requests.shapes(kind, version):
                name = f"Kafka {kind.__name__.removesuffix('Request')} v{version} [{shape}]"
                yield name, partial(_sent, server, requests, kind, version, shape)


def _served_keys(server: str) -> Iterator[ApiKey]:
    answer = response(server, request_type(ApiKey.API_VERSIONS)(), 0)
    return (ApiKey(each.api_key) for each in answer.api_keys if ApiKey(each.api_key) not in _NOT_SENT)


def _versions(kind: type[Message]) -> tuple[int, ...]:
    """Return the last version, and the first one of requests that name topics by id in the last one."""
    first, last = min(kind.versions), max(kind.versions)
    return (first, last) if _has_ids(kind, last) and not _has_ids(kind, first) else (last,)


def _has_ids(kind: type[Struct], version: int) -> bool:
    forms = [each.form for each in kind.fields if version in each.versions]
    elements = [getattr(form, "element", form) for form in forms]
    return any(
        isinstance(each, Identifier) or (isinstance(each, type) and _has_ids(each, version)) for each in elements
    )


def _sent(server: str, requests: LargestRequests, kind: type[Message], version: int, shape: Shape) -> str:
    request = requests.build(kind, version, shape)
    with Connection(server) as connection:
        connection.socket.settimeout(DEADLINE_S)
        try:
            connection.send(request, version)
            frame = connection.frame()
        except (OSError, AssertionError) as error:
            return f"{type(error).__name__}: {error}"
    return "closed" if frame is None else f"{len(frame):,} bytes"


# --- gRPC's listener -------------------------------------------------------------------------------------------------


def grpc_cases(server: str, messages: LargestCalls) -> Iterator[tuple[str, Callable[[], str]]]:
    declared = [
        each for module in (calls, group_calls, topic_calls, transaction_calls) for each in vars(module).values()
    ]
    found = [each for each in declared if isinstance(each, Call | Stream)]
    for call in sorted(found, key=lambda call: call.name in ("DeleteTopics", "UnregisterBroker", "UpdateFeatures")):
        for shape in messages.shapes(call.request.message_type.DESCRIPTOR):
            yield f"gRPC {call.name} [{shape}]", partial(_called, server, messages, call, shape)


def _called(server: str, messages: LargestCalls, call: Call[Any, Any] | Stream[Any, Any], shape: Shape) -> str:
    request = messages.build(call.request.message_type, shape).SerializeToString()
    options = [("grpc.max_receive_message_length", 64 << 20)]
    with grpc.insecure_channel(server, options) as channel:
        try:
            if isinstance(call, Stream):
                answers: Iterator[bytes] = channel.stream_stream(call.method)(iter([request]), timeout=DEADLINE_S)
                return f"{sum(map(len, answers)):,} bytes"
            return f"{len(channel.unary_unary(call.method)(request, timeout=DEADLINE_S)):,} bytes"
        except grpc.RpcError as error:
            return f"{error.code().name}: {str(error.details())[:80]}"


# --- the command -----------------------------------------------------------------------------------------------------


def run(only: tuple[str, ...]) -> bool:
    """Return True if no turn was as long as the goal."""
    cluster = Cluster(nodes=1, overrides=worst_loads.SETTINGS)
    cluster.node(1)._command = MEASURED
    with cluster:
        kafka, rpc = cluster.kafka_bootstrap_servers, cluster.bootstrap_servers
        with Admin(rpc) as admin:
            admin.create_topic(TOPIC, PARTITIONS, 1)
            until_every_broker_knows(rpc, TOPIC, PREPARE_S)
            (topic,) = admin.describe_topics([TOPIC])
            topic_id = topic.metadata.topic_id
        worst_loads.prepare(kafka)
        battery = Battery(cluster, only)
        for name, load in worst_loads.loads(cluster):
            battery.measure(name, load)
        requests = LargestRequests(KNOWN, topic_id, FIXED)
        for name, case in kafka_cases(kafka, requests):
            battery.measure(name, case)
        messages = LargestCalls(KNOWN, topic_id.bytes, FIXED)
        for name, case in grpc_cases(rpc, messages):
            battery.measure(name, case)
    print(summary(battery.results))
    return not any(each.is_over for each in battery.results)


def summary(results: Sequence[Measured]) -> str:
    """Return a table of those over the goal, the longest first, and how many cases each kind of load has."""
    over = sorted((each for each in results if each.is_over), key=lambda each: -each.computed_ms)
    lines = ["", f"{len(over)} of {len(results)} cases computed {COMPUTED_MS_GOAL:g} ms or more in one turn:"]
    lines += [f"{each.computed_ms:10.1f} ms  {each.name}: {each.outcome}" for each in over]
    for kind in dict.fromkeys(each.kind for each in results):
        computed_ms = [each.computed_ms for each in results if each.kind == kind]
        too_long = sum(each.is_over for each in results if each.kind == kind)
        lines.append(f"{kind:14} {len(computed_ms):5} cases, {too_long:3} over, longest {max(computed_ms):8.1f} ms")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="Part of a name; may be given several times")
    sys.exit(0 if run(tuple(parser.parse_args().only)) else 1)


if __name__ == "__main__":
    main()
