from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

import kraft
from kraft.local import cluster_files
from kraft.local.cluster_files import NodePlan
from kraft.local.free_ports import ReservedPorts
from kraft.local.local_cluster import LocalCluster
from kraft.local.node_process import NodeFailed
from kraft.server.config.loading import load
from kraft.server.identity import storage
from tests.support.waiting import until

FAKE_NODE = (sys.executable, str(Path(__file__).with_name("fake_node.py")))

MakeCluster = Callable[..., LocalCluster]


@pytest.fixture(name="make_cluster")
def _make_cluster(tmp_path: Path) -> Iterator[MakeCluster]:
    clusters = []

    with ExitStack() as held:

        def make_cluster(*behaviours: str) -> LocalCluster:
            ports = held.enter_context(ReservedPorts(2 * len(behaviours)))
            clusters.append(fake_cluster(tmp_path, ports, *behaviours))
            return clusters[-1]

        yield make_cluster
        for cluster in clusters:
            for node in cluster.nodes.values():
                if node.is_running:
                    node.kill()


def fake_cluster(directory: Path, ports: list[int], *behaviours: str) -> LocalCluster:
    plans = [
        NodePlan(
            node_id=node_id,
            grpc_port=ports[2 * node_id - 2],
            controller_port=ports[2 * node_id - 1],
            settings={"broker.rack": behaviour},
        )
        for node_id, behaviour in enumerate(behaviours, start=1)
    ]
    cluster_files.write(directory, plans, storage.random_cluster_id())
    return LocalCluster(directory, plans, FAKE_NODE)


def test_files_are_written_so_that_every_node_could_start(tmp_path: Path) -> None:
    plans = [
        NodePlan(node_id=1, grpc_port=None, controller_port=19093),
        NodePlan(node_id=2, grpc_port=19094, controller_port=None, settings={"num.partitions": "6"}),
    ]
    cluster_files.write(tmp_path / "new", plans, "kJ2Yk0mVT0ma0wV2Yk0mVQ")
    controller, broker = cluster_files.read(tmp_path / "new")
    assert (controller.is_broker, controller.is_controller) == (False, True)
    assert (broker.is_broker, broker.is_controller, broker.topics.partitions) == (True, False, 6)
    assert [str(voter) for voter in broker.quorum.voters] == ["1@127.0.0.1:19093"]
    assert [storage.load(node).node_id for node in (controller, broker)] == [1, 2]


def test_a_setting_that_no_node_could_start_with_is_found_before_any_start(tmp_path: Path) -> None:
    plan = NodePlan(node_id=1, grpc_port=19094, controller_port=19093, settings={"num.partitions": "none"})
    with pytest.raises(ValueError, match=r"node-1\.properties:\d+: num\.partitions=none: expected"):
        cluster_files.write(tmp_path, [plan], "kJ2Yk0mVT0ma0wV2Yk0mVQ")


def test_nodes_start_become_ready_and_stop_in_order(make_cluster: MakeCluster) -> None:
    cluster = make_cluster("", "")
    cluster.start()
    assert cluster.wait_ready(deadline_s=30)
    assert all(node.resident_bytes() > 1_000_000 for node in cluster.nodes.values())
    cluster.stop(deadline_s=10)
    assert [node.exit_code for node in cluster.nodes.values()] == [0, 0]
    assert cluster.nodes[2].log_tail() == "node 2 is up"


def test_a_killed_node_restarts_with_its_files_and_appends_to_its_log(make_cluster: MakeCluster) -> None:
    cluster = make_cluster("")
    cluster.start()
    cluster.wait_ready(deadline_s=30)
    first = cluster.nodes[1].pid
    cluster.nodes[1].kill()
    assert cluster.nodes[1].exit_code == -signal.SIGKILL
    cluster.start()
    cluster.wait_ready(deadline_s=30)
    assert cluster.nodes[1].pid != first
    assert cluster.nodes[1].log_tail() == "node 1 is up\nnode 1 is up"


def test_a_node_that_ends_by_itself_is_named_with_the_end_of_its_log(make_cluster: MakeCluster) -> None:
    cluster = make_cluster("", "refuses")
    cluster.start()
    with pytest.raises(NodeFailed, match=r"node 2 ended with exit code 1; the end of .*node-2.log") as raised:
        cluster.wait_ready(deadline_s=30)
    assert str(raised.value).endswith("kraft: node 2 does not feel like it")


def test_a_node_that_has_ended_before_the_wait_is_not_taken_for_stopped(make_cluster: MakeCluster) -> None:
    cluster = make_cluster("", "refuses")
    cluster.start()
    until(lambda: cluster.nodes[2].exit_code is not None, "node 2 ends")
    with pytest.raises(NodeFailed, match="node 2 ended with exit code 1"):
        cluster.wait_ready(deadline_s=30)


def test_a_node_that_was_stopped_while_it_started_is_not_waited_for(make_cluster: MakeCluster) -> None:
    cluster = make_cluster("", "lonely")
    cluster.start()
    cluster.nodes[1].kill()
    assert cluster.wait_ready(deadline_s=30)


def test_a_wait_says_what_was_missing_at_its_deadline(make_cluster: MakeCluster) -> None:
    cluster = make_cluster("lonely", "")
    cluster.start()
    with pytest.raises(
        NodeFailed, match=r"node 1 is not ready in time \((it does not know brokers \[2\]|no process listens)"
    ):
        cluster.wait_ready(deadline_s=4)


def test_a_wait_can_be_cancelled(make_cluster: MakeCluster) -> None:
    cluster = make_cluster("lonely", "")
    cluster.start()
    assert not cluster.wait_ready(deadline_s=30, cancelled=lambda: True)


def test_a_node_that_does_not_stop_is_killed_and_named(make_cluster: MakeCluster) -> None:
    cluster = make_cluster("ignores-sigterm", "")
    cluster.start()
    cluster.wait_ready(deadline_s=30)
    with pytest.raises(NodeFailed, match="node 1 did not stop within 1 s and was killed"):
        cluster.nodes[1].terminate(deadline_s=1)
    assert cluster.nodes[1].exit_code == -signal.SIGKILL
    cluster.stop(deadline_s=10)


def test_a_stop_that_ends_in_an_error_is_named(make_cluster: MakeCluster) -> None:
    cluster = make_cluster("fails-at-stop", "")
    cluster.start()
    cluster.wait_ready(deadline_s=30)
    with pytest.raises(NodeFailed, match="node 1 ended with exit code 3 instead of stopping in order"):
        cluster.stop(deadline_s=10)
    assert not any(node.is_running for node in cluster.nodes.values())


def test_a_node_that_is_stopped_before_it_handles_signals_stops_in_order(make_cluster: MakeCluster) -> None:
    cluster = make_cluster("")
    cluster.start()
    cluster.stop(deadline_s=10)
    assert cluster.nodes[1].exit_code == -signal.SIGTERM


def test_a_paused_node_lives_and_can_be_stopped(make_cluster: MakeCluster) -> None:
    cluster = make_cluster("")
    cluster.start()
    cluster.wait_ready(deadline_s=30)
    process = psutil.Process(cluster.nodes[1].pid)
    cluster.nodes[1].pause()
    until(lambda: process.status() == psutil.STATUS_STOPPED, "the process runs")
    cluster.nodes[1].resume()
    until(lambda: process.status() != psutil.STATUS_STOPPED, "the process is paused")
    cluster.nodes[1].pause()
    cluster.stop(deadline_s=10)


def test_nothing_can_be_done_to_a_node_that_does_not_run(make_cluster: MakeCluster) -> None:
    node = make_cluster("").nodes[1]
    for act in (node.kill, node.pause, node.resume, node.terminate, node.resident_bytes):
        with pytest.raises(NodeFailed, match="node 1 was never started"):
            act()


@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)", "sys.exit(0)"])
def test_nodes_end_with_their_launcher_in_whatever_way_it_ends(
    make_cluster: MakeCluster, tmp_path: Path, end: str
) -> None:
    make_cluster("")
    program = (
        "import os, sys\nfrom pathlib import Path\n"
        "from kraft.local.cluster_files import NodePlan\nfrom kraft.local.local_cluster import LocalCluster\n"
        "grpc_port, controller_port = map(int, sys.argv[2:4])\n"
        "plan = NodePlan(node_id=1, grpc_port=grpc_port, controller_port=controller_port)\n"
        "cluster = LocalCluster(Path(sys.argv[1]), [plan], sys.argv[4:])\n"
        "cluster.start()\ncluster.wait_ready(deadline_s=30)\nprint(cluster.nodes[1].pid, flush=True)\n" + end
    )
    listeners = load(tmp_path / "node-1.properties").listeners
    ports = [str(listener.port) for listener in listeners]
    launcher = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), *ports, *FAKE_NODE],
        env=os.environ | {"PYTHONPATH": str(Path(kraft.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    node_pid = int(launcher.stdout)
    until(lambda: not is_alive(node_pid), "the node runs")


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_the_launcher_leaves_no_descriptor_behind(make_cluster: MakeCluster) -> None:
    cluster = make_cluster("")
    node = cluster.nodes[1]
    counts = []
    for _ in range(3):
        node.start()
        node.kill()
        counts.append(len(os.listdir("/proc/self/fd")))
    assert counts[0] == counts[2]
