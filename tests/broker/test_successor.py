"""A daemon is replaced by its successor over a real RabbitMQ: clients keep their locks and their places.

SUCCESSOR_SECONDS: how long a loaded daemon is replaced again and again (default 6). SUCCESSOR_PAUSE: the bound of the
99th percentile of the longest pauses that clients see, in s. It is larger for a build with sanitizers.
"""

import os
import random
import re
import resource
import shutil
import signal
import statistics
import sys
import threading
import time
import unittest

import hammer
import tap
from daemon import Daemon, program
from rabbit import Rabbit
from timing import at_most
from wire import Closed, Wire, wait_until

SECONDS = float(os.environ.get("SUCCESSOR_SECONDS", "6"))
PAUSE = float(os.environ.get("SUCCESSOR_PAUSE", "2"))
LOADED = SECONDS >= 30  # the numbers of the long form
HOLDS, WAITERS, PEERS = (500, 200, 1000) if LOADED else (60, 30, 120)
EVERY = 2  # seconds between two replacements
KILLS = 8 if LOADED else 3
SEED = int(os.environ.get("SUCCESSOR_SEED", "0")) or random.randrange(1 << 32)
REFUSED = "this program goes on, and is not replaced"
RABBIT = Rabbit.lease()

setUpModule = RABBIT.serve_module


def info(daemon):
    """By a client of its own."""
    peer = Wire(daemon.socket)
    try:
        return peer.call("info")
    finally:
        peer.hang_up()


def takeovers(daemon):
    return info(daemon)["takeovers"]


def replace(daemon):
    """Replaces the daemon, and waits until its successor serves."""
    before = takeovers(daemon)
    daemon.signal(signal.SIGUSR2)
    wait_until(lambda: takeovers(daemon) > before, what=f"the daemon is replaced\n{daemon.log()[-2000:]}")


class Pinger(threading.Thread):
    """A client that asks again and again. worst: the longest times until an answer came, by the second."""

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.path, self.over, self.worst = daemon.socket, threading.Event(), {}

    def run(self):
        peer = Wire(self.path)
        while not self.over.is_set():
            began = time.monotonic()
            peer.call("ping")
            second = int(began / EVERY)
            self.worst[second] = max(self.worst.get(second, 0), time.monotonic() - began)
            time.sleep(0.002)
        peer.hang_up()


class Successor(unittest.TestCase):
    deadline = 400

    def daemon(self, *options, **more):
        daemon = Daemon(self, *options, broker=RABBIT.url, **more)
        daemon.wait_broker()
        return daemon

    def create(self, daemon, slots=1, **params):
        """A semaphore of a name that no other test uses."""
        name = f"{self.id().rpartition('.')[2]}-{params.get('claim', '')}".rstrip("-")
        Wire(daemon).call("create", name=name, slots=slots, **params)
        return name

    # ---- what stays ----

    def test_holds_stay(self):
        daemon = self.daemon()
        peer = Wire(daemon)
        by_queue = self.create(daemon, 3, claim="exclusive-queue")
        by_consumer = self.create(daemon, 3, claim="consumer")
        held = [peer.call("acquire", name=by_queue), peer.call("acquire", name=by_consumer, lease=True),
                peer.call("acquire", name="a-mutex", kind="mutex")]
        Wire(daemon).call("create", name="no-limit", slots="unlimited")
        held.append(peer.call("acquire", name="no-limit"))
        shown = peer.call("show", name=by_consumer)
        started = dict(re.findall(r"(?m)^(lockbroker_start_time_seconds) (.*)$", peer.call("metrics")["text"]))
        pid = daemon.pid
        for _ in range(3):
            replace(daemon)
        self.assertEqual((daemon.pid, takeovers(daemon)), (pid, 3))
        self.assertTrue(info(daemon)["broker"]["handover"])
        metrics = re.findall(r"(?m)^(lockbroker_(?:takeovers_total|start_time_seconds)) (.*)$", peer.call("metrics")["text"])
        self.assertEqual(dict(metrics), {**started, "lockbroker_takeovers_total": "3"})
        for lock in held:
            verified = peer.call("verify", lock=lock["lock"])
            self.assertEqual(verified["slot"], lock["slot"])
            if lock["safe_until"] is not None:
                self.assertGreaterEqual(verified["safe_until"], lock["safe_until"])
        again = peer.call("show", name=by_consumer)
        self.assertEqual([row["waiter"] for row in again["holders"]], [row["waiter"] for row in shown["holders"]])
        counts = peer.call("info")["counts"]
        self.assertEqual((counts["holds"], counts["lost"], counts["granted"]), (4, 0, 4))
        for lock in held:
            peer.call("release", lock=lock["lock"])
        self.assertEqual(peer.call("info")["counts"]["holds"], 0)
        wait_until(lambda: not [queue for queue in RABBIT.holders() if queue.startswith((by_queue, by_consumer, "a-"))],
                   what="the broker has no holder any more")

    def test_waiters_keep_their_places(self):
        daemon = self.daemon()
        name = self.create(daemon)
        holder = Wire(daemon)
        lock = holder.call("acquire", name=name)["lock"]
        waiters = []
        for priority in (0, 0, 5, 0, 5):
            peer = Wire(daemon)
            waiters.append((peer, peer.request("acquire", name=name, priority=priority, progress=True)))
            peer.notification("waiting")
        rows = [row["waiter"] for row in holder.call("show", name=name)["waiters"]]
        replace(daemon)
        wait_until(lambda: [row["waiter"] for row in holder.call("show", name=name)["waiters"]] == rows, what="the rows are the same")
        for index in (2, 4, 0, 1, 3):
            holder.call("release", lock=lock)
            holder, asked = waiters[index]
            granted = holder.answer(asked)
            lock = granted["lock"]
            self.assertGreater(granted["waited"], 0)

    def test_a_deadline_stays(self):
        daemon = self.daemon()
        name = self.create(daemon)
        Wire(daemon).call("acquire", name=name)
        peer, later = Wire(daemon), Wire(daemon)
        asked = peer.request("acquire", name=name, timeout=6)
        peer.call("ping")
        time.sleep(4)
        replace(daemon)
        # If the time of the first began anew now, it would end after this one.
        behind = later.request("acquire", name=name, timeout=4)
        self.assertEqual(peer.reply(asked)["error"]["data"]["reason"], "timeout")
        later.pump()
        self.assertEqual(list(later.replies), [])
        self.assertEqual(later.reply(behind)["error"]["data"]["reason"], "timeout")

    def test_other_requests_go_on(self):
        daemon = self.daemon()
        name = self.create(daemon, 2)
        holder = Wire(daemon)
        locks = [holder.call("acquire", name=name) for _ in range(2)]
        awaits, resizes, watches = Wire(daemon), Wire(daemon), Wire(daemon)
        asked = awaits.request("await", name=name, slot=1, state="free", timeout=30)
        resized = resizes.request("resize", name=name, slots=1, wait=30, progress=True)
        resizes.notification("holders")
        followed = watches.request("watch", name=name)
        watches.notification("synced")
        self.assertEqual(holder.notification("revoked")["lock"], locks[1]["lock"])
        replace(daemon)
        self.assertEqual(watches.notification("resync"), {"id": followed})
        watches.notification("synced")
        holder.call("release", lock=locks[1]["lock"])
        self.assertEqual(resizes.answer(resized)["slots"], 1)
        holder.call("release", lock=locks[0]["lock"])
        self.assertEqual(awaits.answer(asked)["slot"], 1)
        watches.notification("gone")

    def test_clients_that_hang_up_meanwhile(self):
        daemon = self.daemon()
        name = self.create(daemon, 20)
        peers = [Wire(daemon) for _ in range(20)]
        for peer in peers:
            peer.call("acquire", name=name)
        daemon.signal(signal.SIGUSR2)
        for peer in peers:
            peer.hang_up()
            time.sleep(0.005)
        wait_until(lambda: takeovers(daemon) == 1, what="the daemon is replaced")
        wait_until(lambda: info(daemon)["counts"]["holds"] == 0, what="the slots are free")
        self.assertEqual(info(daemon)["counts"]["lost"], 0)

    def test_bytes_on_their_way(self):
        """Half a request, and answers that nobody has read."""
        daemon = self.daemon()
        peer = Wire(daemon)
        line = b'{"id":1,"method":"ping"}\n'
        peer.send_bytes(line[:10])
        unread = Wire(daemon)
        for _ in range(20):
            unread.request("rpc.discover")
        replace(daemon)
        peer.send_bytes(line[10:])
        peer.methods[1] = ("ping", True)
        peer.answer(1)
        for number in range(1, 21):
            unread.answer(number)

    def test_without_a_broker(self):
        """A waiter waits on, and a hold without a slot stays."""
        daemon = Daemon(self, broker=RABBIT.url, expect=["lock connection", "auxiliary connection"])
        daemon.wait_broker()
        peer, waiter = Wire(daemon), Wire(daemon)
        peer.call("create", name="unlimited", slots="unlimited")
        lock = peer.call("acquire", name="unlimited")["lock"]
        RABBIT.stop()
        try:
            daemon.wait_log("lock connection down")
            asked = waiter.request("acquire", name="a-mutex", kind="mutex")
            waiter.call("ping")
            replace(daemon)
            peer.call("verify", lock=lock)
        finally:
            RABBIT.start()
        waiter.answer(asked)

    # ---- what is refused ----

    def refused(self, daemon, why):
        """The old program goes on, and keeps its lock."""
        daemon.expect(REFUSED, "cannot take over", "configuration", "lockbrokerd: ", "reload: ")
        peer = Wire(daemon)
        lock = peer.call("acquire", name="kept", kind="mutex")["lock"]
        before = len(re.findall(REFUSED, daemon.log()))
        daemon.signal(signal.SIGUSR2)
        said = daemon.wait_log(f"{REFUSED}: .*", count=before + 1)
        self.assertIn(why, said.group())
        peer.call("verify", lock=lock)
        peer.call("release", lock=lock)
        self.assertEqual(takeovers(daemon), 0)

    def test_memory(self):
        self.refused(Daemon(self), "in the memory of this process")

    def test_another_configuration(self):
        daemon = self.daemon()
        for line, status, why in (("naming = amqp-locks-python", 69, "names of queues"), ("margin = 1", 69, "margin"),
                                  ("nonsense = 1", 78, "unknown key")):
            daemon.write_config(line + "\n")
            self.refused(daemon, f"refuses, with exit status {status}")
            daemon.wait_log(why)
        daemon.write_config("rescan-interval = 7\n")
        replace(daemon)

    def test_another_broker(self):
        """Its vhost, its user and TLS count, too, and so does a file for TLS that cannot be used."""
        daemon = self.daemon()
        daemon.config_head = ""
        junk = os.path.join(daemon.dir, "junk.pem")
        with open(junk, "w", encoding="ascii") as file:
            file.write("no certificate\n")
        elsewhere = RABBIT.url.replace("guest:", "another:")
        for number, broker in enumerate((elsewhere, RABBIT.url + "/another", RABBIT.url.replace("amqp:", "amqps:"))):
            daemon.write_config(f"broker = {broker}\n")
            self.refused(daemon, "refuses, with exit status 69")
            daemon.wait_log("cannot take over: the broker has changed", count=number + 1)
        daemon.write_config(f"broker = {RABBIT.url},amqps://localhost\ntls-ca = {junk}\n")
        self.refused(daemon, "refuses, with exit status 69")
        daemon.wait_log("cannot take over: .*junk.pem")
        daemon.write_config(f"broker = amqp://192.0.2.1,{RABBIT.url}\n")
        replace(daemon)

    def test_a_listening_socket_that_blocks(self):
        """systemd clears O_NONBLOCK of the sockets of a unit at each start of its service."""
        daemon = Daemon(self, broker=RABBIT.url, activate=True)
        peer = Wire(daemon)
        peer.call("ping")
        daemon.listener.setblocking(True)
        daemon.signal(signal.SIGUSR2)
        daemon.wait_log("has taken over")
        self.assertEqual(takeovers(daemon), 1)
        peer.call("ping")

    def own_program(self, daemon):
        """Lets the daemon run from a file of its own, which can be replaced."""
        path = os.path.join(daemon.dir, "lockbrokerd")
        shutil.copy(program("lockbrokerd"), path)
        daemon.command[0] = path
        daemon.start()
        daemon.wait_broker()
        return path

    def upgrade(self, path, script):
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n" + script)
        os.chmod(path + ".new", 0o755)
        os.rename(path + ".new", path)

    def test_a_program_that_does_not_work(self):
        daemon = Daemon(self, broker=RABBIT.url, start=False)
        path = self.own_program(daemon)
        mute = f"exec {sys.executable} -c 'import os, time; os.closerange(3, 99); time.sleep(60)'\n"
        for script, why in (("exit 3\n", "exit status 3"), ("exit 0\n", "exit status 0"),
                            ("kill -9 $$\n", "ended by signal 9"), (mute, "ended by signal 9"),
                            ("exec sleep 60\n", "did not answer within 5 s")):
            self.upgrade(path, script)
            self.refused(daemon, why)
        os.unlink(path)
        self.refused(daemon, "No such file")
        shutil.copy(program("lockbrokerd"), path)
        replace(daemon)

    def test_a_signal_to_all_processes_of_the_unit(self):
        """A restart by systemd can come to the rehearsal, too. It goes on."""
        daemon = Daemon(self, broker=RABBIT.url, start=False)
        path = self.own_program(daemon)
        self.upgrade(path, f'[ -z "$LOCKBROKERD_REHEARSAL" ] || kill -TERM $$\nexec {program("lockbrokerd")} "$@"\n')
        replace(daemon)

    def test_a_parent_that_ignores_its_children(self):
        """The exit status of the rehearsal counts all the same."""
        daemon = Daemon(self, broker=RABBIT.url, start=False)
        daemon.command = ["/bin/sh", "-c", 'trap "" CHLD; exec "$@"', "sh", *daemon.command]
        daemon.start()
        daemon.wait_broker()
        daemon.write_config("nonsense = 1\n")
        self.refused(daemon, "exit status 78")

    def test_a_stop_meanwhile(self):
        """SIGTERM ends the daemon, at whatever moment of a replacement it comes."""
        for number in range(8):
            daemon = self.daemon()
            daemon.expect(REFUSED)
            daemon.signal(signal.SIGUSR2)
            time.sleep(number * 0.01)
            daemon.stop()

    def test_a_broker_that_does_not_answer(self):
        daemon = self.daemon("--request-timeout", "30", "--heartbeat", "20")
        name = self.create(daemon)
        daemon.expect(REFUSED, "reload: ")
        peer = Wire(daemon)
        lock = peer.call("acquire", name=name)["lock"]
        RABBIT.freeze()
        try:
            asked = peer.request("release", lock=lock)
            peer.call("ping")
            daemon.signal(signal.SIGUSR2)
            daemon.wait_log(f"{REFUSED}: the broker did not answer within 2 s")
            peer.call("ping")
        finally:
            RABBIT.thaw()
        peer.answer(asked)
        replace(daemon)

    def test_an_unknown_version_of_the_state(self):
        """Without a rehearsal: its sockets are closed, and it starts as usual."""
        daemon = Daemon(self, broker=RABBIT.url, start=False)
        daemon.expect("all locks of the earlier program end: .*version 99")
        state = os.path.join(daemon.dir, "state")
        with open(state, "w", encoding="ascii") as file:
            file.write('{"record":"lockbrokerd","state":99,"version":"9.9"}\n{"record":"end","records":0}\n')
        daemon.env["LOCKBROKERD_STATE"] = "9"
        daemon.command = ["/bin/sh", "-c", f'exec "$@" 9<{state}', "sh", *daemon.command]
        daemon.start()
        daemon.wait_broker()
        self.assertEqual(takeovers(daemon), 0)

    # ---- under load ----

    def crowd(self, daemon):
        """(holders and their locks, waiters and their requests in order, idle clients)."""
        Wire(daemon).call("create", name="many", slots=HOLDS)
        Wire(daemon).call("create", name="few", slots=1)
        holders, waiters = [], []
        first = Wire(daemon)
        holders.append((first, first.call("acquire", name="few")["lock"]))
        for _ in range(HOLDS - 1):
            peer = Wire(daemon)
            holders.append((peer, peer.call("acquire", name="many")["lock"]))
        for _ in range(WAITERS):
            peer = Wire(daemon)
            waiters.append((peer, peer.request("acquire", name="few", progress=True)))
            peer.notification("waiting")
        idle = [Wire(daemon) for _ in range(PEERS - HOLDS - WAITERS)]
        return holders, waiters, idle

    def test_under_load(self):
        print(f"SUCCESSOR_SEED={SEED}")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        limits = "max-connections-per-uid = 4000\nmax-locks-per-connection = 1000\n"
        here, there = self.daemon(config=limits), self.daemon(config=limits)
        holders, waiters, idle = self.crowd(here)
        Wire(here).call("create", name="contended", slots=2)
        pingers = [Pinger(here) for _ in range(4)]
        for pinger in pingers:
            pinger.start()
        count, over = [0], threading.Event()

        def replace_again():
            while not over.wait(EVERY):
                replace(here)
                count[0] += 1
        nemesis = threading.Thread(target=replace_again, daemon=True)
        nemesis.start()
        hammer.hammer(self, [here, there], "contended", 2, 4, SECONDS)
        over.set()
        nemesis.join(60)
        for pinger in pingers:
            pinger.over.set()
            pinger.join(60)
        self.tell_pauses(pingers, count[0])
        self.tell_phases(here.log())
        self.assertGreater(count[0], 0)
        self.assertEqual(takeovers(here), count[0])
        # Nothing is lost.
        counts = Wire(here).call("info")["counts"]
        self.assertEqual((counts["holds"], counts["waiting"], counts["lost"]), (HOLDS, WAITERS, 0))
        for peer, lock in random.Random(SEED).sample(holders, 40):
            peer.call("verify", lock=lock)
        for peer in idle:
            peer.call("ping")
        # The order is kept.
        holder, lock = holders[0]
        for peer, asked in waiters:
            holder.call("release", lock=lock)
            lock, holder = peer.answer(asked)["lock"], peer

    @staticmethod
    def tell_phases(log):
        """The old program waits for answers and saves its state; then the new one begins, and restores it."""
        found = re.findall(r"(?m)T..:..:(\S+)Z info: the program is replaced.*\n(?:.*\n)*?"
                           r".*T..:..:(\S+)Z info: .* a pause of (\d+) ms$", log)
        new = [(float(end) - float(begin)) % 60 * 1000 for begin, end, _ in found]
        old = [float(pause) - part for (*_, pause), part in zip(found, new)]
        print(f"pause by the daemon's log, median: {statistics.median(old):.0f} ms of the old program, "
              f"{statistics.median(new):.0f} ms of the new one")

    def tell_pauses(self, pingers, count):
        worst = sorted(pause for pinger in pingers for pause in pinger.worst.values())
        self.assertTrue(worst)
        p99 = worst[min(len(worst) - 1, int(len(worst) * 0.99))]
        print(f"{count} replacements of {HOLDS} holds, {WAITERS} waiters and {PEERS} clients; longest pause of a client "
              f"in {EVERY} s: median {statistics.median(worst) * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms, "
              f"longest {worst[-1] * 1000:.0f} ms; bound of p99 {PAUSE * 1000:.0f} ms")
        at_most(self, "p99 of the pauses, seconds", p99, PAUSE)

    def test_kills_in_the_middle(self):
        """All slots are free after the kill of a daemon, whatever program was about to run."""
        dice = random.Random(SEED)
        print(f"SUCCESSOR_SEED={SEED}")
        here, there = self.daemon(), self.daemon()
        here.expect(".*")
        name = self.create(here, 5)
        other = Wire(there)
        lost = 0
        for _ in range(KILLS):
            peers = [Wire(here) for _ in range(5)]
            for peer in peers:
                peer.call("acquire", name=name)
            here.signal(signal.SIGUSR2)
            time.sleep(dice.uniform(0, 0.25))
            here.kill()
            for peer in peers:
                with self.assertRaises((Closed, OSError)):
                    peer.call("ping")
            locks = [other.call("acquire", name=name, timeout=5)["lock"] for _ in range(5)]
            lost += len(peers)
            for lock in locks:
                other.call("release", lock=lock)
            here.read_notices()
            here.start()
            here.wait_broker()
        print(f"{KILLS} kills, {lost} locks ended by them")


if __name__ == "__main__":
    tap.main()
