"""Types of functions that parts are given: clocks, conditions, and what is called when something happens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from kraft.model.ids import BrokerId, LogDirectory

Result = TypeVar("Result")

NowMs = Callable[[], int]
"""Returns the time in milliseconds, of the clock that the parameter's name says."""

NowS = Callable[[], float]
"""The same in seconds."""

Callback = Callable[[], None]
"""Takes and returns nothing; the parameter's name says when it is called, or what it does."""

AsyncCall = Callable[[], Awaitable[Result]]
"""Takes nothing, and returns its result when it is awaited."""

AsyncCallback = AsyncCall[None]

Condition = Callable[[], bool]
"""Returns whether something is true now; the parameter's name says what."""

Fatal = Callable[[str], None]
"""Ends the process, not necessarily at once, with one line that gives the reason."""

OnFailure = Callable[[str], None]
"""Called when something has failed, with the reason in one line."""

CountBytes = Callable[[int], None]
"""Called with a number of bytes that are read or written."""

OnDirectoryFailure = Callable[[LogDirectory, str], None]
"""Called when a log directory has failed, with the reason in one line."""

BrokerCondition = Callable[[BrokerId], bool]
"""Returns whether something is true of a broker."""
