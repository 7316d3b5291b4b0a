"""`python -m tests.soak.spark_shipping_runs`: queries on executors that do not have the connector installed.

It is sent along, once as `--py-files`, once in an environment of `--archives`, to a cluster of Spark with an executor
in a process of its own. Without it, their environment has everything that this one has.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path
from sysconfig import get_path
from tempfile import TemporaryDirectory
from typing import Final

import pyspark
import typer

from kraft.client import Admin, Producer
from kraft.testing import Cluster
from tests.soak.fault_runs import judged, say

RECORDS: Final = 1_000
PARTITIONS: Final = 2
DEADLINE_S: Final = 240
_ROOT: Final = Path(__file__).resolve().parents[2]
_SENT: Final = ("kraft", "spark_connector", "pyspark_kraft")
_QUERY: Final = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
if sys.argv[2] == "register":
    import spark_connector
    spark.dataSource.register(spark_connector.KraftDataSource)
frame = spark.read.format("kraft").option("bootstrap.servers", sys.argv[1]).option("subscribe", "shipped").load()
print("records read:", frame.count())
"""


def environment(directory: Path) -> Path:
    """Make a Python environment that sees this one's packages, without the project; return where packages go."""
    (directory / "bin").mkdir(parents=True)
    packages = directory / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    packages.mkdir(parents=True)
    interpreter = Path(sys.executable).resolve()
    for name in ("python", "python3"):
        (directory / "bin" / name).symlink_to(interpreter)
    (directory / "pyvenv.cfg").write_text(f"home = {interpreter.parent}\ninclude-system-site-packages = false\n")
    (packages / "behind.pth").write_text(get_path("purelib"))
    return packages


def zipped(target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for package in _SENT:
            for path in sorted((_ROOT / package).rglob("*.py")):
                packed.write(path, path.relative_to(_ROOT))


def with_project(packages: Path) -> None:
    for package in _SENT:
        shutil.copytree(_ROOT / package, packages / package, ignore=shutil.ignore_patterns("__pycache__"))


def submit(directory: Path, python: str, arguments: list[str], servers: str, register: str) -> None:
    """Run the query in `directory`, with `python` for driver and executor. Raises AssertionError if it fails."""
    query = directory / "query.py"
    query.write_text(_QUERY)
    settings = ("spark.ui.enabled=false", "spark.executor.memory=512m", "spark.driver.memory=512m")
    command = [
        str(Path(pyspark.__path__[0]) / "bin" / "spark-submit"),
        *("--master", "local-cluster[1,1,1024]"),
        *(word for setting in settings for word in ("--conf", setting)),
        *(*arguments, str(query), servers, register),
    ]
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    surroundings |= {"PYSPARK_PYTHON": python, "SPARK_HOME": pyspark.__path__[0]}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=DEADLINE_S, check=False, cwd=directory, env=surroundings
    )
    assert f"records read: {RECORDS}" in done.stdout, "\n".join((done.stdout + done.stderr).splitlines()[-30:])


def main() -> None:
    began_s = time.monotonic()
    with judged(subprocess.TimeoutExpired), TemporaryDirectory(prefix="spark-shipping-") as path:
        directory = Path(path)
        packages = environment(directory / "env")
        lacks = [str(directory / "env" / "bin" / "python"), "-c", "import pyspark, grpc, kraft"]
        refused = subprocess.run(lacks, capture_output=True, text=True, timeout=60, check=False, cwd=directory, env={})
        assert "No module named 'kraft'" in refused.stderr, f"an environment without kraft: {refused.stderr}"
        with Cluster(1) as cluster:
            with Admin(cluster.bootstrap_servers) as admin:
                admin.create_topic("shipped", PARTITIONS)
            with Producer(cluster.bootstrap_servers) as producer:
                for partition in range(PARTITIONS):
                    producer.produce_many("shipped", [b"x"] * (RECORDS // PARTITIONS), partition=partition)
                producer.flush()
            zipped(directory / "kraft.zip")
            python_files = ["--py-files", str(directory / "kraft.zip")]
            submit(directory, lacks[0], python_files, cluster.bootstrap_servers, "register")
            say("sent as --py-files")
            with_project(packages)
            with tarfile.open(directory / "env.tar.gz", "w:gz") as packed:
                packed.add(directory / "env", ".")
            archives = ["--archives", f"{directory / 'env.tar.gz'}#env"]
            submit(directory, "./env/bin/python", archives, cluster.bootstrap_servers, "found")
            say("sent in an environment as --archives")
    print(f"2 ways, {time.monotonic() - began_s:.0f} s")


if __name__ == "__main__":
    typer.run(main)
