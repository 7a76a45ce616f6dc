"""client/python for threads, against a daemon."""

import contextlib
import gc
import itertools
import logging
import os
import signal
import subprocess
import sys
import threading
import unittest
import unittest.mock

import tap
from daemon import Daemon, clean_environment
from openrpc import SOURCE
from wait import wait_until
from wire import Wire

sys.path.insert(0, os.path.join(SOURCE, "tests", "cli"))
sys.path.insert(0, os.path.join(SOURCE, "client", "python"))
import fake  # noqa: E402
import lockbroker  # noqa: E402
from lockbroker import _core, _link  # noqa: E402

LOST = ["warning: lost ", "the stop timeout has passed"]
GRANT = {"lock": "f-1", "name": "db", "kind": "semaphore", "slot": 1, "waited": 0.0, "safe_for": 1000,
         "safe_until": 4e9, "lease": {"heartbeat": 10, "margin": 2}}


class Threads(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(self, "--stop-timeout", "0.5", expect=LOST)
        self.wire = Wire(self.daemon)
        self.wire.call("create", name="db", slots=2)
        self.client = self.connect()
        self.lost = []

    def connect(self, **more):
        client = lockbroker.Client(self.daemon.socket, **more)
        self.addCleanup(client.close)
        return client

    def counts(self):
        return self.wire.call("info")["counts"]

    def wait_counts(self, **wanted):
        wait_until(lambda: self.counts().items() >= wanted.items(), what=f"the daemon counts {wanted}")

    def thread(self, function):
        """Runs in a thread; returns the list that gets its result or its exception."""
        outcome = []

        def run():
            try:
                outcome.append(function())
            except BaseException as error:
                outcome.append(error)
        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join)
        return outcome

    def wait_outcome(self, outcome):
        return wait_until(lambda: outcome, what="the thread is done")[0]

    # ---- the way of a lock ----

    def test_the_block_of_the_documentation(self):
        with unittest.mock.patch.dict(os.environ, LOCKBROKER_SOCKET=self.daemon.socket):
            with lockbroker.Client().acquire("db", timeout=5, who="me") as lock:
                self.assertEqual((lock.name, lock.kind, lock.slot, lock.held), ("db", "semaphore", 1, True))
                self.assertTrue(10 < lock.safe_for < 20)
                lock.check()
                lock.verify()
                self.assertEqual(self.counts()["holds"], 1)
        self.assertEqual(self.counts()["holds"], 0)
        self.assertFalse(lock.held)
        for call in (lock.check, lock.verify, lock.release):
            with self.assertRaises(lockbroker.NotHeld):
                call()
        # Nobody refers to the client any more.
        del lock, call
        gc.collect()
        self.wait_counts(connections=2)

    def test_a_block_that_fails_releases_and_one_may_release_itself(self):
        with self.assertRaises(ZeroDivisionError):
            with self.client.acquire("db"):
                raise ZeroDivisionError
        with self.client.acquire("db") as lock:
            lock.release()
        self.assertEqual(self.counts()["holds"], 0)

    def test_a_held_lock_keeps_a_client_that_nobody_refers_to(self):
        lockbroker.Client(self.daemon.socket).acquire("db")
        gc.collect()
        self.assertEqual(self.counts()["holds"], 1)

    def test_errors_are_classes(self):
        held = [self.client.acquire("db") for _ in range(2)]
        with self.assertRaises(lockbroker.WouldBlock) as caught:
            self.client.acquire("db", timeout=0)
        self.assertIsInstance(caught.exception, lockbroker.Busy)
        self.assertEqual((caught.exception.reason, caught.exception.code, caught.exception.retry,
                          caught.exception.data["slots"]), ("would-block", 1, True, 2))
        for kind, call in ((lockbroker.Timeout, lambda: self.client.acquire("db", timeout=0.01)),
                           (lockbroker.NoSuchLock, lambda: self.client.acquire("none")),
                           (lockbroker.InvalidParams, lambda: self.client.acquire("db-W")),
                           (lockbroker.MethodNotFound, lambda: self.client.call("aquire")),
                           (lockbroker.AlreadyExists, lambda: self.client.create("db")),
                           (ValueError, lambda: self.client.acquire("x" * 70000))):
            with self.assertRaises(kind):
                call()
        self.assertTrue(all(lock.held for lock in held))

    def test_there_is_no_daemon(self):
        for path in (self.daemon.dir + "/none", self.daemon.log_path, self.daemon.log_path + "/x"):
            with self.assertRaises(lockbroker.NoDaemon):
                lockbroker.Client(path)
        with self.assertRaises(OSError):
            lockbroker.Client("x" * 200)
        with unittest.mock.patch.dict(os.environ, clear=True):
            self.assertEqual(_link.socket_path(), "/run/lockbroker/lockbroker.sock")
            os.environ["LOCKBROKER_SOCKET"] = "/s"
            self.assertEqual((_link.socket_path(), _link.socket_path("/t"), _link.socket_path("")), ("/s", "/t", "/s"))
            with unittest.mock.patch.object(os, "geteuid", lambda: os.getuid() + 1):
                self.assertEqual(_link.socket_path(), "/run/lockbroker/lockbroker.sock")

    def test_administration(self):
        self.assertEqual(self.client.create("new", 3, exist_ok=True), {"name": "new", "kind": "semaphore", "slots": 3})
        self.assertEqual(self.client.resize("new", add=1)["slots"], 4)
        self.assertEqual(self.client.size("new"), 4)
        self.assertEqual(self.client.explain("new")["verdict"], "free")
        self.assertTrue(self.client.fsck("new")["clean"])
        self.assertEqual([one["name"] for one in self.client.list_semaphores()["semaphores"]], ["db", "new"])
        self.client.await_slot("new", 1, "free", timeout=0)
        self.client.ping()
        self.assertEqual(self.client.info()["naming"], "amqp-locks")
        self.assertRegex(self.client.metrics(), r"(?m)^lockbroker_clients \d+$")
        self.client.resize("new", 0)
        waiting = self.thread(lambda: self.client.acquire("new"))
        denied = self.thread(lambda: self.client.acquire("new"))
        self.wait_counts(waiting=2)
        first, second = (row["waiter"] for row in self.client.show("new")["waiters"])
        self.assertEqual(self.client.grant(first)["name"], "new")
        self.assertEqual(self.client.deny(second), 1)
        self.assertEqual(self.client.deny_all("new"), 0)
        outcomes = [self.wait_outcome(waiting), self.wait_outcome(denied)]
        self.assertEqual({type(one) for one in outcomes}, {lockbroker.Lock, lockbroker.Cancelled})
        lock = next(one for one in outcomes if isinstance(one, lockbroker.Lock))
        self.assertEqual((lock.slot, lock.safe_until, lock.held), (None, None, True))
        self.client.resize("new", "unlimited")
        self.client.destroy("new", wait=1)

    # ---- waiting ----

    def test_progress_and_notifications(self):
        heard, progress = [], []
        client = self.connect(on_notification=lambda *said: heard.append(said))
        with self.client.acquire("db"), self.client.acquire("db") as second:
            waiting = self.thread(lambda: client.acquire("db", on_progress=lambda *said: progress.append(said)))
            wait_until(lambda: progress == [(1, 2)], what="the waiter is told its place")
            self.assertEqual(heard[0][0], "waiting")
            second.release()
        self.assertEqual(self.wait_outcome(waiting).slot, 2)

    def test_an_interrupted_acquire_is_cancelled(self):
        def interrupt(_signo, _frame):
            raise KeyboardInterrupt
        previous = signal.signal(signal.SIGUSR1, interrupt)
        self.addCleanup(signal.signal, signal.SIGUSR1, previous)
        with self.client.acquire("db"), self.client.acquire("db"):
            with self.assertRaises(KeyboardInterrupt):
                self.client.acquire("db", on_progress=lambda *_: os.kill(os.getpid(), signal.SIGUSR1))
            self.wait_counts(waiting=0)
        self.wait_counts(holds=0)

    def test_an_acquire_that_is_interrupted_behind_the_grant_leaves_no_lock(self):
        with unittest.mock.patch.object(lockbroker.Lock, "check", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                self.client.acquire("db")
        self.wait_counts(granted=1, holds=0)

    def interrupt_everywhere(self, function, first):
        """Calls function again and again, and raises an exception in front of one line of the client after the other, as a
        signal handler can. first: the number of the first of these lines. Each time the locks must be free. Returns the
        number of lines."""
        for number in itertools.count(first):
            left = number

            def trace(frame, event, _argument):
                nonlocal left
                if frame.f_code.co_filename != lockbroker._sync.__file__:
                    return None
                left -= event == "line"
                if event == "line" and left == 0:
                    raise KeyboardInterrupt
                return trace

            with contextlib.suppress(KeyboardInterrupt):
                function(trace)
            sys.settrace(None)
            if left > 0:
                return number
            self.wait_counts(holds=0, waiting=0)

    def test_an_acquire_that_is_interrupted_anywhere_leaves_no_lock(self):
        def acquire(trace):
            sys.settrace(trace)
            lock = self.client.acquire("db")
            sys.settrace(None)
            lock.release()

        self.assertGreater(self.interrupt_everywhere(acquire, 1), 10)

    def test_a_release_that_is_interrupted_anywhere_leaves_no_lock(self):
        def release(trace):
            lock = self.client.acquire("db")
            sys.settrace(trace)
            lock.release()

        # In front of its `try` it has not begun.
        self.assertGreater(self.interrupt_everywhere(release, 3), 10)

    def test_an_acquire_that_is_not_answered_is_given_up_and_its_grant_released(self):
        daemon = fake.Fake(self, acquire=None, cancel={"cancelled": False}, release={"lock": "f-1"})
        with lockbroker.Client(daemon.socket) as client:
            with unittest.mock.patch.object(lockbroker._calls, "GRACE", 0.0):
                with self.assertRaises(lockbroker.NoAnswer):
                    client.acquire("db", timeout=0.01)
            daemon.wait_asked("cancel")
            daemon.say(fake.reply(daemon.asked("acquire")[0], result=GRANT))
            daemon.wait_asked("release")
            self.assertEqual(daemon.asked("release")[0]["params"], {"lock": "f-1"})

    def test_a_hundred_threads(self):
        inside, rounds = {1: threading.Lock(), 2: threading.Lock()}, []

        def work():
            for _ in range(5):
                with self.client.acquire("db") as lock:
                    self.assertTrue(inside[lock.slot].acquire(blocking=False), "two threads hold one slot")
                    lock.check()
                    rounds.append(lock.slot)
                    inside[lock.slot].release()
            return True
        outcomes = [self.thread(work) for _ in range(100)]
        self.assertTrue(all(self.wait_outcome(one) is True for one in outcomes), outcomes)
        self.assertEqual((len(rounds), set(rounds)), (500, {1, 2}))
        self.assertEqual(self.counts()["holds"], 0)

    # ---- loss ----

    def hold(self, client=None):
        return (client or self.client).acquire("db", on_lost=self.lost.append)

    def assert_lost(self, lock, cause):
        with self.assertRaises(lockbroker.Lost) as caught:
            lock.check()
        self.assertEqual(caught.exception.cause, cause)

    def test_a_killed_daemon_is_a_loss(self):
        lock, waiting = self.hold(), self.thread(lambda: self.client.call("watch", patience=None))
        self.daemon.kill()
        wait_until(lambda: self.lost == [lock])
        self.assert_lost(lock, "closed")
        self.assertIsInstance(self.wait_outcome(waiting), lockbroker.Closed)
        self.assertTrue(self.client.closed)
        with self.assertRaises(lockbroker.Closed):
            self.client.acquire("db")
        with self.assertRaises(lockbroker.Lost):
            lock.release()

    def test_a_loss_is_raised_at_the_end_of_the_block_or_noted_there(self):
        with self.assertRaises(lockbroker.Lost):
            with self.hold():
                self.daemon.signal(signal.SIGTERM)
                wait_until(lambda: self.lost)
        self.assert_lost(self.lost[0], "draining")
        self.daemon.wait_exit()
        self.daemon.start()
        self.lost.clear()
        self.wire = Wire(self.daemon)
        self.wire.call("create", name="db")
        with self.assertRaises(ZeroDivisionError) as caught:
            with self.hold(self.connect()):
                self.daemon.kill()
                wait_until(lambda: self.lost)
                raise ZeroDivisionError
        self.assertIn("lockbroker: db: the daemon closed the connection", caught.exception.__notes__)

    def frozen(self):
        """A lock of a daemon that extended its lease once, and then says nothing more."""
        self.daemon = Daemon(self, "--heartbeat", "3", "--margin", "1.5", expect=LOST)
        self.wire = Wire(self.daemon)
        self.wire.call("create", name="db")
        client = self.connect()
        lock = self.hold(client)
        first = lock.safe_until
        wait_until(lambda: lock.safe_until > first, what="the lease is extended")
        self.daemon.freeze()
        return lock

    def test_a_frozen_daemon_is_a_loss_when_safe_until_passes(self):
        lock = self.frozen()
        self.assertTrue(lock.held)
        verify = self.thread(lock.verify)
        wait_until(lambda: self.lost == [lock])
        self.assertGreaterEqual(_core.now(), lock.safe_until)
        self.assert_lost(lock, "lease")
        self.assertIsInstance(self.wait_outcome(verify), lockbroker.Lost)
        self.daemon.thaw()
        with self.assertRaises(lockbroker.Lost):
            lock.release()
        self.assert_lost(lock, "lease")

    def test_safe_until_counts_even_if_the_reader_is_stuck(self):
        lock = self.frozen()
        release = threading.Event()
        self.addCleanup(release.set)
        lock._client._reader.post(lambda: lock._client._reader.core.due.append(release.wait))
        wait_until(lambda: _core.now() > lock.safe_until)
        with unittest.mock.patch.object(lockbroker._sync, "SETTLE_WITHIN", 0.01):
            self.assert_lost(lock, "lease")
        self.assertEqual(self.lost, [])
        self.daemon.thaw()
        release.set()
        wait_until(lambda: self.lost == [lock])
        self.assert_lost(lock, "lease")

    def test_a_lock_that_only_this_side_lost_is_given_back(self):
        daemon = fake.Fake(self, acquire=GRANT | {"safe_until": _core.now() + 3}, release={"lock": "f-1"})
        with lockbroker.Client(daemon.socket) as client:
            with self.assertRaises(lockbroker.Lost):
                with self.hold(client):
                    wait_until(lambda: self.lost)
                    # The holder may still work under it.
                    self.assertEqual(daemon.asked("release"), [])
            daemon.wait_asked("release")

    def test_a_lost_lock_by_quorum_is_given_back(self):
        daemon = fake.Fake(self, acquire=GRANT | {"fence": 17}, release={"lock": "f-1"})
        with lockbroker.Client(daemon.socket) as client:
            with self.assertRaises(lockbroker.Lost):
                with self.hold(client):
                    daemon.say(fake.notification("lost", {"lock": "f-1", "reason": "lost", "why": "cut"}))
                    wait_until(lambda: self.lost)
                    self.assertEqual(daemon.asked("release"), [])
            daemon.wait_asked("release")

    def test_a_lease_that_lies_unread_is_read_before_a_loss(self):
        lock = self.hold()
        until = lock.safe_until
        daemon_said = {"jsonrpc": "2.0", "method": "lease", "params": {"safe_until": until}}
        reader = lock._client._reader
        reader.settle()  # the turn that read the grant is over
        with unittest.mock.patch.object(reader, "_read", lambda: reader.core._take(daemon_said)):
            lock.safe_until = _core.now()
            lock.check()
        self.assertEqual(lock.safe_until, until)

    def test_a_reader_that_dies_loses_all(self):
        lock, waiting = self.hold(), self.thread(lambda: self.client.call("watch", patience=None))
        self.wait_counts(holds=1)
        died = []
        with unittest.mock.patch.object(threading, "excepthook", died.append):
            with unittest.mock.patch.object(self.client._reader, "move", side_effect=MemoryError):
                with self.assertRaises(lockbroker.Closed):
                    self.client.ping()
                wait_until(lambda: died)
        self.assert_lost(lock, "closed")
        self.assertEqual(self.lost, [lock])
        self.assertIsInstance(self.wait_outcome(waiting), lockbroker.Closed)
        self.wait_counts(holds=0)

    def test_revoked(self):
        told = []
        with self.client.acquire("db", on_revoked=told.append) as lock:
            self.wire.call("resize", name="db", slots=0)
            wait_until(lambda: told == [lock])
            lock.check()
            with self.assertRaises(lockbroker.Revoked):
                lock.verify()
            self.assertTrue(lock.held and lock.revoked)

    # ---- close, callbacks, fork ----

    def test_close_releases_and_calls_nothing(self):
        lock = self.hold()
        waiting = self.thread(lambda: self.client.acquire("db", kind="mutex") and self.client.acquire("db", kind="mutex"))
        self.wait_counts(holds=2, waiting=1)
        self.client.close()
        self.client.close()
        self.assert_lost(lock, "closed")
        self.assertEqual(self.lost, [])
        self.assertIsInstance(self.wait_outcome(waiting), lockbroker.Closed)
        self.assertFalse(self.client._reader.thread.is_alive())
        self.wait_counts(holds=0, waiting=0)
        with self.assertRaises(lockbroker.Closed):
            self.client.ping()

    def test_a_callback_can_fail_and_cannot_wait(self):
        errors, stuck = [], []

        def callback(*_said):
            with contextlib.suppress(RuntimeError):
                self.client.ping()
                stuck.append(True)
            raise ZeroDivisionError
        handler = logging.Handler()
        handler.emit = errors.append
        logger = logging.getLogger("lockbroker")
        logger.addHandler(handler)
        self.addCleanup(logger.removeHandler, handler)
        with self.client.acquire("db"), self.client.acquire("db"):
            with self.assertRaises(lockbroker.Timeout):
                self.client.acquire("db", timeout=3, on_progress=callback)
        wait_until(lambda: errors)
        self.assertEqual((errors[0].exc_info[0], stuck), (ZeroDivisionError, []))
        self.client.ping()

    def test_a_child_has_no_locks_and_the_parent_keeps_its_own(self):
        lock = self.client.acquire("db")
        read, write = os.pipe()
        with contextlib.closing(os.fdopen(read)) as answers:
            child = os.fork()
            if child == 0:
                said = [type(error).__name__ for error in (self.failure(lock.check), self.failure(self.client.ping))]
                self.client.close()
                with lockbroker.Client(self.daemon.socket) as own:
                    said.append(str(own.size("db")))
                os.write(write, " ".join(said).encode())
                os._exit(0)
            os.close(write)
            self.assertEqual(answers.read(), "Lost Forked 2")
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        lock.verify()
        # No copy of the socket is left in a child that lives on.
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
        try:
            self.daemon.expect("lost")
            self.client.close()
            self.wait_counts(holds=0)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def failure(self, call):
        try:
            call()
        except Exception as error:
            return error
        return None

    # ---- programs ----

    def run_example(self, name, *arguments):
        return subprocess.run(
            ["/usr/bin/python3", os.path.join(SOURCE, "docs", "examples", name), *arguments], text=True, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
            env=clean_environment(LOCKBROKER_SOCKET=self.daemon.socket,
                                  PYTHONPATH=os.path.join(SOURCE, "client", "python")))

    def test_the_examples(self):
        done = self.run_example("hold_lock.py", "db")
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (0, "step 1 with slot 1\nstep 2 with slot 1\nstep 3 with slot 1\n", ""))
        done = self.run_example("hold_lock_asyncio.py", "db", "5")
        self.assertEqual((done.returncode, len(done.stdout.splitlines()), done.stderr), (0, 5, ""))
        self.wire.call("resize", name="db", slots=0)
        done = self.run_example("hold_lock.py", "db", "0")
        self.assertEqual(done.returncode, 75)
        self.assertRegex(done.stderr, r"\Adb: .*: try again later\n\Z")
        done = self.run_example("hold_lock.py", "none")
        self.assertEqual((done.returncode, done.stderr), (69, "none: the lock does not exist\n"))
        self.wait_counts(holds=0)

    def test_a_program_that_ends_releases(self):
        program = ("import lockbroker, os; c = lockbroker.Client();"
                   "c.acquire('db', on_lost=lambda lock: os._exit(3)); print('held')")
        done = subprocess.run(
            ["/usr/bin/python3", "-X", "dev", "-c", program], text=True, check=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
            env=clean_environment(LOCKBROKER_SOCKET=self.daemon.socket,
                                  PYTHONPATH=os.path.join(SOURCE, "client", "python")))
        self.assertEqual((done.returncode, done.stdout), (0, "held\n"), done.stderr)
        self.wait_counts(holds=0)


if __name__ == "__main__":
    tap.main()
