from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos import recorder
from chaos.checkers import Verdict, check
from chaos.history import Operation, OperationType, Send
from chaos.recorder import Recorder
from chaos.workloads import AppendPlan, AppendWorkload, append
from tests.unit.chaos.memory_clients import MemoryCluster

PLAN = AppendPlan(partitions=2, pause_between_sends_ms=1, drain_deadline_s=2.0)
DEADLINE_S = 60.0


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[MemoryCluster, int], AppendWorkload]:
    """Runs the workload until so many values are acknowledged and what is to fail has failed, then drains it.

    The history is in tmp_path.
    """

    def run(cluster: MemoryCluster, acknowledged: int) -> AppendWorkload:
        monkeypatch.setattr(append, "Admin", cluster.admin)
        monkeypatch.setattr(append, "Producer", cluster.producer)
        monkeypatch.setattr(append, "Consumer", cluster.consumer)
        monkeypatch.setattr(append, "_PAUSE_AFTER_ERROR_S", 0.001)
        with Recorder(tmp_path / "history") as notes:
            workload = AppendWorkload("a:1", PLAN, notes, seed=1)
            workload.start()
            deadline = time.monotonic() + DEADLINE_S
            while time.monotonic() < deadline and (notes.acknowledged < acknowledged or not cluster.has_failed_as_told):
                time.sleep(0.005)
            workload.stop()
            if not workload.crashes:
                workload.drain()
        return workload

    return run


def operations(directory: Path) -> list[Operation]:
    return list(recorder.read(directory / "history"))


def verdict(directory: Path) -> Verdict:
    return check(operations(directory))


def test_a_cluster_that_works_leaves_a_clean_history(
    work: Callable[[MemoryCluster, int], AppendWorkload], tmp_path: Path
) -> None:
    cluster = MemoryCluster()
    work(cluster, 300)
    found = verdict(tmp_path)

    assert found.is_clean
    assert found.acknowledged == found.read >= 300
    assert found.unknown == 0
    assert cluster.created == [("chaos", 2, 3, {"min.insync.replicas": "2"})]


def test_an_answer_that_was_lost_is_an_open_outcome_and_no_failure(
    work: Callable[[MemoryCluster, int], AppendWorkload], tmp_path: Path
) -> None:
    workload = work(MemoryCluster(lost_answers_every=40), 300)
    found = verdict(tmp_path)

    assert found.is_clean
    assert found.failed == 0
    assert found.unknown == workload.errors["DeliveryTimeout"] > 0
    assert found.read == found.acknowledged + found.unknown


def test_a_process_whose_outcome_is_open_is_not_used_again(
    work: Callable[[MemoryCluster, int], AppendWorkload], tmp_path: Path
) -> None:
    work(MemoryCluster(lost_answers_every=40, failed_polls_every=20), 300)
    finished: set[str] = set()
    for operation in operations(tmp_path):
        assert operation.process not in finished
        if operation.type is OperationType.INFO:
            finished.add(operation.process)
    assert any(name.startswith("producer") for name in finished)
    assert any(name.startswith("consumer") for name in finished)
    assert verdict(tmp_path).is_clean


def test_values_of_a_key_are_sent_once_and_increase_for_each_process(
    work: Callable[[MemoryCluster, int], AppendWorkload], tmp_path: Path
) -> None:
    work(MemoryCluster(), 300)
    sent: dict[tuple[str, str], list[int]] = {}
    for operation in operations(tmp_path):
        if isinstance(operation.value, Send) and operation.type is OperationType.INVOKE:
            sent.setdefault((operation.process, operation.value.key), []).extend(operation.value.values)
    assert all(values == sorted(values) for values in sent.values())
    for key in ("chaos-0", "chaos-1"):
        values = [value for (_, other), found in sent.items() if other == key for value in found]
        assert len(values) == len(set(values))


def test_a_bug_in_the_client_is_reported_and_not_swallowed(
    work: Callable[[MemoryCluster, int], AppendWorkload],
) -> None:
    workload = work(MemoryCluster(polls_that_break=PLAN.consumers), 10)
    assert len(workload.crashes) == 2
    assert "consumer-1 ended by an error" in min(workload.crashes)
    assert "ZeroDivisionError: a bug of the client" in workload.crashes[0]


def test_a_log_that_lost_its_end_after_it_was_read_is_not_drained(
    work: Callable[[MemoryCluster, int], AppendWorkload], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = MemoryCluster()
    drain = AppendWorkload.drain

    def lose_then_drain(workload: AppendWorkload) -> None:
        for log in cluster.logs.values():
            del log[-1]
        drain(workload)

    monkeypatch.setattr(AppendWorkload, "drain", lose_then_drain)
    work(cluster, 50)
    found = verdict(tmp_path)
    assert not found.is_drained
    assert not found.is_clean
