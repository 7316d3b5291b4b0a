"""`kraft server stop`, against processes that only seem to be nodes; the real ones are stopped end to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from kraft.cli.server import app
from kraft.local import fork_server, local_nodes
from kraft.local.local_nodes import LocalNode
from kraft.server.config import loading as configuration
from kraft.server.identity import storage
from kraft.server.process import lifeline

CLUSTER, OTHER_CLUSTER = "kJ2Yk0mVT0ma0wV2Yk0mVQ", "AAAAAAAAAAAAAAAAAAAAAg"
SLEEPER = "import sys, time; held = open(sys.argv[1]); print('holds', flush=True); time.sleep(60)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPER}"


@contextmanager
def process(lock: Path, *words: str, program: str = SLEEPER, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """It has the file open, and the words in its command line."""
    command = [sys.executable, "-c", program, str(lock), *words]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | environment)
    try:
        assert started.stdout is not None
        assert started.stdout.readline() == b"holds\n"
        yield started
    finally:
        started.kill()
        started.wait()


def directory(tmp_path: Path, node_id: int, cluster_id: str = CLUSTER) -> Path:
    """A formatted one, which nobody holds. Returns its lock file."""
    file = tmp_path / f"{cluster_id}-{node_id}.properties"
    file.write_text(
        f"process.roles=broker\nnode.id={node_id}\nlisteners=GRPC://localhost:9494\nlog.dirs={tmp_path}/{file.stem}\n"
        "controller.quorum.voters=77@localhost:9193\n"
    )
    (formatted,) = storage.format(configuration.load(file), cluster_id)
    lock = formatted.directory / storage.LOCK_FILE
    lock.touch()
    return lock


@contextmanager
def node(lock: Path, program: str = SLEEPER, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is a node for all that can be seen of it."""
    with process(lock, "server", "start", "-c", "any", program=program, **environment) as started:
        lock.write_text(f"{started.pid}\n")
        yield started


def found(*processes: subprocess.Popen[bytes]) -> list[LocalNode]:
    return local_nodes.find(lambda: [psutil.Process(each.pid) for each in processes])


def test_a_node_is_known_by_the_directories_that_it_holds(tmp_path: Path) -> None:
    lock = directory(tmp_path, 4)
    with node(lock) as started:
        (one,) = found(started)
        assert (one.pid, one.node_id, one.cluster_id) == (started.pid, 4, CLUSTER)
        assert one.log_dirs == (lock.parent,)
        assert not one.has_launcher
    with node(lock, **{lifeline.ENVIRONMENT_VARIABLE: "3"}) as child_of_dev:
        assert found(child_of_dev)[0].has_launcher


def test_a_forked_node_has_the_command_line_of_its_fork_server_which_launched_it(tmp_path: Path) -> None:
    lock = directory(tmp_path, 4)
    with process(lock, "-m", fork_server.__name__, "7", "kraft.cli.foreground:preload") as forked:
        assert found(forked) == []
        lock.write_text(f"{forked.pid}\n")
        (one,) = found(forked)
        assert (one.pid, one.node_id, one.has_launcher) == (forked.pid, 4, True)


def test_a_process_that_only_resembles_a_node_is_not_found(tmp_path: Path) -> None:
    lock = directory(tmp_path, 4)
    no_directory = tmp_path / ".lock"
    no_directory.touch()
    with (
        process(lock, "server", "start") as without_the_lock,
        process(lock, "log", "dump") as another_command,
        process(no_directory, "server", "start") as no_log_directory,
    ):
        lock.write_text(f"{another_command.pid}\n")
        no_directory.write_text(f"{no_log_directory.pid}\n")
        assert found(without_the_lock, another_command, no_log_directory) == []


def test_what_has_ended_is_not_found_and_not_signalled(tmp_path: Path) -> None:
    lock = directory(tmp_path, 4)
    with node(lock) as started:
        nodes = found(started)
        started.kill()
        started.wait()
        assert local_nodes.find(lambda: [node.process for node in nodes]) == []
        assert local_nodes.stop(nodes, 5) == local_nodes.StopResult(stopped=nodes, still_running=[])


def stop(monkeypatch: pytest.MonkeyPatch, nodes: list[LocalNode], *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(local_nodes, "find", lambda: nodes)
    result = CliRunner().invoke(app, ["stop", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_stop_ends_all_nodes_but_those_that_have_a_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        node(directory(tmp_path, 1)) as one,
        node(directory(tmp_path, 2)) as two,
        node(directory(tmp_path, 3, OTHER_CLUSTER), **{lifeline.ENVIRONMENT_VARIABLE: "3"}) as child_of_dev,
    ):
        code, said, _ = stop(monkeypatch, found(one, two, child_of_dev), "--all")
        assert code == 0
        assert said == (
            f"Stopped node 1 of cluster {CLUSTER} (pid {one.pid}).\n"
            f"Stopped node 2 of cluster {CLUSTER} (pid {two.pid}).\n"
        )
        assert (one.wait(60), two.wait(60), child_of_dev.poll()) == (-15, -15, None)


def test_stop_ends_a_supervisor_and_leaves_its_processes_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, further = directory(tmp_path, 4), directory(tmp_path, 1004)
    own = lock.with_name(storage.SUPERVISOR_LOCK_FILE)
    own.touch()
    with (
        process(own, "server", "start", "-c", "any") as supervisor,
        process(lock, "server", "start", "-c", "any", "--process", "0") as first,
        process(further, "server", "start", "-c", "any", "--process", "1") as second,
    ):
        for held, holder in ((own, supervisor), (lock, first), (further, second)):
            held.write_text(f"{holder.pid}\n")
        nodes = found(supervisor, first, second)
        assert {node.pid: node.is_supervised for node in nodes} == {
            supervisor.pid: False,
            first.pid: True,
            second.pid: True,
        }
        monkeypatch.setattr(local_nodes, "find", lambda: nodes)
        one = CliRunner().invoke(app, ["stop", "--node-id", "1004", "--all"])
        assert (one.exit_code, one.stderr) == (
            1,
            "kraft: node 1004 is one of several processes, which are stopped together: stop the node of their file\n",
        )
        done = CliRunner().invoke(app, ["stop", "--cluster-id", CLUSTER])
        assert done.stdout == f"Stopped node 4 of cluster {CLUSTER} (pid {supervisor.pid}).\n"
        assert (first.poll(), second.poll()) == (None, None)


@pytest.mark.parametrize("options", [[], ["--node-id", "1"]])
def test_stop_lists_what_it_would_stop_unless_it_is_told_what_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    with node(directory(tmp_path, 1)) as one, node(directory(tmp_path, 1, OTHER_CLUSTER)) as of_another:
        nodes = found(one, of_another)
        code, said, error = stop(monkeypatch, nodes, *options)
        assert (code, said) == (1, "")
        listed = [f"{each}, with {each.log_dirs[0]}" for each in nodes]
        remedy = "kraft: nothing was stopped: name what to stop with -c FILE, --cluster-id ID or --all"
        assert error.splitlines() == [*listed, remedy]
        assert (one.poll(), of_another.poll()) == (None, None)
        code, said, _ = stop(monkeypatch, nodes, "--cluster-id", OTHER_CLUSTER)
        assert (code, said) == (0, f"Stopped node 1 of cluster {OTHER_CLUSTER} (pid {of_another.pid}).\n")
        assert (of_another.wait(60), one.poll()) == (-15, None)


@pytest.mark.parametrize(
    "options",
    [
        ["--node-id", "1", "--cluster-id", CLUSTER],
        ["-c", "{directory}/" + f"{CLUSTER}-1.properties"],
    ],
)
def test_stop_ends_the_one_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    with (
        node(directory(tmp_path, 1)) as named,
        node(directory(tmp_path, 2)) as same_cluster,
        node(directory(tmp_path, 1, OTHER_CLUSTER)) as same_id,
    ):
        arguments = [option.format(directory=tmp_path) for option in options]
        code, said, _ = stop(monkeypatch, found(named, same_cluster, same_id), *arguments)
        assert (code, said) == (0, f"Stopped node 1 of cluster {CLUSTER} (pid {named.pid}).\n")
        assert (named.wait(60), same_cluster.poll(), same_id.poll()) == (-15, None, None)


def test_stop_says_which_node_does_not_stop_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with node(directory(tmp_path, 1), program=STUBBORN) as stubborn, node(directory(tmp_path, 2)) as other:
        code, said, error = stop(monkeypatch, found(stubborn, other), "--all", "--timeout-ms", "5000")
        assert (code, said) == (1, f"Stopped node 2 of cluster {CLUSTER} (pid {other.pid}).\n")
        assert error.splitlines()[-1] == (
            f"kraft: not stopped within 5 s: node 1 of cluster {CLUSTER} (pid {stubborn.pid}): see its log,"
            f" or kill it with 'kill -9 {stubborn.pid}'"
        )


def test_stop_says_what_it_waits_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_nodes, "TOLD_AFTER_S", 0.3)
    with (
        node(directory(tmp_path, 1), program=STUBBORN) as stubborn,
        node(directory(tmp_path, 2)) as suspended,
        node(directory(tmp_path, 3)) as other,
    ):
        os.kill(suspended.pid, signal.SIGSTOP)
        nodes = found(stubborn, suspended, other)
        code, said, error = stop(monkeypatch, nodes, "--all", "--timeout-ms", "5000")
        assert (code, said) == (1, f"Stopped node 3 of cluster {CLUSTER} (pid {other.pid}).\n")
        resume = f"it is suspended (SIGSTOP): resume it with 'kill -CONT {suspended.pid}', and it stops"
        first, second, last = error.splitlines()
        assert first.startswith(f"Waiting for node 1 of cluster {CLUSTER} (pid {stubborn.pid}): ")
        assert first.endswith("it moves its leaderships away and closes its logs")
        assert second == f"Waiting for node 2 of cluster {CLUSTER} (pid {suspended.pid}): {resume}"
        assert last.endswith(f"node 2 of cluster {CLUSTER} (pid {suspended.pid}): {resume}")
        os.kill(suspended.pid, signal.SIGCONT)
        assert suspended.wait(60) == -15


def test_stop_without_a_node_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    code, said, error = stop(monkeypatch, [])
    assert (code, said) == (1, "")
    assert error == "kraft: no matching node of this user runs on this machine\n"
