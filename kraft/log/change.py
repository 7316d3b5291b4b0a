"""Changes of a log that wait for the disk, in steps.

A change is a generator. What it does itself belongs to the loop, as everything that touches a log's state. What it
yields is work on files, for any thread: it reads and writes files and touches nothing else that may change meanwhile.
The change gets back what the work returned, or the error that it raised.

A log has one change under way at a time, and nothing is appended until it is over. Reads go on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")

FileWork = Callable[[], Any]
Change = Generator[FileWork, Any, Result]


class FileStep:
    """One piece of a change's work. `run` may be called in any thread."""

    def __init__(self, work: FileWork) -> None:
        self._work = work
        self.result: Any = None
        self.error: Exception | None = None
        self.is_run = False

    def run(self) -> None:
        """Blocks. A failure is kept, for the change to act on."""
        try:
            self.result = self._work()
        except Exception as error:  # noqa: BLE001  The change raises it again, on the loop.
            self.error = error
        self.is_run = True


class ChangeUnderWay(Generic[Result]):
    """A change that has begun: `step` has to be run, then `go_on` called, until `step` is None."""

    def __init__(self, change: Change[Result]) -> None:
        """Raises what the change raises before its first step."""
        self._change = change
        self._result: Result | None = None
        self.step: FileStep | None = None
        self._advance(lambda: next(change))

    @property
    def result(self) -> Result:
        assert self.step is None, "the change is not over"
        return self._result  # type: ignore[return-value]  # Set when the generator ended, whatever its type.

    def go_on(self) -> None:
        """The step was run. Raises what the change raises, and then it is over."""
        step = self.step
        assert step is not None, "the change is over"
        assert step.is_run, "the step has to be run first"
        self.step = None
        error = step.error
        if error is None:
            self._advance(lambda: self._change.send(step.result))
        else:
            self._advance(lambda: self._change.throw(error))

    def finish(self) -> Result:
        """All that is left of it, here and now: blocks."""
        while self.step is not None:
            if not self.step.is_run:
                self.step.run()
            self.go_on()
        return self.result

    def give_up(self) -> None:
        """Nothing more of it happens. Its step, if it is being run, goes on."""
        self.step = None
        self._change.close()

    def _advance(self, resume: Callable[[], FileWork]) -> None:
        try:
            self.step = FileStep(resume())
        except StopIteration as end:
            self._result = end.value


def run_now(change: Change[Result]) -> Result:
    """The whole change in the calling thread: blocks."""
    return ChangeUnderWay(change).finish()
