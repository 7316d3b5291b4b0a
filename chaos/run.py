"""One run: a cluster, a workload, faults by schedule, and the judgement of what was left behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from chaos import checkers, recorder
from chaos.checkers import Cycle, Verdict
from chaos.history import NEMESIS, Fault, Heal, OperationType
from chaos.nemesis import links, processes
from chaos.nemesis.faults import FaultKind, NothingToBreak
from chaos.nemesis.schedule import Planned, schedule
from chaos.nemesis.targets import Targets
from chaos.recorder import Recorder
from chaos.toxiproxy import HOST, Server, ToxiproxyMissing, find_or_build
from chaos.workloads import AppendPlan, AppendWorkload
from kraft.local.free_ports import ReservedPorts
from kraft.testing import Cluster, NodeFailed

FAULTS: Final = processes.NAMES + links.NAMES
HISTORY_FILE: Final = "history.jsonl"
PLAINTEXT: Final = "PLAINTEXT"
SASL_SSL: Final = "SASL_SSL"

_PROGRESS_POLL_S: Final = 0.05

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Plan of a run. Two runs of one plan inject the same kinds of faults at the same points of the sequence."""

    seed: int
    cycles: int
    faults: Sequence[str] = FAULTS
    duration_max_s: float | None = None
    """No new fault begins after it."""

    nodes: int = 3
    secure: bool = False
    """Whether clients log in inside TLS, and nodes speak TLS to each other."""

    workload: AppendPlan = field(default_factory=AppendPlan)
    warm_up_s: float = 1.0
    hold_s: tuple[float, float] = (1.0, 6.0)
    rest_s: tuple[float, float] = (0.0, 2.0)
    progress_deadline_s: float = 30.0
    """After everything is mended, every partition must take records again within this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Result of a run."""

    plan: RunPlan
    verdict: Verdict
    cycles: Sequence[Cycle]
    not_run: Mapping[str, str]
    """Faults that this machine, or this moment, had no means for, each with the reason."""

    problems: Sequence[str]
    """Problems outside the history: a node that ended by itself, no progress after every fault was healed."""

    client_errors: Mapping[str, int]
    elapsed_s: float
    directory: Path

    @property
    def is_clean(self) -> bool:
        return self.verdict.is_clean and not self.problems


def run(plan: RunPlan, directory: Path, tell: Tell = lambda _: None) -> RunResult:
    """Run the plan; the history, and the cluster's files, stay in `directory`."""
    started_s = time.monotonic()
    directory.mkdir(parents=True, exist_ok=True)
    execution = _Execution(plan, directory, tell)
    execution.run()
    path = directory / HISTORY_FILE
    tell("judging the history")
    return RunResult(
        plan=plan,
        verdict=checkers.check(recorder.read(path)),
        cycles=checkers.cycles(recorder.read(path)),
        not_run=execution.not_run,
        problems=execution.problems,
        client_errors=execution.client_errors,
        elapsed_s=time.monotonic() - started_s,
        directory=directory,
    )


class _Execution:
    """A run under way."""

    def __init__(self, plan: RunPlan, directory: Path, tell: Tell) -> None:
        self._plan = plan
        self._directory = directory
        self._tell = tell
        self._chance = Random(f"{plan.seed} targets")
        self.not_run: dict[str, str] = {}
        self.problems: list[str] = []
        self.client_errors: dict[str, int] = {}

    def run(self) -> None:
        with Recorder(self._directory / HISTORY_FILE) as notes:
            try:
                with self._surroundings() as (cluster, server, bootstrap_servers):
                    clients = dict(cluster.client_settings)
                    workload = AppendWorkload(bootstrap_servers, self._plan.workload, notes, self._plan.seed, clients)
                    self._break_things(cluster, server, workload, notes)
                    self._tell("waiting for the last acknowledgements")
                    workload.stop()
                    self._tell("reading everything once more")
                    workload.drain()
                    self.client_errors = dict(workload.errors)
                    self.problems += workload.crashes
            except NodeFailed as failure:
                self.problems.append(str(failure))

    @contextmanager
    def _surroundings(self) -> Iterator[tuple[Cluster, Server | None, str]]:
        """The cluster, the proxies in front of it if link faults are wanted and possible, and where clients begin."""
        program = self._toxiproxy() if set(self._plan.faults) & set(links.NAMES) else None
        with ExitStack() as stack:
            if program is None:
                cluster = stack.enter_context(self._cluster({}))
                yield cluster, None, cluster.bootstrap_servers
                return
            count = self._plan.nodes
            api_port, *proxy_ports = stack.enter_context(ReservedPorts(2 * count + 1))
            ports, kafka_ports = proxy_ports[:count], proxy_ports[count:]
            kafka = SASL_SSL if self._plan.secure else PLAINTEXT
            # Certificates name the host, which nodes and proxies share.
            cluster = self._cluster(links.advertised(ports, kafka_ports, kafka))
            proxies = links.proxies(cluster, ports, kafka_ports)
            server = stack.enter_context(Server(program, api_port, proxies))
            stack.enter_context(cluster)
            yield cluster, server, ",".join(f"{HOST}:{port}" for port in ports)

    def _cluster(self, node_overrides: Mapping[int, Mapping[str, str]]) -> Cluster:
        plan = self._plan
        return Cluster(plan.nodes, self._directory / "cluster", node_overrides=node_overrides, secure=plan.secure)

    def _toxiproxy(self) -> Path | None:
        try:
            return find_or_build(self._tell)
        except ToxiproxyMissing as missing:
            for name in set(self._plan.faults) & set(links.NAMES):
                self.not_run[name] = str(missing)
            return None

    def _break_things(self, cluster: Cluster, server: Server | None, workload: AppendWorkload, notes: Recorder) -> None:
        targets = Targets(cluster, self._plan.workload.topic, self._chance)
        kinds = {kind.name: kind for kind in processes.kinds(targets)}
        if server is not None:
            kinds |= {kind.name: kind for kind in links.kinds(targets, server, self._chance)}
        possible = [name for name in self._plan.faults if name in kinds]
        if not possible:
            self.problems.append("none of the faults that were asked for can be run here, so nothing was shown")
        workload.start()
        self._wait_for_progress("the start", workload, notes)
        time.sleep(self._plan.warm_up_s)
        planned = schedule(self._plan.seed, possible, self._plan.cycles, self._plan.hold_s, self._plan.rest_s)
        began_s = time.monotonic()
        for number, each in enumerate(planned, start=1):
            if self._plan.duration_max_s is not None and time.monotonic() - began_s > self._plan.duration_max_s:
                break
            self._cycle(f"{number}/{len(planned)} {each.fault}", each, kinds[each.fault], cluster, workload, notes)

    def _cycle(
        self, name: str, planned: Planned, kind: FaultKind, cluster: Cluster, workload: AppendWorkload, notes: Recorder
    ) -> None:
        try:
            notes.note(NEMESIS, OperationType.INVOKE, Fault(name=kind.name))
            broken = kind.strike()
        except NothingToBreak as reason:
            notes.note(NEMESIS, OperationType.FAIL, Fault(name=kind.name))
            self._tell(f"{name}: not done, {reason}")
            self.not_run.setdefault(kind.name, str(reason))
            return
        notes.note(NEMESIS, OperationType.OK, Fault(name=kind.name, target=broken.target))
        self._tell(f"{name}: {broken.target}, for {planned.hold_s:.1f} s ({notes.acknowledged} acknowledged so far)")
        time.sleep(planned.hold_s)
        broken.mend()
        notes.note(NEMESIS, OperationType.OK, Heal(name=kind.name))
        try:
            cluster.wait_ready()
        except NodeFailed as failure:
            self.problems.append(f"{name}: {failure}")
            cluster.start()
        self._wait_for_progress(name, workload, notes)
        time.sleep(planned.rest_s)

    def _wait_for_progress(self, after: str, workload: AppendWorkload, notes: Recorder) -> None:
        """Until every partition has acknowledged something from now on."""
        began_s = time.monotonic()
        while missing := set(workload.keys) - notes.keys_acknowledged_since(began_s):
            if time.monotonic() - began_s > self._plan.progress_deadline_s:
                self.problems.append(
                    f"{after}: nothing was acknowledged for {self._plan.progress_deadline_s:.0f} s by "
                    f"{', '.join(sorted(missing))}, although everything was mended"
                )
                return
            time.sleep(_PROGRESS_POLL_S)
