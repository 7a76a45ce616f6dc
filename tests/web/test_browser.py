"""The panel in a headless Chromium, over lockbroker-web, two daemons with host names of their own, and a RabbitMQ.

Debian's chromium, chromium-driver and python3-selenium are needed; without them each test is skipped. SCREENSHOTS=DIR
saves pictures of the page into that folder.
"""

import json
import os
import shutil
import socket
import sys
import threading
import unittest

import tap

sys.path.insert(0, os.path.join(os.environ["top_srcdir"], "tests", "cli"))

from daemon import Daemon
from fake import Fake, error, reply
from rabbit import Rabbit
from rows import Semaphores, row, watched
from web import Web
from wire import Wire, WireError, wait_until

try:
    from selenium import webdriver
    from selenium.common.exceptions import StaleElementReferenceException
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = None

RABBIT = Rabbit.lease(shared=True)
MISSING = next((name for name in ("chromium", "chromedriver") if shutil.which(name) is None),
               None if webdriver else "python3-selenium")
PICTURES = os.environ.get("SCREENSHOTS")
HOSTILE = "<img src=x onerror='document.title=\"taken\"'><script>document.title='taken'</script>\u202e'\"&"
BROWSER = None


def setUpModule():
    global BROWSER  # pylint: disable=global-statement
    RABBIT.serve_module()
    if MISSING:
        return
    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    BROWSER = webdriver.Chrome(service=webdriver.ChromeService(shutil.which("chromedriver"))
                               if hasattr(webdriver, "ChromeService")
                               else webdriver.chrome.service.Service(shutil.which("chromedriver")), options=options)
    unittest.addModuleCleanup(BROWSER.quit)


class Proxy:
    """Stands for a proxy with a login, in front of the Unix socket. It counts the streams that are open."""

    def __init__(self, test, visitor):
        self.path = None  # of the Unix socket
        self.visitor = visitor
        self.streams = 0
        self.begun = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        test.addCleanup(self.listener.close)
        self.name = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        head = b""
        with client, socket.socket(socket.AF_UNIX) as server:
            while b"\r\n\r\n" not in head:
                head += client.recv(65536) or b"\r\n\r\n"
            first, _, rest = head.partition(b"\r\n")
            rest = rest.replace(b"Connection: keep-alive", b"Connection: close")
            is_stream = b" /v1/events " in first
            try:
                server.connect(self.path)
                server.sendall(first + f"\r\nX-User: {self.visitor}\r\n".encode() + rest)
                self.streams += is_stream
                self.begun += is_stream
                threading.Thread(target=self.copy, args=(client, server), daemon=True).start()
                self.copy(server, client)
            except OSError:
                pass
            self.streams -= is_stream

    def copy(self, source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


@unittest.skipIf(MISSING, f"{MISSING} is missing")
class Page(unittest.TestCase):
    def setUp(self):
        self.name = self.id().rpartition(".")[2]
        self.browser = BROWSER
        self.size(1280, 800)
        self.scheme("light")

    def tearDown(self):
        errors = [line["message"] for line in self.browser.get_log("browser") if self.is_trouble(line)]
        self.browser.get("about:blank")
        self.assertEqual(errors, [])

    def is_trouble(self, line):
        """A browser calls every refused or failed request an error."""
        return line["level"] == "SEVERE" and "Failed to load resource" not in line["message"]

    def size(self, width, height):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def scheme(self, name):
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": name}]})

    def hosts(self, *options, **more):
        """Two daemons, an administrator's connection to the first, and a semaphore."""
        self.north, self.south = (Daemon(self, "--host-name", name, *options, broker=RABBIT.url, **more)
                                  for name in ("north", "south"))
        self.north.wait_broker()
        self.south.wait_broker()
        self.admin = Wire(self.north)
        self.create(self.name)

    def create(self, name, slots=1):
        self.admin.call("create", name=name, slots=slots)
        self.addCleanup(self.destroy, name)

    def destroy(self, name):
        try:
            Wire(self.south).call("destroy", name=name)
        except WireError as error:
            self.assertEqual(error.reason, "no-such-lock")

    def open(self, *options, lock=None, daemon=None):
        self.web = Web(self, daemon or self.north, *(options or ("--admin",)))
        self.enter()
        self.browser.get(f"{self.address}#lock={self.name if lock is None else lock}")
        self.wait_text("broker", "broker up")

    def enter(self):
        self.browser.get(f"http://{self.web.host}/?token={self.web.token}")
        self.address = f"http://{self.web.host}/"

    def acquire(self, daemon, who, **more):
        """A client that has asked, and its request."""
        peer = Wire(daemon)
        asked = peer.request("acquire", **{"name": self.name, "who": who, **more})
        peer.call("ping")
        return peer, asked

    def hold(self, daemon, who, **more):
        peer, asked = self.acquire(daemon, who, **more)
        peer.answer(asked)
        return peer

    # ---- what the page shows ----

    def js(self, text, *values):
        return self.browser.execute_script(text, *values)

    def one(self, selector):
        return self.browser.find_element("css selector", selector)

    def text(self, name):
        return self.js("return document.getElementById(arguments[0]).textContent", name)

    def wait_text(self, name, *words):
        return wait_until(lambda: all(word in self.text(name) for word in words), what=f"{name} has {words}")

    def rows(self):
        """By user: state, slot and position."""
        return {row[0]: tuple(row[1:]) for row in self.js(
            "return [...document.querySelectorAll('#rows .row')].map((row) => ['.who', '.state :last-child', '.slot',"
            " '.position'].map((part) => row.querySelector(part).textContent))")}

    def states(self):
        return {who: row[0] for who, row in self.rows().items()}

    def wait_states(self, **wanted):
        try:
            wait_until(lambda: self.states() == wanted)
        except AssertionError:
            self.assertEqual(self.states(), wanted)

    def lock(self, name=None):
        """Of a lock: the remark at its name, slots, busy slots with those beyond, waiters."""
        return self.js(
            "const row = [...document.querySelectorAll('.lock')].find((row) => row.querySelector('b').textContent === "
            "arguments[0]); return row && [row.querySelector('.name small').textContent, row.querySelector('input').value,"
            " row.querySelector('.busy').textContent, row.querySelector('.waiting').textContent]", name or self.name)

    def wait_lock(self, *wanted):
        try:
            wait_until(lambda: self.lock() == [*wanted])
        except AssertionError:
            self.assertEqual(self.lock(), [*wanted])

    # ---- what a visitor does ----

    def click(self, selector):
        wait_until(lambda: self.try_click(selector), what=f"{selector} is there")

    def try_click(self, selector):
        """Of a row that may move meanwhile."""
        found = self.browser.find_elements("css selector", selector)
        try:
            if found:
                self.js("arguments[0].scrollIntoView({block: 'nearest'})", found[0])
                found[0].click()
            return found
        except StaleElementReferenceException:
            return False

    def row_of(self, who):
        self.js("document.querySelectorAll('#rows .row').forEach((row) => row.classList.toggle('picked',"
                " row.querySelector('.who').textContent === arguments[0]))", who)
        return ".row.picked"

    def press(self, *keys):
        self.browser.switch_to.active_element.send_keys(*keys)

    def asked(self, word):
        """The dialog that is open must have this word; its text."""
        wait_until(lambda: self.one("#ask").get_attribute("open") and word in self.text("ask"), what=f"it asks: {word}")
        return self.text("ask")

    def confirm(self, word):
        text = self.asked(word)
        self.click("#ask-yes")
        return text

    def picture(self, name):
        if PICTURES:
            self.browser.save_screenshot(os.path.join(PICTURES, name + ".png"))


class Acts(Page):
    def test_the_example_of_the_seed(self):
        """seeds/004, "Grant": A is busy, B and C wait; B is granted; A ends; C starts while B runs."""
        self.hosts()
        self.open()
        a = self.hold(self.north, "A")
        b, b_asked = self.acquire(self.south, "B")
        c, c_asked = self.acquire(self.south, "C")
        self.wait_states(A="busy", B="waiting", C="waiting")
        self.assertEqual((self.rows()["B"][2], self.rows()["C"][2]), ("#1", "#2"))
        self.click(self.row_of("B") + " [data-act=grant]")
        self.assertIsNone(b.answer(b_asked)["slot"])
        self.wait_text("said", "granted, without a slot", "lockbroker grant ")
        self.wait_states(A="busy", B="granted", C="waiting")
        wait_until(lambda: self.rows()["C"][2] == "#1", what="C is the first now")
        self.wait_lock("", "1", "1+1", "1")
        a.hang_up()
        self.assertEqual(c.answer(c_asked)["slot"], 1)
        wait_until(lambda: {**self.states(), "A": ""} == {"A": "", "B": "granted", "C": "busy"}, what="C is busy")
        self.assertRegex(self.web.log, "grant .*: done")

    def test_slots(self):
        self.hosts()
        self.open()
        self.wait_lock("", "1", "0", "0")
        more, less = f"[aria-label='Add one slot to {self.name}']", f"[aria-label='Remove one slot of {self.name}']"
        self.click(more)
        self.wait_lock("", "2", "0", "0")
        self.wait_text("said", f"{self.name}: slots 2", f"lockbroker resize {self.name} +1")
        self.click(less)
        self.wait_lock("", "1", "0", "0")
        self.click(less)
        self.wait_lock("0: all wait", "0", "0", "0")
        self.click(less)
        self.confirm("unlimited")
        self.wait_lock("", "∞", "0", "0")
        self.hold(self.south, "A")
        self.wait_lock("", "∞", "0+1", "0")
        self.assertFalse(self.one(".lock[aria-selected=true] .bar").is_displayed())
        field = self.one(f"[aria-label='Slots of {self.name}']")
        for typed, sizes in (("7", 7), ("-1", "unlimited"), ("0", 0), ("x", None), ("10001", None), ("3", 3)):
            with self.subTest(typed=typed):
                field.click()
                field.send_keys(Keys.CONTROL, "a", Keys.NULL, typed, Keys.ENTER)
                if sizes == "unlimited":
                    self.confirm("unlimited")
                if sizes is None:
                    self.wait_text("said", "expected 0 to 10000, or unlimited")
                else:
                    self.wait_text("said", f"lockbroker resize {self.name} {sizes}")
                    wait_until(lambda: self.admin.call("size", name=self.name)["slots"] == sizes)
        self.wait_lock("", "3", "0+1", "0")

    def test_cancel_one_is_shown_for_a_moment(self):
        self.hosts()
        self.open()
        self.hold(self.north, "A")
        b, b_asked = self.acquire(self.south, "B")
        self.wait_states(A="busy", B="waiting")
        self.click(self.row_of("B") + " [data-act=deny]")
        self.assertTrue(b.reply(b_asked)["error"]["data"]["denied"])
        self.wait_states(A="busy", B="cancelled")
        self.wait_states(A="busy")

    def test_evict_one(self):
        """The daemon is a Fake, whose rows never go."""
        rows = [("row", {"row": row("busy", "w-1", slot=1, who="A", name="db")}),
                ("row", {"row": row("waiting", "w-2", position=1, who="B", name="db")})]
        fake = Semaphores(self, evict={"evicted": 1, "silent_hosts": []}, watch=lambda request, connection: fake.send(
            connection, watched(request, *rows, ("synced", {"more": 0, "silent_hosts": []}))))
        fake.add("db", 1, row("busy", "w-1", slot=1), row("waiting", "w-2", position=1))
        self.web, self.name = Web(self, fake, "--admin"), "db"
        self.enter()
        self.wait_states(A="busy", B="waiting")
        self.click(self.row_of("A") + " .who")
        self.press("d")
        self.wait_text("said", "The selected row is not a waiter.")
        self.assertFalse(self.one(self.row_of("A") + " [data-act=grant]").is_displayed())
        self.assertFalse(self.one(self.row_of("B") + " [data-act=evict]").is_displayed())
        self.click(self.row_of("A") + " [data-act=evict]")
        self.asked("Evict A from db?")
        self.press(Keys.ESCAPE)
        self.wait_text("said", "No change was made.")
        self.press("e")
        self.confirm("It has 30 s to stop")
        self.wait_text("said", "db: evicted 1 holder", "lockbroker evict w-1")
        self.assertEqual([one["params"] for one in fake.asked("evict")], [{"holder": "w-1"}])
        rows[0][1]["row"]["evicted"] = True
        fake.say(watched(fake.asked("watch")[-1], rows[0]))
        self.wait_states(A="evicted", B="waiting")

    def test_the_emergency_lists_what_it_does(self):
        """seeds/004, "Cancel": the slots become 0, then all waiters are cancelled. Then it is opened again."""
        self.hosts()
        self.open()
        a = self.hold(self.north, "A")
        waiting = [self.acquire(self.south, "B", why="report"), self.acquire(self.north, "C")]
        self.wait_lock("", "1", "1", "2")
        self.wait_states(A="busy", B="waiting", C="waiting")
        self.click("#emergency")
        text = self.asked("Emergency")
        for words in "slots from 1 to 0", "all waiters on all hosts, 2 now", "B at south: report", "C at north":
            self.assertIn(words, text)
        self.picture("emergency")
        self.press(Keys.ESCAPE)
        self.wait_text("said", "No change was made.")
        self.assertEqual(self.lock()[1], "1")
        self.click("#emergency")
        self.confirm("Emergency")
        for peer, asked in waiting:
            self.assertTrue(peer.reply(asked)["error"]["data"]["denied"])
        self.wait_text("said", "cancelled 2 waiters", f"lockbroker deny --all {self.name}")
        self.wait_lock("0: all wait", "0", "0+1", "0")
        self.wait_states(A="revoked")
        d, d_asked = self.acquire(self.south, "D")
        self.wait_states(A="revoked", D="waiting")
        self.wait_text("gate", "Open (1)")
        self.click("#gate")
        self.wait_text("said", f"lockbroker resize {self.name} 1")
        a.hang_up()
        self.assertEqual(d.answer(d_asked)["slot"], 1)

    def test_only_some_acts_ask(self):
        self.hosts()
        self.open()
        a = self.hold(self.north, "A")
        self.wait_lock("", "1", "1", "0")
        self.click("#gate")
        self.wait_lock("0: all wait", "0", "0+1", "0")
        self.click("#gate")
        self.wait_lock("", "1", "1", "0")
        b, b_asked = self.acquire(self.south, "B")
        self.wait_lock("", "1", "1", "1")
        self.click("#gate")
        self.assertIn("1 waiter now", self.confirm("With 0 slots all wait"))
        self.wait_lock("0: all wait", "0", "0+1", "1")
        self.click("#deny-all")
        self.assertIn("B at south", self.confirm("Cancel 1 waiter"))
        self.assertTrue(b.reply(b_asked)["error"]["data"]["denied"])
        self.click("#destroy")
        self.confirm(f"Destroy {self.name}?")
        self.wait_text("said", f"{self.name} is destroyed")
        self.wait_lock("missing", "?", "?+1", "0")
        a.hang_up()
        wait_until(lambda: self.lock() is None, what="it is not listed any more")
        self.wait_text("numbers", "no such lock now")

    def test_an_error_is_said_in_words(self):
        self.hosts(config="[access]\nrule = deny any resize *\n")
        self.open()
        self.wait_lock("", "1", "0", "0")
        self.click("#gate")
        self.wait_text("said", "may not resize", f"lockbroker resize {self.name} 0")
        self.assertEqual(self.one("#said").get_attribute("class"), "error")

    def test_copy_as_command(self):
        self.hosts()
        self.open()
        self.hold(self.north, "A")
        self.acquire(self.south, "B")
        self.wait_states(A="busy", B="waiting")
        self.click(self.row_of("B") + " .who")
        self.click("#teach summary")
        waiter = next(row["waiter"] for row in self.admin.call("show", name=self.name)["waiters"])
        commands = self.js("return [...document.querySelectorAll('#commands code')].map((one) => one.textContent)")
        self.assertEqual(commands, [f"lockbroker {words}" for words in (
            f"show {self.name}", f"explain {self.name}", f"resize {self.name} +1", f"resize {self.name} -1",
            f"resize {self.name} 1", f"resize {self.name} 0", f"resize {self.name} unlimited", f"deny --all {self.name}",
            f"destroy {self.name}", f"grant {waiter}", f"deny {waiter}")])
        self.browser.execute_cdp_cmd("Browser.grantPermissions", {
            "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"], "origin": self.address.rstrip("/")})
        self.click("#commands li:last-child button")
        copied = wait_until(lambda: self.browser.execute_async_script(
            "navigator.clipboard.readText().then(arguments[0], () => arguments[0](''))"), what="it is copied")
        self.assertEqual(copied, f"lockbroker deny {waiter}")

    def test_the_keyboard_alone(self):
        self.hosts()
        self.open(lock="")
        self.hold(self.north, "A")
        for who in "B", "C":
            self.acquire(self.south, who)
        self.wait_states(A="busy", B="waiting", C="waiting")
        self.press("/", self.name, Keys.ENTER)
        self.wait_text("title", self.name)
        self.press("+")
        self.wait_states(A="busy", B="busy", C="waiting")
        self.press("=", "1", Keys.ENTER)
        self.wait_lock("", "1", "1+1", "1")
        self.press("g")
        self.asked("With 0 slots all wait")
        self.press(Keys.TAB, Keys.ENTER)
        self.wait_lock("0: all wait", "0", "0+2", "1")
        self.press("g")
        self.wait_lock("", "1", "1+1", "1")
        self.press(Keys.ENTER, Keys.END)
        wait_until(lambda: "C" in self.browser.switch_to.active_element.text, what="the row of C has the focus")
        self.press("G")
        wait_until(lambda: self.states().get("C") == "granted", what="C is granted")
        for who in "D", "E", "F":
            self.acquire(self.north, who)
        wait_until(lambda: {"D", "E", "F"} <= set(self.states()), what="D, E and F wait")
        self.press(Keys.END, Keys.ENTER)
        wait_until(lambda: self.browser.switch_to.active_element.text == "Grant", what="its button has the focus")
        self.press(Keys.ENTER)
        wait_until(lambda: "granted" in self.states().get("F", ""), what="F is granted")
        self.press(Keys.END, "d")
        wait_until(lambda: self.states().get("E") == "cancelled", what="E is cancelled")
        self.wait_text("numbers", "1 waiting")
        self.press("D")
        self.asked("Cancel 1 waiter")
        self.press(Keys.TAB, Keys.ENTER)
        wait_until(lambda: self.states().get("D") == "cancelled", what="D is cancelled")
        self.press(Keys.ESCAPE, Keys.ESCAPE)
        wait_until(lambda: self.lock() and self.text("title") == "All locks" or self.press(Keys.ESCAPE), what="back")
        self.press("?")
        wait_until(lambda: self.one("#help").is_displayed(), what="help")
        self.press(Keys.ESCAPE)


class Looks(Page):
    def scene(self):
        """A busy evening."""
        self.hosts()
        self.destroy(self.name)
        self.name = "nightly"
        for name, slots in ("nightly", 2), ("billing/export", 4), ("licences.cad", 25), ("migrate", 0), ("cache/warm-up", 1):
            self.create(name, slots)
        self.admin.call("resize", name="cache/warm-up", slots="unlimited")
        self.hold(self.north, "alice", why="backup of all databases", command="nightly-backup --all --to /srv/backup")
        self.hold(self.south, "bob", why="weekly vacuum", command="vacuumdb --all --analyze")
        b, asked = self.acquire(self.north, "carol", why="ticket 8812", command="restore --ticket 8812")
        self.acquire(self.north, "dave", why="hourly load", command="etl load orders")
        self.acquire(self.south, "erin", why="hourly load", command="etl load stock")
        self.acquire(self.south, "frank", why="compaction", command="compact --older 30d")
        for who in "grace", "heidi":
            self.hold(self.south, who, name="billing/export", command="export --month")
            self.hold(self.north, who, name="cache/warm-up")
        for _ in range(19):
            self.hold(self.south, "ivan", name="licences.cad", command="render")
        self.acquire(self.south, "judy", name="migrate", command="migrate 45")
        self.hold(self.north, "alice", name="deploy", kind="mutex", command="deploy.sh")
        waiter = next(row["waiter"] for row in self.admin.call("show", name="nightly")["waiters"] if row["who"] == "carol")
        self.admin.call("grant", waiter=waiter)
        b.answer(asked)
        self.open(lock="nightly")
        self.wait_states(alice="busy", bob="busy", carol="granted", dave="waiting", erin="waiting", frank="waiting")
        self.wait_lock("", "2", "2+1", "3")
        self.wait_text("explain", "slots are busy")
        self.js("document.getElementById('host').textContent = 'at north'")  # not the name of the machine that tests

    def contrast(self):
        """The worst contrast of a text to its ground, by the formula of WCAG, and that text."""
        return self.js("""
            const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
            const light = (colour) => parts(colour).slice(0, 3).map((v) => v / 255)
              .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
              .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
            const ground = (node) => {
              const colour = getComputedStyle(node).backgroundColor, [, , , a] = parts(colour);
              return a === 0 ? ground(node.parentElement) : colour;
            };
            return [...document.querySelectorAll('body *')].filter((node) => node.checkVisibility()
                && !node.closest('.empty, dialog, template') && [...node.childNodes].some((c) => c.data?.trim()))
              .map((node) => [light(getComputedStyle(node).color), light(ground(node)), node])
              .map(([a, b, node]) => [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), node.className + ' ' + node.textContent])
              .sort((a, b) => a[0] - b[0])[0];""")

    def test_wide_and_narrow_light_and_dark(self):
        self.scene()
        for scheme in "light", "dark":
            self.scheme(scheme)
            for width, height in (1280, 800), (360, 1400):
                self.size(width, height)
                with self.subTest(scheme=scheme, width=width):
                    self.picture(f"{scheme}-{width}")
                    self.assertEqual(self.js("return document.documentElement.scrollWidth"), width)
                    cut = self.js("return [...document.querySelectorAll('button, input, .lock > span:not(.bar)')]"
                                  ".filter((one) => one.checkVisibility()).map((one) => [one, one.getBoundingClientRect()])"
                                  ".filter(([, box]) => box.right > innerWidth || box.left < 0)"
                                  ".map(([one]) => one.outerHTML)")
                    self.assertEqual(cut, [])
                    ratio, text = self.contrast()
                    self.assertGreaterEqual(ratio, 4.5, text)
        grounds = [self.scheme(scheme) or self.js("return getComputedStyle(document.body).backgroundColor")
                   for scheme in ("light", "dark")]
        self.assertNotEqual(*grounds)

    def test_a_thumb_can_grant_at_360(self):
        self.hosts()
        self.size(360, 740)
        self.open()
        self.hold(self.north, "A")
        b, asked = self.acquire(self.south, "B")
        self.wait_states(A="busy", B="waiting")
        self.click(self.row_of("B") + " [data-act=grant]")
        self.assertIsNone(b.answer(asked)["slot"])

    def test_everything_has_a_name_for_screen_readers(self):
        self.scene()
        tree = self.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        nodes = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree
                 if not node.get("ignored") and "role" in node]
        self.assertEqual([role for role, name in nodes if role in (
            "button", "textbox", "searchbox", "grid", "columnheader", "row", "gridcell", "link")
            and role not in ("row", "gridcell") and not name.strip()], [])
        for wanted in (("grid", "Locks"), ("grid", "Holders and waiters"), ("button", "Add one slot to nightly"),
                       ("button", "Grant"), ("textbox", "Slots of nightly")):
            self.assertIn(wanted, nodes)

    def test_hostile_texts_are_texts(self):
        self.hosts()
        self.open()
        for part in "who", "why", "command":
            self.hold(self.south, **{"who": "x" + part, part: HOSTILE, "name": part, "kind": "mutex"})
        self.hold(self.north, HOSTILE, why=HOSTILE, command=HOSTILE)
        self.acquire(self.south, HOSTILE, why=HOSTILE)
        wait_until(lambda: (self.rows().get(HOSTILE) or "?")[0] == "waiting" and (self.lock() or "none")[3] == "1",
                   what="the row is there")
        self.click("#deny-all")
        self.assertIn(HOSTILE, self.confirm("Cancel 1 waiter"))
        self.browser.get(f"{self.address}#lock=<img+src=x>&rows=<img+src=x>&sort=-constructor&find=<script>")
        self.browser.refresh()
        self.wait_text("title", "<img src=x>")
        self.assertEqual(self.js("return document.querySelectorAll('img, script:not([src])').length"), 0)
        self.assertNotIn("taken", self.browser.title)

    def test_filter_order_and_selection_are_in_the_address(self):
        self.hosts()
        self.open(lock="")
        self.hold(self.north, "zoe")
        for who in "yan", "xue":
            self.acquire(self.south, who)
        self.wait_states(zoe="busy", yan="waiting", xue="waiting")
        self.one("#find").send_keys(self.name[:8])
        self.click(".lock .name")
        self.one("#rows-find").send_keys("wait")
        self.click("#grid [data-sort=who]")
        self.wait_states(xue="waiting", yan="waiting")
        self.click(self.row_of("yan") + " .who")
        wait_until(lambda: "row=" in self.browser.current_url, what="the address has the row")
        address = self.browser.current_url
        self.browser.get("about:blank")
        self.browser.get(address)
        self.wait_states(xue="waiting", yan="waiting")
        self.assertEqual(list(self.rows()), ["xue", "yan"])
        wait_until(lambda: "yan" in self.one("#rows [aria-selected=true]").text, what="the row is selected")
        self.assertEqual(self.one("#find").get_attribute("value"), self.name[:8])
        self.assertEqual(self.one("#grid [aria-sort=ascending]").text, "User")
        self.assertEqual(self.text("title"), self.name)


    def test_a_new_address_is_not_overwritten(self):
        """The page writes its address a moment after a change. A visitor's new address can come just before."""
        self.hosts()
        self.open(lock="")
        self.js("const later = window.setTimeout; let write; window.setTimeout = (act) => { write = act; };"
                "document.getElementById('find').oninput(); window.setTimeout = later;"
                "location.hash = 'lock=' + arguments[0]; write()", self.name)
        self.wait_text("title", self.name)


class Links(Page):
    def test_a_viewer_sees_why_buttons_are_disabled(self):
        self.hosts()
        self.open_viewer()
        self.hold(self.north, "A")
        self.acquire(self.south, "B")
        self.wait_states(A="busy", B="waiting")
        enabled = self.js("return [...document.querySelectorAll('.guarded button, .guarded input')]"
                          ".filter((one) => !one.matches(':disabled')).length")
        self.assertEqual(enabled, 0)
        self.wait_text("why", "Buttons are disabled: ", "--admin")
        self.click(self.row_of("B") + " .who")
        self.press("G")
        self.wait_text("said", "No change was made")
        self.assertEqual(self.states(), {"A": "busy", "B": "waiting"})
        self.picture("viewer")

    def open_viewer(self):
        self.web = Web(self, self.north)
        self.enter()
        self.browser.get(f"{self.address}#lock={self.name}")
        self.wait_text("visitor", "viewer")

    def test_the_daemon_goes_and_comes_back(self):
        self.hosts(expect=("amqp|connection|broker|lease",))
        self.open()
        self.hold(self.south, "A")
        self.wait_states(A="busy")
        self.north.kill()
        wait_until(lambda: "lost" in self.one("body").get_attribute("class"), what="the data are grey")
        self.wait_text("stale", "The link is lost", "old")
        self.assertEqual(self.states(), {"A": "busy"})
        self.assertFalse(self.one("#gate").is_enabled())
        self.picture("lost")
        self.north.start()
        wait_until(lambda: "lost" not in self.one("body").get_attribute("class"), what="the link is back")
        self.wait_states(A="busy")
        wait_until(self.one("#gate").is_enabled, what="buttons are back")

    def test_a_list_that_is_refused_is_told(self):
        fake = Fake(self, list=lambda request, connection: connection.sendall(
            reply(request, error=error(9, "permission-denied", "list is refused"))))
        self.web = Web(self, fake)
        self.enter()
        self.wait_text("stale", "list is refused")
        self.assertTrue(self.one("#stale").is_displayed())
        self.assertNotIn("lost", self.one("body").get_attribute("class"))

    def test_a_silent_host_is_named_and_its_slot_has_an_unknown_holder(self):
        self.hosts("--heartbeat", "60", expect=("amqp|connection|broker|heartbeat|lease",))
        self.open()
        self.hold(self.south, "A")
        self.wait_states(A="busy")
        self.south.freeze()
        self.addCleanup(self.south.thaw)
        self.wait_text("silent", "no answer from south")
        wait_until(lambda: self.one("#unexplained").is_displayed(), what="the holder is unknown")
        self.assertIn("1 busy slot: no daemon names the holder", self.text("unexplained"))
        self.south.thaw()
        self.wait_states(A="busy")
        wait_until(lambda: not self.one("#unexplained").is_displayed(), what="it is known again")

    def behind(self, proxy):
        web = Web(self, self.north, "--user-header", "X-User", "--admin-users", "root,alice", "--host", proxy.name, unix=True)
        proxy.path = web.path
        return web

    def proxied(self, visitor):
        proxy = Proxy(self, visitor)
        web = self.behind(proxy)
        self.address = f"http://{proxy.name}/"
        return proxy, web

    def test_both_roles_behind_a_proxy(self):
        self.hosts()
        proxy, web = self.proxied("bob")
        self.browser.get(f"{self.address}#lock={self.name}")
        self.wait_text("visitor", "bob, viewer")
        self.wait_text("why", "Buttons are disabled")
        proxy.visitor = "alice"
        self.browser.refresh()
        self.wait_text("visitor", "alice, administrator")
        self.wait_lock("", "1", "0", "0")
        self.click(f"[aria-label='Add one slot to {self.name}']")
        self.wait_lock("", "2", "0", "0")
        web.wait_log("alice")

    def test_pages_of_a_browser_share_a_stream(self):
        self.hosts()
        self.hold(self.north, "A")
        self.admin.call("resize", name=self.name, slots=0)
        proxy, _ = self.proxied("alice")
        windows = [self.browser.current_window_handle]
        self.browser.get(f"{self.address}#lock={self.name}")
        for _ in range(4):
            self.browser.switch_to.new_window("window")
            windows.append(self.browser.current_window_handle)
            self.browser.get(f"{self.address}#lock={self.name}")
        for window in windows:
            self.browser.switch_to.window(window)
            self.wait_text("left", self.name)
            self.wait_states(A="revoked")
        begun = proxy.begun
        for window in windows[1:]:
            self.browser.switch_to.window(window)
            self.browser.close()
        self.browser.switch_to.window(windows[0])
        print(f"{len(windows)} pages: {begun} stream")
        self.assertEqual(begun, 1)
        self.browser.get("about:blank")
        wait_until(lambda: proxy.streams == 0, what="nobody looks")

    def test_a_stream_that_breaks_begins_again(self):
        self.hosts()
        proxy, web = self.proxied("alice")
        self.browser.get(self.address)
        self.wait_text("broker", "broker up")
        web.stop()
        self.wait_text("stale", "The link is lost")
        self.behind(proxy)
        wait_until(lambda: not self.one("#stale").is_displayed(), what="the link is back")
        self.assertGreater(proxy.begun, 1)

    def test_a_browser_without_shared_workers(self):
        self.hosts()
        proxy, _ = self.proxied("alice")
        script = self.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": "delete window.SharedWorker"})
        self.addCleanup(self.browser.execute_cdp_cmd, "Page.removeScriptToEvaluateOnNewDocument", script)
        self.browser.get(f"{self.address}#lock={self.name}")
        self.wait_lock("", "1", "0", "0")
        self.assertEqual(proxy.streams, 1)


class Load(Page):
    deadline = 300

    def changes(self, count):
        """So many rows. Ten times a second, 10 of them end and 10 begin. Returns the operations on the page for a change."""
        daemon = Daemon(self, "--max-waits-per-connection", "10000")
        self.admin = Wire(daemon)
        self.admin.call("create", name=self.name, slots=0)
        self.open(daemon=daemon)
        peer = socket.socket(socket.AF_UNIX)
        self.addCleanup(peer.close)
        peer.connect(daemon.socket)

        def read():
            try:
                while peer.recv(1 << 20):
                    pass
            except OSError:
                pass  # It is closed: the test is over.

        threading.Thread(target=read, daemon=True).start()

        def send(first, last):
            peer.sendall(b"".join(json.dumps({"id": i, "method": "acquire", "params": {
                "name": self.name, "who": f"u{i}", "why": "load"}}).encode() + b"\n" for i in range(first, last)))

        def cancel(first, last):
            peer.sendall(b"".join(json.dumps({"id": f"c{i}", "method": "cancel", "params": {
                "id": i}}).encode() + b"\n" for i in range(first, last)))

        def metrics():
            return {one["name"]: one["value"] for one in
                    self.browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]}

        def known():
            return int(self.one("#grid").get_attribute("aria-rowcount")) - 1

        send(0, count)
        wait_until(lambda: known() >= count, what="all rows are there")
        self.js("""
            window.work = 0;
            new MutationObserver((list) => list.forEach((one) => (window.work += one.type === 'childList'
              ? one.addedNodes.length + one.removedNodes.length : 1))).observe(document.body,
              {subtree: true, childList: true, attributes: true, characterData: true});""")
        self.browser.execute_cdp_cmd("Performance.enable", {})
        before = metrics()
        for i in range(50):
            cancel(10 * i, 10 * i + 10)
            send(count + 10 * i, count + 10 * i + 10)
            wait_until(lambda: metrics()["Timestamp"] >= before["Timestamp"] + 0.1 * i)  # pylint: disable=cell-var-from-loop
        wait_until(lambda: known() == count, what="the rows that ended are gone")
        after = metrics()
        changes = 1000
        spent = {name: after[name] - before[name] for name in ("Timestamp", "ScriptDuration", "LayoutDuration", "TaskDuration")}
        operations = self.js("return window.work") / changes
        print(f"{count} rows, {changes} changes in {spent['Timestamp']:.1f} s: {operations:.1f} operations on the page a "
              f"change, script {1000 * spent['ScriptDuration'] / changes:.2f} ms, layout "
              f"{1000 * spent['LayoutDuration'] / changes:.2f} ms, all {1000 * spent['TaskDuration'] / changes:.2f} ms")
        return operations

    def test_a_change_costs_the_same_among_500_and_5000_rows(self):
        few = self.changes(500)
        self.doCleanups()
        many = self.changes(5000)
        self.assertLess(many, 40)
        self.assertLess(many, 2 * few + 5)


if __name__ == "__main__":
    tap.main()
