"""A cluster and its clients, in an environment without Java: `python -m MODULE`. It prints what a consumer read."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import psutil

DEADLINE_S: Final = 120
TOPIC: Final = "orders"
FEW: Final = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}


def main() -> None:
    # An import of either, which starts Java, fails from now on.
    for name in ("pyspark", "py4j"):
        sys.modules[name] = None  # type: ignore[assignment]  # As the import system has it for what is not to be found.
    assert shutil.which("java") is None, "Java is on the path"
    from kraft.client import Admin, Consumer, Producer
    from kraft.local.launching import KRAFT
    from kraft.testing import Cluster

    with Cluster(1, overrides=FEW) as cluster:
        servers = cluster.bootstrap_servers

        def kraft(*arguments: str, stdin: str = "") -> str:
            command = [*KRAFT, *arguments, "--bootstrap-server", servers]
            done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
            assert done.returncode == 0, done.stderr
            return done.stdout

        kraft("topics", "create", TOPIC, "--partitions", "2")
        kraft("produce", TOPIC, stdin="by command\n")
        with Producer(servers, transactional_id="desk") as producer:
            producer.begin_transaction()
            producer.send(TOPIC, b"in a transaction")
            producer.commit_transaction()
        with Producer(cluster.kafka_bootstrap_servers, wire_protocol="kafka", compression_type="zstd") as producer:
            producer.send(TOPIC, b"by Kafka's protocol").result(DEADLINE_S)
        read: list[str] = []
        with Consumer(servers, group_id="billing", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(TOPIC)
            while len(read) < 3:
                read += [(each.value or b"").decode() for each in consumer.poll(1_000)]
            consumer.commit()
        with Admin(servers) as admin:
            assert sum(each.offset for each in admin.list_consumer_group_offsets("billing").values()) >= len(read)
        assert "billing" in kraft("groups", "list")
        programs = {Path(each.exe()).resolve() for each in psutil.Process().children(recursive=True)}
        assert programs == {Path(sys.executable).resolve()}, "a process is not Python's"
    print("\n".join(sorted(read)))


if __name__ == "__main__":
    main()
