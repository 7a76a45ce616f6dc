"""The pool of RabbitMQ nodes. A lessee disturbs neither others nor the next one, and nothing outlives the pool."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import unittest

import tap
from daemon import Daemon
from pool import ask_pool
from rabbit import POOL, Rabbit, RabbitError, process_born
from wait import PATIENCE, wait_until
from wire import Wire

RABBIT_PY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rabbit.py")
# Says where the pool is, and lives as long as its standard input.
COMMAND = ("sh", "-c", f'echo "${POOL}"; cat >/dev/null; exit 7')
# A lessee that says what it has, and waits until it is killed.
LESSEE = """
import sys
from rabbit import Rabbit
rabbit = Rabbit.lease(shared=sys.argv[1] == "shared").start()
print(rabbit.directory, rabbit.vhost, flush=True)
sys.stdin.read()
"""
# The next lessee must find all of this as it was. The cluster has another id after a reset.
STATE = """
    io:format("~tp", [[
        lists:sort(rabbit_vhost:list_names()), rabbit_auth_backend_internal:list_users(),
        rabbit_auth_backend_internal:list_permissions(), rabbit_policy:list(), rabbit_amqqueue:list(),
        [One || One <- rabbit_runtime_parameters:list_global(), proplists:get_value(name, One) =/= internal_cluster_id],
        lists:sort(maps:keys(rabbit_feature_flags:list(enabled))),
        lists:sort(application:get_all_env(rabbit)), rabbit_alarm:get_alarms(), rabbit_networking:connections(),
        vm_memory_monitor:get_vm_memory_high_watermark(), rabbit_disk_monitor:get_disk_free_limit()]])."""
CHANGES = """
    ok = rabbit_policy:set(<<"/">>, <<"short">>, <<".*">>, [{<<"expires">>, 1000}], 0, <<"all">>, <<"tests">>),
    rabbit_nodes:set_cluster_name(<<"mine">>, <<"tests">>),
    rabbit_disk_monitor:set_disk_free_limit("1000000GB"),
    logger:error("a word of the first lessee")."""


class Private:
    """A pool of two nodes."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, RABBIT_PY, "pool", "2", "--", *COMMAND], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.path = self.process.stdout.readline().rstrip()

    def end(self):
        """In order. Its last words."""
        said = self.process.communicate()[1]
        return self.process.returncode, said

    def kill(self):
        self.process.kill()
        self.process.communicate()


class Pooled(unittest.TestCase):
    def setUp(self):
        self.pool = POOLS[0]
        os.environ[POOL] = self.pool.path
        self.addCleanup(os.environ.pop, POOL)

    def lease(self, **needs):
        rabbit = Rabbit.lease(**needs)
        self.addCleanup(rabbit.close)
        return rabbit.start()

    def lessee(self, kind):
        """In a process of its own. It has a node, in that folder, and that vhost."""
        process = subprocess.Popen([sys.executable, "-c", LESSEE, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def end():
            process.kill()
            process.communicate()
        self.addCleanup(end)
        return process, *process.stdout.readline().split()

    def refused(self, act, *arguments, **more):
        with self.assertRaisesRegex(RabbitError, "other tests share this node"):
            act(*arguments, **more)


class Shared(Pooled):
    def test_acts_that_others_would_notice_are_refused(self):
        rabbit = self.lease(shared=True)
        for act in (rabbit.stop, rabbit.kill, rabbit.freeze, rabbit.thaw, rabbit.start):
            self.refused(act)
        for command in (("set_disk_free_limit", "1000000GB"), ("set_vm_memory_high_watermark", "0"), ("stop_app",),
                        ("add_vhost", "another"), ("close_all_connections", "why"), ("eval", "ok.")):
            self.refused(rabbit.ctl, *command)
            self.refused(rabbit.perform, *command)
        self.refused(rabbit.set_env, heartbeat=1)
        self.refused(rabbit.eval, "ok.")
        self.refused(lambda: rabbit.log)
        self.assertNotIn("LOCKBROKER_RABBIT_DIR", rabbit.variables())
        self.assertIsNotNone(rabbit.pid)

    def test_two_have_a_vhost_each_and_one_node(self):
        first, second = self.lease(shared=True), self.lease(shared=True)
        self.assertEqual(first.pid, second.pid)
        peers = []
        for rabbit in first, second:
            daemon = Daemon(self, broker=rabbit.url)
            daemon.wait_broker()
            peers.append(Wire(daemon))
            peers[-1].call("create", name="db", slots=1)
            peers[-1].call("acquire", name="db", timeout=0)
        peers[0].call("create", name="alone")
        self.assertIn("alone-1-A", first.queues())
        self.assertNotIn("alone-1-A", second.queues())
        self.assertIn("db-1-B", second.holders())

    @staticmethod
    def has(rabbit, name):
        """Whether the node has the vhost and the user of that name."""
        found = rabbit._evaluate(  # pylint: disable=protected-access
            f'[rabbit_vhost:exists(<<"{name}">>), rabbit_auth_backend_internal:exists(<<"{name}">>)].')
        return found.replace(",", ", ").replace("  ", " ")

    def test_nothing_is_left(self):
        """Not even the connections of what lives on."""
        rabbit, other = self.lease(shared=True), self.lease(shared=True)
        daemon = Daemon(self, broker=rabbit.url, expect=["connection"])
        daemon.wait_broker()
        Wire(daemon).call("create", name="db")
        self.assertEqual(self.has(other, rabbit.vhost), "[true, true]")
        rabbit.close()
        self.assertEqual(self.has(other, rabbit.vhost), "[false, false]")
        daemon.wait_log("lock connection refused")

    def test_nothing_is_left_of_one_that_dies(self):
        other = self.lease(shared=True)
        process, directory, vhost = self.lessee("shared")
        self.assertEqual(directory, other.directory)
        self.assertEqual(self.has(other, vhost), "[true, true]")
        process.kill()
        wait_until(lambda: self.has(other, vhost) == "[false, false]", what="its vhost and its user are gone")
        self.assertIsNotNone(other.pid)


class Exclusive(Pooled):
    def test_nothing_is_left(self):
        rabbit = self.lease()
        before, pid = rabbit.eval(STATE), rabbit.pid
        rabbit.perform("add_vhost", "mine")
        rabbit.perform("add_user", "me", "secret")
        rabbit.perform("set_permissions", "guest", "^$", "^$", "^$")
        rabbit.perform("change_password", "guest", "another")
        rabbit.perform("set_vm_memory_high_watermark", "0.0000001")
        rabbit.set_env(heartbeat=1, consumer_timeout=500)
        rabbit.eval(CHANGES)
        wait_until(lambda: rabbit.eval("length(rabbit_alarm:get_alarms()).") == "2", what="both alarms are raised")
        wait_until(lambda: "a word of the first lessee" in rabbit.log)
        rabbit.freeze()
        rabbit.close()
        again = self.lease()
        self.assertEqual(again.pid, pid)  # it was not started again
        self.assertEqual(again.eval(STATE), before)
        self.assertNotIn("a word of the first lessee", again.log)
        daemon = Daemon(self, broker=again.url)
        daemon.wait_broker()
        Wire(daemon).call("create", name="db")

    def test_a_node_that_was_stopped_and_started_is_reset(self):
        rabbit = self.lease()
        before, pid = rabbit.eval(STATE), rabbit.pid
        rabbit.perform("add_vhost", "mine")
        rabbit.stop()
        self.assertIsNone(rabbit.pid)
        rabbit.start()
        restarted = rabbit.pid
        self.assertNotEqual(restarted, pid)
        self.assertNotEqual(rabbit.eval(STATE), before)
        rabbit.set_env(heartbeat=1)
        rabbit.start()  # no effect while it runs
        rabbit.close()
        again = self.lease()
        self.assertEqual(again.pid, restarted)
        self.assertEqual(again.eval(STATE), before)

    def test_a_node_that_is_left_down_is_not_used_again(self):
        rabbit = self.lease()
        rabbit.kill()
        rabbit.close()
        again = self.lease()
        self.assertNotEqual(again.directory, rabbit.directory)
        self.assertFalse(os.path.exists(rabbit.directory))

    def test_a_node_whose_lessee_dies_is_not_used_again(self):
        process, directory, _ = self.lessee("exclusive")
        pid = Rabbit(directory).pid
        process.kill()
        rabbit = self.lease()
        self.assertNotEqual(rabbit.directory, directory)
        self.assertIsNone(process_born(pid))

    def test_one_waits_for_the_other(self):
        rabbit = self.lease()
        dead, waiter = self.ask("exclusive"), self.ask("exclusive")
        ask_pool(self.pool.path, {"lease": "shared"})[0].close()  # a lessee of that one does not wait
        for one in dead, waiter:
            self.assertEqual(self.told(one), None)
        dead.close()
        rabbit.close()
        waiter.settimeout(PATIENCE)
        self.assertIn("directory", self.told(waiter))

    def ask(self, kind):
        waiter = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(waiter.close)
        waiter.connect(self.pool.path)
        waiter.sendall(json.dumps({"lease": kind}).encode() + b"\n")
        waiter.setblocking(False)
        return waiter

    @staticmethod
    def told(waiter):
        with contextlib.suppress(BlockingIOError):
            return json.loads(waiter.recv(4096))
        return None


class Alone(unittest.TestCase):
    def test_without_a_pool_the_rules_are_the_same(self):
        rabbit = Rabbit.lease(shared=True)
        # Nothing is started, but there is a folder to be removed.
        Rabbit.__init__(rabbit)
        self.addCleanup(Rabbit.close, rabbit)
        for act in (rabbit.stop, rabbit.kill, rabbit.freeze):
            with self.assertRaisesRegex(RabbitError, "other tests share this node"):
                act()


class Ended(unittest.TestCase):
    def launched(self):
        """A pool, a node that its lessee started again, and the node's processes."""
        pool = Private()
        self.addCleanup(pool.kill)
        lease, granted = ask_pool(pool.path, {"lease": "exclusive"})
        self.addCleanup(lease.close)
        rabbit = Rabbit(granted["directory"])
        rabbit.launch()
        rabbit.kill()
        rabbit.launch()
        self.assertIsNotNone(rabbit.pid)
        return pool, rabbit, [rabbit.state["beam"], rabbit.state["epmd"]]

    def gone(self, found):
        wait_until(lambda: all(process_born(pid) != born for pid, born in found), what="all its processes are gone")

    def test_in_order(self):
        pool, rabbit, found = self.launched()
        status, said = pool.end()
        self.assertEqual(status, 7)
        self.assertIn("1 leases, 2 starts of nodes", said)
        self.gone(found)
        self.assertEqual([os.path.exists(path) for path in (os.path.dirname(pool.path), rabbit.directory)], [False, False])

    def test_by_a_signal(self):
        pool, rabbit, found = self.launched()
        pool.process.send_signal(signal.SIGTERM)
        self.assertEqual(pool.process.wait(60), 128 + signal.SIGTERM)
        self.gone(found)
        self.assertEqual([os.path.exists(path) for path in (os.path.dirname(pool.path), rabbit.directory)], [False, False])

    def test_by_a_kill(self):
        """The kernel ends the nodes. Their files are left."""
        pool, rabbit, found = self.launched()
        pool.kill()
        self.gone(found)
        rabbit.temporary = True
        rabbit.close()
        shutil.rmtree(os.path.dirname(pool.path))


POOLS = []


def setUpModule():
    POOLS.append(Private())
    unittest.addModuleCleanup(POOLS[0].end)


if __name__ == "__main__":
    tap.main()
