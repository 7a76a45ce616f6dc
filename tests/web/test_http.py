"""lockbroker-web over HTTP: the ways in, the two roles, and the answers to programs."""

import json
import os
import random
import re
import socket
import stat
import subprocess
import sys
import tempfile
import unittest

import manual
import tap

sys.path.insert(0, os.path.join(os.environ["top_srcdir"], "tests", "cli"))

from cli import command
from daemon import Daemon, clean_environment, program
from fake import Fake
from rows import Semaphores, row, watched
from wait import wait_until
from web import Answer, Page, Web
from wire import Wire

PATHS = "/", "/index.html", "/metrics", "/v1/session", "/v1/events", "/v1/locks", "/v1/locks/db", "/nope", "/v1/ping"


class Token(unittest.TestCase):
    """The way in at 127.0.0.1."""

    def setUp(self):
        self.daemon = Daemon(self)
        self.web = Web(self, self.daemon)

    def test_the_link_becomes_a_cookie(self):
        answer = self.web.get(f"/?token={self.web.token}", {"Authorization": None})
        self.assertEqual((answer.status, answer.headers["location"]), (303, "/"))
        cookie, *properties = answer.headers["set-cookie"].split("; ")
        self.assertEqual(sorted(properties), ["HttpOnly", "Path=/", "SameSite=Strict"])
        page = self.web.get("/", {"Authorization": None, "Cookie": cookie})
        self.assertEqual((page.status, page.headers["content-type"]), (200, "text/html; charset=utf-8"))
        self.assertEqual(self.web.get("/", {"Authorization": None, "Cookie": f"a=b; {cookie}; c=d"}).status, 200)

    def test_a_stranger_sees_nothing_but_the_health(self):
        wrong = self.web.token[:-1] + ("0" if self.web.token[-1] != "0" else "1")
        for headers in ({"Authorization": None}, {"Authorization": f"Bearer {wrong}"}, {"Authorization": "Bearer "},
                        {"Authorization": f"Basic {self.web.token}"},
                        {"Authorization": None, "Cookie": f"lockbroker-web-{self.web.port}={wrong}"},
                        {"Authorization": None, "Cookie": f"lockbroker-web={self.web.token}"},
                        {"Authorization": None, "X-User": "alice"}):
            for path in PATHS:
                answer = self.web.get(path, headers)
                self.assertEqual(answer.status, 401, (path, headers))
                self.assertIn("open the link", answer.message)
            self.assertEqual(self.web.get("/healthz", headers).status, 200)
            self.assertEqual(self.web.post_body("/v1/explain", b'{"name":"db"}', headers).status, 401)
        self.assertEqual(self.web.get(f"/?token={wrong}", {"Authorization": None}).status, 401)
        self.assertEqual(self.web.get(f"/v1/locks?token={self.web.token}", {"Authorization": None}).status, 401)

    def test_each_start_has_another_token(self):
        other = Web(self, self.daemon)
        self.assertNotEqual(self.web.token, other.token)
        self.assertEqual(other.get("/v1/locks", {"Authorization": f"Bearer {self.web.token}"}).status, 401)

    def test_every_answer_has_the_headers_of_safety(self):
        for answer in (self.web.get("/"), self.web.get("/nope"), self.web.get("/v1/locks"), self.web.get("/metrics"),
                       self.web.get("/", {"Authorization": None}), self.web.post("nope"), self.web.get("/healthz")):
            self.assertIn("default-src 'self'", answer.headers["content-security-policy"])
            self.assertIn("frame-ancestors 'none'", answer.headers["content-security-policy"])
            self.assertEqual(answer.headers["x-content-type-options"], "nosniff")
            self.assertEqual(answer.headers["referrer-policy"], "no-referrer")
            self.assertEqual(answer.headers["cache-control"], "no-store")
            self.assertNotIn("access-control-allow-origin", answer.headers)

    def test_each_file_of_the_page_is_served(self):
        folder = os.path.join(os.environ["top_srcdir"], "client/web/page")
        types = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
        names = os.listdir(folder)
        self.assertIn("index.html", names)
        for name in names:
            answer = self.web.get(f"/{name}")
            with open(os.path.join(folder, name), "rb") as file:
                self.assertEqual((answer.status, answer.body), (200, file.read()), name)
            self.assertEqual(answer.headers["content-type"], types[name.rpartition(".")[2]] + "; charset=utf-8")


class Proxy(unittest.TestCase):
    """The way in behind a proxy."""

    def setUp(self):
        self.daemon = Daemon(self)

    def test_the_header_names_the_visitor(self):
        web = Web(self, self.daemon, "--user-header", "X-User", "--admin-users", "carol,alice", unix=True)
        self.assertEqual(stat.S_IMODE(os.stat(web.path).st_mode), 0o660)
        self.assertEqual(web.out, "")
        for name, admin in ("alice", True), ("carol", True), ("bob", False), ("al", False), ("alice2", False):
            session = web.get("/v1/session", {"X-User": name}).json()
            self.assertEqual((session["visitor"], session["administrator"]), (name, admin))
            self.assertEqual(session["why"] is None, admin)
        self.assertIn("--admin-users", web.get("/v1/session", {"X-User": "bob"}).json()["why"])
        for name in None, "", "a b", "alice,bob", "x" * 129, "a\x7fb", "a\x1b[31m":
            self.assertEqual(web.get("/v1/session", {"X-User": name}).status, 401, name)
        self.assertEqual(web.get("/v1/session", {"X-User": ["bob", "alice"]}).status, 400)
        self.assertEqual(web.get("/healthz", {"X-User": None}).status, 200)

    def test_acts_are_logged_with_their_visitor(self):
        web = Web(self, self.daemon, "--user-header", "X-User", "--admin-users", "alice", unix=True)
        self.assertEqual(web.post("create", name="db").status, 200)
        self.assertEqual(web.post("create", name="db").status, 409)
        self.assertEqual(web.post_body("/v1/destroy", b'{"name":"db"}', {"X-User": "bob"}).status, 403)
        self.assertEqual(web.post("explain", name="db").status, 200)
        self.assertEqual(web.post_body("/v1/destroy", b'{"name":"x"}', {"X-User": "b\xe2\x80\xae\xc2\x9b31m"}).status, 403)
        lines = web.log.splitlines()
        self.assertEqual(lines[0], 'lockbroker-web: alice: create {"name":"db"}: done')
        self.assertRegex(lines[1], r'^lockbroker-web: alice: create \{"name":"db"\}: .*exists')
        self.assertRegex(lines[2], r'^lockbroker-web: bob: destroy \{"name":"db"\}: .*--admin-users')
        self.assertRegex(lines[3], r"^lockbroker-web: b\?\?31m: destroy ")
        self.assertEqual(len(lines), 4)

    def test_the_names_of_the_server(self):
        ours = Web(self, self.daemon, "--user-header", "X-User", "--host", "locks.example", "--host", "b.example:8443",
                   unix=True)
        for host, status in (("locks.example", 200), ("LOCKS.example:443", 200), ("b.example:8443", 200),
                             ("b.example", 421), ("localhost", 421), ("evil.example", 421), (None, 400)):
            self.assertEqual(ours.get("/v1/session", {"Host": host}).status, status, host)
        default = Web(self, self.daemon, "--user-header", "X-User", unix=True)
        self.assertEqual(default.get("/v1/session", {"Host": socket.gethostname()}).status, 200)

    def test_a_stale_socket_is_replaced_and_a_live_one_is_not(self):
        web = Web(self, self.daemon, "--user-header", "X-User", unix=True)
        second = subprocess.run([program("lockbroker-web"), "--listen", f"unix:{web.path}", "--user-header", "X-User"],
                                stderr=subprocess.PIPE, env=clean_environment(), text=True, check=False)
        self.assertEqual(second.returncode, 64)
        self.assertIn("in use", second.stderr)
        self.assertEqual(web.get("/v1/session").status, 200)
        self.assertEqual(web.stop(), 0)
        self.assertFalse(os.path.exists(web.path))
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(web.path)
        third = Web(self, self.daemon, "--user-header", "X-User", unix=True)
        self.assertEqual(third.get("/v1/session").status, 200)

    def test_the_service_manager_passes_the_socket(self):
        folder = tempfile.mkdtemp(prefix="lb-web-")
        self.addCleanup(subprocess.run, ["rm", "-rf", folder])
        path = os.path.join(folder, "s")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(8)
            process = subprocess.Popen(
                ["sh", "-c", 'exec 3<&"$0"; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@"', str(listener.fileno()),
                 program("lockbroker-web"), "--socket", self.daemon.socket, "--user-header", "X-User"],
                pass_fds=(listener.fileno(),), env=clean_environment())
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.sendall(b"GET /v1/session HTTP/1.1\r\nHost: localhost\r\nX-User: alice\r\n\r\n")
            answer = b""
            while part := client.recv(65536):
                answer += part
        self.assertEqual(Answer(answer).json()["visitor"], "alice")


class Options(unittest.TestCase):
    def refused(self, sentence, *options):
        done = subprocess.run([program("lockbroker-web"), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=clean_environment(), text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (64, ""), options)
        self.assertIn(sentence, done.stderr)

    def test_other_ways_in_are_refused(self):
        for address in ("0.0.0.0:80", "192.0.2.1:80", "[::1]:80", "8390", "127.0.0.1", "127.0.0.1:", "127.0.0.1:70000",
                        "127.0.0.1:80x", "127.0.0.1:-1", "127.0.0.10:80", "localhost:80"):
            self.refused("expected unix:PATH or 127.0.0.1:PORT", "--listen", address)
        with tempfile.TemporaryDirectory() as folder:
            path = f"unix:{folder}/s"
            self.refused("--user-header", "--listen", path)
            self.refused("No such file", "--listen", f"unix:{folder}/none/s", "--user-header", "X-User")
            self.assertEqual(os.listdir(folder), [])
        self.refused("1 to 107 bytes", "--listen", "unix:", "--user-header", "X-User")
        self.refused("1 to 107 bytes", "--listen", "unix:/" + "x" * 120, "--user-header", "X-User")
        self.refused("needs a Unix socket", "--listen", "127.0.0.1:0", "--user-header", "X-User")
        self.refused("needs a Unix socket", "--listen", "127.0.0.1:0", "--host", "x")
        self.refused("needs --user-header", "--listen", "127.0.0.1:0", "--admin-users", "x")
        self.refused("unexpected argument", "x")
        self.refused("unrecognized option", "--nope")

    def test_help_and_version(self):
        for option, words in ("--help", "--user-header"), ("--version", "lockbroker-web "):
            done = subprocess.run([program("lockbroker-web"), option], stdout=subprocess.PIPE, text=True, check=True)
            self.assertIn(words, done.stdout)


class Roles(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(self)
        command(self, self.daemon, "create", "db", "2")

    def test_a_viewer_only_looks(self):
        web = Web(self, self.daemon)
        session = web.get("/v1/session").json()
        self.assertEqual((session["visitor"], session["administrator"]), (None, False))
        self.assertIn("--admin", session["why"])
        self.assertEqual(web.post("size", name="db").json(), {"name": "db", "slots": 2})
        self.assertEqual(web.post("explain", name="db").json()["verdict"], "free")
        self.assertEqual(web.post("ping").json(), {})
        self.assertEqual(web.post("info").json()["broker"]["state"], "up")
        for method in "create", "destroy", "resize", "grant", "deny", "evict", "fsck":
            answer = web.post(method, name="db")
            self.assertEqual((answer.status, answer.message), (403, session["why"]), method)
        self.assertEqual(command(self, self.daemon, "size", "db").out, "2\n")

    def test_an_administrator_changes_locks(self):
        web = Web(self, self.daemon, "--admin")
        self.assertEqual(web.get("/v1/session").json()["why"], None)
        holder, waiter = Wire(self.daemon), Wire(self.daemon)
        self.assertEqual(web.post("resize", name="db", slots=1).json()["slots"], 1)
        holder.call("acquire", name="db")
        first = waiter.request("acquire", name="db")
        second = waiter.request("acquire", name="db")
        waiters = wait_until(lambda: (web.get("/v1/locks/db").json()["waiters"] + [None] * 2)[:2] if
                             len(web.get("/v1/locks/db").json()["waiters"]) == 2 else None)
        granted = web.post("grant", waiter=waiters[0]["waiter"])
        self.assertEqual((granted.status, granted.json()["name"]), (200, "db"))
        self.assertIsNone(waiter.answer(first)["slot"])
        self.assertEqual(web.post("deny", name="db", all=True).json()["denied"], 1)
        self.assertEqual(waiter.reply(second)["error"]["data"]["denied"], True)
        self.assertEqual(web.post("fsck", name="db").json()["clean"], True)
        self.assertEqual(web.post("destroy", name="db").status, 200)
        self.assertEqual(web.post("size", name="db").status, 404)

    def test_errors_are_those_of_the_protocol(self):
        web = Web(self, self.daemon, "--admin")
        for method, params, status, reason in (
                ("size", {"name": "none"}, 404, "no-such-lock"), ("create", {"name": "db"}, 409, "already-exists"),
                ("resize", {"name": "db"}, 400, "invalid-params"), ("grant", {"waiter": "x"}, 404, "not-held"),
                ("size", {"name": "db", "nope": 1}, 400, "invalid-params"),
                ("create", {"name": "a b"}, 400, "invalid-params")):
            answer = web.post(method, **params)
            error = answer.json()
            self.assertEqual((answer.status, error["data"]["reason"]), (status, reason), (method, params))
            self.assertEqual(sorted(error), ["code", "data", "message"])
            self.assertEqual(answer.headers["content-type"], "application/json")

    def test_nothing_is_held_or_waited_for_over_http(self):
        web = Web(self, self.daemon, "--admin")
        for method in ("acquire", "release", "verify", "cancel", "await", "watch", "list", "show", "rpc.discover", "nope",
                       "", "Size", "size/", "../size"):
            answer = web.post(method, name="db")
            self.assertEqual((answer.status, answer.json()["code"]), (404, -32601), method)
        self.assertIn("lockbroker run", web.post("acquire", name="db").message)
        self.assertEqual(web.get("/v1/locks/db").json()["holders"], [])

    def test_a_wait_ends_with_the_program(self):
        """Its visitor hears that the change may have been made."""
        holder = Wire(self.daemon)
        holder.call("acquire", name="db")
        web = Web(self, self.daemon, "--admin")
        with web.connect() as client:
            body = b'{"name":"db","slots":0,"wait":null}'
            client.sendall(web.head("POST", "/v1/resize", web.post_headers({"Content-Length": len(body)})) + body)
            self.assertEqual(holder.notification("revoked")["name"], "db")
            self.assertEqual(web.get("/v1/locks").json()["semaphores"][0]["slots"], 0)
            self.assertEqual(web.stop(), 0)
            data = client.recv(65536)
        self.assertEqual(Answer(data).status, 502)
        self.assertIn("may have been made", Answer(data).message)

    def test_the_daemon_keeps_its_own_rules(self):
        daemon = Daemon(self, config="[access]\nrule = deny any create *\n")
        answer = Web(self, daemon, "--admin").post("create", name="x")
        self.assertEqual((answer.status, answer.json()["data"]["reason"]), (403, "permission-denied"))


class Programs(unittest.TestCase):
    """The questions of programs."""

    def test_locks(self):
        daemon = Daemon(self)
        web = Web(self, daemon)
        command(self, daemon, "create", "team/db", "2")
        holder = Wire(daemon)
        holder.call("acquire", name="team/db", who="alice")
        listed = web.get("/v1/locks").json()
        self.assertEqual([(one["name"], one["busy"]) for one in listed["semaphores"]], [("team/db", 1)])
        for path in "/v1/locks/team/db", "/v1/locks/team%2Fdb":
            self.assertEqual(web.get(path).json()["holders"][0]["who"], "alice")
        self.assertEqual(web.get("/v1/locks/none").status, 404)
        self.assertEqual(web.get("/v1/locks/").status, 400)

    def test_metrics_are_those_of_the_command(self):
        daemon = Daemon(self)
        web = Web(self, daemon)
        answer = web.get("/metrics")
        self.assertEqual(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8")
        names = re.findall(r"^# TYPE (\S+)", answer.body.decode(), re.MULTILINE)
        self.assertEqual(names, re.findall(r"^# TYPE (\S+)", command(self, daemon, "metrics").out, re.MULTILINE))
        self.assertGreater(len(names), 10)

    def test_health(self):
        fake = Fake(self, ping={"broker": {"state": "up", "why": "", "silent": 0.1, "suspect": False}})
        web = Web(self, fake)
        health = web.get("/healthz", {"Authorization": None})
        self.assertEqual((health.status, health.json()["broker"]["state"]), (200, "up"))
        for broker in ({"state": "down", "why": "the secret host is away", "silent": None, "suspect": False},
                       {"state": "up", "why": "", "silent": 99, "suspect": True}):
            fake.script["ping"] = {"broker": broker}
            answer = wait_until(lambda: (got := web.get("/healthz")).status != 200 and got)
            self.assertEqual((answer.status, answer.json()["data"]["reason"]), (503, "broker-unavailable"))
            self.assertNotIn("secret", answer.message)
            fake.script["ping"] = {"broker": {"state": "up", "why": "", "silent": 0.1, "suspect": False}}
            wait_until(lambda: web.get("/healthz").status == 200)
        away = Web(self, "/nonexistent/s")
        answer = away.get("/healthz")
        self.assertEqual(answer.status, 503)
        self.assertNotIn("nonexistent", answer.message)
        self.assertIn("/nonexistent/s", away.get("/v1/locks").message)


class Recipes(unittest.TestCase):
    """The examples of the manual, as they are."""

    def setUp(self):
        self.daemon = Daemon(self)
        command(self, self.daemon, "create", "nightly")
        self.web = Web(self, self.daemon, "--admin")
        self.holder, self.waiter = Wire(self.daemon), Wire(self.daemon)
        self.holder.call("acquire", name="nightly", who="alice")
        self.request = self.waiter.request("acquire", name="nightly")
        self.daemon.wait_log("requested nightly", count=2)

    def curl(self, words):
        script = manual.block("lockbroker-web.8", words)
        done = subprocess.run(["sh", "-euc", script], stdout=subprocess.PIPE, check=True, text=True, timeout=60,
                              env={"PATH": os.environ["PATH"], "TOKEN": self.web.token, "WEB": f"http://127.0.0.1:{self.web.port}"})
        return done.stdout

    def test_questions(self):
        listed, shown = self.curl("/v1/locks/nightly").split('{"name":"nightly","slots":1,"busy":1,"extra":0,"waiting"', 1)
        self.assertEqual(json.loads(listed)["semaphores"][0]["name"], "nightly")
        self.assertIn('"who":"alice"', shown)

    def test_acts(self):
        self.assertEqual(self.curl("act resize"), '{"name":"nightly","slots":0,"target":0}{"denied":1,"silent_hosts":[]}')
        self.assertEqual(self.waiter.reply(self.request)["error"]["data"]["denied"], True)

    def test_health(self):
        self.assertEqual(json.loads(self.curl("/healthz"))["broker"]["state"], "up")

    def test_events(self):
        script = manual.block("lockbroker-web.8", "/v1/events")
        process = subprocess.Popen(["sh", "-c", "exec " + script], stdout=subprocess.PIPE,
                                   env={"PATH": os.environ["PATH"], "TOKEN": self.web.token,
                                        "WEB": f"http://127.0.0.1:{self.web.port}"})
        self.assertEqual(process.stdout.readline(), b"event: patch\n")
        self.assertIs(json.loads(process.stdout.readline().removeprefix(b"data: "))["reset"], True)
        process.terminate()
        process.stdout.close()
        process.wait()

    def test_each_recipe_has_a_test(self):
        """Those of curl here. The others are command lines that other tests have."""
        mine = [block for block in manual.blocks("lockbroker-web.8") if "curl" in block]
        self.assertEqual(len(mine), 4)


class Manual(unittest.TestCase):
    def test_the_options_are_those_of_the_help(self):
        told = subprocess.run([program("lockbroker-web"), "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
        options = re.split(r"(?m)^\.S[hs] ", manual.source("lockbroker-web.8"))[3]
        self.assertEqual(sorted(set(re.findall(r"(?m)^\.It Fl -([a-z-]+)", options))), sorted(set(re.findall(r"--([a-z-]+)", told))))


class Live(unittest.TestCase):
    """The events."""

    def test_a_page_begins_with_everything_and_gets_the_changes(self):
        daemon = Daemon(self)
        web = Web(self, daemon)
        command(self, daemon, "create", "db")
        holder, waiter = Wire(daemon), Wire(daemon)
        holder.call("acquire", name="db", who="alice")
        page = Page(self, web)
        page.wait_known()
        self.assertEqual((page.resets, page.link["up"], page.link["why"]), (1, True, None))
        self.assertEqual(page.broker["state"], "up")
        self.assertEqual([one["who"] for one in page.rows.values()], ["alice"])
        waiter.request("acquire", name="db", who="bob")
        page.wait(lambda: "bob" in [one["who"] for one in page.rows.values()])
        page.wait(lambda: page.locks["db"]["waiting"] == 1)
        holder.hang_up()
        page.wait(lambda: [(one["who"], one["state"]) for one in page.rows.values()] == [("bob", "busy")])
        waiter.call("acquire", name="m", kind="mutex")
        page.wait(lambda: [(one["kind"], name) for name, one in sorted(page.locks.items())] == [("semaphore", "db"), ("mutex", "m")])
        waiter.hang_up()
        page.wait(lambda: not page.rows and list(page.locks) == ["db"])
        command(self, daemon, "destroy", "db")
        page.wait(lambda: not page.locks)
        self.assertEqual(page.resets, 1)

    def test_nothing_is_known_as_nothing(self):
        """A page can tell no locks from locks that it does not know yet."""
        page = Page(self, Web(self, Daemon(self)))
        page.wait_known()
        self.assertEqual((page.locks, page.rows), ({}, {}))

    def test_a_semaphore_hides_a_mutex_of_its_name(self):
        """The page knows a lock by its name."""
        listed = {"semaphores": [{"name": "db", "slots": 3}], "mutexes": [{"name": "db", "kind": "mutex"}], "more": 0,
                  "silent_hosts": []}
        fake = Fake(self, list=listed)
        page = Page(self, Web(self, fake))
        page.wait(lambda: page.locks)
        self.assertEqual(page.locks["db"], {"kind": "semaphore", "name": "db", "slots": 3})
        fake.script["list"] = {**listed, "semaphores": []}
        page.wait(lambda: page.locks["db"]["kind"] == "mutex")
        fake.script["list"] = {**listed, "semaphores": [], "mutexes": []}
        page.wait(lambda: not page.locks)

    def test_a_cancelled_row_is_shown_although_it_is_gone(self):
        fake = Semaphores(self)
        fake.add("db", 1, row("waiting", "w-1"))
        web = Web(self, fake)
        page = Page(self, web)
        page.wait(lambda: "w-1" in page.rows)
        seen = []
        apply = page._apply
        page._apply = lambda patch: (seen.append(patch), apply(patch))
        request = fake.asked("watch")[-1]
        fake.say(watched(request, ("row", {"row": row("cancelled", "w-1")}), ("gone", {"waiter": "w-1"})))
        page.wait(lambda: not page.rows)
        gone = next(patch for patch in seen if "rows_gone" in patch)
        self.assertEqual([(one["waiter"], one["state"]) for one in gone["rows"]], [("w-1", "cancelled")])

    def test_ages_are_those_of_the_sending(self):
        fake = Semaphores(self)
        fake.add("db", 1, row("busy", "w-1", age=100.0, who='"age":7,'))
        web = Web(self, fake)
        first = Page(self, web)
        first.wait(lambda: first.rows)
        born = first.rows["w-1"]["age"]
        # A later patch.
        fake.say(watched(fake.asked("watch")[-1], ("row", {"row": row("waiting", "w-2")})))
        first.wait(lambda: "w-2" in first.rows)
        second = Page(self, web)
        second.wait(lambda: second.rows)
        self.assertGreater(second.rows["w-1"]["age"], born)
        self.assertLess(second.rows["w-1"]["age"], 1000)
        self.assertEqual(second.rows["w-1"]["who"], '"age":7,')

    def test_rows_stay_over_a_resync(self):
        fake = Semaphores(self)
        fake.add("db", 1, row("busy", "w-1"), row("waiting", "w-2"))
        page = Page(self, Web(self, fake))
        page.wait(lambda: len(page.rows) == 2)
        request = fake.asked("watch")[-1]
        lost = []
        apply = page._apply
        page._apply = lambda patch: (apply(patch), lost.append("w-1" not in page.rows))
        fake.say(watched(request, ("resync", {}), ("row", {"row": row("busy", "w-1", name="db")}),
                         ("row", {"row": row("waiting", "w-3", name="db")}), ("synced", {"more": 4, "silent_hosts": []})))
        page.wait(lambda: sorted(page.rows) == ["w-1", "w-3"] and page.more == 4)
        self.assertNotIn(True, lost)
        self.assertEqual(page.resets, 1)

    def test_the_page_and_show_agree(self):
        """1,000 random changes of three locks by eight clients."""
        daemon = Daemon(self)
        web = Web(self, daemon)
        names = "a", "b", "c"
        for name in names:
            command(self, daemon, "create", name, "2")
        page = Page(self, web)
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        chance = random.Random(seed)
        admin = Wire(daemon)
        clients = [Wire(daemon) for _ in range(8)]
        for change in range(1000):
            at = chance.randrange(len(clients))
            kind = chance.random()
            if kind < 0.75:
                clients[at].request("acquire", name=chance.choice(names), who=f"who {change}", priority=chance.randrange(3))
            elif kind < 0.9:
                clients[at].hang_up()
                clients[at] = Wire(daemon)
            elif kind < 0.97:
                admin.call("resize", name=chance.choice(names), slots=chance.choice([0, 1, 2, 3, "unlimited"]))
            else:
                admin.call("deny", name=chance.choice(names), all=True)
            if change % 50 == 49:
                self.compare(daemon, page, names)
        self.assertEqual(page.resets, 1)

    def compare(self, daemon, page, names):
        told = "waiter", "lock", "state", "name", "slot", "priority", "who", "revoked"

        def differ():
            shown = {}
            for name in names:
                one = json.loads(command(self, daemon, "show", "--json", name).out)
                shown.update((found["waiter"], [found[what] for what in told]) for found in one["holders"] + one["waiters"])
                lock = page.locks.get(name, {})
                if [lock.get(what) for what in ("slots", "busy", "waiting")] != [one[what] for what in ("slots", "busy", "waiting")]:
                    return False
            return {key: [found[what] for what in told] for key, found in dict(page.rows).items()} == shown
        page.wait(differ)


if __name__ == "__main__":
    tap.main()
