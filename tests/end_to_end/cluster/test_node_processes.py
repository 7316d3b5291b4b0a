"""Several processes from one configuration file: in service, killed, stopped, and as two machines."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from kraft.client import Admin
from kraft.local.cluster_files import HOST
from kraft.local.free_ports import ReservedPorts
from kraft.local.launching import KRAFT, environment
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.server.identity.storage import random_cluster_id
from tests.support.command_line import run
from tests.support.error_lines import the_one_line
from tests.support.records import once_each, publish, publish_in_transactions, read_all
from tests.support.waiting import until, until_in_sync

DEADLINE_S = 60
PROCESSES = 3
PORTS_APART = tuple(10 * number for number in range(PROCESSES))


class Machine:
    """One configuration file of several processes; it stands for one machine."""

    def __init__(self, directory: Path, node_id: int, grpc_port: int, controller_port: int, voters: str) -> None:
        self.node_id, self.grpc_port = node_id, grpc_port
        self.ids = [node_id + 1000 * number for number in range(PROCESSES)]
        self.name = f"machine:{node_id}"
        self.data = directory / f"data-{node_id}"
        self.file = directory / f"server-{node_id}.properties"
        self._output = directory / f"server-{node_id}.output"
        self.file.write_text(
            f"process.roles=broker,controller\nnode.id={node_id}\nnode.processes={PROCESSES}\n"
            f"controller.quorum.voters={voters}\nlog.dirs={self.data}\n"
            f"listeners=GRPC://{HOST}:{grpc_port},CONTROLLER://{HOST}:{controller_port}\n"
        )
        self._supervisor: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{self.grpc_port + apart}" for apart in PORTS_APART)

    def start(self) -> psutil.Process:
        with self._output.open("wb") as output:
            self._supervisor = subprocess.Popen(
                [*KRAFT, "server", "start", "-c", str(self.file)], stderr=output, env=environment()
            )
        return psutil.Process(self._supervisor.pid)

    def wait(self) -> int:
        """Wait for the end of the supervisor, and return its exit code."""
        assert self._supervisor is not None
        return self._supervisor.wait(DEADLINE_S)

    def kill_one(self, node_id: int) -> None:
        """Kill one process, and wait until it was started again."""
        before = self.pid_of(node_id)
        psutil.Process(before).kill()
        until(lambda: self.pid_of(node_id) != before, f"node {node_id} was not started again")

    def stop(self) -> int:
        assert self._supervisor is not None
        self._supervisor.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """End what is left of a test that failed."""
        if self._supervisor is not None and self._supervisor.poll() is None:
            self._supervisor.kill()
            self.wait()

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the events of this name of all its processes, in the order in which they were written."""
        lines = [line for line in self._output.read_text().splitlines() if line.startswith("{")]
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def pid_of(self, node_id: int) -> int:
        """Return the pid of the latest process of this node."""
        return int([event["pid"] for event in self.events("node started") if event["node"] == node_id][-1])


def wait_for_brokers(admin: Admin, broker_ids: Sequence[int]) -> None:
    def in_service() -> list[int]:
        try:
            return sorted(each.broker_id for each in admin.describe_brokers() if not each.fenced)
        except Refusal:
            return []

    until(lambda: in_service() == sorted(broker_ids), lambda: f"in service are only {in_service()}")


@contextmanager
def one_machine(directory: Path) -> Iterator[Machine]:
    with ReservedPorts(2, PORTS_APART) as (grpc, controller):
        machine = Machine(directory, 1, grpc, controller, voters=f"1@{HOST}:{controller}")
        try:
            yield machine
        finally:
            machine.kill()


@pytest.fixture(scope="module", name="machine")
def _machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with one_machine(tmp_path_factory.mktemp("machine")) as machine:
        machine.start()
        with Admin(machine.bootstrap_servers) as admin:
            wait_for_brokers(admin, machine.ids)
        yield machine


@pytest.fixture(name="admin")
def _admin(machine: Machine) -> Iterator[Admin]:
    with Admin(machine.bootstrap_servers) as admin:
        yield admin


def leaders(admin: Admin, topic: str) -> list[int]:
    (described,) = admin.describe_topics([topic])
    return [each.leader_id for each in described.metadata.partitions]


def replicas(admin: Admin, topic: str) -> list[list[int]]:
    (described,) = admin.describe_topics([topic])
    return [[*each.replica_nodes] for each in described.metadata.partitions]


def test_each_process_is_a_broker_of_the_machine(machine: Machine, admin: Admin) -> None:
    listed = json.loads(run("brokers", "list", "--bootstrap-server", machine.bootstrap_servers, "--output=json").stdout)
    assert {each["broker_id"]: (each["rack"], each["addresses"][0]["port"]) for each in listed} == {
        node_id: (machine.name, machine.grpc_port + apart)
        for node_id, apart in zip(machine.ids, PORTS_APART, strict=True)
    }
    started = {event["node"]: event for event in machine.events("node started")}
    assert list(started) == machine.ids
    assert started[2001]["listeners"] == [f"GRPC://{HOST}:{machine.grpc_port + 20}"]
    assert started[2001]["log_dirs"] == [str(machine.data / "node.2001")]


def test_every_process_leads_and_no_partition_has_two_replicas_on_the_machine(machine: Machine, admin: Admin) -> None:
    admin.create_topic("orders", partitions=PROCESSES, replication_factor=1)
    assert sorted(leaders(admin, "orders")) == machine.ids
    for replication_factor in (2, PROCESSES):
        with pytest.raises(Refusal, match=r"1 machine has brokers in service \(machine:1\)") as refused:
            admin.create_topic("pairs", partitions=6, replication_factor=replication_factor)
        assert refused.value.error_code is ErrorCode.INVALID_REPLICATION_FACTOR
    (refusal,) = admin.alter_partition_reassignments({TopicPartition("orders", 0): (1, 2001)}).values()
    assert refusal is not None
    assert "brokers 1 and 2001 are on one machine, machine:1" in refusal.message


def test_groups_and_transactions_need_no_second_machine(machine: Machine, admin: Admin) -> None:
    admin.create_topic("grouped", partitions=1, replication_factor=1)
    publish(machine.bootstrap_servers, "grouped", range(3))
    consumed = run(
        *("consume", "grouped", "--group", "readers", "--from-beginning", "--max-messages", "3"),
        *("--bootstrap-server", machine.bootstrap_servers),
    )
    assert sorted(consumed.stdout.split()) == ["0", "1", "2"]
    publish_in_transactions(machine.bootstrap_servers, "grouped", 1, [(range(3), True)])
    for internal in ("__consumer_offsets", "__transaction_state"):
        assert {len(each) for each in replicas(admin, internal)} == {1}


@pytest.mark.slow
def test_a_process_that_is_killed_is_started_again_and_serves_its_log(machine: Machine, admin: Admin) -> None:
    admin.create_topic("kept", partitions=PROCESSES, replication_factor=1)
    publish(machine.bootstrap_servers, "kept", range(100))
    for node_id in (2001, 1):
        machine.kill_one(node_id)
        wait_for_brokers(admin, machine.ids)
        until(lambda: -1 not in leaders(admin, "kept"), "a partition has no leader")
        ended = machine.events("node ended")[-1]
        assert (ended["level"], ended["node"], ended["exit_code"]) == ("warning", node_id, -9)
    assert read_all(machine.bootstrap_servers, "kept") == once_each(100)


def test_a_process_can_be_decommissioned_as_any_broker(machine: Machine, admin: Admin) -> None:
    admin.create_topic("moved", partitions=PROCESSES, replication_factor=1)
    publish(machine.bootstrap_servers, "moved", range(100))
    done = run("brokers", "decommission", "2001", "--bootstrap-server", machine.bootstrap_servers)
    assert done.returncode == 0, done.stderr
    assert {each for (each,) in replicas(admin, "moved")} == {1, 1001}
    assert read_all(machine.bootstrap_servers, "moved") == once_each(100)
    admin.unfence_broker(2001)


@pytest.mark.slow
def test_sigterm_stops_the_brokers_first_and_the_controller_last(tmp_path: Path) -> None:
    with one_machine(tmp_path) as machine:
        machine.start()
        with Admin(machine.bootstrap_servers) as admin:
            wait_for_brokers(admin, machine.ids)
        assert machine.stop() == 0
        stopped = [event["node"] for event in machine.events("node stopped")]
        assert (sorted(stopped), stopped[-1]) == (machine.ids, 1)
        # All were closed cleanly, and start again with what they have.
        machine.start()
        with Admin(machine.bootstrap_servers) as admin:
            wait_for_brokers(admin, machine.ids)
        assert [event["clean_shutdown"] for event in machine.events("node process started")] == [True] * PROCESSES


@pytest.mark.slow
def test_a_supervisor_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    with one_machine(tmp_path) as machine:
        supervisor = machine.start()
        with Admin(machine.bootstrap_servers) as admin:
            wait_for_brokers(admin, machine.ids)
        processes = supervisor.children()
        assert len(processes) == PROCESSES
        supervisor.kill()
        machine.wait()
        until(lambda: not any(each.is_running() for each in processes), "a process of the supervisor still runs")


def test_an_error_of_one_process_at_the_start_ends_all_with_its_line(tmp_path: Path) -> None:
    with one_machine(tmp_path) as machine:
        machine.file.write_text(f"{machine.file.read_text()}log.file={tmp_path}/server.log\n")
        (tmp_path / "server-1001.log").mkdir()
        done = run("server", "start", "-c", machine.file)
        assert done.returncode == 1
        errors = [line for line in done.stderr.splitlines() if not line.startswith("{")]
        assert len(errors) == 1
        assert "server-1001.log: cannot be written to: Is a directory: choose another file" in errors[0]


@pytest.mark.slow
def test_all_are_started_in_the_background_and_stopped_together(tmp_path: Path) -> None:
    with one_machine(tmp_path) as machine:
        said, where = run("server", "start", "-c", machine.file, "--daemon").stdout.splitlines()
        assert said == "Node 1 with its 3 processes is in service."
        supervisor = psutil.Process(int(where.split()[1].rstrip(",")))
        processes = supervisor.children()
        with Admin(machine.bootstrap_servers) as admin:
            assert sorted(each.broker_id for each in admin.describe_brokers() if not each.fenced) == machine.ids
        assert "is in use by another process" in the_one_line(run("server", "start", "-c", machine.file))
        stopped = run("server", "stop", "-c", machine.file)
        assert re.fullmatch(rf"Stopped node 1 of cluster \S+ \(pid {supervisor.pid}\)\.\n", stopped.stdout)
        assert not any(each.is_running() for each in processes)


@pytest.mark.slow
def test_two_machines_have_a_replica_each(tmp_path: Path) -> None:
    with ReservedPorts(4, PORTS_APART) as (first_grpc, first_controller, second_grpc, second_controller):
        voters = f"1@{HOST}:{first_controller},2@{HOST}:{second_controller}"
        machines = [
            Machine(tmp_path, 1, first_grpc, first_controller, voters),
            Machine(tmp_path, 2, second_grpc, second_controller, voters),
        ]
        cluster_id, bootstrap_servers = random_cluster_id(), ",".join(each.bootstrap_servers for each in machines)
        try:
            for machine in machines:
                formatted = run("storage", "format", "-c", machine.file, "--cluster-id", cluster_id)
                assert formatted.stdout.count(": formatted: node ") == PROCESSES, formatted.stderr
                machine.start()
            with Admin(bootstrap_servers) as admin:
                wait_for_brokers(admin, [node_id for machine in machines for node_id in machine.ids])
                admin.create_topic("orders", partitions=12, replication_factor=2)
                admin.create_partitions("orders", 18)
                placed = replicas(admin, "orders")
                assert all({each % 1000 for each in pair} == {1, 2} for pair in placed)
                assert len({pair[0] for pair in placed}) == 2 * PROCESSES
                with pytest.raises(Refusal, match=r"2 machines have brokers in service \(machine:1, machine:2\)"):
                    admin.create_topic("three", partitions=1, replication_factor=3)
                publish(bootstrap_servers, "orders", range(100))
                until_in_sync(admin, "orders")
                decommissioned = run("brokers", "decommission", "1002", "--bootstrap-server", bootstrap_servers)
                assert decommissioned.returncode == 0, decommissioned.stderr
                moved = replicas(admin, "orders")
                assert all({each % 1000 for each in pair} == {1, 2} and 1002 not in pair for pair in moved)
                assert read_all(bootstrap_servers, "orders") == once_each(100)
            assert machines[1].stop() == 0
        finally:
            for machine in machines:
                machine.kill()
