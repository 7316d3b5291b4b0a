from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kraft.local import cluster_files
from kraft.local.cluster_files import NodePlan
from kraft.local.free_ports import ReservedPorts
from kraft.server.config.loading import load
from kraft.server.process.ports import CannotListen, check_listeners, why_not_free


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", ""])
def test_a_port_is_free_until_somebody_listens(host: str) -> None:
    with ReservedPorts(1) as (port,):
        assert why_not_free(host, port) is None
        with socket.create_server(("127.0.0.1", port)):
            assert why_not_free(host, port) == "the port is in use"
        assert why_not_free(host, port) is None


def test_an_address_of_another_machine_cannot_be_listened_on() -> None:
    # Set aside for documentation: no machine has it.
    assert why_not_free("192.0.2.1", 9094) == "Cannot assign requested address"


def test_a_host_name_that_cannot_be_resolved_is_named() -> None:
    assert "the host name cannot be resolved" in (why_not_free("no-such-host.invalid", 9094) or "")


@pytest.mark.parametrize("host", ["a..b", 64 * "x"])
def test_a_host_name_that_no_machine_can_have_is_named(host: str) -> None:
    assert "the host name is invalid" in (why_not_free(host, 9094) or "")


def test_the_listener_the_address_and_the_file_are_named(tmp_path: Path) -> None:
    with ReservedPorts(2) as (grpc_port, controller_port):
        plan = NodePlan(node_id=1, grpc_port=grpc_port, controller_port=controller_port)
        cluster_files.write(tmp_path, [plan], "kJ2Yk0mVT0ma0wV2Yk0mVQ")
        config = load(tmp_path / "node-1.properties")
        check_listeners(config)
        expected = f"^cannot listen on 127.0.0.1:{controller_port} for CONTROLLER: the port is in"
        with socket.create_server(("127.0.0.1", controller_port)), pytest.raises(CannotListen, match=expected):
            check_listeners(config)
