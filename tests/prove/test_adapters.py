"""Each adapter keeps to the protocol of docs/PROOF.md, and its service excludes. The record of each test is checked."""

import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

import tap
from check import Check, report
from daemon import BY_QUORUM, UNTESTED, Daemon
from driver import Client, command
from history import History, read
from rabbit import Rabbit, free_ports
from store import Store
from wait import PATIENCE, wait_until
from wire import Wire

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in ("../interop", "adapters")]
from etcd import text
from foreign import Foreign

RABBIT = Rabbit.lease()
ROUNDS = 50  # until a variant is found

setUpModule = RABBIT.serve_module


class Voice:
    """A client of a test. One thing at a time."""

    def __init__(self, test, actor, *options):
        self.lines = []
        self.client = Client(test.record, actor, command(test.adapter, test.address, *options), heard=self.lines.append,
                             store=test.store)
        test.addCleanup(self.client.close)
        self.hears("ready")

    def hears(self, *words, within=PATIENCE):
        """Waits for a line that begins with words. Forgets the lines up to it. Returns it."""
        words = list(map(str, words))
        found = wait_until(lambda: [line for line in list(self.lines) if line[:len(words)] == words], within,
                           f"{words}, not only {self.lines}")[0]
        del self.lines[:self.lines.index(found) + 1]
        return found

    def acquire(self, ident, name, kind, timeout, answer="held"):
        self.client.ask("acquire", ident, name, kind, timeout)
        return self.hears(answer, ident)

    def verify(self, ident):
        self.client.ask("verify", ident)
        return self.hears("verified", ident)[2]

    def write(self, ident, pause=0):
        self.client.ask("write", ident, pause)
        if not pause:
            return self.hears("wrote", ident)[2]
        return self.hears("writing", ident)

    def release(self, ident):
        self.client.ask("release", ident)
        self.hears("releasing", ident)
        return self.hears("released", ident)[2]


class Mutexes:
    """Of a service with mutexes."""

    adapter = None
    kind = "mutex"
    slot = "1"
    freed_within = 20  # seconds from the death of a client
    violations = lost_updates = 0

    def setUp(self):
        self.name = self.id().replace(".", "-")
        self.folder = tempfile.mkdtemp(prefix="lb-prove-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.record = History(os.path.join(self.folder, "record"))
        self.store = Store(self.record)
        # Cleanups run in reverse order: the clients end before this.
        self.addCleanup(self.check, self.record.file.name)
        self.address = self.serve(self.folder)

    def check(self, path):
        self.record.close()
        with open(path, encoding="utf-8") as file:
            lines = file.readlines()
        checked = Check(read(lines))
        told = "\n".join([*report(checked, lines), *lines[-50:]])
        self.assertEqual(len(checked.violations), self.violations, told)
        self.assertEqual(len(checked.lost_updates[""]), self.lost_updates, told)

    def create(self, voice, slots=1):
        voice.client.create(self.name, slots)
        voice.hears("size", self.name, slots)

    def pair(self, *options):
        """Two clients. The first one has the only slot, as hold 1."""
        voices = Voice(self, "c1", *options), Voice(self, "c2")
        self.create(voices[0])
        self.assertEqual(voices[0].acquire(1, self.name, self.kind, 5000)[2], self.slot)
        return voices

    def test_acquire_refuse_release(self):
        first, second = self.pair()
        second.acquire(1, self.name, self.kind, 0, "refused")
        second.acquire(2, self.name, self.kind, 100, "refused")
        second.client.ask("acquire", 3, self.name, self.kind, 20000)
        self.assertEqual(first.verify(1), "yes")
        self.assertEqual(first.release(1), "ok")
        second.hears("held", 3, self.slot)
        first.acquire(2, self.name, self.kind, 0, "refused")
        self.assertEqual(second.release(3), "ok")

    def test_many_locks_of_one_client(self):
        first, second = self.pair()
        first.acquire(2, self.name, self.kind, 0, "refused")
        if self.kind == "mutex":
            first.acquire(3, self.name + "-other", self.kind, 0)
            second.acquire(3, self.name + "-other", self.kind, 0, "refused")
            self.assertEqual(first.release(3), "ok")
            second.acquire(4, self.name + "-other", self.kind, 0)

    @contextlib.contextmanager
    def overlaps(self):
        """They may last until the end of this."""
        self.record.note("nemesis", "begin", 1, "harm", "c", "-", 0, "all")
        yield
        self.record.note("nemesis", "end", 1)

    def take_away(self):
        """Ends the hold of the name behind the back of its client."""
        raise NotImplementedError

    def verify_after_a_loss(self, first, second):
        """The answer. The mutex is held by another client then. The slot of a semaphore is removed."""
        self.assertEqual(first.verify(1), "yes")
        self.record.note("world", "sizing", self.name, "missing")
        self.take_away()
        if self.kind == "mutex":
            self.record.note("world", "size", self.name, 1)
            second.acquire(1, self.name, self.kind, 0)
        else:
            self.record.note("world", "size", self.name, "missing")
        return first.verify(1)

    def test_verify_finds_a_loss(self):
        first, second = self.pair()
        with self.overlaps():
            self.assertEqual(self.verify_after_a_loss(first, second), "no")
            first.hears("lost", 1)

    def test_no_verify_is_found(self):
        with self.overlaps():
            self.assertEqual(self.verify_after_a_loss(*self.pair("no-verify")), "yes")
        self.violations = 1

    def test_the_end_of_input_is_the_end(self):
        first, second = self.pair()
        first.client.close()
        first.hears("ended")
        second.acquire(1, self.name, self.kind, 1000 * self.freed_within)

    def test_a_client_dies(self):
        first, second = self.pair()
        first.client.kill()
        second.acquire(1, self.name, self.kind, 1000 * self.freed_within)

    def test_writes(self):
        first, second = self.pair()
        self.assertEqual(first.write(1), "ok")
        second.client.ask("acquire", 1, self.name, self.kind, 20000)
        self.assertEqual(first.write(1), "ok")
        first.release(1)
        second.hears("held", 1)
        self.assertEqual(second.write(1), "ok")

    def end(self):
        """Ends the service for good, or until the end of the test."""
        raise NotImplementedError

    def end_and_keep(self):
        """The same, but the service knows its locks when it is back."""
        self.end()

    def test_the_service_ends(self):
        first, second = self.pair()
        self.end()
        for voice in (first, second):
            voice.hears("ended", within=self.freed_within)

    def test_a_client_that_ignores_it_is_found(self):
        first, second = self.pair("ignores-loss")
        with self.overlaps():
            self.end_and_keep()
            second.hears("ended", within=self.freed_within)
            self.address = self.serve(self.folder)
            Voice(self, "c3").acquire(1, self.name, self.kind, 1000 * self.freed_within)
        self.assertEqual(first.verify(1), "yes")
        first.acquire(2, self.name, self.kind, 0, "refused")
        first.release(1)
        self.assertNotIn(["ended"], first.lines)
        self.violations = 1


PAUSE = 3000  # ms, between the look at a lease and the write


class Pauses:
    """Of a service whose holds end while the holder is paused. late: the answer of the store to its write."""

    late = "ok"

    def end_hold(self, second):
        """Does more, so that the hold of the paused client ends. Returns the client that is the second one from here on."""
        return second

    def test_a_paused_client_writes_late(self):
        first, second = self.pair()
        self.assertEqual(first.write(1), "ok")
        first.write(1, PAUSE)
        self.record.note("nemesis", "begin", 1, "stop-client", "a", "-", "-", "client=c1")
        self.assertTrue(first.client.pause())
        second = self.end_hold(second)
        second.acquire(1, self.name, self.kind, 1000 * self.freed_within)
        self.assertEqual(second.write(1), "ok")
        first.client.go_on()
        self.record.note("nemesis", "end", 1)
        first.hears("wrote", 1, self.late)
        self.lost_updates = int(self.late == "ok")


class Semaphores(Mutexes):
    """Of a service with semaphores."""

    kind = "semaphore"
    slots = {"1", "2"}

    def test_slots(self):
        first, second = Voice(self, "c1"), Voice(self, "c2")
        self.create(first, 2)
        slots = {first.acquire(1, self.name, self.kind, 0)[2], second.acquire(1, self.name, self.kind, 0)[2]}
        self.assertEqual(slots, self.slots)
        second.acquire(2, self.name, self.kind, 0, "refused")
        self.assertEqual(first.release(1), "ok")
        second.acquire(3, self.name, self.kind, 1000)


class Private:
    """A service with a server of its own: `server`, of the Debian package `package`, at the port self.port."""

    server = package = None

    def setUp(self):
        if shutil.which(self.server) is None:
            self.skipTest(f"no {self.server} (Debian: {self.package})")
        super().setUp()

    def serve(self, folder):
        self.port, peers = free_ports(2)
        self.process = subprocess.Popen([self.server, *self.options(folder, peers)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end)
        wait_until(self.listens, what=f"{self.server} listens")
        return f"127.0.0.1:{self.port}"

    def listens(self):
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def end(self):
        self.process.kill()
        self.process.wait()


class OverRabbit:
    def serve(self, _folder):
        RABBIT.start()  # no effect while it runs
        self.addCleanup(RABBIT.start)
        return RABBIT.url

    def end(self):
        RABBIT.kill()

    def end_and_keep(self):
        """In order: a node that is killed can forget a queue or a message that it confirmed some milliseconds before."""
        RABBIT.stop()


class Lockbroker(Pauses, Semaphores, unittest.TestCase):
    adapter = "lockbroker"
    options = ()
    has_fence = False

    def serve(self, _folder):
        self.daemon = Daemon(self, *self.options, broker=RABBIT.url)
        self.daemon.wait_broker()
        return self.daemon.socket

    def end_hold(self, _second):
        """Its daemon dies."""
        self.daemon.kill()
        self.address = self.serve(None)
        return Voice(self, "c3")

    def test_fence(self):
        first, _ = self.pair()
        first.release(1)
        fences = []
        for ident in (2, 3):
            fences.append(first.acquire(ident, self.name, self.kind, 5000)[4])
            first.release(ident)
        if self.has_fence:
            self.assertLess(0, int(fences[0]))
            self.assertLess(int(fences[0]), int(fences[1]))
        else:
            self.assertEqual(fences, ["-", "-"])

    def end(self):
        self.daemon.kill()

    def test_mutex(self):
        first, second = Voice(self, "c1"), Voice(self, "c2")
        held = first.acquire(1, self.name, "mutex", 0)
        self.assertEqual(held[2], "1")
        self.assertGreater(int(held[3]), 0)
        second.acquire(1, self.name, "mutex", 0, "refused")
        second.client.ask("acquire", 2, self.name, "mutex", 5000)
        first.release(1)
        second.hears("held", 2, 1)

    def test_the_broker_dies(self):
        self.daemon.expect(".*")
        first, _ = self.pair()
        self.addCleanup(RABBIT.start)
        RABBIT.kill()
        first.hears("lost", 1)

    def test_a_lease_is_extended(self):
        first, _ = self.pair()
        first.hears("lease", 1)

    test_verify_finds_a_loss = test_no_verify_is_found = None  # test_a_slot_is_removed

    def test_a_slot_is_removed(self):
        first, _ = self.pair()
        other = Voice(self, "c3", "no-verify")
        self.resize(2)
        other.acquire(1, self.name, self.kind, 0)
        self.resize(0)
        for voice in (first, other):
            voice.hears("revoked", 1)
        self.assertEqual(first.verify(1), "revoked")
        self.assertEqual(other.verify(1), "yes")
        self.violations = 1  # of other

    def resize(self, slots):
        self.record.note("world", "sizing", self.name, slots)
        Wire(self.daemon).call("resize", name=self.name, slots=slots)
        self.record.note("world", "size", self.name, slots)

    def test_a_holder_ends_in_time(self):
        self.pair()
        self.daemon.kill()
        self.address = self.serve(None)
        Voice(self, "c3").acquire(1, self.name, self.kind, 10000)


class LockbrokerByQuorum(Lockbroker):
    options = (*UNTESTED, "--claim", "quorum")
    has_fence, late = True, "late"

    def create(self, voice, slots=1):
        self.record.note("world", "sizing", self.name, slots)
        Wire(self.daemon).call("create", within=60, name=self.name, slots=slots, **BY_QUORUM)
        self.record.note("world", "size", self.name, slots)
        self.record.note("world", "way", self.name, "quorum")


class Seeds000(OverRabbit, Semaphores, unittest.TestCase):
    adapter = "seeds000"

    def take_away(self):
        Foreign(self, RABBIT.url, "amqp-locks").delete(queue=f"{self.name}-1-A")

    @unittest.skipIf(os.environ.get("RABBITMQ_QUEUE_TYPE") == "quorum",
                     "RabbitMQ answers no publish to a quorum queue that is deleted meanwhile")
    def remove_while_it_claims(self, *options):
        """An administrator removes the only slot while a client is between its look and its claim. The client then
        has a slot although the administrator saw no holder."""
        claims, admin = Voice(self, "c1", "slow", *options), Foreign(self, RABBIT.url, "amqp-locks")
        for ident in range(ROUNDS):
            self.record.note("admin", "sizing", self.name, 1)
            admin.under_admin("resize", self.name, slots=1)
            self.record.note("admin", "size", self.name, 1)
            claims.client.ask("acquire", ident, self.name, self.kind, 0)
            self.record.note("admin", "sizing", self.name, 0)
            admin.under_admin("resize", self.name, slots=0)
            self.record.note("admin", "size", self.name, 0)
            emptied = not admin.held(name=self.name, slot=1)
            if emptied:
                self.record.note("admin", "emptied", self.name, 0)
            if wait_until(lambda: claims.lines, what="the acquire is answered").pop()[0] == "held":
                claims.release(ident)
                if emptied:
                    return True
        return False

    def test_second_look(self):
        self.assertFalse(self.remove_while_it_claims())

    def test_no_second_look_is_found(self):
        self.assertTrue(self.remove_while_it_claims("no-second-look"))
        self.violations = 1


class Seeds000Mutex(OverRabbit, Mutexes, unittest.TestCase):
    adapter = "seeds000"
    test_verify_finds_a_loss = test_no_verify_is_found = None  # RabbitMQ deletes no exclusive queue of another connection


class Seeds002(OverRabbit, Semaphores, unittest.TestCase):
    adapter = "seeds002"
    slot = "-"
    slots = {"-"}
    test_verify_finds_a_loss = test_no_verify_is_found = None  # it cannot


class Flock(Mutexes, unittest.TestCase):
    adapter = "flock"
    test_the_service_ends = test_a_client_that_ignores_it_is_found = None  # it is the kernel

    def serve(self, folder):
        return folder

    def take_away(self):
        os.unlink(os.path.join(self.address, self.name))

    def test_a_paused_client_keeps_its_lock(self):
        first, second = self.pair()
        self.assertTrue(first.client.pause())
        self.addCleanup(first.client.go_on)
        second.acquire(1, self.name, self.kind, 1000, "refused")


class Redis(Pauses, Private, Mutexes, unittest.TestCase):
    adapter = "redis"
    server, package = "redis-server", "redis-server"

    def options(self, folder, _port):
        return ["--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no", "--dir", folder]

    def take_away(self):
        with socket.create_connection(("127.0.0.1", self.port)) as client:
            client.sendall(f"DEL {self.name}\r\n".encode())
            self.assertEqual(client.recv(100), b":1\r\n")


class Etcd(Pauses, Private, Mutexes, unittest.TestCase):
    adapter = "etcd"
    late = "late"  # its revisions are fences
    server, package = "etcd", "etcd-server"

    def options(self, folder, port):
        url, peers = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{port}"
        return ["--data-dir", f"{folder}/etcd", "--listen-client-urls", url, "--advertise-client-urls", url,
                "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster",
                f"default={peers}"]

    def take_away(self):
        client = http.client.HTTPConnection(self.address)
        self.addCleanup(client.close)
        client.request("POST", "/v3/kv/deleterange", json.dumps({"key": text(self.name)}))
        self.assertEqual(json.loads(client.getresponse().read())["deleted"], "1")


if __name__ == "__main__":
    tap.main()
