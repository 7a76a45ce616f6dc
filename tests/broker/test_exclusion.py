"""The daemon uses a broker only if an exclusive queue of one connection is refused to another connection, and only if it is
RabbitMQ. Both are tested at the connect, over a real RabbitMQ and behind proxies.
"""

import signal
import unittest

import tap
from daemon import Daemon
from proxy import Proxy
from rabbit import Rabbit
from sharing_proxy import SharingProxy
from wait import wait_until
from wire import Wire, WireError

RABBIT = Rabbit.lease()

setUpModule = RABBIT.serve_module

SHARED = "two connections share their exclusive queues"


def url(port, login="guest:guest"):
    return f"amqp://{login}@127.0.0.1:{port}"


def broker_of(daemon):
    return Wire(daemon).call("info")["broker"]


class Exclusion(unittest.TestCase):
    def test_a_proxy_that_shares_connections_is_refused(self):
        proxy = SharingProxy(self, RABBIT.port)
        daemons = [Daemon(self, "--connect-grace", "0", broker=url(proxy.port), expect=["lock connection down"]) for _ in range(2)]
        for daemon in daemons:
            daemon.wait_log(f"lock connection down: .*{SHARED}")
            with self.assertRaises(WireError) as refused:
                Wire(daemon).call("acquire", name="deploy", kind="mutex", timeout=0)
            self.assertEqual(refused.exception.reason, "broker-unavailable")
            self.assertFalse(broker_of(daemon)["exclusion"]["tested"])

    def test_a_proxy_that_shares_nothing_is_used(self):
        proxy = Proxy(self, RABBIT.port)
        daemon = Daemon(self, broker=url(proxy.port))
        daemon.wait_broker()
        self.assertEqual(broker_of(daemon)["exclusion"], {"tested": True, "why": ""})
        wait_until(lambda: not [queue for queue in RABBIT.holders() if "=test-" in queue], what="the test has left no queue")

    def test_an_alarm_does_not_prevent_it(self):
        self.addCleanup(RABBIT.perform, "set_vm_memory_high_watermark", "0.4")
        RABBIT.perform("set_vm_memory_high_watermark", "0.0000001")
        daemon = Daemon(self, broker=RABBIT.url, expect=["the broker accepts no messages"])
        daemon.wait_broker()
        self.assertTrue(broker_of(daemon)["exclusion"]["tested"])

    def test_without_the_permission_it_is_not_tested(self):
        RABBIT.perform("add_user", "narrow", "narrow")
        self.addCleanup(RABBIT.perform, "delete_user", "narrow")
        RABBIT.perform("set_permissions", "narrow", "^(?!lockbroker=inbox=test-)", ".*", ".*")
        daemon = Daemon(self, broker=url(RABBIT.port, "narrow:narrow"), expect=["exclusive queues of the broker are not tested"])
        daemon.wait_broker()
        exclusion = broker_of(daemon)["exclusion"]
        self.assertFalse(exclusion["tested"])
        self.assertIn("ACCESS_REFUSED", exclusion["why"])
        Wire(daemon).call("acquire", name="deploy", kind="mutex", timeout=0)


class Product(unittest.TestCase):
    def start(self, **more):
        proxy = SharingProxy(self, RABBIT.port, rename=(b"RabbitMQ", b"OtherMQ!"))
        return Daemon(self, broker=url(proxy.port), **more)

    def test_another_product_is_refused(self):
        daemon = self.start(config="connect-grace = 0\n", expect=["lock connection down"])
        daemon.wait_log("lock connection down: .*this broker is \"OtherMQ!\", not RabbitMQ; broker-product = any")
        self.assertEqual(broker_of(daemon)["state"], "down")

    def test_any_product_is_still_tested(self):
        daemon = self.start(config="connect-grace = 0\nbroker-product = any\n", expect=["lock connection down"])
        daemon.wait_log(f"lock connection down: .*{SHARED}")


class Upgrade(unittest.TestCase):
    def test_a_broker_that_is_now_refused_fails_in_the_rehearsal(self):
        proxy = Proxy(self, RABBIT.port, rename=(b"RabbitMQ", b"OtherMQ!"))
        daemon = Daemon(self, broker=url(proxy.port), config="broker-product = any\n")
        daemon.wait_broker()
        peer = Wire(daemon)
        lock = peer.call("acquire", name="deploy", kind="mutex", timeout=0)["lock"]
        daemon.write_config("")
        daemon.expect("cannot take over", "goes on, and is not replaced", "broker-product changes only at a restart")
        daemon.signal(signal.SIGUSR2)
        daemon.wait_log("cannot take over: .*this broker is \"OtherMQ!\"")
        daemon.wait_log("this program goes on, and is not replaced")
        peer.call("verify", lock=lock)
        self.assertEqual(peer.call("info")["takeovers"], 0)
        daemon.write_config("broker-product = any\n")
        daemon.signal(signal.SIGUSR2)
        wait_until(lambda: Wire(daemon).call("info")["takeovers"] == 1, what="the successor took over")
        wait_until(lambda: broker_of(daemon)["exclusion"]["tested"], what="the successor has tested the connection that it took over")
        peer.call("verify", lock=lock)


if __name__ == "__main__":
    tap.main()
