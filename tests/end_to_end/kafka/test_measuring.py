"""`kraft perf`, `kraft verify`, and the names and options of Kafka's scripts, on running nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kraft.testing import Cluster
from tests.support.command_line import kraft, run, run_kraft
from tests.support.error_lines import the_one_line
from tests.support.kafka.release_files import CONSUMER, CONSUMER_0_8, CONSUMER_4_NEXT, PRODUCER, PRODUCER_0_8


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


@pytest.mark.parametrize(
    "options", [("--throughput", "nan", "--record-size", "1"), ("--record-size", "2000000000")], ids=["rate", "size"]
)
def test_a_load_that_cannot_be_made_is_refused_before_it_begins(topic: str, options: tuple[str, ...]) -> None:
    done = run("perf", "produce", topic, "--num-records", "1", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith(f"Error: Invalid value for {options[0]!r}")


# --- verifiable clients ------------------------------------------------------------------------------------------


def test_verifiable_clients_print_what_they_sent_and_read_in_kafkas_form(cluster: Cluster, topic: str) -> None:
    lines = kraft(cluster, "verify", "produce", topic, "--max-messages", "5").splitlines()
    sent = [each for each in map(json.loads, lines) if each["name"] == "producer_send_success"]
    assert [each["value"] for each in sorted(sent, key=lambda each: int(each["value"]))] == list("01234")

    limits = ("--group-id", topic, "--max-messages", "5", "--verbose")
    found = [json.loads(each) for each in kraft(cluster, "verify", "consume", topic, *limits).splitlines()]
    read = {(each["partition"], each["offset"], each["value"]) for each in found if each["name"] == "record_data"}
    assert read == {(each["partition"], each["offset"], each["value"]) for each in sent}
    assert [each["success"] for each in found if each["name"] == "offsets_committed"][-1:] == [True]


# --- names and options of Kafka's scripts ------------------------------------------------------------------------


def script(cluster: Cluster, name: str, *arguments: str, stdin: bytes = b"") -> str:
    done = run(name, "--bootstrap-server", cluster.kafka_bootstrap_servers, *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_console_consumer_has_a_group_of_its_own_or_that_of_its_file(
    cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    """The files of settings are those of Kafka's samples, except for what the options say."""
    properties = ("--property", "parse.headers=true", "--property", "parse.key=true")
    producer, consumer = tmp_path / "producer.properties", tmp_path / "consumer.properties"
    producer.write_text(PRODUCER)
    consumer.write_text(CONSUMER)
    sending = ("--topic", topic, *properties, "--producer.config", str(producer))
    script(cluster, "kafka-console-producer", *sending, stdin=b"a:1\tk\tv\n")
    shown = ("--property", "print.headers=true", "--property", "print.key=true")
    reading = ("--from-beginning", "--max-messages", "1")

    def groups() -> set[str]:
        return set(script(cluster, "kafka-consumer-groups", "--list").splitlines())

    before = groups()
    for chosen in (("--topic", topic), ("--whitelist", f"{topic}|none")):
        assert script(cluster, "kafka-console-consumer", *chosen, *reading, *shown) == "a:1\tk\tv\n"
    assert len([each for each in groups() - before if each.startswith("console-consumer-")]) == 2

    of_file = ("--topic", topic, "--consumer.config", str(consumer))
    assert script(cluster, "kafka-console-consumer", *reading, *of_file) == "v\n"
    assert "test-consumer-group" in groups()


@pytest.mark.slow
def test_client_files_of_old_releases_work_without_the_lines_that_are_answered_all_at_once(
    cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    producer, consumer = tmp_path / "producer.properties", tmp_path / "consumer.properties"
    reading = ("--from-beginning", "--max-messages", "1")
    for text, file, name, arguments in (
        (PRODUCER_0_8, producer, "kafka-console-producer", ("--producer.config", producer)),
        (CONSUMER_0_8, consumer, "kafka-console-consumer", ("--consumer.config", consumer, *reading)),
        (CONSUMER_4_NEXT, consumer, "kafka-console-consumer", ("--consumer.config", consumer, *reading)),
    ):
        file.write_text(text)
        line = (name, "--bootstrap-server", cluster.kafka_bootstrap_servers, "--topic", topic, *arguments)
        answered = [each.partition(": ")[0] for each in the_one_line(run(*line)).removeprefix("kraft: ").split("; ")]
        lines = text.splitlines(keepends=True)
        file.write_text("".join(each for each in lines if each.partition("=")[0] not in answered))
        done = run(*line, stdin=b"pizza\npizza\n")
        assert (done.returncode, done.stdout) == (0, "pizza\n" if file is consumer else ""), done.stderr
        assert len(answered) == (1 if text is CONSUMER_4_NEXT else 2)


def test_servers_of_the_command_line_go_before_those_of_a_file(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "producer.properties"
    file.write_text(PRODUCER.replace("localhost:9092", "nowhere.invalid:9092"))
    kraft(cluster, "produce", topic, "--producer.config", str(file), stdin=b"pizza\n")


def test_records_are_read_from_a_time_on(cluster: Cluster, topic: str) -> None:
    kraft(cluster, "produce", topic, "--partition", "0", "--header", "source=shop", stdin=b"one\n")
    found = kraft(
        cluster, "consume", topic, "--from-timestamp", "2020-01-01", "--max-messages", "1", "--format", "%h %v"
    )
    assert found == "source=shop one\n"
    assert kraft(cluster, "consume", topic, "--from-timestamp", "2100-01-01", "--timeout-ms", "500") == ""
