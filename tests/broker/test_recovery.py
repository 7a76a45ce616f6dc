"""Recovery after the loss of the connection to the broker. The daemon's old slots look busy until the broker notices
the loss. Waiting requests go on. If several hosts are configured, the daemon connects to the next one."""

import os
import socket
import subprocess
import unittest

import tap
from daemon import Daemon, clean_environment, program
from proxy import Proxy
from rabbit import Rabbit
from wire import Wire, WireError, wait_until

TROUBLE = ("lock connection", "auxiliary connection", "lost")
HEARTBEAT = 3  # a lease of 4.5 s
RABBIT = Rabbit.lease(shared=True)

setUpModule = RABBIT.serve_module


class OldB(unittest.TestCase):
    def test_own_old_b_is_another_holder(self):
        """The network swallows one connection, and a new one gets through. The broker believes the old one alive
        as long as it gets heartbeats."""
        proxy = Proxy(self, RABBIT.port)
        # Its probes may go into the stranded connection: a wait that none has answered is no timeout.
        daemon = Daemon(self, "--heartbeat", str(HEARTBEAT), "--margin", "1.5", "--rescan-interval", "0.2",
                        "--probe-timeout", "1", expect=TROUBLE, broker=RABBIT.url_at(proxy.port))
        daemon.wait_broker()
        peer = Wire(daemon)
        peer.call("create", name="old", slots=1)
        lock = peer.call("acquire", name="old", timeout=0)["lock"]
        self.assertFalse(self.recovering(peer))

        proxy.strand()
        lost = peer.notification("lost")
        self.assertEqual(lost["lock"], lock)
        self.assertIn("no answer from the broker", lost["why"])
        waiting = peer.request("acquire", name="old")
        daemon.wait_broker()
        self.assertTrue(self.recovering(peer))
        other = Wire(daemon)
        self.assertEqual(other.error("acquire", name="old", timeout=3).reason, "timeout")
        self.assertEqual(other.error("acquire", name="old", timeout=0).reason, "would-block")
        self.assertEqual(list(peer.replies), [])

        proxy.abandon()
        grant = peer.answer(waiting)
        peer.call("verify", lock=grant["lock"])
        wait_until(lambda: not self.recovering(peer), what="it has recovered")
        self.assertEqual(peer.call("info")["counts"]["lost"], 1)

    @staticmethod
    def recovering(peer):
        return peer.call("info")["lease"]["recovering"]


class First(unittest.TestCase):
    def test_a_request_waits_for_the_first_connection(self):
        proxy = Proxy(self, RABBIT.port)
        proxy.cut()
        daemon = Daemon(self, "--connect-grace", "30", start=False,
                        broker=RABBIT.url_at(proxy.port))
        daemon.launch()
        daemon.wait_log("listening at")
        peer = Wire(daemon)
        asked = peer.request("acquire", name="early", kind="mutex", timeout=0)
        self.assertNotIn("READY=1", daemon.read_notices())
        proxy.mend()
        self.assertEqual(peer.answer(asked)["name"], "early")
        daemon.wait_notice("READY=1")
        peer.error("size", name="missing")
        mine = [properties for vhost, properties in RABBIT.connections("vhost", "client_properties") if vhost == RABBIT.vhost]
        for which in "locks", "auxiliary":
            name = f'{{<<"connection_name">>,longstr,<<"lockbrokerd {os.uname().nodename} ({which})">>}}'
            self.assertEqual(len([properties for properties in mine if name in properties]), 1, mine)

    def test_a_request_of_a_client_that_left_before_it(self):
        proxy = Proxy(self, RABBIT.port)
        proxy.cut()
        daemon = Daemon(self, "--connect-grace", "30", start=False,
                        broker=RABBIT.url_at(proxy.port))
        daemon.launch()
        daemon.wait_log("listening at")
        peer = Wire(daemon)
        peer.request("create", name="left", slots=1)
        peer.request("acquire", name="left", timeout=0)
        peer.hang_up()
        proxy.mend()
        daemon.wait_log("done create of left: client 1,", 20)
        # It does not keep the lock.
        self.assertEqual(Wire(daemon).call("acquire", name="left", timeout=20, within=30)["slot"], 1)

    def test_a_silent_host_leaves_time_for_the_next(self):
        silent = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(silent.close)
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        daemon = Daemon(self, "--connect-grace", "15", "--connect-timeout", "60", start=False,
                        broker=[RABBIT.url_at(silent.getsockname()[1]), RABBIT.url], expect=[f"connection down: {host}: "])
        daemon.launch()
        daemon.wait_log("listening at")
        peer = Wire(daemon)
        self.assertEqual(peer.call("acquire", name="early", kind="mutex", timeout=0, within=60)["name"], "early")
        daemon.wait_log(f"lock connection down: {host}: no connection within 5 s")
        self.assertEqual(peer.call("info")["broker"]["host"], f"127.0.0.1:{RABBIT.port}")

    def test_nobody_waits_for_a_broker_that_refuses(self):
        """The grace is longer than the deadline of this test."""
        wrong = RABBIT.url_at(RABBIT.port, "guest:wrong")
        daemon = Daemon(self, "--connect-grace", "60", start=False, broker=[wrong, wrong], expect=["refused by the broker"])
        daemon.launch()
        daemon.wait_log("listening at")
        peer = Wire(daemon)
        self.assertEqual(peer.error("acquire", name="early", timeout=30, within=40).reason, "broker-refused")
        daemon.wait_notice("READY=1")
        self.assertIs(peer.error("create", name="early").data["changed"], False)

    def test_one_host_that_refuses_is_not_all(self):
        daemon = Daemon(self, "--connect-grace", "60", start=False, expect=["refused by the broker"],
                        broker=[RABBIT.url_at(RABBIT.port, "guest:wrong"), RABBIT.url])
        daemon.launch()
        daemon.wait_log("listening at")
        self.assertEqual(Wire(daemon).call("acquire", name="early", kind="mutex", timeout=0, within=60)["name"], "early")


class Private(unittest.TestCase):
    """A user without an installed daemon."""

    @staticmethod
    def lockbroker(*argv, status=0):
        done = subprocess.run([program("lockbroker"), argv[0], "--broker-env", "LOCKS", *argv[1:]], text=True, timeout=120,
                              capture_output=True, check=False, env=clean_environment(LOCKS=RABBIT.url))
        assert done.returncode == status, (argv, done)
        return done.stdout

    def test_administers_what_it_made(self):
        self.lockbroker("create", "nightly", "2")
        self.assertIn("nightly\t2\t0\t0", self.lockbroker("list", "--no-headers"))
        self.lockbroker("resize", "nightly", "3")
        self.assertEqual(self.lockbroker("run", "nightly", "echo", "runs"), "runs\n")
        self.assertEqual(self.lockbroker("size", "nightly"), "3\n")
        self.lockbroker("destroy", "nightly")
        self.lockbroker("size", "nightly", status=66)


class Hosts(unittest.TestCase):
    deadline = 300

    def setUp(self):
        self.first = self.enterContext(Rabbit())
        self.second = self.enterContext(Rabbit(join=self.first))
        # Khepri changes nothing without a majority.
        self.enterContext(Rabbit(join=self.first))
        # Until it is given one, each node of a cluster has a name for it of its own.
        self.first.ctl("set_cluster_name", "one cluster")
        # A classic queue lives where it was declared: the As must outlive the first node.
        self.admin = Wire(self.daemon(self.second.url))
        self.admin.call("create", name="cluster", slots=2)

    def daemon(self, *urls):
        # The broker does not say in time whether the queue of a dead node is there. Until the probe gives up, it is
        # unknown whether the slot is free, and the end of a wait is no timeout.
        # A busy first host has a third of the grace.
        daemon = Daemon(self, "--rescan-interval", "0.3", "--probe-timeout", "1", "--connect-grace", "30", broker=urls,
                        expect=TROUBLE)
        daemon.wait_broker()
        return daemon

    def host(self, peer):
        return peer.call("info")["broker"]["host"]

    def holder(self, daemon):
        peer = Wire(daemon)
        lock = peer.call("acquire", name="cluster")["lock"]
        peer.call("verify", lock=lock)
        return peer, lock

    def keeps_queues_of_dead_nodes(self):
        """With Khepri, from 4.2.3 on: a slot that was held there is free when the node is back."""
        version = tuple(int(part) for part in self.second.ctl("version").split("."))
        return version >= (4, 2, 3) and "khepri_db\tenabled" in self.second.ctl("list_feature_flags", "name", "state")

    def test_failover(self):
        here = self.daemon(self.first.url, self.second.url)
        peer, lock = self.holder(here)
        self.assertEqual(self.host(peer), f"127.0.0.1:{self.first.port}")
        there, kept = self.holder(self.daemon(self.second.url))
        self.assertEqual(self.admin.error("acquire", name="cluster", timeout=0).reason, "would-block")

        self.first.kill()
        self.assertEqual(peer.notification("lost")["lock"], lock)
        here.wait_broker()
        self.assertEqual(self.host(peer), f"127.0.0.1:{self.second.port}")
        if self.keeps_queues_of_dead_nodes():
            self.assertEqual(peer.error("acquire", name="cluster", timeout=4).reason, "timeout")
            self.first.start()
        grant = peer.call("acquire", name="cluster")
        peer.call("verify", lock=grant["lock"])
        # Two slots, and both are held: the one on the node that lived was never lost.
        there.call("verify", lock=kept)
        self.assertEqual(self.admin.error("acquire", name="cluster", timeout=0).reason, "would-block")
        self.refused_as_another_cluster(here, peer, grant["lock"])

    def refused_as_another_cluster(self, daemon, peer, lock):
        """The host that is left says that it belongs elsewhere."""
        self.second.ctl("set_cluster_name", "another one")
        peer.call("verify", lock=lock)
        self.second.perform("close_all_connections", "moved")
        self.assertEqual(peer.notification("lost")["lock"], lock)
        daemon.wait_log('this host belongs to cluster "another one"')
        self.assertIn(self.refusal(peer), ("broker-unavailable", "broker-refused"))
        self.assertNotEqual(peer.call("info")["broker"]["state"], "up")
        self.second.ctl("set_cluster_name", "one cluster")
        daemon.wait_broker()
        peer.call("release", lock=peer.call("acquire", name="cluster")["lock"])

    @staticmethod
    def refusal(peer):
        try:
            peer.call("acquire", name="cluster", timeout=0)
        except WireError as error:
            return error.reason
        return None


if __name__ == "__main__":
    tap.main()
