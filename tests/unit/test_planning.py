"""docs/planning.md names limits, defaults and figures that hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kraft.client.model.settings import ConsumerSettings, ProducerSettings
from kraft.server.config.keys import BY_NAME

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "planning.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))


def test_large_messages_need_three_limits_whose_defaults_are_named() -> None:
    rows = re.findall(r"^\|.*`([a-z.]+)`(?: \(.*\))? \| ([\d,]+) \|$", SECTIONS["Large messages"], re.MULTILINE)
    assert {key: int(default.replace(",", "")) for key, default in rows} == {
        "message.max.bytes": int(str(BY_NAME["message.max.bytes"].default)),
        "max.request.size": ProducerSettings(bootstrap_servers=("localhost:9094",)).max_request_size,
        "max.partition.fetch.bytes": ConsumerSettings(bootstrap_servers=("localhost:9094",)).max_partition_fetch_bytes,
    }


@pytest.mark.parametrize(
    ("section", "named"),
    [
        ("Words of sharded databases", "shard: a topic is cut into partitions"),
        ("Partitions", "one open file, 11 KiB of memory"),
        ("Memory", "30 s of what is written"),
        ("Memory", "A JVM broker has a heap of 1 GiB by default"),
        ("Disks", "`log.dirs` disks of their own"),
        ("Disks", "mount it with `noatime`"),
        ("Disks", "`/proc/meminfo` shows what waits"),
        ("Network", "up to the third numbers of `net.ipv4.tcp_rmem`"),
        ("Network", "by DNS or in `/etc/hosts`"),
        ("A known size", "60 brokers with 50,000 partitions"),
    ],
)
def test_an_operator_finds_what_to_plan_for(section: str, named: str) -> None:
    assert named in SECTIONS[section]


def test_keys_of_nodes_that_it_names_exist() -> None:
    of_nodes = {"log.dirs", "log.durability", "listeners", "advertised.listeners", "replica.fetch.max.bytes"}
    of_nodes |= {"message.max.bytes", "socket.request.max.bytes", "controller.quorum.voters"}
    assert of_nodes <= BY_NAME.keys()
    assert all(f"`{key}" in TEXT for key in of_nodes)
