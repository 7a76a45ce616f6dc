"""client/examples/lockbroker_client.py against a daemon, as a library and as a command."""

import json
import os
import signal
import subprocess
import sys
import unittest
import unittest.mock

import tap
from daemon import Daemon, clean_environment
from openrpc import SOURCE
from wait import wait_until

EXAMPLES = os.path.join(SOURCE, "client", "examples")
sys.path.insert(0, EXAMPLES)
import lockbroker_client as client  # noqa: E402

# Some tests still hold a lock when the daemon's stop timeout is over.
STOP_TIMEOUT = 3
STOPPED_HARD = ["the stop timeout has passed", "warning: lost "]


class Library(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(self, "--stop-timeout", str(STOP_TIMEOUT), expect=STOPPED_HARD)
        self.one = self.connect()
        self.two = self.connect()
        self.one.call("create", name="db", slots=2)

    def connect(self):
        broker = client.LockBroker(self.daemon.socket)
        self.addCleanup(broker.close)
        return broker

    def holds(self):
        return self.two.call("info")["counts"]["holds"]

    def test_acquire_verify_release(self):
        lock = self.one.acquire("db", timeout=5, who="me", why="test", command="none")
        self.assertEqual((lock.name, lock.kind, lock.slot in (1, 2)), ("db", "semaphore", True))
        lock.verify()
        lock.release()
        self.assertFalse(lock.held)
        with self.assertRaises(client.Lost) as caught:
            lock.verify()
        self.assertEqual((caught.exception.code, caught.exception.reason), (7, "not-held"))
        with self.assertRaises(client.Lost):
            lock.release()

    def test_a_block_releases_also_when_it_fails(self):
        with self.assertRaises(ZeroDivisionError):
            with self.one.acquire("db", timeout=0):
                self.assertEqual(self.holds(), 1)
                raise ZeroDivisionError
        self.assertEqual(self.holds(), 0)
        with self.one.acquire("report", kind="mutex") as lock:
            self.assertIsNone(lock.slot)

    def test_a_lock_that_comes_into_being_and_one_without_end(self):
        with self.one.acquire("new", timeout=0, create=3) as lock:
            self.assertEqual((lock.slot, self.two.call("size", name="new")["slots"]), (1, 3))
        self.two.call("resize", name="new", slots="unlimited")
        with self.one.acquire("new", timeout=0) as lock:
            self.assertEqual((lock.slot, lock.safe_until, self.one.timeout()), (None, None, None))
            lock.verify()
            self.assertTrue(lock.held)
        self.assertFalse(lock.held)

    def test_a_suspect_lock_is_not_extended_with_the_others(self):
        request = self.one.request("acquire", name="db", timeout=0)
        second = self.one.acquire("db", timeout=0)
        suspect = self.one._answers[request]["result"]["lock"]

        def told(method, **params):
            self.one._take({"jsonrpc": "2.0", "method": method, "params": params})

        # Told before the lock is taken up.
        told("suspect", lock=suspect)
        first = self.one.granted(request)
        until, later = first.safe_until, second.safe_until + 10
        told("lease", safe_until=later)
        self.assertEqual((first.safe_until, second.safe_until), (until, later))
        told("restored", lock=suspect)
        told("lease", safe_until=later - 1)
        self.assertEqual((first.safe_until, second.safe_until), (later - 1, later))

    def test_errors_are_exceptions(self):
        self.one.acquire("db", timeout=0)
        self.one.acquire("db", timeout=0)
        with self.assertRaises(client.NotAcquired) as caught:
            self.two.acquire("db", timeout=0)
        self.assertEqual(caught.exception.reason, "would-block")
        self.assertTrue(caught.exception.retry)
        self.assertEqual(caught.exception.data["slots"], 2)
        with self.assertRaises(client.NotAcquired) as caught:
            self.two.acquire("db", timeout=0.05)
        self.assertEqual(caught.exception.reason, "timeout")
        with self.assertRaises(client.NoSuchLock):
            self.two.acquire("nothing")
        with self.assertRaises(client.Error) as caught:
            self.two.acquire("db", tiemout=1)
        self.assertEqual((caught.exception.code, caught.exception.data["parameter"]),
                         (-32602, "tiemout"))
        with self.assertRaises(client.Error) as caught:
            self.two.call("aquire", name="db")
        self.assertEqual(caught.exception.code, -32601)

    def test_pipelining(self):
        waits = [self.one.request("acquire", name="db") for _ in range(2)]
        waits.append(self.one.request("acquire", name="db", progress=True))
        pings = [self.one.request("ping") for _ in range(200)]
        for ping in reversed(pings):
            self.assertEqual(self.one.result(ping), {})
        first, second = self.one.granted(waits[0]), self.one.granted(waits[1])
        self.assertEqual({first.slot, second.slot}, {1, 2})
        with self.assertRaises(TimeoutError):
            self.one.result(waits[2], within=0)
        note = self.one.notification()
        self.assertEqual((note.method, note.params["id"]), ("waiting", waits[2]))
        first.release()
        self.assertEqual(self.one.granted(waits[2]).slot, first.slot)

    def test_a_hang_up_releases(self):
        self.one.acquire("db", timeout=0)
        lock = self.one.acquire("db", timeout=0)
        waiting = self.two.request("acquire", name="db")
        self.one.close()
        self.assertFalse(lock.held)
        self.assertEqual(self.two.granted(waiting).name, "db")
        with self.assertRaises(OSError):
            self.one.call("ping")

    def test_an_abandoned_acquire_leaves_nothing(self):
        held = [self.two.acquire("db", timeout=0) for _ in range(2)]
        waiting, granted = (self.one.request("acquire", name="db") for _ in range(2))
        self.one.abandon(waiting)
        held[0].release()
        # The client holds it, though it has not read the grant.
        wait_until(lambda: self.holds() == 2)
        self.one.abandon(granted)
        held[1].release()
        wait_until(lambda: self.one.call("ping") == {} and self.holds() == 0)

    def test_an_interrupt_gives_up_the_acquire(self):
        held = [self.two.acquire("db", timeout=0) for _ in range(2)]
        request = self.one.request("acquire", name="db")
        with unittest.mock.patch.object(self.one, "_receive", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                self.one.granted(request)
        for lock in held:
            lock.release()
        wait_until(lambda: self.one.call("ping") == {} and self.holds() == 0)
        self.assertEqual(self.two.call("info")["counts"]["waiting"], 0)

    def test_an_orderly_stop_is_notified_and_remaining_holds_are_lost(self):
        lock = self.one.acquire("db", timeout=0)
        self.daemon.signal(signal.SIGTERM)
        note = self.one.notification()
        self.assertEqual((note.method, note.params), ("draining", {"grace": STOP_TIMEOUT}))
        self.assertTrue(lock.held)
        with self.assertRaises(client.Unavailable) as caught:
            self.one.acquire("db")
        self.assertEqual(caught.exception.reason, "draining")
        note = self.one.notification()
        self.assertEqual((note.method, note.params["lock"], note.params["reason"]),
                         ("lost", lock.id, "draining"))
        self.assertFalse(lock.held)
        with self.assertRaises(client.Disconnected):
            self.one.notification()
        self.daemon.wait_exit()

    def frozen(self):
        """A lock of a daemon that says nothing more."""
        self.one.close()
        self.daemon = Daemon(self, "--heartbeat", "3", "--margin", "1.5", expect=["warning: lost db "])
        self.one = self.connect()
        self.one.call("create", name="db")
        lock = self.one.acquire("db", timeout=0)
        first = lock.safe_until
        # It is renewed, and that is no notification.
        while lock.safe_until == first:
            self.assertIsNone(self.one.notification(within=0.1))
        self.assertTrue(lock.held)
        lock.verify()
        self.daemon.freeze()
        return lock

    def test_a_frozen_daemon_is_a_loss_when_the_lease_is_over(self):
        lock = self.frozen()
        note = self.one.notification()
        self.assertGreaterEqual(client.now(), lock.safe_until)
        self.assertEqual((note.method, note.params["lock"], note.params["reason"]), ("lost", lock.id, "lease"))
        self.assertFalse(lock.held)
        self.daemon.thaw()
        with self.assertRaises(client.Lost):
            lock.verify()

    def test_an_expired_hold_is_lost_though_an_answer_comes(self):
        lock = self.frozen()
        wait_until(lambda: client.now() > lock.safe_until)
        self.assertEqual((lock.held, lock.ended), (False, False))
        self.one.read()
        self.assertEqual((lock.held, lock.ended), (False, True))
        self.daemon.thaw()

    def test_the_end_of_the_daemon_is_the_end_of_the_hold(self):
        lock = self.one.acquire("db", timeout=0)
        self.daemon.kill()
        with self.assertRaises(client.Disconnected):
            self.one.notification()
        self.assertFalse(lock.held)
        with self.assertRaises(client.Disconnected):
            self.one.call("ping")


class Command(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(self, "--stop-timeout", str(STOP_TIMEOUT), expect=STOPPED_HARD)
        self.broker = client.LockBroker(self.daemon.socket)
        self.addCleanup(self.broker.close)
        self.broker.call("create", name="db")

    def run_client(self, *arguments):
        process = subprocess.Popen(
            ["/usr/bin/python3", os.path.join(EXAMPLES, "lockbroker_client.py"), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=clean_environment(LOCKBROKER_SOCKET=self.daemon.socket))
        self.addCleanup(process.__exit__, None, None, None)
        self.addCleanup(process.kill)
        return process

    def test_holds_until_its_input_ends(self):
        holder = self.run_client("db")
        grant = json.loads(holder.stdout.readline())
        self.assertEqual((grant["name"], grant["slot"]), ("db", 1))
        self.broker.call("verify", lock=grant["lock"])
        refused = self.run_client("db", "0")
        self.assertEqual(refused.communicate()[1], "db: every slot is busy\n")
        self.assertEqual(refused.returncode, 75)
        self.assertEqual(holder.communicate(timeout=60), ("", ""))
        self.assertEqual(holder.returncode, 0)
        with self.broker.acquire("db", timeout=0):
            pass

    def test_says_what_is_wrong(self):
        process = self.run_client("nothing", "0")
        self.assertEqual(process.communicate()[1], "nothing: the lock does not exist\n")
        self.assertEqual(process.returncode, 66)
        process = self.run_client()
        process.communicate()
        self.assertEqual(process.returncode, 64)

    def test_ends_when_the_lock_is_lost(self):
        holder = self.run_client("db")
        holder.stdout.readline()
        self.daemon.signal(signal.SIGTERM)
        self.assertEqual(holder.wait(60), 79)
        self.daemon.wait_exit()


if __name__ == "__main__":
    tap.main()
