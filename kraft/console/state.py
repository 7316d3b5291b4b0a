"""What the console's process keeps beside sessions. Each part is bounded, and says by what."""

from __future__ import annotations


class State:
    """One for the process; pages reach it as `asked.state`."""

    def close(self) -> None:
        """Give back what is open. Called once, when the console stops."""
