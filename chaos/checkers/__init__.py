"""Pure judges of a history: what was acknowledged is there, once, in one order, for everybody."""

from __future__ import annotations

from chaos.checkers.availability import Cycle, cycles
from chaos.checkers.judge import check
from chaos.checkers.verdict import Anomaly, AnomalyKind, Verdict

__all__ = ["Anomaly", "AnomalyKind", "Cycle", "Verdict", "check", "cycles"]
