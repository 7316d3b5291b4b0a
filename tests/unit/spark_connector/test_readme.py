"""The option tables of the README name every option that the code knows, and no other."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import spark_connector
from spark_connector import options

README = Path(spark_connector.__file__).with_name("README.md").read_text()
NOT_YET = "\N{DAGGER}"
PREFIXES = ("kraft.", "kafka.", "spark.")
REFUSED = {"kafka.auto.offset.reset", "kafka.enable.auto.commit", "kafka.interceptor.classes"}


def known() -> set[str]:
    """Return the names without prefixes, as the code spells them."""
    names = set(options._KNOWN)
    if find_spec("spark_connector.sink_options") is not None:
        names |= set(import_module("spark_connector.sink_options")._KNOWN)
    return {name.removeprefix("kraft.").removeprefix("kafka.") for name in names}


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


def first_cells(text: str) -> list[str]:
    """Return the first cell of each row below the head of each table."""
    return [line.split("|")[1].strip() for line in text.splitlines() if re.match(r"\| `", line)]


def names_in(cell: str) -> list[str]:
    return [name for name in re.findall(r"`([^`]+)`", cell) if not name.startswith("format(")]


def test_the_comparison_marks_what_the_code_does_not_know_and_nothing_else() -> None:
    marks: dict[str, bool] = {}
    for cell in first_cells(section("Beside Spark's Kafka connector")):
        for name in names_in(cell):
            if not name.startswith("spark.") and not name.endswith("*") and name not in REFUSED:
                marks[name.removeprefix("kafka.")] = NOT_YET in cell
    assert {name for name, is_marked in marks.items() if is_marked} == set(marks) - known()


def test_the_comparison_has_every_option_of_sparks_connector() -> None:
    named = {name for cell in first_cells(section("Beside Spark's Kafka connector")) for name in names_in(cell)}
    assert {
        *("subscribe", "subscribePattern", "assign", "topic", "includeHeaders", "failOnDataLoss", "groupIdPrefix"),
        *("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy"),
        *("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"),
        *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition"),
        *("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
        *("kafka.bootstrap.servers", "kafka.group.id", "kafka.isolation.level"),
    } <= named


def test_every_option_that_the_code_knows_is_described() -> None:
    described = set(re.findall(r"`([^`\s=]+)`", README))
    plain = {name.removeprefix("kraft.").removeprefix("kafka.") for name in described}
    assert known() - plain == set()


def test_no_row_says_that_an_option_is_ignored() -> None:
    assert not [line for line in README.splitlines() if line.startswith("|") and "ignored" in line]
