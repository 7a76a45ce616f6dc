"""Hostile visitors, other sites, other programs of the host, and a hostile daemon against lockbroker-web."""

import json
import os
import socket
import sys
import threading
import unittest

import tap

sys.path.insert(0, os.path.join(os.environ["top_srcdir"], "tests", "cli"))

from cli import command
from daemon import Daemon
from fake import Fake, reply
from rows import Semaphores, row, watched
from wait import wait_until
from web import Answer, Page, Web, read_all
from wire import Wire

BODY_MOST = 65536
CONNECTIONS_MOST = 256
EVIL = '<script>alert(1)</script>"\'</td>\u202e\x1b[31m&amp;\u2028'


class Sites(unittest.TestCase):
    """Requests that the page of another site can make a browser send."""

    def setUp(self):
        self.daemon = Daemon(self)
        self.web = Web(self, self.daemon, "--admin")
        self.body = b'{"name":"made"}'

    def made(self):
        return [one["name"] for one in self.web.get("/v1/locks").json()["semaphores"]]

    def test_another_origin_is_refused(self):
        port = self.web.port
        for origin in ("http://evil.example", "null", "", f"http://127.0.0.1:{port}.evil.example", f"http://127.0.0.1:{port + 1}",
                       f"http://localhost:{port}", f"ftp://127.0.0.1:{port}", f"http://evil.example/://127.0.0.1:{port}",
                       f"httpx://127.0.0.1:{port}", f"http://a@127.0.0.1:{port}", "http://127.0.0.1"):
            self.assertEqual(self.web.post_body("/v1/create", self.body, {"Origin": origin}).status, 403, origin)
        self.assertEqual(self.made(), [])
        for origin in f"http://127.0.0.1:{port}", f"https://127.0.0.1:{port}", None:
            self.assertIn(self.web.post_body("/v1/create", self.body, {"Origin": origin}).status, (200, 409), origin)

    def test_a_form_cannot_send_such_a_request(self):
        for kind in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", "application/jsonx",
                     "text/plain; application/json", "", None):
            self.assertEqual(self.web.post_body("/v1/create", self.body, {"Content-Type": kind}).status, 415, kind)
        for mark in None, "", "0", "true":
            self.assertEqual(self.web.post_body("/v1/create", self.body, {"X-Lockbroker": mark}).status, 403, mark)
        self.assertEqual(self.made(), [])
        self.assertEqual(
            self.web.post_body("/v1/create", self.body, {"Content-Type": "application/json; charset=utf-8"}).status, 200)

    def test_another_name_for_this_address_is_refused(self):
        """DNS rebinding: the page of evil.example comes from 127.0.0.1 then, and the browser has no cookie for it."""
        port = self.web.port
        for host in f"evil.example:{port}", "evil.example", "127.0.0.1", f"127.0.0.1:{port + 1}", f"127.0.0.1:{port}@evil", "":
            origin = {"Host": host, "Origin": f"http://{host}"}
            self.assertEqual(self.web.get("/v1/locks", {"Host": host}).status, 421, host)
            self.assertEqual(self.web.get("/healthz", {"Host": host}).status, 421, host)
            self.assertEqual(self.web.get(f"/?token={self.web.token}", {"Host": host}).status, 421, host)
            self.assertEqual(self.web.post_body("/v1/create", self.body, origin).status, 421, host)
        self.assertEqual(self.web.get("/v1/locks", {"Host": f"localhost:{port}"}).status, 200)
        self.assertEqual(self.made(), [])

    def test_other_methods_do_nothing(self):
        for method in "PUT", "DELETE", "OPTIONS", "PATCH", "HEAD", "TRACE", "CONNECT", "get", "POSTX":
            answer = self.web.ask(method, "/v1/create", self.web.post_headers(), self.body)
            self.assertIn(answer.status, (400, 405, 501), method)
        self.assertEqual(self.web.get("/v1/create").status, 404)
        self.assertEqual(self.made(), [])


class Requests(unittest.TestCase):
    """Requests that two readers could understand in two ways, and paths."""

    def setUp(self):
        self.daemon = Daemon(self)
        self.web = Web(self, self.daemon, "--user-header", "X-User", "--admin-users", "root", unix=True)
        self.body = b'{"name":"made"}'
        self.login = {"X-User": "root"}

    def made(self):
        return [one["name"] for one in self.web.get("/v1/locks").json()["semaphores"]]

    def test_a_doubled_header_is_refused(self):
        usual = {**self.web.post_headers(), **self.login, "Content-Length": str(len(self.body))}
        for name, value in (("Host", "localhost"), ("X-User", "root"), ("Content-Length", usual["Content-Length"]),
                            ("Content-Type", "application/json"), ("Origin", usual["Origin"]), ("X-Lockbroker", "1"),
                            ("Accept", "x")):
            answer = self.web.ask("POST", "/v1/create", {**usual, name: [value, value]}, self.body)
            self.assertEqual(answer.status, 400, name)
            answer = self.web.ask("POST", "/v1/create", {**usual, name: value, name.upper() + " ": "x"}, self.body)
            self.assertEqual(answer.status, 400, name)
        answer = self.web.ask("POST", "/v1/create", {**usual, "x-user": "root"}, self.body)
        self.assertEqual(answer.status, 400)
        many = {f"X-{number}": "1" for number in range(200)}
        self.assertIn(self.web.get("/v1/session", many).status, (400, 431))
        self.assertEqual(self.made(), [])

    def test_two_lengths_are_refused(self):
        chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(self.body), self.body)
        usual = {**self.web.post_headers(), **self.login}
        for more in ({"Content-Length": str(len(self.body)), "Transfer-Encoding": "chunked"},
                     {"Content-Length": "0", "Transfer-Encoding": "chunked"}, {"Transfer-Encoding": "chunked, gzip"},
                     {"Transfer-Encoding": "xchunked"}, {"Transfer-Encoding": ["chunked", "chunked"]},
                     {"Content-Length": "-1"}, {"Content-Length": "1x"}, {"Content-Length": "0x10"}, {"Content-Length": "+15"},
                     {"Content-Length": "99999999999999999999"}, {"Content-Length": ["15", "16"]}, {"Content-Length": "15,15"}):
            data = self.web.raw(self.web.head("POST", "/v1/create", {**usual, **more}) + chunked)
            self.assertTrue(data == b"" or Answer(data).status in (400, 413), (more, data))
        self.assertEqual(self.made(), [])
        answer = Answer(self.web.raw(self.web.head("POST", "/v1/create", {**usual, "Transfer-Encoding": "chunked"}) + chunked))
        self.assertEqual((answer.status, self.made()), (200, ["made"]))

    def test_bytes_behind_a_request_are_no_request(self):
        """A site could hide one with any header in the body of another one."""
        hidden = self.web.head("POST", "/v1/create", {**self.web.post_headers(), **self.login,
                                                       "Content-Length": len(self.body)}) + self.body
        stranger = {"X-User": "eve", **self.web.post_headers()}
        for first in (self.web.head("POST", "/v1/nope", {**stranger, "Content-Type": "text/plain", "Content-Length": len(hidden)}),
                      self.web.head("POST", "/v1/nope", {**stranger, "Content-Length": BODY_MOST + 1}),
                      self.web.head("POST", "/v1/nope", {**stranger, "Content-Length": "0"}),
                      self.web.head("POST", "/v1/nope", {**stranger, "Content-Length": "x"}),
                      self.web.head("POST", "/v1/nope", {**stranger, "Transfer-Encoding": "chunked"}) + b"0\r\n\r\n",
                      self.web.head("POST", "/v1/nope", {**stranger, "Transfer-Encoding": "chunked"}) + b"zz\r\n",
                      self.web.head("GET", "/v1/session", {"X-User": "eve"}),
                      self.web.head("GET", "/v1/session", {"X-User": "eve", "Connection": "keep-alive"}),
                      self.web.head("GET", "/healthz", {"X-User": None}),
                      self.web.head("PUT", "/", {"X-User": "eve"}), b"junk\r\n\r\n", b"\r\n" * 30000,
                      self.web.head("GET", "/" + "x" * 40000, {"X-User": "eve"})):
            data = self.web.raw(first + hidden)
            # Microhttpd 0.9.75 sends the head of its own error twice.
            self.assertLessEqual(data.count(b"nosniff") + data.count(b"<html>"), 1, (first[:200], data))
            self.assertEqual(self.made(), [], first[:200])

    def test_bodies_have_a_limit(self):
        usual = {**self.web.post_headers(), **self.login}
        fits = b'{"name":"made"%s}' % (b" " * (BODY_MOST - len(self.body)))
        self.assertEqual(len(fits), BODY_MOST)
        self.assertEqual(self.web.ask("POST", "/v1/create", usual, fits).status, 200)
        self.assertEqual(self.web.ask("POST", "/v1/destroy", usual, fits + b" ").status, 413)
        self.assertEqual(Answer(self.web.raw(self.web.head("POST", "/v1/destroy", {**usual, "Content-Length": 1 << 40}))).status, 413)
        chunk = b"8000\r\n" + fits[:0x8000] + b"\r\n"
        answer = self.web.raw(self.web.head("POST", "/v1/destroy", {**usual, "Transfer-Encoding": "chunked"})
                              + chunk * 3 + b"0\r\n\r\n")
        self.assertEqual(Answer(answer).status, 413)
        self.assertEqual(self.made(), ["made"])

    def test_bodies_are_strict_json(self):
        for body in (b"", b"[]", b'"x"', b"null", b"{", b'{"name":"made",}', b'{"name":"made","name":"x"}', b'{"name":"ma\xffde"}',
                     b'{"name":"made"}{"name":"x"}', b"[" * 60000, b'{"name":"made\\u0000"}'):
            answer = self.web.ask("POST", "/v1/create", {**self.web.post_headers(), **self.login}, body)
            self.assertEqual((answer.status, answer.json()["code"]), (400, -32602), body[:40])
        self.assertEqual(self.made(), [])

    def test_paths_are_words_and_no_files(self):
        for path in ("/../etc/passwd", "//etc/passwd", "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/./index.html",
                     "/index.html/", "/INDEX.HTML", "/v1", "/v1/", "/v1//locks", "/v1/events/", "/healthz/",
                     "/pages.c", "/page/index.html", "/%", "/%zz", "/\\index.html", "/index.html;x"):
            answer = self.web.get(path)
            self.assertIn(answer.status, (400, 404), path)
            self.assertNotIn(b"root:", answer.body)
        self.assertEqual(self.web.get("/index.html?x=../y").status, 200)
        for path in "*", "http://evil.example/", "index.html":
            self.assertIn(Answer(self.web.raw(self.web.head("GET", path))).status, (400, 404), path)

    def test_names_are_checked_and_cleaned(self):
        for name in "%1b%5b31m", "%3Cscript%3E", "a%0ab", "a%20b", "..%5c", "x" * 201, "%00", "%ff":
            answer = self.web.get(f"/v1/locks/{name}")
            self.assertEqual((answer.status, answer.headers["content-type"]), (400, "application/json"), name)
            self.assertEqual(answer.headers["x-content-type-options"], "nosniff")
        body = json.dumps({"name": EVIL, "x": "\x1b[31m\n"}).encode()
        self.assertEqual(self.web.ask("POST", "/v1/create", {**self.web.post_headers(), **self.login}, body).status, 400)
        self.web.wait_log("root: create")
        for line in self.web.log.splitlines():
            self.assertTrue(line.startswith("lockbroker-web: "), line)
            self.assertTrue(line.isprintable(), line)
        self.assertEqual(len(self.web.log.splitlines()), 1)


class Slow(unittest.TestCase):
    """Clients that send or read slowly, and too many of them."""

    deadline = 240

    def test_a_client_that_trickles_is_closed(self):
        """Each second byte comes late, but none later than ten seconds would allow. A page stays."""
        web = Web(self, Daemon(self), "--admin")
        page = Page(self, web)
        page.wait_known()
        whole = web.head("POST", "/v1/create", {**web.post_headers(), "Content-Length": 60000}) + b"{" + b" " * 60000
        begun = [web.connect() for _ in range(4)]
        silent, head, line, body = begun
        head.sendall(whole[:40])
        line.sendall(b"\r\n")
        body.sendall(whole[:-59990])
        ended = set()
        sent = {head: 40, body: len(whole) - 59990}

        def trickle():
            for client in begun:
                if client in ended:
                    continue
                client.settimeout(0.05)
                try:
                    if client in sent:
                        client.sendall(whole[sent[client]:sent[client] + 1])
                        sent[client] += 1
                    if client is line:
                        client.sendall(b"\r\n")
                    if client.recv(65536) == b"":
                        ended.add(client)
                except TimeoutError:
                    pass
                except OSError:
                    ended.add(client)
            return len(ended) == len(begun)
        wait_until(trickle, what="all are closed")
        self.assertEqual(web.get("/v1/session").status, 200)
        patches = page.patches
        page.wait(lambda: page.patches > patches)
        self.assertEqual(page.resets, 1)
        for client in begun:
            client.close()

    def test_a_good_client_is_served_among_500_slow_ones(self):
        web = Web(self, Daemon(self), unix=True, link=False, *["--user-header", "X-User"])
        slow = []
        for number in range(500):
            slow.append(web.connect())
            slow[-1].sendall(web.head("GET", "/v1/session")[:10 + number % 50])
        served = web.get("/v1/session")
        self.assertEqual(served.status, 200)
        for client in slow:
            client.close()
        self.assertEqual(web.get("/v1/session").status, 200)

    def test_connections_beyond_the_limit_wait(self):
        """They are not refused, and no descriptor is spent on them."""
        web = Web(self, Daemon(self), "--user-header", "X-User", unix=True)
        first = [web.connect() for _ in range(CONNECTIONS_MOST)]
        held = [web.connect() for _ in range(3)]
        for client in held:
            client.sendall(web.head("GET", "/v1/session"))
        for client in held:
            client.setblocking(False)
            self.assertRaises(BlockingIOError, client.recv, 1)
            client.settimeout(60)
        first.pop().close()
        first.pop().close()
        first.pop().close()
        for client in held:
            self.assertEqual(Answer(read_all(client)).status, 200)
            client.close()
        for client in first:
            client.close()

    def test_too_many_pages_leave_room_for_requests(self):
        web = Web(self, Fake(self, list={"semaphores": [], "mutexes": [], "more": 0, "silent_hosts": []}), unix=True,
                  *["--user-header", "X-User"])
        pages = [web.connect() for _ in range(CONNECTIONS_MOST - 10)]
        for page in pages:
            page.sendall(web.head("GET", "/v1/events"))
        heads = [page.recv(12) for page in pages]
        self.assertEqual(heads.count(b"HTTP/1.1 200"), 240)
        self.assertEqual(heads.count(b"HTTP/1.1 503"), CONNECTIONS_MOST - 10 - 240)
        self.assertEqual(web.get("/v1/session").status, 200)
        for page in pages:
            page.close()
        wait_until(lambda: Answer(self.one_page(web)).status == 200, what="there is room again")

    def one_page(self, web):
        with web.connect() as client:
            client.sendall(web.head("GET", "/v1/events"))
            return client.recv(4096)

    def test_a_page_that_reads_slowly_gets_everything_again(self):
        """The patches that it did not read are dropped."""
        fake = Semaphores(self)
        fake.add("db", 1)
        web = Web(self, fake)
        good, slow = Page(self, web), Page(self, web, follow=False)
        good.wait(lambda: "rows" in good.known)
        for batch in range(130):
            # Each batch is a patch of 200 kB: the kernel keeps some of them.
            rows = [row("waiting", f"w-{number}", name="db", who=f"{batch} " + "x" * 200, why="y" * 250, command="z" * 250)
                    for number in range(200)]
            fake.say(watched(fake.asked("watch")[-1], *[("row", {"row": one}) for one in rows]))
            good.wait(lambda: len(good.rows) == 200 and
                      all(one["who"].startswith(f"{batch} ") for one in list(good.rows.values())))
        slow.follow()
        slow.wait(lambda: len(slow.rows) == 200 and
                  all(one["who"].startswith("129 ") for one in list(slow.rows.values())))
        self.assertGreater(slow.resets, 1)
        self.assertEqual(good.resets, 1)
        self.assertLess(slow.patches, good.patches)


class Crowd(unittest.TestCase):
    """Many pages, one watch."""

    def test_200_pages_cost_the_daemon_one(self):
        fake = Semaphores(self)
        fake.add("db", 1, row("busy", "w-1"))
        web = Web(self, fake)
        pages = [Page(self, web) for _ in range(200)]
        for page in pages:
            page.wait(lambda: page.rows and page.locks)
        # One second of the daemon's answers has one of each.
        lists = len(fake.asked("list"))
        fake.wait_asked("list", lists + 2)
        fake.wait_asked("ping", lists)
        self.assertEqual((len(fake.connections), len(fake.asked("watch"))), (1, 1))
        self.assertLessEqual(abs(len(fake.asked("list")) - len(fake.asked("ping"))), 1)

        answers = []
        fake.script["explain"] = lambda request, connection: wait_until(lambda: release.is_set()) and connection.sendall(
            reply(request, result={"text": "full"}))
        release = threading.Event()
        askers = [threading.Thread(target=lambda: answers.append(web.post("explain", name="db").json()["text"])) for _ in range(40)]
        for asker in askers:
            asker.start()
        fake.wait_asked("explain")
        release.set()
        for asker in askers:
            asker.join()
        self.assertEqual(answers, ["full"] * 40)
        self.assertLess(len(fake.asked("explain")), 10)

        for page in pages:
            page.close()
        connection = fake.connections[0]
        wait_until(lambda: fake.ended(connection), what="nobody looks: the connection ends")

    def test_nobody_looks(self):
        fake = Semaphores(self)
        web = Web(self, fake)
        self.assertEqual(web.get("/").status, 200)
        self.assertEqual(web.get("/v1/session").status, 200)
        self.assertEqual(fake.connections, [])
        self.assertEqual(web.get("/v1/locks").status, 200)
        wait_until(lambda: fake.ended(fake.connections[0]), what="the connection of a request ends")
        self.assertEqual([request["method"] for request in fake.requests], ["list"])

    def test_an_act_is_not_answered_from_before(self):
        """Equal questions share an answer, but not over an act."""
        daemon = Daemon(self)
        web = Web(self, daemon, "--admin")
        self.assertEqual(web.post("create", name="db").status, 200)
        for slots in range(2, 8):
            self.assertEqual(web.post("resize", name="db", slots=slots).status, 200)
            self.assertEqual(web.post("size", name="db").json()["slots"], slots)

    def test_too_many_requests_are_refused(self):
        fake = Fake(self, size=None)
        web = Web(self, fake)
        clients = [web.connect() for _ in range(40)]
        for number, client in enumerate(clients):
            body = json.dumps({"name": f"n-{number}"}).encode()
            client.sendall(web.head("POST", "/v1/size", web.post_headers({"Content-Length": len(body)})) + body)
            if number == 31:
                fake.wait_asked("size", 32)  # the server reads its clients in any order
        answers = [Answer(read_all(client)) for client in clients[32:]]
        self.assertEqual([answer.status for answer in answers], [429] * 8)
        self.assertTrue(answers[0].json()["data"]["retry"])
        fake.close()
        self.assertEqual({Answer(read_all(client)).status for client in clients[:32]}, {502})


class HostileDaemon(unittest.TestCase):
    """Another program can listen at the path of the daemon."""

    def test_garbage_is_a_lost_link(self):
        for garbage in (b"garbage\n", b"\x00" * 100 + b"\n", b"[" * 100000 + b"\n", b'{"jsonrpc":"2.0","id":99,"result":{}}\n',
                        b'{"jsonrpc":"2.0","method":"row","params":[]}\n', b"x" * 5000000):
            with self.subTest(garbage[:30]):
                fake = Semaphores(self, list=garbage)
                web = Web(self, fake, "--admin")
                page = Page(self, web)
                page.wait(lambda: page.link and page.link["up"] is False)
                self.assertTrue(page.link["why"])
                self.assertIn(web.get("/v1/locks").status, (502, 503, 504))
                self.assertEqual(web.get("/v1/session").status, 200)
                fake.script["list"] = fake.on_list
                page.wait(lambda: page.link["up"] and "locks" in page.known)

    def test_wrong_answers_are_left_out(self):
        fake = Semaphores(self, list={"semaphores": [1, "x", None, {}, {"name": 7}, {"name": "a b"}, {"name": "x" * 300},
                                                     {"name": "ok", "slots": {"deep": [[[]]]}}],
                                      "mutexes": {"name": "m"}, "more": -5, "silent_hosts": "none"},
                          ping={"broker": [1, 2]})
        web = Web(self, fake)
        page = Page(self, web)
        page.wait(lambda: page.locks)
        self.assertEqual(list(page.locks), ["ok"])
        request = fake.asked("watch")[-1]
        rows = [1, "x", None, [], {}, {"waiter": None, "state": "busy"}, {"waiter": "x" * 300, "state": "busy"},
                {"waiter": "w-1"}, {"waiter": "w-2", "state": 5}, {"waiter": "w-3", "state": "busy", "who": "y" * 100000},
                {"waiter": "w-4", "state": "busy", "age": "old", "since": {}}, {"waiter": "w-5", "state": "busy", "age": 1e300},
                {"waiter": "w-6", "state": "busy", "age": -1}, {"waiter": "w-7", "state": "busy", "nested": {"age": 5}, "age": 6}]
        fake.say(watched(request, *[("row", {"row": one}) for one in rows], ("gone", {}), ("gone", {"waiter": 5}),
                         ("gone", {"waiter": "none"}), ("resync", {"id": 1}), ("nonsense", {}),
                         ("row", {"row": row("busy", "w-last")}), ("synced", {"more": "many"})))
        page.wait(lambda: "w-last" in page.rows)
        fake.say(watched(request, ("row", {"row": {"waiter": "w-7", "state": "busy", "nested": {"age": 5}, "age": 6}})))
        page.wait(lambda: "w-7" in page.rows)
        self.assertEqual(sorted(page.rows), ["w-7", "w-last"])

    def test_rows_without_end_have_a_limit(self):
        fake = Semaphores(self)
        web = Web(self, fake)
        page = Page(self, web)
        page.wait(lambda: "rows" in page.known)
        request = fake.asked("watch")[-1]
        for begin in range(0, 21000, 1000):
            fake.say(watched(request, *[("row", {"row": {"waiter": f"w-{number}", "state": "busy"}})
                                        for number in range(begin, begin + 1000)]))
        # A page that reads slowly is told everything again.
        page.wait(lambda: (page.more, len(page.rows)) == (1000, 20000))

    def test_hostile_words_stay_words(self):
        """The daemon's own check of names and words does not matter here."""
        fake = Semaphores(self)
        fake.add("db", 1, row("busy", EVIL[:60], who=EVIL, why=EVIL, command=EVIL, host=EVIL))
        fake.script["explain"] = {"text": EVIL}
        fake.script["resize"] = lambda request, connection: fake.refuse(
            request, connection, {"code": 5, "message": EVIL, "data": {"reason": "no-such-lock", "retry": False}})
        web = Web(self, fake, "--admin")
        page = Page(self, web)
        page.wait(lambda: page.rows)
        self.assertEqual({page.rows[EVIL[:60]][what] for what in ("who", "why", "command", "host")}, {EVIL})
        raw = web.post("explain", name="db")
        self.assertEqual((raw.json()["text"], raw.headers["content-type"]), (EVIL, "application/json"))
        self.assertNotIn(b"\x1b", raw.body)
        self.assertEqual(web.post("resize", name="db", slots=1).message, EVIL)
        web.wait_log("resize")
        self.assertTrue(all(line.isprintable() for line in web.log.splitlines()), web.log)

    def test_a_silent_daemon_is_told(self):
        fake = Semaphores(self)
        fake.add("db", 1, row("busy", "w-1"))
        web = Web(self, fake)
        page = Page(self, web)
        page.wait(lambda: page.rows and page.link["up"])
        fake.script["list"] = fake.script["ping"] = None
        page.wait(lambda: page.link["up"] is False)
        self.assertIn("has not answered for", page.link["why"])
        self.assertGreaterEqual(page.link["age"], 3)
        self.assertEqual(list(page.rows), ["w-1"])

    def test_a_lost_link_comes_back(self):
        daemon = Daemon(self)
        command(self, daemon, "create", "db")
        web = Web(self, daemon)
        holder = Wire(daemon)
        holder.call("acquire", name="db", who="alice")
        page = Page(self, web)
        page.wait(lambda: page.rows and page.link["up"])
        daemon.kill()
        page.wait(lambda: page.link["up"] is False)
        self.assertEqual(len(page.rows), 1)
        self.assertTrue(page.link["why"])
        self.assertEqual(web.get("/v1/locks").status, 503)
        late = Page(self, web)
        late.wait(lambda: late.link is not None)
        self.assertEqual((late.link["up"], len(late.rows)), (False, 1))
        daemon.start()
        for one in page, late:
            one.wait(lambda: one.link["up"] and not one.rows and not one.locks)
            self.assertEqual(one.resets, 1)


class Client(unittest.TestCase):
    """A visitor that goes away, or never ends."""

    def test_a_visitor_that_leaves_does_not_end_its_act(self):
        fake = Fake(self, resize=None)
        web = Web(self, fake, "--admin")
        client = web.connect()
        body = b'{"name":"db","slots":1}'
        client.sendall(web.head("POST", "/v1/resize", web.post_headers({"Content-Length": len(body)})) + body)
        fake.wait_asked("resize")
        client.close()
        fake.say(reply(fake.asked("resize")[0], result={"name": "db", "slots": 1, "target": 1}))
        web.wait_log('resize {"name":"db","slots":1}: done')

    def test_a_long_act_needs_no_page(self):
        """The daemon is asked for a sign of life. After 30 s of silence the connection would end, and with it the wait."""
        fake = Fake(self, resize=None)
        web = Web(self, fake, "--admin")
        body = b'{"name":"db","slots":1,"wait":45}'
        with web.connect() as client:
            client.sendall(web.head("POST", "/v1/resize", web.post_headers({"Content-Length": len(body)})) + body)
            fake.wait_asked("ping", 2)
            fake.say(reply(fake.asked("resize")[0], result={"name": "db", "slots": 1, "target": 1}))
            self.assertEqual(Answer(read_all(client)).json()["slots"], 1)

    def test_input_behind_a_request_is_not_collected(self):
        fake = Semaphores(self)
        fake.add("db", 1)
        web = Web(self, fake)
        page = Page(self, web)
        page.wait(lambda: page.locks)
        page.client.setblocking(False)
        sent = 0
        try:
            while sent < 256 << 20:
                sent += page.client.send(b"x" * 65536)
        except (BlockingIOError, ConnectionResetError, BrokenPipeError):
            pass
        self.assertLess(sent, 256 << 20)
        self.assertEqual(web.get("/v1/session").status, 200)


if __name__ == "__main__":
    tap.main()
