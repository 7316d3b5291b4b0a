"""`kraft dev`: a cluster on this machine without configuration."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kraft.cli.console import check_installed
from kraft.cli.one_line import one_line_errors
from kraft.model.printable import readable_size

if TYPE_CHECKING:
    import psutil
    from rich.console import Console
    from rich.table import Table

    from kraft.local.cluster_files import NodePlan
    from kraft.local.forked_processes import ForkServer
    from kraft.local.local_cluster import LocalCluster
    from kraft.local.node_process import NodeProcess
    from kraft.local.security_files import SecurityFiles
    from kraft.server.config.node_config import NodeConfig

VOTERS_MAX = 3
BASE_PORT = 9092
_PORTS_FROM_NODE_TO_NODE = 100
_CONTROLLER_OFFSET, _GRPC_OFFSET, _METRICS_OFFSET, _CONSOLE_OFFSET = 1, 2, 3, 4
_PORT_MAX = 65_535
_METRICS_ADDRESS = "metrics.address"
_WATCH_INTERVAL_S = 0.1


def dev(
    nodes: Annotated[
        int,
        typer.Option(
            "--nodes", min=1, max=100, help="Number of nodes. All are brokers, the first three also controllers."
        ),
    ] = 3,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir", help="Directory that keeps the cluster for the next run. By default it is deleted at the end."
        ),
    ] = None,
    base_port: Annotated[
        int | None,
        typer.Option(
            "--base-port",
            min=1,
            help=f"First port of node 1; the ports of each further node are 100 higher. [default: {BASE_PORT}]",
        ),
    ] = None,
    secure: Annotated[
        bool,
        typer.Option("--secure", help="Require TLS and a login; creates certificates and an administrator."),
    ] = False,
    metrics: Annotated[
        bool,
        typer.Option("--metrics", help="Each node serves /metrics, /healthz and /readyz on a port of its own."),
    ] = False,
    console: Annotated[
        bool,
        typer.Option("--console", help="Serve the web console of the cluster, too; needs the extra console."),
    ] = False,
) -> None:
    """Run a cluster on this machine until Ctrl-C."""
    if console:
        check_installed()
    from kraft.local.forked_processes import ForkServer

    stop = _StopRequest()
    # It imports what the nodes need, once for all of them, while this process plans them.
    forks = ForkServer("kraft.cli.foreground:preload")
    forks.prepare()
    from kraft.local.node_process import NodeFailed

    directory = data_dir.absolute() if data_dir is not None else Path(tempfile.mkdtemp(prefix="kraft-dev-"))
    keep = data_dir is not None
    try:
        with one_line_errors(NodeFailed, ConnectionError, _CannotStart):
            _run(directory, nodes, base_port, forks, stop, secure=secure, metrics=metrics, console=console)
    finally:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)


class _CannotStart(Exception):
    """The cluster cannot be started; one line, with the remedy."""


class _StopRequest:
    """Records Ctrl-C, SIGTERM and a closed terminal. Nodes have their own sessions and do not get these signals."""

    def __init__(self) -> None:
        self._is_made = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._make)

    def __call__(self) -> bool:
        return self._is_made

    def _make(self, _number: int, _frame: object) -> None:
        self._is_made = True


def _run(
    directory: Path,
    nodes: int,
    base_port: int | None,
    forks: ForkServer,
    stop: _StopRequest,
    *,
    secure: bool,
    metrics: bool,
    console: bool,
) -> None:
    from kraft.local import cluster_files, security_files
    from kraft.local.local_cluster import LocalCluster
    from kraft.local.node_process import NodeFailed
    from kraft.server.identity import storage

    existing = cluster_files.read(directory)
    if nodes < len(existing):
        raise _CannotStart(f"{directory} holds a cluster of {len(existing)} nodes: use --nodes {len(existing)} or more")
    secure = _is_secured(directory, existing, secure)
    first_port = base_port if base_port is not None else _base_port_of(existing)
    plans = _plan(existing, nodes, first_port, secure=secure, metrics=metrics)
    console_port = first_port + _CONSOLE_OFFSET if console else None
    _check_ports_are_free(plans, console_port)
    cluster_id = existing[0].cluster_id if existing else None
    security = None
    try:
        if secure:
            security = security_files.make_here(cluster_files.security_directory(directory))
        cluster_files.write(directory, plans, cluster_id or storage.random_cluster_id(), security)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise _CannotStart(f"{directory}: cannot be written to: {reason}: choose another --data-dir") from None
    cluster = LocalCluster(directory, plans, launch=forks.launch)
    try:
        cluster.start()
        print_cluster = _cluster_printer()
        if cluster.wait_ready(cancelled=stop):
            with _console(directory, cluster, console_port, security) as shown:
                print_cluster(cluster, security)
                _print_metrics(plans)
                for line in shown:
                    print(line, flush=True)
                _watch(cluster, stop)
    except BaseException:
        # Report the first error, not how the other nodes then ended.
        with suppress(NodeFailed):
            cluster.stop()
        raise
    print("Stopping ...", flush=True)
    cluster.stop()
    print("Stopped.", flush=True)


def _is_secured(directory: Path, existing: list[NodeConfig], asked: bool) -> bool:
    """Return whether the cluster is secured: one that exists stays as it was made."""
    from kraft.server.config.values import GRPC

    if not existing:
        return asked
    was = existing[0].security_of(GRPC).protocol.has_sasl
    if asked and not was:
        raise _CannotStart(f"{directory} holds a cluster that is not secured: choose another --data-dir with --secure")
    return was


def _plan(existing: list[NodeConfig], nodes: int, base_port: int, *, secure: bool, metrics: bool) -> list[NodePlan]:
    """Plan the nodes. An existing cluster keeps its voters; in a new one the first three nodes vote."""
    voters = [node.node_id for node in existing if node.is_controller] or range(1, min(nodes, VOTERS_MAX) + 1)
    last_offset = _METRICS_OFFSET if metrics else _GRPC_OFFSET
    highest_port = base_port + (nodes - 1) * _PORTS_FROM_NODE_TO_NODE + last_offset
    if highest_port > _PORT_MAX:
        raise _CannotStart(
            f"--base-port {base_port}: port {highest_port} of the last node is above {_PORT_MAX}: choose a lower one"
        )
    return [
        _plan_node(node_id, base_port, is_voter=node_id in voters, secure=secure, metrics=metrics)
        for node_id in range(1, nodes + 1)
    ]


def _plan_node(node_id: int, base_port: int, *, is_voter: bool, secure: bool, metrics: bool) -> NodePlan:
    from kraft.local.cluster_files import HOST, NodePlan
    from kraft.server.config.values import PLAINTEXT, SecurityProtocol

    first = base_port + (node_id - 1) * _PORTS_FROM_NODE_TO_NODE
    return NodePlan(
        node_id=node_id,
        grpc_port=first + _GRPC_OFFSET,
        controller_port=first + _CONTROLLER_OFFSET if is_voter else None,
        kafka_port=first,
        kafka_listener=SecurityProtocol.SASL_SSL.value if secure else PLAINTEXT,
        settings={_METRICS_ADDRESS: f"{HOST}:{first + _METRICS_OFFSET}"} if metrics else {},
    )


def _base_port_of(existing: list[NodeConfig]) -> int:
    from kraft.server.config.values import GRPC

    listener = existing[0].listener(GRPC) if existing else None
    return BASE_PORT if listener is None else listener.port - _GRPC_OFFSET


@contextmanager
def _console(
    directory: Path, cluster: LocalCluster, port: int | None, security: SecurityFiles | None
) -> Iterator[list[str]]:
    """Run the console at this port, if there is one; yield what is printed of it."""
    if port is None:
        yield []
        return
    from kraft.local.console_process import ConsoleProcess

    settings = {"bootstrap.servers": cluster.bootstrap_servers}
    if security is not None:
        settings |= _login_of(security)
    console = ConsoleProcess(directory, port, settings)
    try:
        console.start()
        console.wait_ready()
        login = "" if security is None else f" (the administrator's password is in {security.password})"
        yield [f"Console: {console.url}{login}"]
    finally:
        console.stop()


def _login_of(security: SecurityFiles) -> dict[str, str]:
    """Return how the console reaches a secured cluster; people log in with their own users."""
    from kraft.local.security_files import MECHANISM

    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "ssl.truststore.location": str(security.authority),
        "ssl.truststore.type": "PEM",
    }


def _check_ports_are_free(plans: list[NodePlan], console_port: int | None) -> None:
    from kraft.local.cluster_files import HOST
    from kraft.server.process.ports import why_not_free

    if console_port is not None and console_port > _PORT_MAX:
        raise _CannotStart(f"port {console_port} of the console is above {_PORT_MAX}: choose a lower --base-port")
    if console_port is not None and (reason := why_not_free(HOST, console_port)):
        raise _CannotStart(
            f"the console cannot listen on port {console_port}: {reason}: stop the process that uses it, or choose "
            "other ports with --base-port"
        )
    for plan in plans:
        listeners = (
            (plan.kafka_listener, plan.kafka_port),
            ("GRPC", plan.grpc_port),
            ("CONTROLLER", plan.controller_port),
            (_METRICS_ADDRESS, _metrics_port(plan)),
        )
        for name, port in listeners:
            if port is not None and (reason := why_not_free(HOST, port)):
                raise _CannotStart(
                    f"node {plan.node_id} cannot listen on port {port} for {name}: {reason}: "
                    "stop the process that uses it, or choose other ports with --base-port"
                )


def _metrics_port(plan: NodePlan) -> int | None:
    address = plan.settings.get(_METRICS_ADDRESS)
    return None if address is None else int(address.rpartition(":")[2])


def _cluster_printer() -> Callable[[LocalCluster, SecurityFiles | None], None]:
    """Return what prints a cluster that is ready, with its imports done while the nodes are starting."""
    import psutil
    from rich.console import Console
    from rich.table import Table

    return partial(_print_cluster, psutil.Process(), Console(highlight=False), Table())


def _print_cluster(
    launcher: psutil.Process, console: Console, table: Table, cluster: LocalCluster, security: SecurityFiles | None
) -> None:
    took_s = time.time() - launcher.create_time()
    for title in ("node", "roles", "address", "pid", "memory"):
        table.add_column(title)
    for node in cluster.nodes.values():
        table.add_row(
            str(node.node_id),
            "broker, controller" if node.is_controller else "broker",
            node.address,
            str(node.pid),
            readable_size(node.resident_bytes()),
        )
    console.print(table)
    console.print(f"Logs: {next(iter(cluster.nodes.values())).log_path.parent}/node-*.log", soft_wrap=True)
    console.print(f"Cluster ready after {took_s:.2f} s. Ctrl-C stops it.")
    if security is not None:
        for line in how_to_connect(cluster.kafka_bootstrap_servers, cluster.bootstrap_servers, security):
            console.print(line, soft_wrap=True, markup=False)
        return
    console.print(f"Kafka clients: bootstrap.servers={cluster.kafka_bootstrap_servers}", soft_wrap=True)
    console.print(f"Next: kraft topics list --bootstrap-server {cluster.bootstrap_servers}", soft_wrap=True)


def _print_metrics(plans: Sequence[NodePlan]) -> None:
    addresses = [address for plan in plans if (address := plan.settings.get(_METRICS_ADDRESS))]
    if addresses:
        print(f"Metrics: {' '.join(f'http://{each}/metrics' for each in addresses)}")
        print(f"Probes: http://{addresses[0]}/readyz and /healthz, also of the other nodes", flush=True)


def how_to_connect(kafka_servers: str, servers: str, security: SecurityFiles) -> list[str]:
    """Return lines that say how clients log in as the administrator; the password is in a file, and not in them."""
    from kraft.local.security_files import ADMIN, MECHANISM

    password = f"open({str(security.password)!r}).read().strip()"
    authority = str(security.authority)
    return [
        f"Java's clients and tools: bootstrap.servers={kafka_servers} and the settings in {security.client}",
        (
            f"kafka-python: KafkaProducer(bootstrap_servers={kafka_servers!r}, security_protocol='SASL_SSL',"
            f" sasl_mechanism={MECHANISM!r}, sasl_plain_username={ADMIN!r}, sasl_plain_password={password},"
            f" ssl_cafile={authority!r})"
        ),
        (
            f"confluent-kafka: Producer({{'bootstrap.servers': {kafka_servers!r}, 'security.protocol': 'SASL_SSL',"
            f" 'sasl.mechanism': {MECHANISM!r}, 'sasl.username': {ADMIN!r}, 'sasl.password': {password},"
            f" 'ssl.ca.location': {authority!r}}})"
        ),
        f"Audit: {security.audit_log}",
        f"Next: kraft topics list --bootstrap-server {servers} --command-config {security.client}",
    ]


def _watch(cluster: LocalCluster, stop: _StopRequest) -> None:
    """Report each node that ends, until `stop`. Raises NodeFailed when the last one has ended."""
    running = list(cluster.nodes.values())
    ended: list[tuple[NodeProcess, str]] = []
    while not stop():
        for node in [node for node in running if not node.is_running]:
            running.remove(node)
            ended.append((node, time.strftime("%H:%M:%S")))
            if not running:
                node.check_running()
            print(node.described(f"ended with exit code {node.exit_code}"), flush=True)
            print(what_is_left(running, ended), flush=True)
        time.sleep(_WATCH_INTERVAL_S)


def what_is_left(running: Sequence[NodeProcess], ended: Sequence[tuple[NodeProcess, str]]) -> str:
    """Return what the nodes that still run can do. `ended` has the time of day at which each of the others ended."""
    voters = sum(node.is_controller for node in (*running, *(node for node, _ in ended)))
    alive = sum(node.is_controller for node in running)
    majority = voters // 2 + 1
    if alive >= majority:
        return "The other nodes continue."
    missing = ", ".join(f"node {node.node_id} (since {at})" for node, at in ended if node.is_controller)
    return (
        f"No controller is active: {alive} of {voters} voters run, and {majority} are needed; unreachable: {missing}. "
        "The other nodes serve what they lead, but leaders, topics and groups cannot change: stop this cluster with "
        "Ctrl-C and start it again."
    )
