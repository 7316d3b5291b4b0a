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
            f"--zookeeper: Kraft has no ZooKeeper: use {BOOTSTRAP} instead",
        ),
        (
            "consume orders --zookeeper=localhost:2181/kafka",
            f"--zookeeper: Kraft has no ZooKeeper: use {BOOTSTRAP} instead",
        ),
        (
            "server start --zookeeper localhost:2181",
            f"--zookeeper: Kraft has no ZooKeeper: name the controllers in {VOTERS} of the configuration file",
        ),
        (
            "consume orders --new-consumer",
            f"--new-consumer: there is only one consumer: remove the option and use {BOOTSTRAP}",
        ),
        ("produce orders --broker-list localhost:9092", f"--broker-list: use {BOOTSTRAP} instead"),
        ("topics list --bootstrap-servers localhost:9094", f"--bootstrap-servers: use {BOOTSTRAP} instead"),
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
def test_other_options_are_left_to_the_command(line: str) -> None:
    assert objection(line.split()) is None
