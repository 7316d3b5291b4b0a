"""Tools of Kafka that share a JVM: each has the exit code, the output and the errors of a process of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.kafka.kafka_jars import kafka_jars, run_java

# Fetching the jars comes first, once.
pytestmark = pytest.mark.timeout(300)

TOPICS = "org.apache.kafka.tools.TopicCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"


@pytest.fixture
def jars() -> Path:
    return kafka_jars()


def test_each_tool_has_its_own_exit_code_output_and_errors(jars: Path) -> None:
    version = run_java(jars, TOPICS, "--version")
    refused = run_java(jars, TOPICS)
    assert (version.code, version.output.count(b"\n"), version.errors) == (0, 1, b"")
    assert (refused.code, refused.output) == (1, b"")
    assert b"Create, delete, describe, or change a topic." in refused.errors
    assert run_java(jars, TOPICS, "--version") == version


def test_a_class_that_does_not_exist_is_an_error_and_the_next_one_runs(jars: Path) -> None:
    assert run_java(jars, "NoSuchClass").code == 1
    assert run_java(jars, TOPICS, "--version").code == 0


def test_a_tool_that_does_not_end_is_killed_and_the_next_one_runs(jars: Path) -> None:
    nowhere = ("--bootstrap-server", "127.0.0.1:1", "--topic", "nowhere")
    with pytest.raises(subprocess.TimeoutExpired):
        run_java(jars, PRODUCER, *nowhere, given=b"line\n", timeout_s=1)
    assert run_java(jars, TOPICS, "--version").code == 0
