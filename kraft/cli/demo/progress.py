"""The progress bar: acknowledged flights, their rate, and the elapsed time."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text


class _Rate(ProgressColumn):
    """Average rate since the beginning, outage included."""

    def render(self, task: Task) -> Text:
        rate = task.completed / task.elapsed if task.elapsed else 0.0
        return Text(f"{rate:,.0f} flights/s")


def progress_bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeElapsedColumn(),
        console=console,
    )
