"""Debian's Chromium, driven by its own driver: a browser that runs scripts, with a profile that is gone afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

DEADLINE_S: Final = 30.0

_ARGUMENTS: Final = (
    "--headless=new",
    # As root, as in CI, it has no sandbox; it shows pages of loopback only.
    "--no-sandbox",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-sync",
    "--no-first-run",
    "--force-device-scale-factor=1",
    "--hide-scrollbars",
)


@contextmanager
def chromium() -> Iterator[Chrome]:
    """Run a browser with a new profile. Skips the test where it is not installed."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("needs chromium and chromium-driver, which scripts/install-test-tools.sh installs")
    with tempfile.TemporaryDirectory(prefix="kraft-chromium-", ignore_cleanup_errors=True) as profile:
        options = ChromeOptions()
        options.binary_location = browser
        for each in (*_ARGUMENTS, f"--user-data-dir={profile}"):
            options.add_argument(each)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        running = Chrome(options=options, service=Service(driver))
        try:
            running.set_page_load_timeout(DEADLINE_S)
            running.set_script_timeout(DEADLINE_S)
            yield running
        finally:
            # Both the browser and the driver's process.
            running.quit()


def shown_as(browser: Chrome, width: int, height: int, dark: bool = False) -> None:
    """Show pages in a window of this size, in pixels of CSS, and in these colours."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def complaints(browser: Chrome) -> list[str]:
    """Return what went wrong on pages since the last call: scripts that failed, and what the policy forbade.

    The status of a page is no complaint: a page that refuses is one, too. Files of the console have to be there.
    """
    found: list[dict[str, Any]] = browser.get_log("browser")  # type: ignore[no-untyped-call]  # It has no annotation.
    return [
        each["message"]
        for each in found
        if (each["level"] == "SEVERE" or "Content Security Policy" in each["message"])
        and ("Failed to load resource" not in each["message"] or "/static/" in each["message"])
    ]
