"""`python -m tests.soak.login_runs`: each client logs in by each mechanism, over each transport at least once.

Real nodes, one for each transport. A client produces, reads in a group, administers and commits transactions, as far as
it can. `--all` runs each combination; `--client` only those of clients with this in their name. The table says what was
run, how long it took, and what failed.
"""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Annotated

import pytest
import typer
from pyspark.sql import SparkSession

from spark_connector import KraftDataSource
from tests.soak.fault_runs import Seed, chosen, judged, say
from tests.support.kafka.logins.places import ClosedNodes, closed_nodes
from tests.support.kafka.logins.rows import PROGRAMS, Row, all_rows, rows, table
from tests.support.maven_jars import JarsMissing
from tests.support.spark.logged_in_spark import spark_clients
from tests.support.spark.official_connector import official_connector
from tests.support.spark.spark_session import spark_session


def main(
    seed: Seed = None,
    every: Annotated[bool, typer.Option("--all", help="Run each combination.")] = False,
    client: Annotated[str, typer.Option(help="Run those of clients with this in their name.")] = "",
) -> None:
    number = chosen(seed)
    say(f"seed {number}")
    with judged(JarsMissing):
        done = _rows_run(number, every, client)
        print(table(sorted(done, key=lambda each: str(each[0]))))
        failed = [str(row) for row, result in done if result.startswith("failed")]
        assert not failed, f"{len(failed)} of {len(done)} rows failed: {', '.join(failed)}"


def _rows_run(seed: int, every: bool, client: str) -> list[tuple[Row, str]]:
    with (
        TemporaryDirectory(prefix="logins-") as directory,
        closed_nodes(Path(directory)) as nodes,
        spark_session(jars=official_connector()) as spark,
    ):
        spark.dataSource.register(KraftDataSource)
        found = [row for row in _planned(spark, every) if client in row.client.name]
        # Another order finds what one login leaves for the next.
        Random(seed).shuffle(found)
        return [(row, _run(row, nodes, number)) for number, row in enumerate(found)]


def _planned(spark: SparkSession, every: bool) -> list[Row]:
    clients = [*PROGRAMS, *spark_clients(spark)]
    return all_rows(clients) if every else rows(clients)


def _run(row: Row, nodes: ClosedNodes, number: int) -> str:
    began_s = time.monotonic()
    try:
        result = f"{row.run(nodes, f'row-{number}'):.1f} s"
    except pytest.skip.Exception as reason:
        result = f"not run: {reason}"
    except Exception as error:  # noqa: BLE001  One row that fails says nothing of the others.
        said = " ".join(f"{type(error).__name__}: {error}".split())
        result = f"failed after {time.monotonic() - began_s:.1f} s: {said[:300]}"
    say(f"{row}: {result}")
    return result


if __name__ == "__main__":
    typer.run(main)
