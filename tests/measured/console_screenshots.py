"""`python -m tests.measured.console_screenshots DIRECTORY`: every page of the console as a picture.

The cluster has something to show. Each page is taken light and dark, wide and narrow, the whole of it, as PNG; with
`webp` behind the directory, as that. Names behind it choose pages, such as `overview`.
"""

from __future__ import annotations

import base64
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from selenium.webdriver import Chrome, Keys

from kraft.client import Admin, Consumer, NewTopic, Producer
from kraft.console.routes import PAGES
from tests.support.chromium import chromium, shown_as
from tests.support.console_addresses import address_of
from tests.support.console_browser import console
from tests.support.console_cluster import PASSWORD, cluster_of_users, console_settings, rights
from tests.support.waiting import until

LONG: Final = "events.of-a-team-that-likes-long-names.every-thing-that-happened-to-an-order.v2.2026"
"""No page is to break because of it."""

TOPICS: Final = {"orders": 6, "payments": 3, "shipments": 3, "customers": 12, "page-views": 6, LONG: 1}
RECORDS: Final = 600
NODES: Final = 3
GROUPS: Final = ("billing", "warehouse", f"search-index-{LONG}")

LOOKS: Final = {
    "wide-light": (1280, 900, False),
    "wide-dark": (1280, 900, True),
    "narrow-light": (360, 740, False),
    "narrow-dark": (360, 740, True),
}
HEIGHT_MAX: Final = 4_000
QUALITY: Final = 60
"""Of WebP, in percent."""

VIEWED: Final = {"cluster.prod.records.view": "on"}
SETTINGS: Final = {"audit.log.topic.enable": "true", "offsets.topic.replication.factor": "3"}


def main() -> None:
    directory, form = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "png"
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as open_now:
        temporary = Path(open_now.enter_context(tempfile.TemporaryDirectory(prefix="kraft-screenshots-")))
        cluster = open_now.enter_context(cluster_of_users(temporary / "cluster", NODES, rights("orders"), **SETTINGS))
        _fill(cluster.bootstrap_servers, open_now)
        port = open_now.enter_context(console(temporary, console_settings(cluster) | VIEWED))
        browser = open_now.enter_context(chromium())
        base = f"http://localhost:{port}"
        browser.get(f"{base}/clusters/prod")
        browser.switch_to.active_element.send_keys("root", Keys.TAB, PASSWORD, Keys.ENTER)
        until(lambda: "Brokers in service" in browser.page_source, "somebody is logged in")
        chosen = set(sys.argv[3:])
        for name, path in _addresses():
            for look, (width, height, dark) in LOOKS.items() if not chosen or name in chosen else ():
                _take(browser, base + path, directory / f"{name}-{look}.{form}", width, height, dark)


def _fill(servers: str, open_now: ExitStack) -> None:
    with Admin(servers) as admin:
        admin.create_topics(
            [NewTopic(topic=name, partitions=count, replication_factor=NODES) for name, count in TOPICS.items()]
        )
        until(lambda: set(TOPICS) <= set(admin.list_topics()), "topics are listed")
        admin.alter_client_quotas({"user": None, "client-id": "shop"}, {"producer_byte_rate": 1 << 20})
        admin.alter_client_quotas({"user": "viewer"}, {"consumer_byte_rate": 5 << 20, "request_percentage": 50})
    with Producer(servers, client_id="shop") as producer:
        for topic in TOPICS:
            for number in range(RECORDS):
                value = f'{{"order": {number}, "customer": "c-{number % 97}", "total": {number * 7 % 500}.50}}'
                producer.send(topic, value.encode(), key=b"c-%d" % (number % 97), headers=[("source", b"web")])
        producer.flush()
    for group in GROUPS:
        consumer = Consumer(
            servers, group_id=group, client_id=f"{group}-1", auto_offset_reset="earliest", max_poll_records=100
        )
        open_now.enter_context(consumer)
        consumer.subscribe(["orders", "payments"])
        until(lambda: bool(list(consumer.poll(500))), "records are read")  # noqa: B023  # It is called in this turn.
        consumer.commit()
    paying = open_now.enter_context(Producer(servers, transactional_id="payments"))
    paying.begin_transaction()
    paying.send("payments", b'{"order": 1}').result(60)
    _produce_more(servers)


def _produce_more(servers: str) -> None:
    """Write what no group has read."""
    with Producer(servers, client_id="shop") as producer:
        for number in range(RECORDS):
            producer.send("orders", b'{"order": %d}' % number)
        producer.flush()


def _addresses() -> Iterator[tuple[str, str]]:
    """Yield the name of a picture and the address, for each page."""
    for page in PAGES:
        end = page.path.removeprefix("/clusters/{cluster}").strip("/")
        name = "".join(each if each.isalnum() else "-" for each in end).strip("-") or "overview"
        names = {
            "topic": "orders",
            "group": "billing",
            "broker": "1",
            "transactional_id": "payments",
            "config": "compression.type",
        }
        yield name.replace("--", "-"), address_of(page, cluster="prod", **names)
    yield from (("clusters", "/"), ("api", "/api"), ("login", "/login?cluster=prod"))


def _take(browser: Chrome, address: str, file: Path, width: int, height: int, dark: bool) -> None:
    shown_as(browser, width, height, dark)
    browser.get(address)
    whole = int(browser.execute_script("return document.documentElement.scrollHeight"))
    shown_as(browser, width, min(max(height, whole), HEIGHT_MAX), dark)
    how = {"format": file.suffix[1:], "quality": QUALITY}
    taken = browser.execute_cdp_cmd("Page.captureScreenshot", how)
    file.write_bytes(base64.b64decode(taken["data"]))


if __name__ == "__main__":
    main()
