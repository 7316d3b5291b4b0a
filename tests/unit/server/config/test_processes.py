"""The processes of one file, derived from its settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft.server.config.processes import process, processes
from kraft.server.config.values import Role
from tests.unit.server.config.files import COMBINED, CONTRACT, Load, Refuse


def test_a_file_without_the_key_is_one_process_and_stays_as_it_is(load_text: Load) -> None:
    config = load_text(COMBINED)
    assert config.processes == 1
    assert processes(config) == (config,)


def test_the_first_process_is_the_node_of_the_file_and_names_its_machine(load_text: Load) -> None:
    config = load_text(CONTRACT + "node.processes=3\n")
    first = process(config, 0)
    assert (first.node_id, first.roles, first.listeners) == (1, config.roles, config.listeners)
    assert (first.log_dirs, first.rack, first.settings["broker.rack"]) == (config.log_dirs, "machine:1", "machine:1")


def test_further_processes_are_brokers_with_ids_ports_and_directories_of_their_own(load_text: Load) -> None:
    text = CONTRACT.replace("GRPC://localhost:9094\nlog", "GRPC://broker.example:19094\nlog")
    config = load_text(
        text
        + "node.processes=3\nlog.file=logs/server.log\naudit.log.path=logs/audit.log\n"
        + "metrics.address=localhost:9404\nmetadata.log.dir=meta\nlog.dir=data/node-1\n"
    )
    _, second, third = processes(config)
    assert (second.node_id, third.node_id) == (1001, 2001)
    assert third.roles == {Role.BROKER}
    assert list(map(str, third.listeners)) == ["PLAINTEXT://localhost:9112", "GRPC://localhost:9114"]
    assert list(map(str, third.advertised_listeners)) == [
        "PLAINTEXT://localhost:9112",
        "GRPC://broker.example:19114",
    ]
    assert third.log_dirs == (Path("data/node-1/node.2001").absolute(),)
    assert third.metadata_log_dir == Path("meta/node.2001").absolute()
    assert third.logging.file == Path("logs/server-2001.log").absolute()
    assert third.audit.path == Path("logs/audit-2001.log").absolute()
    assert str(third.metrics.address) == "METRICS://localhost:9424"
    assert third.settings["metrics.address"] == "localhost:9424"
    assert third.rack == "machine:1"
    assert third.quorum == config.quorum
    assert {key: third.settings[key] for key in ("process.roles", "node.id", "broker.rack", "listeners")} == {
        "process.roles": "broker",
        "node.id": "2001",
        "broker.rack": "machine:1",
        "listeners": "PLAINTEXT://localhost:9112,GRPC://localhost:9114",
    }


def test_an_audit_log_that_names_its_node_is_each_process_own(load_text: Load) -> None:
    config = load_text(COMBINED + "node.processes=2\naudit.log.path=/logs/audit-{node.id}.log\n")
    files = [each.audit.of_node(each.node_id).path for each in processes(config)]
    assert files == [Path("/logs/audit-1.log"), Path("/logs/audit-1001.log")]


def test_each_process_has_a_directory_on_each_disk(load_text: Load) -> None:
    config = load_text(COMBINED.replace("log.dirs=data", "log.dirs=/a,/b") + "node.processes=2\n")
    second = process(config, 1)
    assert second.log_dirs == (Path("/a/node.1001"), Path("/b/node.1001"))
    assert second.metadata_log_dir == Path("/a/node.1001")


def test_a_rack_that_is_set_is_kept(load_text: Load) -> None:
    config = load_text(COMBINED + "node.processes=2\nbroker.rack=east\n")
    assert [each.rack for each in processes(config)] == ["east", "east"]


def test_a_node_that_is_the_only_voter_is_the_whole_cluster_with_its_processes(load_text: Load) -> None:
    alone = processes(load_text(COMBINED + "node.processes=2\n"))
    assert [each.is_whole_cluster_with_its_processes for each in alone] == [True, True]
    assert [each.is_whole_cluster for each in alone] == [True, False]
    one_of_three = processes(load_text(CONTRACT + "node.processes=2\n"))
    assert [each.is_whole_cluster_with_its_processes for each in one_of_three] == [False, False]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("", "", "node.processes=65: expected a whole number from 1 to 64"),
        ("=1", "=1000", "node.id=1000: not below 1000, which node.processes=64 adds"),
        ("9094", "65000", "GRPC://localhost:65540, above port 65535"),
        ("9093", "9104", "CONTROLLER://localhost:9104 of process 0 and GRPC://localhost:9104 of process 1 have the"),
        ("1@localhost:9093", "1@localhost:9093,1001@localhost:9193", "names 1001, the id of a further process"),
    ],
)
def test_processes_that_cannot_run_beside_each_other_are_refused(
    refused: Refuse, before: str, after: str, message: str
) -> None:
    number = 64 if before else 65
    assert message in refused(COMBINED.replace(before, after) + f"node.processes={number}\n")


def test_advertised_addresses_are_told_apart_too(refused: Refuse) -> None:
    both = "advertised.listeners=PLAINTEXT://b:19104,GRPC://b:19094\nnode.processes=2\n"
    assert "PLAINTEXT://b:19104 of process 0 and GRPC://b:19104 of process 1" in refused(
        CONTRACT.replace("advertised.listeners=PLAINTEXT://localhost:9092,GRPC://localhost:9094\n", both)
    )


def test_a_controller_alone_has_no_further_processes(refused: Refuse) -> None:
    text = (
        "process.roles=controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\nlog.dirs=data\n"
        "listeners=CONTROLLER://localhost:9093\nnode.processes=2\n"
    )
    assert "node.processes=2: further processes are brokers: add broker to process.roles" in refused(text)
