"""`kraft perf` on running nodes: what is measured is what is in the topic."""

from __future__ import annotations

import json
from typing import Any

from kraft.testing import Cluster
from tests.support.command_line import kraft, run_kraft


def as_json(cluster: Cluster, *arguments: str) -> Any:
    return json.loads(kraft(cluster, *arguments, "--output", "json"))


def test_a_producer_benchmark_sends_a_number_of_records_of_a_size_at_a_rate(cluster: Cluster, topic: str) -> None:
    load = ("--num-records", "600", "--record-size", "100")
    sent = as_json(cluster, "perf", "produce", topic, *load, "--throughput", "500", "--warmup-records", "100")
    assert (sent["records"], sent["size_bytes"], sent["failed"]) == (600, 60_000, 0)
    assert sent["records_per_s"] <= 550
    assert sent["latency"]["count"] == sum(each["records"] for each in sent["latency"]["histogram"]) == 600
    assert 0 < sent["steady_state"]["records"] <= 500

    read = as_json(cluster, "perf", "consume", topic, "--num-records", "600")
    assert (read["records"], read["size_bytes"]) == (600, 60_000)


def test_a_producer_benchmark_commits_its_transactions(cluster: Cluster, topic: str) -> None:
    load = ("--num-records", "40", "--payload-monotonic", "--throughput", "100", "--records-per-call", "5")
    kraft(cluster, "perf", "produce", topic, *load, "--transaction-duration-ms", "100")
    printed = kraft(
        cluster, "consume", topic, "--from-beginning", "--isolation-level", "read_committed", "--max-messages", "40"
    )
    assert sorted(map(int, printed.split())) == list(range(40))


def test_the_latency_from_end_to_end_is_that_of_each_record(cluster: Cluster, topic: str) -> None:
    load = ("--num-records", "20", "--record-size", "10", "--record-key-size", "4", "--num-headers", "1")
    assert as_json(cluster, "perf", "latency", topic, *load)["count"] == 20


def test_fewer_records_than_asked_for_are_an_error(cluster: Cluster, topic: str) -> None:
    done = run_kraft(cluster, "perf", "consume", topic, "--num-records", "1", "--timeout", "100")
    assert (done.returncode, done.stderr) == (1, "kraft: only 0 of 1 records came; then none for 100 ms\n")
