from __future__ import annotations

import pytest

from kraft.cli.old_options import objection

VOTERS = "controller.quorum.voters"
BOOTSTRAP = "--bootstrap-server HOST:PORT"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "topics list --zookeeper localhost:2181",
            f"--zookeeper: there is no ZooKeeper here: use {BOOTSTRAP} instead",
        ),
        (
            "consume orders --zookeeper=localhost:2181/kafka",
            f"--zookeeper: there is no ZooKeeper here: use {BOOTSTRAP} instead",
        ),
        (
            "server start --zookeeper localhost:2181",
            f"--zookeeper: there is no ZooKeeper here: {VOTERS} in the configuration file names the controllers",
        ),
        (
            "consume orders --new-consumer",
            f"--new-consumer: there is one consumer only: leave the option out, and use {BOOTSTRAP}",
        ),
        ("produce orders --broker-list localhost:9092", f"--broker-list: use {BOOTSTRAP} instead"),
        ("topics list --bootstrap-servers localhost:9094", f"--bootstrap-servers: the option is named {BOOTSTRAP}"),
    ],
)
def test_an_option_of_an_old_guide_is_refused_with_what_to_write_instead(line: str, expected: str) -> None:
    assert objection(line.split()) == expected


@pytest.mark.parametrize(
    "line",
    [
        "",
        "topics list --bootstrap-server localhost:9094",
        "topics reassign --generate --broker-list 1,2,3",
        "topics create -- --zookeeper",
        "log dump --zookeeper",
    ],
)
def test_what_is_no_old_option_is_left_to_the_command(line: str) -> None:
    assert objection(line.split()) is None
