"""Workloads: programs under test. They use `kraft.client` and nothing deeper, as a user's programs would."""

from __future__ import annotations

from chaos.workloads.append import AppendPlan, AppendWorkload

__all__ = ["AppendPlan", "AppendWorkload"]
