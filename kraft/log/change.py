"""Changes of a log that wait for the disk, in steps.

A change is a generator. Its own code runs on the event loop, like everything that touches a log's state. It yields work
on files, which any thread may run: that work reads and writes files and touches nothing else that may change meanwhile.
The generator receives what the work returned, or the error that it raised.

A log has one change under way at a time, and nothing is appended until the change ends. Reads go on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")

FileWork = Callable[[], Any]
Change = Generator[FileWork, Any, Result]


class FileStep:
    """One piece of a change's work on files. Any thread may call `run`."""

    def __init__(self, work: FileWork) -> None:
        self._work = work
        self.result: Any = None
        self.error: Exception | None = None
        self.has_run = False

    def run(self) -> None:
        """Run the work and block until it ends. An error is kept for the change to handle."""
        try:
            self.result = self._work()
        except Exception as error:  # noqa: BLE001  It is raised again in the change, on the loop.
            self.error = error
        self.has_run = True


class ChangeUnderWay(Generic[Result]):
    """A change that has begun. Run `step`, then call `resume`, until `step` is None."""

    def __init__(self, change: Change[Result]) -> None:
        """Begin the change. Raises what the change raises before its first step."""
        self._change = change
        self._result: Result | None = None
        self.step: FileStep | None = None
        self._advance(lambda: next(change))

    @property
    def result(self) -> Result:
        assert self.step is None, "the change has not ended"
        return self._result  # type: ignore[return-value]  # Set when the generator ended, whatever its type.

    def resume(self) -> None:
        """Pass the result of the step to the change. Raises what the change raises, which ends the change."""
        step = self.step
        assert step is not None, "the change has ended"
        assert step.has_run, "the step has to run first"
        self.step = None
        error = step.error
        if error is None:
            self._advance(lambda: self._change.send(step.result))
        else:
            self._advance(lambda: self._change.throw(error))

    def finish(self) -> Result:
        """Run the rest of the change in the calling thread and return its result. Blocks."""
        while self.step is not None:
            if not self.step.has_run:
                self.step.run()
            self.resume()
        return self.result

    def cancel(self) -> None:
        """End the change without its remaining steps. A step that is running goes on."""
        self.step = None
        self._change.close()

    def _advance(self, resume: Callable[[], FileWork]) -> None:
        try:
            self.step = FileStep(resume())
        except StopIteration as end:
            self._result = end.value


def run_now(change: Change[Result]) -> Result:
    """Run the whole change in the calling thread and return its result. Blocks."""
    return ChangeUnderWay(change).finish()
