"""The program is stood in for by scripts; tests/end_to_end/programs/test_chaos.py runs the real one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from chaos import toxiproxy
from chaos.toxiproxy import Link, Server, ToxiproxyFailed, ToxiproxyMissing, find_or_build
from kraft.local.free_ports import ReservedPorts

STAND_IN = """\
#!{python}
# Answers as Toxiproxy does, but the first DELETE of all never comes back.
import json, pathlib, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer

marker, log = pathlib.Path("{marker}"), pathlib.Path("{log}")
proxies = {{}}

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(proxies)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/proxies":
            proxies[body["name"]] = body
        self.answer(body)

    def do_DELETE(self):
        if not marker.exists():
            marker.touch()
            time.sleep(60)
        del proxies[self.path.split("/")[2]]
        self.answer({{}})

    def answer(self, body):
        with log.open("a") as lines:
            lines.write(f"{{self.command}} {{self.path}}\\n")
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass

HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("-port") + 1])), Handler).serve_forever()
"""


GO = """\
#!/bin/sh
if [ "$1" = version ]; then
  echo "go version go{version} linux/amd64"
  exit
fi
{install}
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache in which nothing was built, and a PATH on which nothing is."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(toxiproxy, "OFFICIAL_GO", tmp_path / "go" / "bin" / "go")
    return tmp_path


def script(path: Path, text: str) -> Path:
    path.write_text(textwrap.dedent(text))
    path.chmod(0o755)
    return path


@pytest.fixture
def free_port() -> Iterator[int]:
    with ReservedPorts(1) as (port,):
        yield port


def test_without_program_and_go_the_reason_names_both(tools: Path) -> None:
    with pytest.raises(ToxiproxyMissing, match=r"no toxiproxy-server on the PATH or built earlier, and no go"):
        find_or_build()


def test_an_installed_program_is_taken(tools: Path) -> None:
    installed = script(tools / "bin" / "toxiproxy-server", "#!/bin/sh\n")
    assert find_or_build() == installed


def test_go_builds_it_once(tools: Path) -> None:
    go = script(tools / "bin" / "go", GO.format(version="1.23.4", install='echo "$@" > "$GOBIN/server"'))
    said: list[str] = []
    built = find_or_build(said.append)
    go.unlink()

    assert built.read_text() == "install github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0\n"
    assert find_or_build(said.append) == built
    assert len(said) == 1
    assert built == tools / "kraft" / "toxiproxy-server-v2.12.0"


def test_a_go_that_is_too_old_is_passed_over(tools: Path) -> None:
    old = script(tools / "bin" / "go", GO.format(version="1.19.8", install="exit 1"))
    with pytest.raises(ToxiproxyMissing, match=f"; {old} is 1.19, but 1.21 or later is required$"):
        find_or_build()

    toxiproxy.OFFICIAL_GO.parent.mkdir(parents=True)
    script(toxiproxy.OFFICIAL_GO, GO.format(version="1.22.1", install='echo new > "$GOBIN/server"'))
    assert find_or_build().read_text() == "new\n"


def test_a_failed_build_is_reported_in_one_line(tools: Path) -> None:
    install = 'echo "downloading" >&2; echo "dial tcp: no route" >&2; exit 1'
    script(tools / "bin" / "go", GO.format(version="1.21.0", install=install))
    with pytest.raises(ToxiproxyMissing, match=r"go install .*@v2\.12\.0 failed: dial tcp: no route"):
        find_or_build()


def test_a_link_whose_name_would_be_a_path_is_refused() -> None:
    with pytest.raises(ValueError, match="no slash"):
        Link(name="broker/1", listen_port=1, upstream="127.0.0.1:2")


def test_a_server_that_hangs_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    monkeypatch.setattr(toxiproxy, "_ANSWER_DEADLINE_S", 0.5)
    marker, log = tmp_path / "hung", tmp_path / "log"
    program = script(tmp_path / "program", STAND_IN.format(python=sys.executable, marker=marker, log=log))
    before = children()
    with Server(program, free_port, [Link(name="broker-1", listen_port=1, upstream="127.0.0.1:2")]) as server:
        server.mend("broker-1")
        assert server.restarts == 1

    assert marker.exists()
    assert log.read_text().splitlines()[-2:] == ["GET /proxies", "POST /proxies"]
    assert children() == before


def test_a_server_that_never_answers_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_port: int
) -> None:
    monkeypatch.setattr(toxiproxy, "_START_DEADLINE_S", 0.3)
    program = script(tmp_path / "program", "#!/bin/sh\nexec sleep 60\n")
    before = children()
    with pytest.raises(ToxiproxyFailed, match="does not answer"), Server(program, free_port, []):
        raise AssertionError("never running")
    assert children() == before


def test_a_server_ends_with_the_process_that_started_it(tmp_path: Path, free_port: int) -> None:
    log = tmp_path / "log"
    program = script(tmp_path / "program", STAND_IN.format(python=sys.executable, marker=log, log=log))
    code = f"""
import pathlib, time
from chaos.toxiproxy import Server
with Server(pathlib.Path({str(program)!r}), {free_port}, []):
    print("up", flush=True)
    time.sleep(60)
"""
    launcher = subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(Path(toxiproxy.__file__).parents[1])},
        stdout=subprocess.PIPE,
    )
    assert launcher.stdout is not None
    with launcher:
        assert launcher.stdout.readline() == b"up\n"
        server = next(process for process in psutil.Process(launcher.pid).children(recursive=True) if port_of(process))
        launcher.kill()
        server.wait(10)

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", free_port), timeout=1)


def children() -> list[psutil.Process]:
    running = psutil.Process().children(recursive=True)
    return [process for process in running if process.status() != psutil.STATUS_ZOMBIE]


def port_of(process: psutil.Process) -> int | None:
    ports = [each.laddr.port for each in process.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
    return ports[0] if ports else None
