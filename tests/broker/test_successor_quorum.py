"""A daemon with holds by quorum is replaced by its successor over a real RabbitMQ. No hold is lost, no fence falls, and no
grace begins anew.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

import tap
from daemon import Daemon, program
from rabbit import Rabbit
from wire import Wire, wait_until

RABBIT = Rabbit.lease()
# 3.10 of Debian 12 is refused otherwise.
OPTIONS = ("--quorum-servers", "untested")
GRACE = 5  # seconds; the least
HOLDS = 100
TROUBLE = ("connection", "lost")
# Gets the state by execve(2), and starts the daemon as systemd does, which kept all descriptors in one.
STORE = """#!{python}
import json, os, socket, sys
if "LOCKBROKERD_STATE" in os.environ:
    state = int(os.environ.pop("LOCKBROKERD_STATE"))
    records = [json.loads(line) for line in os.pread(state, 1 << 26, 0).splitlines()]
    sockets = [int(value.partition(":")[0]) for record in records for name, value in record.items()
               if name in ("fd", "listener") and ":" in value]
    stash, other = socket.socketpair()
    socket.send_fds(other, [b"."], [state])
    for at in range(0, len(sockets), 100):
        socket.send_fds(other, [b"."], sockets[at:at + 100])
    other.close()
    for fd in [state, *sockets]:
        os.close(fd)
    os.dup2(stash.detach(), 3)
    os.set_inheritable(3, True)
    os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="lockbrokerd-state")
os.execv("{daemon}", ["{daemon}", *sys.argv[1:]])
"""
# The first record of each rehearsal. In the first one, a client acquires a lock.
REHEARSAL = """#!/bin/sh
if [ -n "$LOCKBROKERD_REHEARSAL" ]; then
    head -n 1 /proc/self/fd/$LOCKBROKERD_REHEARSAL >> {dir}/versions
    if ! [ -e {dir}/held ]; then
        : > {dir}/held
        {command} acquire --socket {socket} --for-pid {pid} {name}
    fi
fi
exec {daemon} "$@"
"""

setUpModule = RABBIT.serve_module


class SuccessorQuorum(unittest.TestCase):
    deadline = 400

    def daemon(self, *options, **more):
        daemon = Daemon(self, *OPTIONS, *options, broker=RABBIT.url, **more)
        daemon.wait_broker()
        return daemon

    def create(self, wire, slots, grace=GRACE):
        name = self.id().rpartition(".")[2]
        wire.call("create", name=name, slots=slots, claim="quorum", takeover_grace=grace)
        return name

    def hold_all(self, wire, name, slots):
        asked = [wire.request("acquire", name=name, timeout=60) for _ in range(slots)]
        return [wire.answer(one) for one in asked]

    def info(self, daemon):
        peer = Wire(daemon)
        try:
            return peer.call("info")
        finally:
            peer.hang_up()

    def replace(self, daemon):
        before = self.info(daemon)["takeovers"]
        daemon.signal(signal.SIGUSR2)
        wait_until(lambda: self.info(daemon)["takeovers"] > before, what=f"the daemon is replaced\n{daemon.log()[-2000:]}")

    def check_all(self, wire, grants):
        """All are held. Leases do not end earlier, and fences do not fall."""
        for grant in grants:
            verified = wire.call("verify", lock=grant["lock"])
            self.assertEqual(verified["slot"], grant["slot"])
            self.assertGreaterEqual(verified["safe_until"], grant["safe_until"])
            self.assertGreater(verified["fence"], grant["fence"])
            grant.update(safe_until=verified["safe_until"], fence=verified["fence"])
        self.assertEqual(wire.call("info")["counts"]["lost"], 0)

    def check_clean(self, daemon, name, grants):
        """Each slot is granted at once, with a larger number."""
        before = {grant["slot"]: grant["fence"] for grant in grants}
        for grant in self.hold_all(Wire(daemon), name, len(grants)):
            self.assertLess(grant["waited"], GRACE)
            self.assertGreater(grant["fence"], before[grant["slot"]])

    def test_holds_and_a_waiter(self):
        daemon, there = self.daemon(), self.daemon()
        holder, waiter = Wire(daemon), Wire(daemon)
        name = self.create(holder, HOLDS)
        grants = self.hold_all(holder, name, HOLDS)
        rows = {row["waiter"]: row["fence"] for row in holder.call("show", name=name)["holders"]}
        asked = waiter.request("acquire", name=name, progress=True)
        waiter.notification("waiting")
        pid = daemon.pid
        for _ in range(3):
            self.replace(daemon)
            self.check_all(holder, grants)
        self.assertEqual(daemon.pid, pid)
        self.assertEqual({row["waiter"]: row["fence"] for row in holder.call("show", name=name)["holders"]}, rows)
        self.assertEqual(sum(one["holds"] for one in self.info(daemon)["broker"]["quorum"]["connections"]), HOLDS)
        end = time.monotonic() + GRACE
        wait_until(lambda: time.monotonic() > end, what="all leases were extended")
        self.check_all(holder, grants)
        holder.call("release", lock=grants[0]["lock"])
        granted = waiter.answer(asked)
        self.assertEqual(granted["slot"], grants[0]["slot"])
        self.assertGreater(granted["fence"], grants[0]["fence"])
        waiter.call("release", lock=granted["lock"])
        for grant in grants[1:]:
            holder.call("release", lock=grant["lock"])
        self.check_clean(there, name, grants)

    def free_in(self, daemon, name):
        peer = Wire(daemon)
        try:
            return peer.error("acquire", name=name, timeout=0).data["free_in"]
        finally:
            peer.hang_up()

    def own_program(self):
        """A daemon from a file of its own, which can be replaced."""
        daemon = Daemon(self, *OPTIONS, broker=RABBIT.url, start=False)
        daemon.command[0] = shutil.copy(program("lockbrokerd"), daemon.dir)
        daemon.start()
        daemon.wait_broker()
        return daemon

    def upgrade(self, daemon, script):
        path = daemon.command[0]
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write(script)
        os.chmod(path + ".new", 0o755)
        os.rename(path + ".new", path)

    def test_the_store_of_systemd(self):
        daemon, there = self.own_program(), self.daemon()
        self.upgrade(daemon, STORE.format(python=sys.executable, daemon=program("lockbrokerd")))
        holder = Wire(daemon)
        name = self.create(holder, 10)
        grants = self.hold_all(holder, name, 10)
        self.replace(daemon)
        self.check_all(holder, grants)
        for grant in grants:
            holder.call("release", lock=grant["lock"])
        self.check_clean(there, name, grants)

    def test_a_hold_that_begins_in_the_rehearsal(self):
        """The new program is asked again, by the version of the state that it would get."""
        daemon, there = self.own_program(), self.daemon()
        name = self.create(Wire(daemon), 1)
        process = subprocess.Popen(["sleep", "600"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.upgrade(daemon, REHEARSAL.format(dir=daemon.dir, command=program("lockbroker"), socket=daemon.socket,
                                              pid=process.pid, name=name, daemon=program("lockbrokerd")))
        self.replace(daemon)
        with open(os.path.join(daemon.dir, "versions"), encoding="ascii") as file:
            self.assertEqual([json.loads(line)["state"] for line in file], [1, 2])
        self.assertEqual(Wire(there).error("acquire", name=name, timeout=0).reason, "would-block")
        process.kill()
        self.assertLess(Wire(there).call("acquire", name=name, timeout=60)["waited"], GRACE)

    def rehearse(self, daemon, state):
        """The exit status of a rehearsal with that state."""
        path = os.path.join(daemon.dir, "state")
        with open(path, "w", encoding="utf-8") as file:
            file.write(state)
        done = subprocess.run(["/bin/sh", "-c", f'exec "$@" 9<{path}', "sh", program("lockbrokerd"), *daemon.command[1:]],
                              env={**daemon.env, "LOCKBROKERD_REHEARSAL": "9"}, check=False, capture_output=True, text=True)
        return done.returncode, done.stderr

    def test_the_host_of_a_quorum_connection(self):
        """It must be in the configuration of the new program, too: the lock connection can have another one."""
        daemon = self.own_program()
        daemon.expect("exit status 3")
        holder = Wire(daemon)
        holder.call("acquire", name=self.create(holder, 1))
        self.upgrade(daemon, f"#!/bin/sh\ncat /proc/self/fd/$LOCKBROKERD_REHEARSAL > {daemon.dir}/text\nexit 3\n")
        daemon.signal(signal.SIGUSR2)
        daemon.wait_log("exit status 3")
        with open(os.path.join(daemon.dir, "text"), encoding="utf-8") as file:
            state = file.read()
        self.assertEqual(self.rehearse(daemon, state)[0], 84)
        status, said = self.rehearse(daemon, state.replace('"record":"host","broker":"', '"record":"host","broker":"other-'))
        self.assertEqual(status, 69)
        self.assertIn("the broker has changed", said)

    def test_a_claim_in_its_grace(self):
        """The holder's daemon is killed. The successor waits no longer than its predecessor would have."""
        daemon, dead = self.daemon(), self.daemon()
        name = self.create(Wire(daemon), 1, grace=20)
        held, waiter = Wire(dead).call("acquire", name=name), Wire(daemon)
        asked = waiter.request("acquire", name=name)
        dead.kill()
        wait_until(lambda: self.info(daemon)["broker"]["quorum"]["graces"] == 1, what="the claim waits for the grace")
        left = self.free_in(daemon, name)
        wait_until(lambda: self.free_in(daemon, name) < left - 2, what="a part of the grace is over")
        self.replace(daemon)
        self.assertLess(self.free_in(daemon, name), left - 2)
        granted = waiter.answer(asked)
        self.assertGreater(granted["fence"], held["fence"])
        self.assertGreaterEqual(granted["waited"], 20)

    def test_renewals_that_rabbitmq_has_not_answered(self):
        """They are awaited, and not sent again. RabbitMQ is frozen meanwhile."""
        daemon, there = self.daemon(expect=TROUBLE), self.daemon(expect=TROUBLE)
        holder = Wire(daemon)
        name = self.create(holder, 5, grace=60)
        grants = self.hold_all(holder, name, 5)
        RABBIT.freeze()
        try:
            asked = [holder.request("verify", lock=grant["lock"]) for grant in grants]
            holder.call("ping")
            daemon.signal(signal.SIGUSR2)
            daemon.wait_log("has taken over")
        finally:
            RABBIT.thaw()
        for request in asked:
            holder.answer(request)
        self.check_all(holder, grants)
        for grant in grants:
            holder.call("release", lock=grant["lock"])
        there.wait_broker()
        self.check_clean(there, name, grants)

    def test_other_settings(self):
        """Fewer connections, and another way for new locks: the holds stay where they are."""
        daemon, there = self.daemon(config="quorum-connections = 4\nclaim = quorum\n"), self.daemon()
        holder = Wire(daemon)
        name = self.create(holder, 8)
        grants = self.hold_all(holder, name, 6)
        daemon.write_config("quorum-connections = 1\nclaim = exclusive-queue\n")
        self.replace(daemon)
        self.check_all(holder, grants)
        holds = [one["holds"] for one in self.info(daemon)["broker"]["quorum"]["connections"]]
        self.assertEqual((len(holds), sum(holds)), (4, 6))
        grants += self.hold_all(holder, name, 2)
        now = [one["holds"] for one in self.info(daemon)["broker"]["quorum"]["connections"]]
        self.assertEqual((now[0], now[1:]), (holds[0] + 2, holds[1:]))
        for grant in grants:
            holder.call("release", lock=grant["lock"])
        self.check_clean(there, name, grants)

    def test_clients_that_hang_up_meanwhile(self):
        daemon, there = self.daemon(), self.daemon()
        name = self.create(Wire(there), 20)
        peers = [Wire(daemon) for _ in range(20)]
        grants = [peer.call("acquire", name=name) for peer in peers]
        daemon.signal(signal.SIGUSR2)
        for peer in peers:
            peer.hang_up()
        wait_until(lambda: self.info(daemon)["takeovers"] == 1, what="the daemon is replaced")
        wait_until(lambda: self.info(daemon)["counts"]["holds"] == 0, what="the slots are free")
        self.check_clean(there, name, grants)

    def test_a_loss_before_the_takeover(self):
        """The client stops after it. The successor reclaims the slot."""
        daemon, there = self.daemon(expect=TROUBLE), self.daemon(expect=TROUBLE)
        holder = Wire(daemon)
        self.addCleanup(RABBIT.start)
        name = self.create(holder, 1)
        grant = holder.call("acquire", name=name)
        RABBIT.stop()
        holder.notification("lost")
        RABBIT.start()
        daemon.wait_broker()
        self.replace(daemon)
        self.assertEqual(self.info(daemon)["broker"]["quorum"]["reclaimed"], 0)
        self.assertEqual(holder.error("release", lock=grant["lock"]).reason, "not-held")
        wait_until(lambda: self.info(daemon)["broker"]["quorum"]["reclaimed"] == 1, what="the slot is clean")
        there.wait_broker()
        self.check_clean(there, name, [grant])


if __name__ == "__main__":
    tap.main()
