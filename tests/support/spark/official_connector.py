"""Spark's own connector to Kafka, a jar: measured beside ours, and run against our Kafka listener."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.support.maven_jars import maven_jars

POM: Final = Path(__file__).with_suffix(".xml")


def official_connector() -> list[Path]:
    """Return the connector's jar and those it needs besides Spark's. Raises JarsMissing."""
    return sorted(maven_jars(POM, "spark-sql-kafka").glob("*.jar"))


def version_of(jars: list[Path]) -> str:
    """Return the version in the name of the connector's jar."""
    [jar] = [jar for jar in jars if jar.name.startswith("spark-sql-kafka")]
    return jar.stem.rpartition("-")[2]
