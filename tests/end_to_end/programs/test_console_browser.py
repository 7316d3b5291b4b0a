"""The console in a real browser: people with a keyboard, on a phone, in the dark, and names that would be scripts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest
from selenium.common.exceptions import TimeoutException
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

from kraft.client import Admin, Consumer, NewTopic, Producer
from kraft.console.rendering import segment
from kraft.console.routes import PAGES
from kraft.wire.declaration import Message
from kraft.wire.schema.produce import ProduceResponse
from tests.support.chromium import DEADLINE_S, chromium, complaints, shown_as
from tests.support.console_addresses import address_of
from tests.support.console_browser import console
from tests.support.console_cluster import PASSWORD, cluster_of_users, console_settings
from tests.support.kafka.login_cluster import LoginCluster, LoginConnection
from tests.support.kafka.transactions.hanging import hang
from tests.support.waiting import until

SCRIPT: Final = "<img src=x onerror=window.ran=1><script>window.ran=1</script>"
TOPIC: Final = "orders"
RECORDS: Final = 20
MOVED: Final = "moved"
SETTINGS: Final = {
    # As before KIP-890, so that a transaction can hang.
    "transaction.partition.verification.enable": "false",
    "transaction.state.log.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
}

PHONE: Final = (360, 740)
DESK: Final = (1280, 900)


@dataclass(frozen=True)
class Shown:
    """A browser whose user has logged in to the cluster as its administrator."""

    browser: Chrome
    base: str
    cluster: LoginCluster

    def open(self, path: str) -> None:
        self.browser.get(self.base + path)

    def find(self, css: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, css)

    @property
    def text(self) -> str:
        # In one step: of an element that was found, the page may be left before it is read.
        return str(self.browser.execute_script("return document.body ? document.body.innerText : ''"))

    def wait_for(self, text: str) -> None:
        try:
            WebDriverWait(self.browser, DEADLINE_S).until(lambda _: text in self.text)
        except TimeoutException:
            raise AssertionError(f"{text!r} is not shown at {self.browser.current_url}: {self.text}") from None

    def fill(self, **fields: str) -> None:
        for name, text in fields.items():
            field = self.find(f"main form [name='{name}']")
            field.clear()
            field.send_keys(text)

    def submit(self, css: str, said: str) -> None:
        # The page that is left may show the text as well: the next one does not know this mark.
        self.browser.execute_script("window.isLeft = true")
        self.find(css).find_element(By.CSS_SELECTOR, "button:not([type=button])").click()
        arrived = "return window.isLeft === undefined"
        WebDriverWait(self.browser, DEADLINE_S).until(lambda browser: browser.execute_script(arrived))
        self.wait_for(said)

    def assert_nothing_ran(self) -> None:
        assert self.browser.execute_script("return window.ran === undefined")
        assert complaints(self.browser) == []


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    directory = tmp_path_factory.mktemp("browser")
    with (
        cluster_of_users(directory / "cluster", 2, [], **SETTINGS) as cluster,
        console(directory, console_settings(cluster) | {"cluster.prod.records.view": "on"}) as port,
        chromium() as browser,
    ):
        _write(cluster.bootstrap_servers)
        shown = Shown(browser, f"http://localhost:{port}", cluster)
        shown_as(browser, *DESK)
        log_in(shown)
        yield shown


def _write(servers: str) -> None:
    """Write records, and read them as a group: each name that a stranger may choose is a script."""
    with Admin(servers) as admin:
        admin.create_topic(TOPIC, 2, 1)
    with Producer(servers, client_id=SCRIPT) as producer:
        for number in range(RECORDS):
            value = f'{{"number": {number}, "text": "{SCRIPT}"}}'.encode()
            sent = producer.send(TOPIC, value, key=SCRIPT.encode(), headers=[(SCRIPT, SCRIPT.encode())], partition=0)
            sent.result(DEADLINE_S)
    with Producer(servers, transactional_id=SCRIPT) as producer, producer.transaction():
        producer.send(TOPIC, b"paid", partition=1)
    with Consumer(servers, group_id=SCRIPT, client_id=SCRIPT, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([TOPIC])
        until(lambda: bool(list(consumer.poll(500))), "records are read")
        consumer.commit()


def log_in(shown: Shown, password: str = PASSWORD) -> None:
    shown.open("/clusters/prod")
    # The first field has the focus, so that nobody has to look for it.
    shown.browser.switch_to.active_element.send_keys("root", Keys.TAB, password, Keys.ENTER)
    shown.wait_for("Brokers in service")


def addresses() -> list[str]:
    names = {"topic": TOPIC, "group": SCRIPT, "broker": "1", "transactional_id": SCRIPT, "config": "compression.type"}
    return [address_of(each, cluster="prod", **names) for each in PAGES]


@pytest.mark.slow
def test_no_page_runs_what_strangers_named_or_breaks_its_own_policy(shown: Shown) -> None:
    for path in addresses():
        shown.open(path)
        assert shown.find("h1").text, path
        shown.assert_nothing_ran()
    shown.open("/clusters/prod/groups")
    assert SCRIPT in shown.text


@pytest.mark.slow
def test_no_page_has_to_be_moved_sideways_on_a_phone(shown: Shown) -> None:
    shown_as(shown.browser, *PHONE, dark=True)
    too_wide = {}
    for path in (*addresses(), "/", "/api", "/login?cluster=prod"):
        shown.open(path)
        width = shown.browser.execute_script("return document.documentElement.scrollWidth")
        if width > PHONE[0]:
            too_wide[path] = width
    shown_as(shown.browser, *DESK)
    assert too_wide == {}


def test_pages_are_dark_for_those_who_want_it(shown: Shown) -> None:
    def brightness() -> int:
        colour = shown.browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        return sum(int(each) for each in colour.partition("(")[2].rstrip(")").split(",")[:3])

    shown.open("/clusters/prod")
    assert brightness() > 3 * 200
    shown_as(shown.browser, *DESK, dark=True)
    assert brightness() < 3 * 60
    shown_as(shown.browser, *DESK)


def test_a_page_is_used_with_the_keyboard_alone(shown: Shown) -> None:
    shown.open("/clusters/prod")
    active = shown.browser.switch_to.active_element
    active.send_keys(Keys.TAB)
    skip = shown.browser.switch_to.active_element
    assert skip.text == "Skip to the content"
    assert skip.is_displayed()
    skip.send_keys(Keys.ENTER)
    assert shown.browser.current_url.endswith("#content")
    # From there, the next Tab leads to the first link of the content, not to the navigation.
    shown.browser.switch_to.active_element.send_keys(Keys.TAB)
    inside = shown.browser.execute_script("return document.querySelector('main').contains(document.activeElement)")
    footer = shown.browser.execute_script("return document.querySelector('footer').contains(document.activeElement)")
    assert inside or footer
    shown.open("/clusters/prod")
    reached = []
    for _ in range(4):
        shown.browser.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(shown.browser.switch_to.active_element.text)
        outline = shown.browser.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", "where the focus is, is seen"
    assert reached == ["Skip to the content", "Kraft", "Overview", "Brokers"]


@pytest.mark.slow
def test_a_topic_is_created_after_a_preview_and_deleted_by_its_name(shown: Shown) -> None:
    shown.open("/clusters/prod/topics-new")
    shown.fill(topic="from-browser", partition_count="3", replication_factor="1")
    shown.submit("main form[method=get]", "The cluster would create this")
    shown.submit("main form[method=post]", "Topic from-browser was created")
    shown.open("/clusters/prod/topics/from-browser/delete")
    shown.fill(confirm="another")
    shown.submit("main form[method=post]", "to confirm")
    shown.fill(confirm="from-browser")
    shown.submit("main form[method=post]", "Topic from-browser is marked for deletion")
    shown.assert_nothing_ran()


@pytest.mark.slow
def test_a_record_is_written_found_by_a_filter_and_shown_live_as_text(shown: Shown) -> None:
    shown.open(f"/clusters/prod/topics/{TOPIC}/produce")
    shown.fill(key=SCRIPT, value=f'{{"total": 4711, "text": "{SCRIPT}"}}', headers=f"trace: {SCRIPT}", partition="1")
    shown.submit("main form[method=post]", "The record is stored in orders, partition 1, at offset 2")
    shown.open(f"/clusters/prod/topics/{TOPIC}/records")
    shown.fill(filter="value.total > 4000")
    shown.submit("main form[method=get]", "1 record shown")
    assert "4711" in shown.text
    assert SCRIPT in shown.text
    shown.assert_nothing_ran()
    shown.open(f"/clusters/prod/topics/{TOPIC}/tail")
    shown.wait_for("Live: 0 records")
    own = shown.browser.current_window_handle
    shown.browser.switch_to.new_window("tab")
    shown.open(f"/clusters/prod/topics/{TOPIC}/produce")
    shown.fill(key=SCRIPT, value=f"live {SCRIPT}", partition="1")
    shown.submit("main form[method=post]", "at offset 3")
    shown.browser.close()
    shown.browser.switch_to.window(own)
    shown.wait_for(f"live {SCRIPT}")
    shown.assert_nothing_ran()


def test_a_group_is_reset_after_a_preview(shown: Shown) -> None:
    shown.open(f"/clusters/prod/group-reset/{segment(SCRIPT)}")
    Select(shown.find("[name=target]")).select_by_value("earliest")
    shown.submit("main form[method=get]", "What would change")
    shown.submit("main form[method=post]", "reset.")
    assert SCRIPT in shown.text
    shown.open(f"/clusters/prod/group-delete/{segment(SCRIPT)}")
    shown.fill(confirm=SCRIPT)
    shown.submit("main form[method=post]", "was deleted, with its offsets")
    shown.assert_nothing_ran()


@pytest.mark.slow
def test_a_move_is_generated_reviewed_run_and_its_throttle_removed(shown: Shown) -> None:
    with Admin(shown.cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic=MOVED, assignments=[[1]])])
    shown.open("/clusters/prod/moves/plan")
    shown.fill(topics=MOVED)
    shown.find("[name=way][value=off]").click()
    Select(shown.find("[name=off]")).select_by_value("1")
    shown.submit("main form[method=get]", "1 partition, 0 B to copy")
    shown.fill(throttle="10 MiB")
    shown.submit("main form[method=post]", "1 move was started, throttled to 10.0 MiB each second")

    def is_over() -> bool:
        shown.open("/clusters/prod/moves")
        return "No partition is moving now" in shown.text and "A throttle was left" in shown.text

    until(is_over, "the move is over, and its throttle is there")
    shown.submit("#throttles form", "The moves are over")
    assert "No replication is throttled" in shown.text
    shown.assert_nothing_ran()


@pytest.mark.slow
def test_a_preferred_leader_is_elected(shown: Shown) -> None:
    with Admin(shown.cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic="led", assignments=[[1, 2]])])
    shown.open("/clusters/prod/moves/plan")
    shown.find("main details:last-of-type summary").click()
    shown.find("main details[open] textarea").send_keys("led-0: 1,2 -> 2,1")
    shown.submit("main details[open] form", "another preferred leader")
    shown.submit("main form[method=post]", "1 move was started")

    def may_be_elected() -> bool:
        shown.open("/clusters/prod/moves/elections")
        return "Elect preferred leaders" in shown.text and "led-0" in shown.text

    until(may_be_elected, "another than the preferred leader leads")
    shown.fill(topics="led")
    shown.submit("main form.form", "1 leader was elected")
    assert "led-0" not in shown.find("main").text.partition("preferred one")[2]
    shown.assert_nothing_ran()


@pytest.mark.slow
def test_acls_are_created_explained_and_deleted(shown: Shown) -> None:
    shown.open("/clusters/prod/acls/create")
    shown.fill(principal="User:walker", topics=TOPIC, groups="walkers")
    shown.submit("main form[method=get]", "3 of them new")
    shown.submit("main form[method=post]", "3 ACLs of User:walker created")
    shown.open("/clusters/prod/acls/of?principal=User:walker")
    Select(shown.find("[name=operation]")).select_by_visible_text("read")
    shown.fill(resource=TOPIC)
    shown.submit("main form", "Yes,")
    shown.fill(resource="payments")
    shown.submit("main form", "No,")
    shown.open("/clusters/prod/acls/delete?principal=User:walker")
    shown.fill(confirm="3 ACLs")
    shown.submit("main form[method=post]", "3 ACLs deleted")
    shown.assert_nothing_ran()


@pytest.mark.slow
def test_quotas_are_set_found_for_a_client_and_removed(shown: Shown) -> None:
    shown.open("/clusters/prod/quotas/set?user=walker")
    shown.fill(producer_byte_rate="1 MiB")
    shown.submit("main form[method=post]", "Quotas of user walker: producer_byte_rate 1.0 MiB/s")
    shown.open("/clusters/prod/quotas/of")
    shown.fill(user="walker", **{"client-id": SCRIPT})
    shown.submit("main form", "Which quotas hold for user walker")
    assert "1.0 MiB/s" in shown.text
    shown.open("/clusters/prod/quotas/remove?user=walker")
    shown.submit("main form[method=post]", "producer_byte_rate removed")
    shown.assert_nothing_ran()


@pytest.mark.slow
def test_a_config_that_somebody_else_changed_is_not_overwritten(shown: Shown) -> None:
    path = f"/clusters/prod/topics/{TOPIC}/configs/retention.ms"
    shown.open(path)
    shown.fill(value="3600000")
    shown.submit("main form[method=post]", f"retention.ms of topic {TOPIC} was set")
    shown.open(path)
    with Admin(shown.cluster.bootstrap_servers) as admin:
        admin.alter_topic_configs(TOPIC, {"retention.ms": "7200000"})
    shown.fill(value="60000")
    shown.submit("main form[method=post]", "retention.ms has changed since you saw it")
    assert "7200000" in shown.find("main").text
    shown.assert_nothing_ran()


def as_root(server: str, request: Message, version: int) -> ProduceResponse | None:
    with LoginConnection(server) as connection:
        connection.log_in("SCRAM-SHA-512", "root", PASSWORD)
        return connection.ask(request, version, ProduceResponse)


@pytest.mark.slow
def test_a_hanging_transaction_is_aborted(shown: Shown) -> None:
    with Admin(shown.cluster.bootstrap_servers) as admin:
        admin.create_topic("hung", 1, 1)
    hang(shown.cluster, "hung", 4_711, as_root)
    shown.open("/clusters/prod/transaction-hanging")
    shown.fill(topic="hung")
    shown.submit("main form", "4711")
    shown.browser.find_element(By.PARTIAL_LINK_TEXT, "Abort").click()
    shown.wait_for("Abort a hanging transaction")
    shown.fill(confirm="hung-0")
    shown.submit("main form[method=post]", "The transaction of producer 4711 was aborted")
    shown.assert_nothing_ran()


@pytest.mark.slow
def test_users_come_and_go_and_change_their_own_password_and_a_session_that_ended_asks_again(shown: Shown) -> None:
    shown.open("/clusters/prod/users/password")
    shown.fill(user="walker", password=PASSWORD, again=PASSWORD)
    shown.submit("main form[method=post]", "The password of user walker is set")
    shown.open("/clusters/prod/users/delete?user=walker")
    shown.fill(confirm="walker")
    shown.submit("main form[method=post]", "User walker is deleted")
    own = f"{PASSWORD} and more"
    shown.open("/clusters/prod/users/password?user=root")
    shown.fill(password=own, again=own)
    shown.submit("main form[method=post]", "Log in to prod")
    log_in(shown, own)
    shown.submit("header form", "Clusters")
    log_in(shown, own)
    shown.open("/clusters/prod/topics-new")
    shown.fill(topic="after-the-end")
    # What the browser has is the cookie of a session that is over.
    shown.browser.delete_cookie("kraft-session")
    shown.submit("main form[method=get]", "Log in to prod")
    shown.assert_nothing_ran()
