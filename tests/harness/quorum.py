"""Tests of slots that are held by quorum, over a RabbitMQ.

	class Damage(QuorumTest):
		rabbit = RABBIT
"""

import unittest

from daemon import GRACE, UNTESTED, Daemon


class QuorumTest(unittest.TestCase):
    """One semaphore. Its name is that of the test."""

    rabbit = None

    def setUp(self):
        self.name = ".".join(self.id().split(".")[-2:])

    def daemon(self, *options, **more):
        # 3.10 of Debian 12 is refused otherwise.
        daemon = Daemon(self, *UNTESTED, *options, broker=more.pop("url", self.rabbit.url), **more)
        daemon.wait_broker()
        return daemon

    def create(self, wire, slots):
        wire.call("create", name=self.name, slots=slots, claim="quorum", takeover_grace=GRACE)

    def queue(self, slot):
        return f"lockbroker=q={self.name}={slot}"

    def take(self, wire, slots):
        """Takes so many slots. {slot: the grant}. They are free; but another daemon may close a channel just now."""
        asked = [wire.request("acquire", name=self.name) for _ in range(slots)]
        return {grant["slot"]: grant for grant in map(wire.answer, asked)}

    def grants(self, wire, slots):
        """Takes so many slots, and releases them. {slot: fence}."""
        grants = self.take(wire, slots)
        for grant in grants.values():
            wire.call("release", lock=grant["lock"])
        return {slot: grant["fence"] for slot, grant in grants.items()}

    def fsck(self, wire, **options):
        """The findings, as "problem:slot", with "!" if it was repaired."""
        answer = wire.call("fsck", name=self.name, **options)
        self.assertEqual(answer["more"], 0)
        return [f"{finding['problem']}:{finding['slot'] or 0}{'!' if finding['repaired'] else ''}"
                for finding in answer["findings"]]

    def check_repair(self, wire, found):
        self.assertEqual(self.fsck(wire), found)
        self.assertEqual(self.fsck(wire, repair=True), [f"{one}!" for one in found])
        self.assertEqual(self.fsck(wire), [])

    def check_larger(self, after, before):
        """The same slots, and each has a larger fence."""
        self.assertEqual(sorted(after), sorted(before))
        for slot, fence in after.items():
            self.assertGreater(fence, before[slot])
