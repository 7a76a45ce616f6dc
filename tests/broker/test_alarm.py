"""While the broker has an alarm, it does not read from connections that publish. The daemon answers broker-blocked to
requests that need a publish. All other requests go on, because the daemon never publishes on the lock connection, nor on
the connections of holds by quorum.
"""

import time
import unittest

import tap
from daemon import BY_QUORUM, UNTESTED, WAYS, Daemon
from rabbit import Rabbit
from wait import wait_until
from wire import Wire, WireError

RABBIT = Rabbit.lease()
# How the alarm is raised, and ended.
MEMORY = ("set_vm_memory_high_watermark", "0.0000001"), ("set_vm_memory_high_watermark", "0.4")

setUpModule = RABBIT.serve_module


class Alarm(unittest.TestCase):
    def start(self, rescan_interval):
        """rescan_interval: in s. For so long the daemon trusts what it knows of a name."""
        self.daemon = Daemon(self, *UNTESTED, "--rescan-interval", str(rescan_interval), "--probe-timeout", "1",
                             broker=RABBIT.url, expect=["the broker accepts no messages"])
        self.daemon.wait_broker()
        self.peer = Wire(self.daemon)
        self.name = self.id().rpartition(".")[2]
        self.full, self.unknown = self.name + "-full", self.name + "-unknown"

    def create(self, **made):
        for name, slots in ((self.name, 2), (self.full, 1), (self.unknown, 1)):
            self.peer.call("create", name=name, slots=slots, **made)

    def refusal(self, method, **params):
        """The reason; None when it was not refused."""
        try:
            self.peer.call(method, **params)
        except WireError as error:
            return error.reason
        return None

    def side(self):
        return self.peer.call("info")["broker"]["auxiliary"]

    def goes_on_under(self, how, back, **made):
        """Requests that need no message are answered while nothing can be published."""
        self.start(rescan_interval=60)
        self.create(**made)
        other = Daemon(self, *UNTESTED, broker=RABBIT.url)
        other.wait_broker()
        other.expect("the broker accepts no messages")
        elsewhere = Wire(other)
        elsewhere.call("acquire", name=self.full, timeout=0)
        held = self.peer.call("acquire", name=self.name, timeout=0)["lock"]
        kept = self.peer.call("acquire", name=self.name, timeout=0, lease=True)
        self.addCleanup(RABBIT.perform, *back)
        RABBIT.perform(*how)
        self.peer.call("verify", lock=held)
        self.peer.call("release", lock=held)
        # The name is known: the daemon claims it without a scan.
        held = self.peer.call("acquire", name=self.name, timeout=0)["lock"]
        self.peer.call("verify", lock=held)

        # The broker may still serve the first publish: only then does it know that the connection publishes.
        wait_until(lambda: self.refusal("size", name=self.unknown) == "broker-blocked")
        self.assertEqual(self.side(), {"state": "up", "blocked": True})
        self.assertEqual(self.refusal("size", name=self.unknown), "broker-blocked")
        self.assertEqual(self.refusal("create", name=self.name + "-new"), "broker-blocked")
        # A daemon that cannot probe claims one slot after the other, up to the first that does not exist.
        self.assertEqual(self.refusal("acquire", name=self.full, timeout=0), "would-block")
        # A free slot of a name that nothing is known of is claimed unseen.
        unseen = self.peer.call("acquire", name=self.unknown, timeout=0)["lock"]
        self.peer.call("release", lock=unseen)
        self.peer.call("verify", lock=held)
        self.peer.call("release", lock=held)
        if made == BY_QUORUM:
            self.lease_goes_on(kept)
        self.nothing_published_on_the_lock_connection()

        RABBIT.perform(*back)
        wait_until(lambda: not self.side()["blocked"], what="the alarm is over")
        self.assertEqual(self.peer.call("size", name=self.unknown)["slots"], 1)
        self.assertEqual(self.refusal("acquire", name=self.full, timeout=0), "would-block")
        self.assertNotIn("connection down", self.daemon.log())
        self.assertEqual(self.peer.call("info")["counts"]["lost"], 0)

    def lease_goes_on(self, grant):
        """For two leases."""
        until = grant["safe_until"] + 2 * grant["lease"]["length"]
        while self.peer.notification("lease")["safe_until"] < until:
            pass
        self.peer.call("verify", lock=grant["lock"])

    def nothing_published_on_the_lock_connection(self):
        """The broker lists the connections that have published as blocked. The connection that owns the Bs is
        "blocking": its first message would block it. It has no channel that confirms."""
        states = dict(RABBIT.connections("pid", "state"))
        publishers = {connection for connection, confirm in RABBIT.channels("connection", "confirm") if confirm == "true"}
        pids = RABBIT.holders()
        holders = {pids[queue] for queue in RABBIT.slots_held()}
        self.assertTrue(holders)
        self.assertTrue(publishers)
        self.assertFalse(holders & publishers)
        self.assertIn("blocked", [states[one] for one in publishers if one in states])
        for one in holders:
            self.assertEqual(states[one], "blocking")

    def links(self):
        """pid and packets that the broker has read, of the lock connection and of the auxiliary connection, if any."""
        hold = RABBIT.holders()[self.name + "-1-B"]
        read = {pid: int(count) for pid, count in RABBIT.connections("pid", "recv_cnt") if count.isdigit()}
        return (hold, read.pop(hold)), sorted(read.items())

    def test_a_waiter_for_a_missing_lock_causes_few_claims(self):
        self.start(rescan_interval=2)
        self.create(claim=WAYS[0])
        self.peer.call("acquire", name=self.name, timeout=0)
        self.addCleanup(RABBIT.perform, *MEMORY[1])
        RABBIT.perform(*MEMORY[0])
        wait_until(lambda: self.refusal("size", name=self.unknown) == "broker-blocked")
        self.peer.request("acquire", name=self.name + "-missing")
        for pid, _ in self.links()[1]:
            RABBIT.perform("close_connection", pid, "test")
        began = time.monotonic()
        before = self.links()[0][1]
        # Each scan is a claim in vain: six packets. Scans are 1.4 to 2 s apart. The keepalive of the hold needs less than a
        # packet a second.
        wait_until(lambda: self.links()[0][1] - before >= 12, what="two scans")
        count, seconds = self.links()[0][1] - before, time.monotonic() - began
        print(f"{count} packets in {seconds:.1f} s")
        self.assertLessEqual(count, 6 * (1 + seconds / 1.4) + seconds)

    # Each alarm with one of the ways: its cause makes no difference to the daemon.

    def test_memory(self):
        self.goes_on_under(*MEMORY, claim=WAYS[0])

    def test_disk(self):
        self.goes_on_under(("set_disk_free_limit", "1000000GB"), ("set_disk_free_limit", "1MB"), claim=WAYS[-1])

    def test_memory_by_quorum(self):
        self.goes_on_under(*MEMORY, **BY_QUORUM)


if __name__ == "__main__":
    tap.main()
