"""The judge: turns a history into a verdict, in time linear in the length of the history."""

from __future__ import annotations

from collections.abc import Iterable

from chaos.checkers import log_contents, order
from chaos.checkers.observations import observe
from chaos.checkers.verdict import Verdict
from chaos.history import Operation


def check(operations: Iterable[Operation]) -> Verdict:
    """Everything that is wrong with the history."""
    seen = observe(operations)
    anomalies = [anomaly for name, key in seen.keys.items() for anomaly in log_contents.find(name, key)]
    anomalies += order.find(seen)
    keys = seen.keys.values()
    acknowledged = sum(len(key.acknowledged) for key in keys)
    failed = sum(len(key.failed) for key in keys)
    return Verdict(
        anomalies=tuple(anomalies),
        acknowledged=acknowledged,
        failed=failed,
        unknown=sum(len(key.sent) for key in keys) - acknowledged - failed,
        read=sum(len(key.read) for key in keys),
        is_drained=seen.is_drained,
    )
