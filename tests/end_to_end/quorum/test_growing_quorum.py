"""Growing from one controller to three: the commands of the README, on real processes."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, chdir
from functools import partial
from pathlib import Path

import pytest

from kraft.client import Admin, Consumer, Producer, TopicPartition
from kraft.local.free_ports import ReservedPorts
from kraft.local.launching import KRAFT
from kraft.model.errors import KraftError
from kraft.server.identity.storage import CLEAN_SHUTDOWN_FILE
from tests.support import command_line
from tests.support.waiting import until

README = Path(__file__).parents[3] / "README.md"
CLUSTER = "kJ2Yk0mVT0ma0wV2Yk0mVQ"
NODES = (1, 2, 3)
COMMAND_DEADLINE_S = 60.0
RECORDS = 1_000
SOON_S = 40.0


def blocks_of_the_readme() -> tuple[list[list[str]], str]:
    """Return the commands that grow the quorum, each split into its arguments, and the script that moves replicas."""
    section = README.read_text().split("## Growing from one controller to three", 1)[1].split("\n## ", 1)[0]
    _, growing, _, moving, _ = section.split("```")
    return [line.split() for line in growing.strip().splitlines()], moving


class Nodes:
    """Three files in a directory, and the nodes that run from them in the background."""

    def __init__(self, directory: Path, ports: list[int]) -> None:
        self.directory = directory
        self.stack = ExitStack()
        self._ports = {node: ports[3 * at : 3 * at + 3] for at, node in enumerate(NODES)}

    def name_controllers(self, *voters: int) -> None:
        named = ",".join(f"{voter}@127.0.0.1:{self._ports[voter][0]}" for voter in voters)
        for node in NODES:
            controller, grpc, kafka = self._ports[node]
            self.file(node).write_text(
                f"process.roles=broker,controller\nnode.id={node}\ncluster.id={CLUSTER}\nlog.dirs=data/node-{node}\n"
                f"controller.quorum.voters={named}\n"
                f"listeners=PLAINTEXT://127.0.0.1:{kafka},GRPC://127.0.0.1:{grpc},CONTROLLER://127.0.0.1:{controller}\n"
            )

    def file(self, node: int) -> Path:
        return self.directory / f"node-{node}.properties"

    def address(self, node: int) -> str:
        return f"127.0.0.1:{self._ports[node][1]}"

    def kraft(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        with chdir(self.directory):
            return command_line.run(*arguments)

    def run_script(self, script: str) -> None:
        """Run a script of the shell that has this cluster as kraft's."""
        kraft = f'kraft() {{ {shlex.join(KRAFT)} "$@" --bootstrap-server {self.address(1)}; }}'
        command = ["bash", "-e", "-o", "pipefail", "-c", f"{kraft}\n{script}"]
        subprocess.run(command, cwd=self.directory, timeout=COMMAND_DEADLINE_S, check=True)

    def begin(self, *arguments: str) -> None:
        """Run a node in the background, as the shell does for a line that ends with `&`."""
        log = self.stack.enter_context((self.directory / "nodes.log").open("ab"))
        process = subprocess.Popen([*KRAFT, *arguments], cwd=self.directory, stdout=log, stderr=log)
        self.stack.callback(process.wait, COMMAND_DEADLINE_S)
        self.stack.callback(process.terminate)

    def start_all(self) -> None:
        for node in NODES:
            self.begin("server", "start", "-c", f"node-{node}.properties")

    def log(self) -> str:
        files = [self.directory / "nodes.log", *(self.directory / "data").glob("*.log")]
        return "".join(file.read_text() for file in files if file.exists() and file.is_file())

    def start(self, node: int) -> subprocess.CompletedProcess[str]:
        return self.kraft("server", "start", "-c", f"node-{node}.properties", "--daemon")

    def stop(self, node: int) -> None:
        self.kraft("server", "stop", "-c", f"node-{node}.properties")


@pytest.fixture(name="nodes")
def _nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    # The cluster's secret is kept below it.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    ports = ReservedPorts(3 * len(NODES))
    nodes = Nodes(tmp_path, list(ports.ports))
    try:
        yield nodes
    finally:
        for node in NODES:
            nodes.stop(node)
        nodes.stack.close()
        ports.release()


def copy_to(node: int) -> list[str]:
    """Return the command that gives a new controller its copy."""
    return ["storage", "format", "-c", f"node-{node}.properties", "--from-controller", "data/node-1"]


def answers(nodes: Nodes, node: int) -> bool:
    """Return whether the node reaches an active controller."""
    with Admin(nodes.address(node)) as admin:
        try:
            admin.describe_quorum(wait_for_leader=False, timeout_ms=2_000)
        except KraftError:
            return False
        return True


def fill(nodes: Nodes) -> None:
    """Run node 1 as a single controller, with a topic and records."""
    nodes.name_controllers(1)
    assert nodes.kraft("storage", "format", "-c", "node-1.properties").returncode == 0
    assert nodes.start(1).returncode == 0
    with Admin(nodes.address(1)) as admin, Producer(nodes.address(1)) as producer:
        admin.create_topic("orders", partitions=1)
        for number in range(RECORDS):
            producer.send("orders", b"%d" % number)
        producer.flush()
    # Its group makes __consumer_offsets.
    with Consumer(nodes.address(1), group_id="billing", auto_offset_reset="earliest") as consumer:
        consumer.subscribe("orders")
        assert consumer.poll(30_000)
        consumer.commit()


def records(nodes: Nodes, node: int = 1) -> list[bytes]:
    found: list[bytes] = []
    with Consumer(nodes.address(node), auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        deadline = time.monotonic() + COMMAND_DEADLINE_S
        while len(found) < RECORDS and time.monotonic() < deadline:
            found += [record.value for record in consumer.poll(1_000) if record.value is not None]
    return found


def _has_replicas_everywhere(admin: Admin) -> bool:
    topics = {each.topic: each.metadata.partitions for each in admin.describe_topics([])}
    assert topics.keys() == {"orders", "__consumer_offsets"}
    return all(sorted(each.isr_nodes) == [*NODES] for partitions in topics.values() for each in partitions)


def _has_caught_up(admin: Admin, topic: str) -> bool:
    return topic in admin.list_topics() and max(voter.lag for voter in admin.describe_quorum().voters) == 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_readme_grows_a_controller_to_three_of_which_any_one_may_be_lost(nodes: Nodes) -> None:
    fill(nodes)
    nodes.name_controllers(*NODES)
    growing, moving = blocks_of_the_readme()
    for command in growing:
        assert command[0] == "kraft"
        if command[-1] == "&":
            nodes.begin(*command[1:-1])
            continue
        done = nodes.kraft(*command[1:])
        assert done.returncode == 0, done.stderr
    until(lambda: answers(nodes, 1), "no quorum is formed")
    with Admin(nodes.address(1)) as admin:
        assert sorted(voter.node_id for voter in admin.describe_quorum().voters) == [1, 2, 3]
        assert "orders" in admin.list_topics()
    assert records(nodes) == [b"%d" % number for number in range(RECORDS)]

    nodes.run_script(moving)
    with Admin(nodes.address(1)) as admin:
        until(partial(_has_replicas_everywhere, admin), "replicas are missing")

    for lost in NODES:
        nodes.stop(lost)
        asked = next(node for node in NODES if node != lost)
        assert records(nodes, asked) == [b"%d" % number for number in range(RECORDS)]
        with Admin(nodes.address(asked)) as admin:
            admin.create_topic(f"without-{lost}", partitions=1)
        assert nodes.start(lost).returncode == 0
        with Admin(nodes.address(lost)) as admin:
            until(partial(_has_caught_up, admin, f"without-{lost}"), "the controller does not catch up")
    assert records(nodes) == [b"%d" % number for number in range(RECORDS)]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_wrong_order_is_refused_and_loses_nothing(nodes: Nodes) -> None:
    fill(nodes)
    nodes.name_controllers(*NODES)
    copied = nodes.kraft(*copy_to(2))
    assert (copied.returncode, copied.stdout) == (1, "")
    assert "the source, node 1, is running: stop it with 'kraft server stop -c' and its file" in copied.stderr
    nodes.stop(1)
    refused = nodes.kraft("server", "start", "-c", "node-1.properties")
    assert refused.returncode == 1
    *events, reason = refused.stderr.splitlines()
    assert "this node's quorum was formed with 1" in reason
    assert "kraft storage grow-quorum" in reason
    assert all(event.startswith("{") for event in events), "nothing is said beside the reason and the log"
    assert (nodes.directory / "data" / "node-1" / CLEAN_SHUTDOWN_FILE).exists()

    copied = nodes.kraft(*copy_to(2))
    assert (copied.returncode, copied.stdout) == (1, "")
    assert "has not left its quorum: run 'kraft storage grow-quorum" in copied.stderr

    # Without copies, the new controllers form nothing, neither alone nor with the old one.
    for node in (2, 3):
        assert nodes.kraft("storage", "format", "-c", f"node-{node}.properties").returncode == 0
    assert nodes.kraft("storage", "grow-quorum", "-c", "node-1.properties").returncode == 0
    for node in (1, 3):
        nodes.begin("server", "start", "-c", f"node-{node}.properties")
    until(lambda: nodes.log().count("waits_for") >= 2, "they do not start")
    begin_s = time.monotonic()
    unformed = nodes.start(2)
    assert unformed.returncode == 1
    assert ": quorum not formed: the metadata logs of its controllers differ (node=2, peer=1, " in unformed.stderr
    assert "kraft storage format --from-controller" in unformed.stderr
    assert time.monotonic() - begin_s < SOON_S
    assert not answers(nodes, 2)
    for node in NODES:
        nodes.stop(node)

    # The procedure continues where it was left; an empty log outside of a quorum may be replaced.
    for node in (2, 3):
        assert nodes.kraft(*copy_to(node)).returncode == 0
    nodes.start_all()
    until(lambda: answers(nodes, 1), "no quorum is formed")
    assert records(nodes) == [b"%d" % number for number in range(RECORDS)]
