"""RabbitMQ closes a channel that acknowledges no message within its consumer_timeout. Probes of other daemons are messages.
No hold ends by that, in whichever way its slot is held. A watch of a slot queue that ends is placed again.

The timeout is shorter here than the 20 s after which a watch acknowledges. It is 30 minutes by default."""

import unittest

import tap
from daemon import WAYS, Daemon
from rabbit import Rabbit, version
from wire import Wire, wait_until

TIMED_OUT = "delivery acknowledgement on channel"
# A holder queue of somebody else, which takes messages. Its consumer gets them.
FOREIGN = """
    Queue = rabbit_misc:r(<<"/">>, queue, <<"%s-1-B">>),
    case rabbit_amqqueue:lookup(Queue) of
        {ok, Found} -> rabbit_amqqueue:delete(Found, false, false, <<"tests">>);
        _ -> ok end,
    {new, _} = rabbit_amqqueue:declare(Queue, true, false, [], none, <<"tests">>)."""
RABBIT = Rabbit.lease()


def setUpModule():
    RABBIT.serve_module()
    RABBIT.set_env(consumer_timeout=1000, channel_tick_interval=100)


# From 4.3 on RabbitMQ takes nothing back from a consumer of a classic queue (rabbitmq-server issue 16983).
@unittest.skipIf(tuple(map(int, version().split(".")[:2])) >= (4, 3), "classic queues have no consumer_timeout")
class ConsumerTimeout(unittest.TestCase):
    def test_holds_outlive_it_under_foreign_probes(self):
        daemon = Daemon(self, expect=["the broker closed a channel of watches: .*" + TIMED_OUT], broker=RABBIT.url)
        foreign = Daemon(self, broker=RABBIT.url)
        for one in (daemon, foreign):
            one.wait_broker()
        peer, prober = Wire(daemon), Wire(foreign)
        for way in WAYS:
            peer.call("create", name=way, slots=1, claim=way)
        if "consumer" in WAYS:
            # The daemon knows that it is free then.
            peer.call("release", lock=peer.call("acquire", name="consumer", timeout=0)["lock"])
            RABBIT.eval(FOREIGN % "consumer")
        locks = {way: peer.call("acquire", name=way, timeout=0)["lock"] for way in WAYS}
        self.assertEqual(set(RABBIT.holders()) & {way + "-1-B" for way in WAYS}, {way + "-1-B" for way in WAYS})

        def timed_out(times):
            for way in WAYS:
                self.assertEqual(prober.error("acquire", name=way, timeout=0).reason, "would-block")
            return RABBIT.log.count(TIMED_OUT) >= times
        wait_until(lambda: timed_out(2), what="two channels of watches have timed out")
        for lock in locks.values():
            peer.call("verify", lock=lock)
        peer.pump()
        self.assertEqual([note["method"] for note in peer.notifications], [])
        self.assertEqual(peer.call("info")["counts"]["lost"], 0)
        self.assertEqual(daemon.log().count("lock connection up"), 1)
        # They are watched again: the holders hear of the end of their slots.
        wait_until(lambda: all(RABBIT.queues()[way + "-1-A"].consumers for way in WAYS), what="the slots are watched")
        for way in WAYS:
            Wire(foreign).call("destroy", name=way)
            self.assertEqual(peer.notification("revoked")["lock"], locks[way])
            peer.call("release", lock=locks[way])


if __name__ == "__main__":
    tap.main()
