"""The bookkeeping of client/python without a daemon: bytes in, bytes and calls out. And the package as a whole."""

import ast
import concurrent.futures
import json
import os
import pydoc
import re
import shutil
import subprocess
import sys
import tempfile
import typing
import unittest
import unittest.mock

import tap
from openrpc import SOURCE, load

PACKAGE = os.path.join(SOURCE, "client", "python")
sys.path.insert(0, PACKAGE)
import lockbroker  # noqa: E402
from lockbroker import _calls, _core  # noqa: E402
from lockbroker._core import Core, Hold, Request  # noqa: E402

MUTEX = {"name": "m", "kind": "mutex"}


class Waited(Hold):
    """A hold for which nothing more can be read."""

    def _settle(self):
        self._lapse()


class Bookkeeping(unittest.TestCase):
    def setUp(self):
        self.time = 1000.0
        patch = unittest.mock.patch.object(_core, "now", lambda: self.time)
        patch.start()
        self.addCleanup(patch.stop)
        self.called = []
        self.core = Core(lambda method, params: self.called.append((method, params)))

    def say(self, message):
        self.core.feed(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def note(self, method, **params):
        self.say({"method": method, "params": params})

    def refuse(self, request, reason, id="its"):
        self.say({"id": request.id if id == "its" else id,
                  "error": {"code": 1, "message": "no", "data": {"reason": reason, "retry": True}}})

    def sent(self):
        """The requests that were written since the last time: (method, params)."""
        lines = bytes(self.core.output).split(b"\n")
        self.core.output.clear()
        return [(message["method"], message["params"]) for message in map(json.loads, filter(None, lines))]

    def acquire(self, **more):
        request = Request("acquire", MUTEX, concurrent.futures.Future(),
                          make=lambda result: Waited(result, lambda hold: self.called.append(("on_lost", hold)),
                                                     lambda hold: self.called.append(("on_revoked", hold)),
                                                     lambda hold: self.called.append(("on_evicted", hold))), **more)
        self.core.send(request)
        return request

    def grant(self, request, lock="l-1", until=1018.0):
        self.say({"id": request.id, "result": {"lock": lock, "name": "m", "kind": "mutex", "slot": None, "waited": 0.5,
                                               "safe_for": None if until is None else min(until - self.time, 18),
                                               "safe_until": until, "lease": None}})

    def held(self, lock="l-1", until=1018.0):
        request = self.acquire()
        self.grant(request, lock, until)
        self.sent()
        return request.future.result(0)

    def ask(self, method, hold):
        request = Request(method, {"lock": hold.id}, concurrent.futures.Future(), hold=hold)
        self.core.send(request)
        return request

    def due(self):
        while self.core.due:
            self.core.due.popleft()()
        called, self.called = self.called, []
        return [call for call in called if call[0].startswith("on_")]

    # ---- acquire ----

    def test_a_grant_becomes_a_lock(self):
        request = self.acquire()
        self.assertEqual(self.sent(), [("acquire", MUTEX)])
        self.assertFalse(request.future.done())
        self.grant(request)
        hold = request.future.result(0)
        self.assertEqual((hold.id, hold.name, hold.slot, hold.waited, hold.safe_until, hold.safe_for, hold.held),
                         ("l-1", "m", None, 0.5, 1018.0, 18.0, True))

    def test_the_fence_is_that_of_the_grant(self):
        """Other processes write with that of the grant. The store would refuse them if this one had a larger number."""
        for told, fence in (({"fence": 2**53 - 1}, 2**53 - 1), ({"fence": None}, None), ({}, None)):
            request = self.acquire()
            self.say({"id": request.id, "result": {"lock": f"l-{request.id}", "name": "m", "kind": "mutex", "slot": None,
                                                   "waited": 0, "safe_until": None} | told})
            self.assertEqual(request.future.result(0).fence, fence)
        self.core = Core()
        request = self.acquire()
        self.say({"id": request.id, "result": {"lock": "l", "name": "m", "kind": "mutex", "slot": None, "waited": 0,
                                               "safe_until": 1018.0, "fence": 7}})
        hold = request.future.result(0)
        verify = self.ask("verify", hold)
        self.say({"id": verify.id, "result": {"safe_until": 1020.0, "fence": 8}})
        self.assertEqual((hold.safe_until, hold.fence), (1020.0, 7))

    def test_an_abandoned_acquire_is_cancelled_and_a_late_grant_is_released(self):
        request = self.acquire()
        self.core.abandon(request)
        self.assertEqual(self.sent(), [("acquire", MUTEX), ("cancel", {"id": request.id})])
        self.grant(request)
        self.assertEqual(self.sent(), [("release", {"lock": "l-1"})])
        self.assertEqual(self.core.next_lapse(), _core.LOOK_AT_CLOCK)

    def test_a_grant_that_came_before_the_cancel_is_released(self):
        request = self.acquire()
        self.grant(request)
        self.core.abandon(request)
        self.assertEqual(self.sent()[1:], [("release", {"lock": "l-1"})])
        self.assertFalse(request.hold.held)

    def test_a_grant_for_a_cancelled_future_is_released(self):
        request = self.acquire()
        request.future.cancel()
        self.grant(request)
        self.assertEqual(self.sent()[1:], [("release", {"lock": "l-1"})])

    def test_progress_is_that_of_its_request(self):
        request = self.acquire(on_progress=lambda *said: self.called.append(("on_progress", *said)))
        other = self.acquire(on_progress=lambda *said: self.called.append(("on_other", *said)))
        self.note("waiting", id=request.id, position=2, busy=None)
        self.assertEqual(self.due(), [("on_progress", 2, None)])
        self.core.abandon(other)
        self.note("waiting", id=other.id, position=1, busy=1)
        self.assertEqual(self.due(), [])

    # ---- leases and losses ----

    def test_a_lease_extends_all_but_suspect_holds_and_never_shortens(self):
        one = self.held("l-1")
        self.time = 1012.0
        two = self.held("l-2", 1030.0)
        self.note("lease", safe_until=1025.0)
        self.assertEqual((one.safe_until, two.safe_until), (1025.0, 1030.0))
        self.note("suspect", lock="l-1")
        self.note("lease", safe_until=1040.0)
        self.assertEqual((one.safe_until, two.safe_until), (1025.0, 1040.0))
        self.note("restored", lock="l-1")
        self.note("lease", safe_until=1041.0)
        self.assertEqual(one.safe_until, 1041.0)

    def test_the_clock_of_another_time_namespace_does_not_extend_a_lease(self):
        hold = self.held(until=2518.0)
        self.assertEqual(hold.safe_until, 1018.0)
        self.time = 1005.0
        self.note("lease", safe_for=18.0, safe_until=2523.0)
        self.assertEqual(hold.safe_until, 1023.0)
        # Read late, by the same clock.
        self.time = 1010.0
        self.note("lease", safe_for=18.0, safe_until=1024.0)
        self.assertEqual(hold.safe_until, 1024.0)

    def test_a_lease_that_passes_is_a_loss_for_good(self):
        hold = self.held()
        self.time = 1017.0
        self.core.lapse()
        self.assertEqual((self.core.next_lapse(), self.due(), hold.held), (1.0, [], True))
        self.time = 1018.0
        self.core.lapse()
        self.assertEqual(self.due(), [("on_lost", hold)])
        self.note("lease", safe_until=1040.0)
        with self.assertRaises(lockbroker.Lost) as caught:
            hold.check()
        self.assertEqual((caught.exception.cause, caught.exception.data), ("lease", {"lock": "l-1"}))
        self.core.lapse()
        self.assertEqual(self.due(), [])

    def test_a_holder_that_sees_the_end_first_is_told_all_the_same(self):
        hold = self.held()
        self.time = 1019.0
        self.assertFalse(hold.held)
        self.note("lease", safe_until=1040.0)
        self.core.lapse()
        self.assertEqual(self.due(), [("on_lost", hold)])
        self.assertFalse(hold.held)

    def test_a_hold_without_a_lease_does_not_lapse(self):
        hold = self.held(until=None)
        self.time = 9e9
        self.core.lapse()
        self.assertTrue(hold.held)

    def test_the_daemon_takes_a_lock(self):
        hold = self.held()
        self.note("lost", lock="l-1", name="m", slot=None, reason="draining", why="the daemon stops")
        self.assertEqual(self.due(), [("on_lost", hold)])
        with self.assertRaises(lockbroker.Lost) as caught:
            hold.check()
        self.assertEqual((caught.exception.cause, str(caught.exception)), ("draining", "m: the daemon stops"))

    def test_a_loss_ends_a_verify_and_a_late_answer_is_ignored(self):
        hold = self.held()
        request = self.ask("verify", hold)
        self.time = 1018.0
        self.core.lapse()
        self.assertIsInstance(request.future.exception(0), lockbroker.Lost)
        self.say({"id": request.id, "result": {"safe_until": 1040.0}})
        self.assertFalse(hold.held)
        self.assertIsNone(self.core.closed)

    def test_verify_renews_and_finds_out(self):
        hold = self.held()
        request = self.ask("verify", hold)
        self.say({"id": request.id, "result": {"safe_until": 1020.0}})
        self.assertEqual(hold.safe_until, 1020.0)
        self.refuse(self.ask("verify", hold), "revoked")
        self.note("revoked", lock="l-1", name="m", slot=None, reason="revoked")
        self.assertEqual(self.due(), [("on_revoked", hold)])
        self.assertTrue(hold.held and hold.revoked)
        self.refuse(self.ask("verify", hold), "broker-unavailable")
        self.assertTrue(hold.held)
        self.refuse(self.ask("verify", hold), "not-held")
        self.assertEqual(self.due(), [("on_lost", hold)])

    # ---- evictions ----

    def evict(self, deadline, lock="l-1", **more):
        self.note("evicted", lock=lock, name="m", slot=None, deadline=deadline, uid=7, host="h", **{"why": None, **more})

    def test_an_eviction_ends_the_hold_at_its_deadline(self):
        hold = self.held()
        self.evict(1025.0, why="rescue")
        self.assertEqual(self.due(), [("on_evicted", hold)])
        self.assertEqual(hold.evicted, lockbroker.Eviction(1025.0, "rescue", 7, "h"))
        self.assertEqual(hold.safe_until, 1018.0)
        self.note("lease", safe_until=1040.0)
        self.assertEqual(hold.safe_until, 1025.0)
        self.say({"id": self.ask("verify", hold).id, "result": {"safe_until": 1040.0}})
        self.assertEqual((hold.safe_until, hold.held), (1025.0, True))
        self.time = 1025.0
        self.core.lapse()
        self.assertEqual(self.due(), [("on_lost", hold)])
        with self.assertRaises(lockbroker.Lost) as caught:
            hold.check()
        self.assertEqual(caught.exception.cause, "evicted")
        self.assertTrue(hold._is_owed(caught.exception))

    def test_a_second_eviction_only_moves_the_deadline_to_an_earlier_time(self):
        hold = self.held()
        for deadline, counts, until in ((1015.0, True, 1015.0), (1016.0, False, 1015.0), (1015.0, False, 1015.0),
                                        (1010.0, True, 1010.0)):
            self.evict(deadline)
            self.assertEqual((bool(self.due()), hold.safe_until), (counts, until))
        self.evict(1001.0, lock="l-2")
        self.assertEqual((self.due(), hold.safe_until), ([], 1010.0))

    def test_a_lease_that_ends_before_the_deadline(self):
        hold = self.held()
        self.evict(1025.0)
        self.time = 1018.0
        self.core.lapse()
        with self.assertRaises(lockbroker.Lost) as caught:
            hold.check()
        self.assertEqual(caught.exception.cause, "lease")

    def test_an_eviction_of_a_hold_without_a_lease(self):
        hold = self.held(until=None)
        self.evict(1900.0, grace=8)
        self.assertEqual((hold.safe_until, self.core.next_lapse()), (1008.0, 8.0))
        self.note("lost", lock="l-1", name="m", slot=None, reason="evicted", why="evicted by uid 7 on h")
        with self.assertRaises(lockbroker.Lost) as caught:
            hold.check()
        self.assertEqual((caught.exception.cause, str(caught.exception)), ("evicted", "m: evicted by uid 7 on h"))
        self.evict(1001.0)
        self.assertEqual(self.due(), [("on_evicted", hold), ("on_lost", hold)])
        self.assertIsNone(self.core.closed)

    def test_an_eviction_that_makes_no_sense(self):
        for wrong in ({"deadline": None}, {"deadline": "soon"}, {"deadline": 1.0, "uid": "root"}):
            self.core = Core()
            self.held()
            self.note("evicted", lock="l-1", **wrong)
            self.assertIsInstance(self.core.closed, lockbroker.errors.BadAnswer)

    def test_a_release_ends_the_hold_and_needs_no_lease_meanwhile(self):
        hold = self.held()
        hold._releasing = True
        request = self.ask("release", hold)
        self.time = 1020.0
        self.core.lapse()
        self.say({"id": request.id, "result": {"lock": "l-1"}})
        self.assertEqual(self.due(), [])
        with self.assertRaises(lockbroker.NotHeld) as caught:
            hold.check()
        self.assertNotIsInstance(caught.exception, lockbroker.Lost)

    def test_the_end_of_the_connection_ends_all(self):
        hold, waiting = self.held(), self.acquire()
        self.core.close(lockbroker.Closed("gone"))
        self.core.close(lockbroker.Closed("again"))
        self.assertEqual(str(waiting.future.exception(0)), "gone")
        self.assertEqual(self.due(), [("on_lost", hold)])
        late = self.acquire()
        self.assertIsInstance(late.future.exception(0), lockbroker.Closed)
        self.assertEqual(self.sent(), [])

    # ---- what makes no sense ----

    def test_nonsense_closes(self):
        for line in (b"garbage", b"[]", b"{}", b'{"id":99999999,"result":{}}', b'{"method":"lost","params":[]}',
                     b'{"method":"lease","params":{}}', b'{"method":"lease","params":{"safe_until":1e999}}',
                     b'{"method":"lease","params":{"safe_until":NaN}}', b'{"method":"lease","params":{"safe_until":true}}',
                     b"[" * 100000, b"\xff", b"9" * 5000, b'{"method":"lost","params":{"lock":[]}}',
                     b'{"id":null,"error":{"message":"no code"}}'):
            core = Core()
            core.feed(line + b"\n")
            self.assertIsInstance(core.closed, lockbroker.BadAnswer, line[:40])

    def test_a_grant_that_makes_no_sense_closes(self):
        good = {"lock": "l", "name": "m", "kind": "mutex", "slot": None, "waited": 0, "safe_until": None}
        for bad in ({"lock": 1}, {"slot": "1"}, {"slot": True}, {"safe_until": "x"}, {"waited": []}, {"fence": "7"},
                    {"fence": 0}, {"fence": -1}, {"fence": 7.0}, {"fence": True}, {"fence": 2**53}):
            request = self.acquire()
            self.say({"id": request.id, "result": good | bad})
            self.assertIsInstance(request.future.exception(0), lockbroker.BadAnswer, bad)
            self.core = Core()
        self.held("l-1")
        request = self.acquire()
        self.grant(request, "l-1")
        self.assertIsInstance(request.future.exception(0), lockbroker.BadAnswer)

    def test_an_error_without_id_closes_with_its_reason(self):
        hold = self.held()
        self.refuse(None, "too-many-requests", id=None)
        self.assertIsInstance(self.core.closed, lockbroker.TooManyRequests)
        self.assertFalse(hold.held)

    def test_unknown_words_are_ignored(self):
        self.note("news", lock="l-1", more=1)
        request = self.acquire()
        self.refuse(request, "from-the-future")
        error = request.future.exception(0)
        self.assertEqual((type(error), error.reason, error.retry), (lockbroker.Error, "from-the-future", True))
        self.assertIsNone(self.core.closed)

    def test_lines_have_limits(self):
        line = json.dumps({"method": "news", "params": {"x": "y" * (_core.LINE_MAX_IN - 60)}}).encode()
        for at in range(0, len(line), 65536):
            self.core.feed(line[at:at + 65536])
        self.core.feed(b"\n")
        self.assertIsNone(self.core.closed)
        self.core.feed(b"x" * _core.LINE_MAX_IN)
        self.assertIsNone(self.core.closed)
        self.core.feed(b"x")
        self.assertIsInstance(self.core.closed, lockbroker.BadAnswer)
        room = _core.LINE_MAX_OUT - len(Request("ping", {"x": ""}, None).line) - 8
        self.assertLessEqual(len(Request("ping", {"x": "y" * room}, None).line), _core.LINE_MAX_OUT)
        with self.assertRaises(ValueError):
            Request("acquire", MUTEX, None)
        for params in ({"x": "y" * _core.LINE_MAX_OUT}, {"x": "\0"}, {"x": float("inf")}):
            with self.assertRaises(ValueError):
                Request("ping", params, None)
        # A backslash and digits are no U+0000; bytes of no encoding become question marks.
        self.assertIn(b"\\\\u0000 ?", Request("ping", {"x": "\\u0000 \udcff"}, None).line)


class Package(unittest.TestCase):
    def test_each_reason_is_a_class(self):
        described = {part["message"] for part in load().errors.values()}
        own = {"no-daemon", "no-access", "deadline", "closed", "bad-answer", "forked"}
        self.assertEqual(set(lockbroker.Error.by_reason), described | own)
        for reason, kind in lockbroker.Error.by_reason.items():
            self.assertIs(getattr(lockbroker, kind.__name__), kind)
            self.assertIn(kind.__name__, lockbroker.__all__)
            self.assertEqual(kind("").reason, reason)

    def test_each_method_is_described(self):
        """Each request is valid by openrpc.json, and both clients have the same methods."""
        samples = [
            _calls.create("db", 2, kind="semaphore", claim="consumer", overshoot=1, exist_ok=True),
            _calls.create("db", "unlimited"), _calls.resize("db", 0), _calls.resize("db", add=1, wait=None),
            _calls.resize("db", remove=1, claim="consumer", order="ascending", overshoot=3, wait=2),
            _calls.destroy("db", order="ascending", overshoot=3, wait=2), _calls.size("db"),
            _calls.await_slot("db", 1, "free"), _calls.await_slot("db", 1, "busy", timeout=0),
            _calls.list_semaphores(), _calls.show("db"), _calls.explain("db", kind="mutex"),
            _calls.fsck("db", repair=True, convert="consumer", wait=None), _calls.fsck("db"), _calls.grant("w"),
            _calls.deny("w"), _calls.deny_all("db"), _calls.evict("w", grace=0, why="why"), _calls.evict_all("db"), _calls.info(), _calls.metrics(),
            _calls.metrics(format="openmetrics"), _calls.ping()]
        for call in samples:
            self.assertTrue(load().is_request(call.method, call.params), call)
        others = {"acquire", "cancel", "release", "verify", "watch", "rpc.discover"}
        self.assertEqual({call.method for call in samples} | others, set(load().methods))
        full = _calls.acquire("db", 0, "mutex", 1, 2, "who", "why", "command", print)
        self.assertEqual(full[1].keys(), {param["name"] for param in load().methods["acquire"]["params"]})
        self.assertTrue(load().is_request(*_calls.acquire("db", None, "mutex", 0, None, None, None, None, None)))
        self.assertEqual(_calls.resize("db", add=1, wait=None).params["wait"], None)
        public = {name for name in dir(lockbroker.Client) if not name.startswith("_")}
        self.assertEqual(public | {"connect"}, {name for name in dir(lockbroker.AsyncClient) if name[0] != "_"})
        for name in public - {"closed"}:
            self.assertTrue(pydoc.getdoc(getattr(lockbroker.Client, name)), name)

    def test_results_have_the_members_that_are_described(self):
        def members(kind):
            return set(typing.get_type_hints(kind))

        def described(method, *path):
            schema = load().methods[method]["result"]["schema"]
            for part in path:
                while "$ref" in schema:
                    schema = load().schema.resolve(schema)
                schema = schema[part]
            while "$ref" in schema:
                schema = load().schema.resolve(schema)
            return set(schema["properties"])

        self.assertEqual(members(_calls.Change),
                         described("create") | described("resize") | described("destroy"))
        self.assertEqual(members(_calls.Shown), described("show"))
        self.assertEqual(members(_calls.Row), described("show", "properties", "holders", "items"))
        self.assertEqual(members(_calls.Listed), described("list"))
        self.assertEqual(members(_calls.Semaphore), described("list", "properties", "semaphores", "items"))
        self.assertEqual(members(_calls.Mutex), described("list", "properties", "mutexes", "items"))
        self.assertEqual(members(_calls.Explained), described("explain"))
        self.assertEqual(members(_calls.Checked), described("fsck"))
        self.assertEqual(members(_calls.Finding), described("fsck", "properties", "findings", "items"))
        self.assertEqual(members(_calls.Granted), described("grant"))

    def test_only_the_standard_library_is_imported(self):
        for name in os.listdir(os.path.join(PACKAGE, "lockbroker")):
            if name.endswith(".py"):
                with open(os.path.join(PACKAGE, "lockbroker", name), encoding="utf-8") as file:
                    tree = ast.parse(file.read())
                for node in ast.walk(tree):
                    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else \
                        [node.module] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
                    for module in names:
                        self.assertIn(module.partition(".")[0], sys.stdlib_module_names)

    def test_versions_agree(self):
        def said(*path, pattern):
            with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
                return re.search(pattern, file.read(), re.MULTILINE).group(1)

        self.assertEqual(lockbroker.__version__, said("configure.ac", pattern=r"AC_INIT\(\[lockbroker\], \[(.*?)\]\)"))
        self.assertEqual(lockbroker.__version__, said("client", "python", "pyproject.toml", pattern=r'^version = "(.*)"'))
        self.assertEqual(lockbroker.DEFAULT_SOCKET,
                         said("client", "lockbroker.h", pattern=r'LB_DEFAULT_SOCKET "(.*)"'))

    def test_pip_installs_it(self):
        # One import can hinder the next one.
        missing = [name for name in ("pip", "setuptools", "wheel")
                   if subprocess.run(["/usr/bin/python3", "-c", f"import {name}"], check=False,
                                     capture_output=True).returncode != 0]
        if missing:
            self.skipTest("no python3-pip, python3-setuptools and python3-wheel here")
        with tempfile.TemporaryDirectory() as folder:
            source, target = os.path.join(folder, "source"), os.path.join(folder, "target")
            shutil.copytree(PACKAGE, source)
            done = subprocess.run(
                ["/usr/bin/python3", "-m", "pip", "install", "--no-index", "--no-build-isolation", "--target", target,
                 source], text=True, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT)
            self.assertEqual(done.returncode, 0, "\n" + done.stdout)
            self.assertEqual(set(os.listdir(os.path.join(PACKAGE, "lockbroker"))) - {"__pycache__"},
                             set(os.listdir(os.path.join(target, "lockbroker"))) - {"__pycache__"})

    def test_mypy_finds_nothing(self):
        if shutil.which("mypy") is None:
            self.skipTest("no mypy here")
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run(
                ["mypy", "--strict", "--cache-dir", cache, "lockbroker",
                 *(os.path.join(SOURCE, "docs", "examples", name) for name in ("hold_lock.py", "hold_lock_asyncio.py"))],
                cwd=PACKAGE, env=dict(os.environ, MYPYPATH=PACKAGE), text=True, check=False,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, "\n" + done.stdout)


if __name__ == "__main__":
    tap.main()
