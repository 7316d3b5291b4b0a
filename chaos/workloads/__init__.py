"""What a user's programs do meanwhile. They see `kraft.client` and nothing deeper, as a user's programs would."""

from __future__ import annotations

from chaos.workloads.append import AppendPlan, AppendWorkload

__all__ = ["AppendPlan", "AppendWorkload"]
