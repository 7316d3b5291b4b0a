"""Asyncio client: Producer, Consumer and Admin. The synchronous client wraps it.

from kraft.client.aio import Producer
"""

from __future__ import annotations

from kraft.client.aio.admin import Admin
from kraft.client.aio.consumer import Consumer
from kraft.client.aio.producer import Producer

__all__ = ["Admin", "Consumer", "Producer"]
