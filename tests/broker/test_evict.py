"""Evictions across two hosts over a real RabbitMQ, while each of the parts fails."""

import os
import signal
import subprocess
import time
import unittest

import tap
from daemon import Daemon, clean_environment, program
from rabbit import Rabbit
from wait import wait_until
from wire import Wire

RABBIT = Rabbit.lease()
TROUBLE = ("broker|amqp|connection|heartbeat|lease", "lost .*")

setUpModule = RABBIT.serve_module


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Case(unittest.TestCase):
    """The holder is at the host `here`, the administrator and a waiter are at `there`."""

    def setUp(self):
        self.name = self.id().rpartition(".")[2][:60]
        self.here, self.there = self.daemon("here"), self.daemon("there")
        self.admin = Wire(self.there)
        self.admin.call("create", name=self.name, claim="consumer")
        self.holder = Wire(self.here)
        self.lock = self.holder.call("acquire", name=self.name)["lock"]
        self.waiter = Wire(self.there)
        self.asked = self.waiter.request("acquire", name=self.name)

    def daemon(self, host):
        daemon = Daemon(self, "--host-name", host, "--heartbeat", "60", broker=RABBIT.url, expect=TROUBLE)
        daemon.wait_broker()
        return daemon

    def row(self):
        """The id of the holder's row, once the other host is known."""
        def found():
            return [row["waiter"] for row in self.admin.call("show", name=self.name)["holders"] if not row["unknown"]]
        return wait_until(found, what="the holder is shown")[0]

    def evict(self, grace):
        """The deadline, by the clock of this machine."""
        self.assertEqual(self.admin.call("evict", holder=self.row(), grace=grace, why="upgrade"),
                         {"evicted": 1, "silent_hosts": []})
        note = self.holder.notification("evicted")
        self.assertEqual((note["lock"], note["why"], note["uid"], note["host"]),
                         (self.lock, "upgrade", os.getuid(), "there"))
        return note["deadline"]

    def granted(self):
        """When the waiter has the slot."""
        self.waiter.answer(self.asked)
        return now()


class Failures(Case):
    def test_at_the_deadline_the_slot_goes_to_the_other_host(self):
        deadline = self.evict(1.5)
        self.assertGreaterEqual(self.granted(), deadline)
        self.assertEqual(self.holder.notification("lost")["reason"], "evicted")

    def test_a_release_in_time_passes_the_slot_on(self):
        deadline = self.evict(600)
        self.holder.call("release", lock=self.lock)
        self.assertLess(self.granted(), deadline)
        self.holder.call("ping")
        self.assertNotIn("lost", [note["method"] for note in self.holder.notifications])

    def test_the_client_hangs_up(self):
        deadline = self.evict(600)
        self.holder.hang_up()
        self.assertLess(self.granted(), deadline)

    def test_the_daemon_of_the_holder_dies(self):
        deadline = self.evict(600)
        self.here.kill()
        self.assertLess(self.granted(), deadline)

    def test_the_daemon_of_the_administrator_dies(self):
        """The deadline is at the host of the holder."""
        deadline = self.evict(1.5)
        self.there.kill()
        self.assertEqual(self.holder.notification("lost")["reason"], "evicted")
        self.assertGreaterEqual(now(), deadline)

    def test_the_broker_dies(self):
        """All holds by consumer are lost with their connection, before the deadline. None is lost twice."""
        self.evict(3)
        RABBIT.kill()
        self.assertEqual(self.holder.notification("lost")["reason"], "lost")
        RABBIT.start()
        self.granted()
        self.holder.call("ping")
        self.assertEqual([note["method"] for note in self.holder.notifications].count("lost"), 0)

    def test_the_daemon_of_the_holder_is_silent(self):
        holder = self.row()
        self.here.freeze()
        error = self.admin.error("evict", holder=holder, grace=0)
        self.assertEqual(error.reason, "timeout")
        self.assertIn("nothing was freed", error.message)
        self.here.thaw()
        # It has read the question for the name by now, and nothing else came.
        self.assertEqual(self.holder.call("verify", lock=self.lock)["lock"], self.lock)

    def test_a_successor_keeps_the_deadline(self):
        deadline = self.evict(4)
        self.here.signal(signal.SIGUSR2)
        self.here.wait_log("has taken over")
        self.assertEqual(self.holder.notification("lost")["reason"], "evicted")
        self.assertGreaterEqual(now(), deadline)
        self.granted()


class ByCommand(Case):
    def test_run_ends_its_command_on_the_other_host(self):
        self.holder.call("release", lock=self.lock)
        self.waiter.answer(self.asked)
        self.waiter.hang_up()
        job = self.command(self.here, "run", self.name, "sh", "-c",
                           "trap 'exit 9' TERM; echo begun; while :; do sleep 0.05; done")
        self.assertEqual(job.stdout.readline(), "begun\n")
        other = self.command(self.there, "run", "--replace", "--why", "newer", self.name, "echo", "mine")
        self.assertEqual(other.communicate()[0], "mine\n")
        self.assertIn("newer", job.communicate()[1])
        self.assertEqual((job.returncode, other.returncode), (9, 0))

    def command(self, daemon, *words):
        job = subprocess.Popen([program("lockbroker"), *words], env=clean_environment(LOCKBROKER_SOCKET=daemon.socket),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (job.poll() is None and job.kill(), job.communicate()))
        return job


if __name__ == "__main__":
    tap.main()
