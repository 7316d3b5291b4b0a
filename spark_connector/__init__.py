"""Spark data source for Kraft, in pure Python: `spark.dataSource.register(KraftDataSource)`, then `format("kraft")`."""

from __future__ import annotations

from spark_connector.source import KraftDataSource

__all__ = ["KraftDataSource"]
