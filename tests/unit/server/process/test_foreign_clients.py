"""Clients of another protocol, from tables as Linux writes them, and at a real listener."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from pathlib import Path

import grpc.aio
import pytest

from kraft.model.refused_for import RefusedFor
from kraft.rpc.refusal_log import RefusalLog
from kraft.server.process import foreign_clients
from kraft.server.process.foreign_clients import remembered_peers, watch_foreign_clients

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the tables")

REMEDY = "speak Kafka's protocol elsewhere"
HEAD = "  sl  local_address rem_address   st\n"
KAFKA_REQUEST = bytes.fromhex("00000020 0012 0003 00000001 0007 72646b61666b61 00 0b 6c696272646b61666b61 0632 2e30 00")


class Refusals(RefusalLog):
    def __init__(self) -> None:
        super().__init__(lambda: 0)
        self.logged: list[tuple[str, str]] = []

    def log(self, peer: str, reason: str, refused_for: RefusedFor) -> None:
        self.logged.append((peer, reason))


def line(local: str, remote: str, state: str = "06") -> str:
    return f"   0: {local} {remote} {state} 00000000:00000000 00:00000000\n"


async def _seen(tables: list[Path], port: int, ended_by_rules: set[str], monkeypatch: pytest.MonkeyPatch) -> Refusals:
    """Return what is logged within some periods."""
    monkeypatch.setattr(foreign_clients, "PERIOD_S", 0.02)
    refusals = Refusals()
    watching = asyncio.create_task(watch_foreign_clients({port: REMEDY}, refusals, ended_by_rules, tables))
    await asyncio.sleep(0.2)
    watching.cancel()
    await asyncio.wait([watching])
    return refusals


def seen(tables: list[Path], port: int, ended_by_rules: set[str], monkeypatch: pytest.MonkeyPatch) -> Refusals:
    return asyncio.run(_seen(tables, port, ended_by_rules, monkeypatch))


def test_a_host_whose_connections_ended_here_is_logged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    v4, v6 = tmp_path / "tcp", tmp_path / "tcp6"
    v4.write_text(HEAD + line("0100007F:2386", "0100007F:B060") + line("0100007F:2386", "0100007F:B04A"))
    mapped = "0000000000000000FFFF00000200007F"
    own = "00000000000000000000000001000000"
    v6.write_text(HEAD + line(f"{own}:2386", f"{own}:0001") + line(f"{own}:2386", f"{own}:0002"))
    v6.write_text(v6.read_text() + line(f"{mapped}:2386", f"{mapped}:0003") + line(f"{mapped}:2386", f"{mapped}:0004"))
    found = seen([v4, v6, tmp_path / "none"], 0x2386, set(), monkeypatch)
    hosts = sorted(peer.rpartition(":")[0] for peer, _ in found.logged)
    assert hosts == ["ipv4:127.0.0.1", "ipv4:127.0.0.2", "ipv6:%5B::1%5D"]
    assert {reason for _, reason in found.logged} == {REMEDY}


@pytest.mark.parametrize(
    "lines",
    [
        line("0100007F:2386", "0100007F:B060"),
        line("0100007F:2386", "0100007F:B060") + line("0100007F:2386", "0200007F:B04A"),
        line("0100007F:2387", "0100007F:B060") + line("0100007F:2387", "0100007F:B04A"),
        line("0100007F:B060", "0100007F:2386") + line("0100007F:B04A", "0100007F:2386"),
        line("0100007F:2386", "0100007F:B060", "01") + line("0100007F:2386", "0100007F:B04A", "01"),
        line("0100007F:2386", "0100007F:0001") + line("0100007F:2386", "0100007F:0002"),
    ],
    ids=["one", "two hosts", "another port", "ended by the client", "open", "ended by a rule"],
)
def test_other_connections_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str) -> None:
    table = tmp_path / "tcp"
    table.write_text(HEAD + lines)
    ended_by_rules = {"ipv4:127.0.0.1:1", "ipv4:127.0.0.1:2", "ipv4:127.0.0.9:3"}
    assert seen([table], 0x2386, ended_by_rules, monkeypatch).logged == []
    assert "ipv4:127.0.0.9:3" not in ended_by_rules, "what the system has forgotten is kept"


def test_connections_of_the_process_before_are_never_news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a process that was killed end slowly where the client hangs: they reach the last state much later."""
    table, ended_by_rules = tmp_path / "tcp", set[str]()
    ended = line("0100007F:2386", "0100007F:0001") + line("0100007F:2386", "0100007F:0002", "05")
    table.write_text(
        HEAD + ended + line("0100007F:2386", "0100007F:0003", "04") + line("0100007F:2387", "0100007F:0004")
    )
    ended_by_rules |= remembered_peers(0x2386, [table])
    assert ended_by_rules == {f"ipv4:127.0.0.1:{port}" for port in (1, 2, 3)}
    assert seen([table], 0x2386, ended_by_rules, monkeypatch).logged == []
    table.write_text(table.read_text().replace(" 05 ", " 06 ").replace(" 04 ", " 06 "))
    assert seen([table], 0x2386, ended_by_rules, monkeypatch).logged == []
    table.write_text(HEAD + line("0100007F:2386", "0100007F:0005") + line("0100007F:2386", "0100007F:0006"))
    assert len(seen([table], 0x2386, ended_by_rules, monkeypatch).logged) == 1


def test_a_listener_is_not_a_connection(tmp_path: Path) -> None:
    (table := tmp_path / "tcp").write_text(HEAD + line("00000000:2386", "00000000:0000", "0A"))
    assert remembered_peers(0x2386, [table, tmp_path / "none"]) == set()


def test_no_line_is_read_on_the_event_loops_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strangers may fill the tables."""
    readers, peer_of = set[int](), foreign_clients._peer

    def peer(text: str) -> str:
        readers.add(threading.get_ident())
        return peer_of(text)

    monkeypatch.setattr(foreign_clients, "_peer", peer)
    table = tmp_path / "tcp"
    table.write_text(HEAD + line("0100007F:2386", "0100007F:B060"))
    seen([table], 0x2386, set(), monkeypatch)
    assert readers
    assert threading.get_ident() not in readers


def test_kafkas_first_request_at_a_real_listener_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> Refusals:
        server = grpc.aio.server()
        port = server.add_insecure_port("localhost:0")
        await server.start()
        try:
            for _ in range(foreign_clients.AT_LEAST):
                await asyncio.to_thread(_ask_as_kafkas_client, port)
            return await _seen([Path("/proc/net/tcp"), Path("/proc/net/tcp6")], port, set(), monkeypatch)
        finally:
            await server.stop(None)

    assert [reason for _, reason in asyncio.run(scenario()).logged] == [REMEDY]


def _ask_as_kafkas_client(port: int) -> None:
    with socket.create_connection(("localhost", port), timeout=10) as client:
        client.sendall(KAFKA_REQUEST)
        while client.recv(4096):
            """gRPC greets, and ends the connection."""
