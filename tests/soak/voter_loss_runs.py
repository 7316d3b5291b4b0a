"""`python -m tests.soak.voter_loss_runs`: each controller in turn loses its directory, under a producer of librdkafka.

Three nodes are brokers and controllers. One is killed, and its metadata log deleted, or its whole directory, which is
then formatted as the node's own message says. It is started, and must count again in the quorum. Then each of the other
two is killed in turn, and the metadata must still change, with the vote of the one that came back. At the end
librdkafka reads the partition: each acknowledged number is there exactly once, in order.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

import typer

from kraft.client import Admin, KraftError, Unreachable
from kraft.local.node_process import NodeProcess
from kraft.server.config import loading
from kraft.testing import Cluster
from tests.soak.fault_runs import Seed, Times, chosen, judged, say
from tests.soak.leader_kill_runs import figures
from tests.support.command_line import run as run_command
from tests.support.kafka.kafka_numbered_loads import Comparison, LibrdkafkaLoad, compare, read_numbers
from tests.support.records import create_topic
from tests.support.waiting import until, until_in_sync

NODES: Final = 3
METADATA_LOG: Final = "__cluster_metadata"
_TOPIC: Final = "numbers"
_DEADLINE_S: Final = 90.0
_ANSWER_MS: Final = 2_000
_ADMITTED: Final = "controller admitted: it counts again"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One loss. `back_s` from the new start until the controller counted; `changed_s` from each later kill until the
    metadata had changed."""

    node_id: int
    is_whole: bool
    back_s: float
    changed_s: list[float]

    def __str__(self) -> str:
        lost = "its directory" if self.is_whole else "its metadata log"
        changed = ", ".join(f"{each:.2f}" for each in self.changed_s)
        return f"node {self.node_id} lost {lost}: counted after {self.back_s:.2f} s; changes after kills: {changed} s"


@dataclass(slots=True, kw_only=True)
class LossRun:
    """A running cluster with a load."""

    cluster: Cluster
    admin: Admin
    topic_count: int = 0
    losses: list[Loss] = field(default_factory=list)

    def lose(self, node: NodeProcess, *, is_whole: bool) -> Loss:
        node.kill()
        self._delete(node, is_whole=is_whole)
        admissions = self._admissions(node)
        node.start()
        started_s = time.monotonic()
        # Until its new process is heard, the leader shows what it knew of the one before.
        until(lambda: self._admissions(node) > admissions, lambda: self._missing(node.node_id), _DEADLINE_S)
        until(lambda: not self._missing(node.node_id), lambda: self._missing(node.node_id), _DEADLINE_S)
        back_s = time.monotonic() - started_s
        self._wait_in_sync()
        changed_s = [self._change_without(other) for other in self.cluster.nodes if other is not node]
        return Loss(node_id=node.node_id, is_whole=is_whole, back_s=back_s, changed_s=changed_s)

    def _delete(self, node: NodeProcess, *, is_whole: bool) -> None:
        (directory,) = loading.load(node.config_path).log_dirs
        if not is_whole:
            shutil.rmtree(directory / METADATA_LOG)
            return
        shutil.rmtree(directory)
        refused = run_command("server", "start", "-c", node.config_path)
        assert f"'kraft storage format -c {node.config_path}'" in refused.stderr, refused.stderr
        formatted = run_command("storage", "format", "-c", node.config_path)
        assert formatted.returncode == 0, formatted.stderr

    def _admissions(self, node: NodeProcess) -> int:
        """Return how often the leader has admitted the node's controller, by its log."""
        return node.log_path.read_text().count(f'"{_ADMITTED}"')

    def _missing(self, node_id: int) -> str:
        """Return why the voter does not count yet; empty if it does."""
        try:
            voters = self.admin.describe_quorum(timeout_ms=_ANSWER_MS).voters
        except (KraftError, Unreachable) as error:
            return str(error)
        voter = next(each for each in voters if each.node_id == node_id)
        if voter.is_learner or voter.log_end_offset < 0 or voter.lag > 1:
            return f"voter {node_id} is a learner: {voter.is_learner}, and lags by {voter.lag}"
        return ""

    def _wait_in_sync(self) -> None:
        self.cluster.wait_ready(_DEADLINE_S)
        until_in_sync(self.admin, _TOPIC, _DEADLINE_S)

    def _change_without(self, node: NodeProcess) -> float:
        """Kill a node; return the time until the others have created a topic. The node is started again."""
        left = [each.address for each in self.cluster.nodes if each is not node and each.address is not None]
        node.kill()
        killed_s = time.monotonic()
        self.topic_count += 1
        create_topic(",".join(left), f"created-{self.topic_count}", partitions=1, replication_factor=2)
        changed_s = time.monotonic() - killed_s
        node.start()
        self._wait_in_sync()
        return changed_s


def run(
    *, times: int, seed: int, tell: Callable[[Loss], None] = lambda _: None, nodes: Sequence[int] = (1, 2, 3)
) -> tuple[list[Loss], Comparison]:
    """Each of `nodes` loses its directory, `times` times. Raises AssertionError and TimeoutError."""
    chance = Random(seed)
    with Cluster(nodes=NODES) as cluster, Admin(cluster.bootstrap_servers) as admin:
        create_topic(cluster.bootstrap_servers, _TOPIC, partitions=1, replication_factor=NODES)
        running = LossRun(cluster=cluster, admin=admin)
        with LibrdkafkaLoad(cluster.kafka_bootstrap_servers, _TOPIC, [0]) as load:
            load.wait_for_acknowledgements(20, 0)
            for _ in range(times):
                for node_id in nodes:
                    time.sleep(chance.uniform(0, 1))
                    running.losses.append(running.lose(cluster.node(node_id), is_whole=chance.random() < 0.5))
                    tell(running.losses[-1])
            load.stop()
            numbers = read_numbers(cluster.kafka_bootstrap_servers, _TOPIC, 0)
            return running.losses, compare(load.client, 0, load.sent[0], numbers)


@app.command()
def main(times: Times = 10, seed: Seed = None) -> None:
    """Each of three controllers loses its directory in turn; the one that came back counts for the next one."""
    seed = chosen(seed)
    with judged(KraftError):
        losses, comparison = run(times=times, seed=seed, tell=lambda loss: say(str(loss)))
        print(f"{len(losses)} directories of controllers lost, {NODES} nodes, each broker and controller, seed {seed}")
        print(comparison)
        print(f"until the controller counted again: {figures([loss.back_s for loss in losses])}")
        changed_s = [each for loss in losses for each in loss.changed_s]
        print(f"from the kill of another one to a change of the metadata: {figures(changed_s)}")
        assert comparison.is_exact, "acknowledged records are lost, or repeated"


if __name__ == "__main__":
    app(prog_name="python -m tests.soak.voter_loss_runs")
