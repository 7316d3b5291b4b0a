"""Settings of every test: `async def test_...` runs on virtual time, Hypothesis tries the same examples in every run
(`--hypothesis-profile=fresh` tries others, `few` a few others), and nothing is left in the home directory."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.support.durations import Durations
from tests.support.skipped import Skipped
from tests.support.virtual_time import run_virtually
from tests.support.worker_groups import WorkerGroups, longest_first, rotated, worker_count

_END_TO_END = Path(__file__).with_name("end_to_end")

# An example may take any time, because the machine may be busy.
_AT_LEISURE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", _AT_LEISURE, derandomize=True, database=None)
settings.register_profile("fresh", _AT_LEISURE, derandomize=False, print_blob=True)
settings.register_profile("few", settings.get_profile("fresh"), max_examples=15, database=None)
settings.load_profile("fixed")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Durations(os.environ))
    config.pluginmanager.register(Skipped())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell ignores it for what it runs in the background, and so would every process that a test interrupts.
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Seek no garbage in what lives until the end, the modules and the tests: that took a fifth of the collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    worker = getattr(collector.config, "workerinput", None)
    if worker is not None and isinstance(collector, pytest.Directory):
        report.result = rotated(report.result, int(worker["workerid"].removeprefix("gw")), worker["workercount"])
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items[:] = longest_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    return worker_count()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> WorkerGroups | None:
    return WorkerGroups(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run `async def test_...`: on virtual time, or on the event loop of every program.

    The latter is for those marked `real_time`, and for end-to-end tests: virtual time does not wait for a real node.
    """
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    signature = inspect.signature(pyfuncitem.obj)
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in signature.parameters})
    if pyfuncitem.get_closest_marker("real_time") or _END_TO_END in pyfuncitem.path.parents:
        asyncio.run(test)
    else:
        run_virtually(test)
    return True


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Let no test leave a log output behind that later tests in the same process would have instead of theirs."""
    if structlog.is_configured() and structlog.get_config()["cache_logger_on_first_use"]:
        structlog.reset_defaults()
        pytest.fail("it has set up logging, which needs the fixture own_logging", pytrace=False)


@pytest.fixture
def own_logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the test set up logging as a process does, and undo it. Loggers of modules do not keep what it set up."""
    root, configure = logging.getLogger(), structlog.configure
    handlers, level = list(root.handlers), root.level
    monkeypatch.setattr(
        structlog, "configure", lambda **settings: configure(**(settings | {"cache_logger_on_first_use": False}))
    )
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)
    structlog.reset_defaults()


@pytest.fixture(scope="session", autouse=True)
def state_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A directory for the secrets of nodes whose configurations name none."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield
