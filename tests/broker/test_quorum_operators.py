"""Acts of operators of RabbitMQ, on slots that are held by quorum: definitions, purges, policies, backups, and queues that
an earlier RabbitMQ made. Nobody gets a slot beside its holder, and each fence is larger than the one before. The only
exception is a backup. `fsck` finds the damage, and its repair ends it.

OPERATORS_LONG=1 adds the repair that takes 5 min (`make operators`).
"""

import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

import guide
import tap
from daemon import GRACE
from quorum import QuorumTest
from rabbit import Rabbit, version
from wire import Wire, wait_until

RABBIT = Rabbit.lease()
VERSION = tuple(map(int, version().split(".")[:2]))
LONG = bool(os.environ.get("OPERATORS_LONG"))
UNKNOWN_GRACE = 300  # s: without a record
RECORDS = "lockbroker=quorum"
TROUBLE = ("connection", "lost")
# As RabbitMQ 4.0 to 4.2 made them. 3.x made them without the limit.
OF_4_0 = """{<<"x-queue-type">>, longstr, <<"quorum">>}, {<<"x-single-active-consumer">>, bool, true},
    {<<"x-consumer-timeout">>, signedint, 2592000000}, {<<"x-delivery-limit">>, signedint, -1}"""
OF_3 = OF_4_0.rpartition(", {")[0]
# The name of the folder of its Raft files.
UID = """
    {ok, Queue} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)),
    {Ra, _} = amqqueue:get_pid(Queue),
    Of = case erlang:function_exported(ra_directory, uid_of, 2) of true -> [quorum_queues, Ra]; false -> [Ra] end,
    io:format("~s ", [apply(ra_directory, uid_of, Of)])."""
DECLARE = """
    Queue = rabbit_misc:r(<<"/">>, queue, <<"%s">>),
    {ok, Old} = rabbit_amqqueue:lookup(Queue),
    rabbit_amqqueue:delete(Old, false, false, <<"tests">>),
    {new, _} = rabbit_amqqueue:declare(Queue, true, false, [%s], none, <<"tests">>)."""

setUpModule = RABBIT.serve_module


class Operators(QuorumTest):
    rabbit = RABBIT

    def start(self, slots):
        """Two daemons, and the semaphore. The fences of a first grant."""
        self.daemons = [self.daemon("--rescan-interval", "1", expect=TROUBLE) for _ in range(2)]
        self.here, self.there = map(Wire, self.daemons)
        self.create(self.here, slots)
        return self.grants(self.here, slots)

    def hold(self):
        """One slot, at one of the daemons."""
        (self.slot, self.held), = self.take(self.here, 1).items()

    def check_alone(self):
        """The hold goes on, and the other daemon gets every slot but that one, if any."""
        fence = self.here.call("verify", lock=self.held["lock"])["fence"]
        self.assertGreater(fence, self.held["fence"])
        self.held["fence"] = fence
        self.assertEqual(self.busy(), True)

    def busy(self):
        """Whether the other daemon cannot get the slot that is held. It tries all, and releases what it gets."""
        got = []
        while not got or got[-1] is not None:
            answer = self.there.reply(self.there.request("acquire", name=self.name, timeout=0))
            got.append(answer.get("result"))
        for grant in got[:-1]:
            self.there.call("release", lock=grant["lock"])
        return self.slot not in [grant["slot"] for grant in got[:-1]]


class Definitions(Operators):
    deadline = 2 * UNKNOWN_GRACE

    def test_definitions_without_messages(self):
        """All queues are there, and no message is: the data of RabbitMQ was lost."""
        before = self.start(2)
        with tempfile.TemporaryDirectory(prefix="test_quorum_operators.") as directory:
            path = os.path.join(directory, "definitions.json")
            RABBIT.ctl("export_definitions", path)
            for queue in RABBIT.queues():
                if "inbox" not in queue:
                    RABBIT.ctl("delete_queue", queue)
            RABBIT.ctl("import_definitions", path)
        self.assertEqual(self.here.error("acquire", name=self.name, timeout=0).reason, "would-block")
        found = ["not-listed:0", "no-record:0", "no-beads:1", "no-beads:2"]
        self.assertEqual(self.fsck(self.here), found)
        if not LONG:
            self.skipTest("the repair takes 5 min: make operators")
        self.assertEqual(self.fsck(self.here, within=2 * UNKNOWN_GRACE, repair=True), [f"{one}!" for one in found])
        self.assertEqual(self.fsck(self.here), [])
        self.check_larger(self.grants(self.there, 2), before)


class Purges(Operators):
    def test_a_slot(self):
        """A held one is not harmed. A free one is busy until it is repaired."""
        before = self.start(2)
        self.hold()
        for slot in 1, 2:
            RABBIT.ctl("purge_queue", self.queue(slot))
        self.check_alone()
        self.check_repair(self.here, [f"no-beads:{3 - self.slot}"])
        self.check_alone()
        self.here.call("release", lock=self.held["lock"])
        after = self.grants(self.there, 2)
        self.assertGreater(after[self.slot], self.held["fence"])
        self.check_larger(after, before)

    def test_the_records(self):
        """Holds go on. The record is written anew."""
        before = self.start(2)
        self.hold()
        RABBIT.ctl("purge_queue", RECORDS)
        self.check_alone()
        self.check_repair(self.here, ["no-record:0"])
        self.check_alone()
        self.here.call("release", lock=self.held["lock"])
        later = self.grants(self.there, 2)
        self.check_larger(later, before)
        # The floor is gone, too. A destroy raises it above the fences of the slots that it removes.
        RABBIT.ctl("purge_queue", RECORDS)
        self.here.call("destroy", name=self.name)
        self.create(self.here, 2)
        self.check_larger(self.grants(self.there, 2), later)


class Policies(Operators):
    """No policy gives a slot to two. Most of them make it useless."""

    def policy(self, **definition):
        self.addCleanup(RABBIT.ctl, "clear_policy", self.name, check=False)
        RABBIT.ctl("set_policy", self.name, "^lockbroker=q=" + re.escape(self.name), "--apply-to", "queues",
                   json.dumps({key.replace("_", "-"): value for key, value in definition.items()}))

    def end_policy(self):
        RABBIT.ctl("clear_policy", self.name)

    def messages(self, slot):
        return int(RABBIT.eval("""
            {ok, Queue} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)),
            proplists:get_value(messages, rabbit_amqqueue:info(Queue, [messages]))."""
                               % self.queue(slot)))

    def listed(self):
        """The lines that the command of the guide prints."""
        ctl, awk = guide.commands("operator_policy").replace("-p locks", "-p /").split("|")
        program, quiet, *arguments = shlex.split(ctl)
        self.assertEqual((program, quiet), ("rabbitmqctl", "-q"))
        return subprocess.run(["sh", "-c", awk], input=RABBIT.ctl(*arguments), text=True, check=True,
                              stdout=subprocess.PIPE).stdout.splitlines()

    @unittest.skipIf(VERSION < (4, 0), "no column of operator policies before 4.0")
    def test_the_command_of_the_guide(self):
        self.start(2)
        self.assertEqual(self.listed(), [])
        self.policy(max_length=1000)
        self.assertEqual(sorted(line.split("\t")[0] for line in self.listed()), [self.queue(1), self.queue(2)])
        self.end_policy()
        RABBIT.ctl("set_operator_policy", self.name, RECORDS, "--apply-to", "queues", '{"max-length": 1000}')
        self.assertEqual([line.split("\t")[0] for line in self.listed()], [RECORDS])
        RABBIT.ctl("clear_operator_policy", self.name)

    def test_max_length(self):
        before = self.start(2)
        self.hold()
        self.policy(max_length=2)
        wait_until(lambda: self.messages(3 - self.slot) == 2, what="a message of the free slot is gone")
        self.check_alone()
        self.here.call("release", lock=self.held["lock"])
        wait_until(lambda: self.messages(self.slot) == 2, what="a message of the released slot is gone")
        self.assertTrue(self.busy())
        found = ["no-beads:1", "no-beads:2"]
        self.assertEqual(self.fsck(self.here), found)
        self.assertEqual(self.fsck(self.here, repair=True), found)
        self.end_policy()
        self.check_repair(self.here, found)
        self.check_larger(self.grants(self.there, 2), before)

    def test_message_ttl(self):
        """RabbitMQ writes the end of its time into a message when it is published. So a slot that is there is not harmed."""
        before = self.start(1)
        self.hold()
        self.policy(message_ttl=3000)
        self.here.call("resize", name=self.name, slots=2)
        wait_until(lambda: self.fsck(self.here) == ["no-beads:2"], what="the messages of the new slot are gone")
        self.check_alone()
        self.end_policy()
        self.check_repair(self.here, ["no-beads:2"])
        self.here.call("release", lock=self.held["lock"])
        after = self.grants(self.there, 2)
        self.assertGreater(after[1], before[1])

    def test_expires(self):
        """A queue without a consumer goes."""
        before = self.start(2)
        self.hold()
        self.policy(expires=1000)
        gone = self.queue(3 - self.slot)
        wait_until(lambda: gone not in RABBIT.queues(), what="the free slot is gone")
        self.check_alone()
        self.end_policy()
        self.check_repair(self.here, [f"gap:{3 - self.slot}"])
        self.check_alone()
        self.here.call("release", lock=self.held["lock"])
        self.check_larger(self.grants(self.there, 2), before)

    def test_delivery_limit(self):
        """RabbitMQ drops a message that was rejected too often. Its holder hears of the loss."""
        before = self.start(1)
        self.hold()
        self.policy(delivery_limit=5)
        self.assertEqual(self.here.notification("lost")["lock"], self.held["lock"])
        self.assertTrue(self.busy())
        # The daemon may look at the slot just now.
        wait_until(lambda: self.fsck(self.here) == ["no-beads:1"], what="the damage is found")
        self.end_policy()
        self.check_repair(self.here, ["no-beads:1"])
        self.check_larger(self.grants(self.there, 1), before)

    @unittest.skipIf(VERSION < (3, 12), "no such policy before 3.12")
    def test_consumer_timeout(self):
        """It ends a hold. A grace that takes longer never ends, and the slot stays busy. 4.3 applies it to consumers that
        begin after it, and 4.0 to all."""
        RABBIT.set_env(channel_tick_interval=100)  # before 4.3 it looks once in a minute
        before = self.start(1)
        self.policy(consumer_timeout=3000)
        self.hold()
        self.assertEqual(self.here.notification("lost")["lock"], self.held["lock"])
        self.assertEqual(self.there.error("acquire", name=self.name, timeout=3 * GRACE).reason, "timeout")
        self.assertEqual(self.fsck(self.here), [])
        self.end_policy()
        after = self.grants(self.there, 1)
        self.assertGreater(after[1], self.held["fence"])
        self.check_larger(after, before)

    @unittest.skipIf(VERSION < (4, 3), "no such policy before 4.3")
    def test_delayed_retry(self):
        """Each reject is delayed. With a delay as long as the lease, no hold can be renewed, and no slot be claimed."""
        before = self.start(2)
        self.hold()
        self.policy(delayed_retry_type="all", delayed_retry_min=GRACE * 1000, delayed_retry_max=GRACE * 1000)
        self.assertEqual(self.here.notification("lost")["lock"], self.held["lock"])
        self.assertEqual(self.there.error("acquire", name=self.name, timeout=3 * GRACE).reason, "timeout")
        self.end_policy()
        wait_until(lambda: self.messages(1) + self.messages(2) == 6 and self.fsck(self.here) == [], what="no reject is delayed")
        after = self.grants(self.there, 2)
        self.check_larger(after, before)
        self.assertGreater(after[self.slot], self.held["fence"])


class Backups(Operators):
    def save(self):
        self.data = os.path.join(RABBIT.directory, "mnesia")
        self.copy = os.path.join(tempfile.mkdtemp(prefix="test_quorum_operators."), "mnesia")
        self.addCleanup(shutil.rmtree, os.path.dirname(self.copy))
        self.while_stopped(lambda: shutil.copytree(self.data, self.copy))

    def put_back(self):
        """The data of RabbitMQ is as at save()."""
        def put_back():
            shutil.rmtree(self.data)
            shutil.copytree(self.copy, self.data)
        self.while_stopped(put_back)

    def while_stopped(self, act):
        RABBIT.stop()
        act()
        RABBIT.start()
        for daemon in self.daemons:
            daemon.wait_broker()

    def test_fences_of_a_backup_that_is_put_back(self):
        """They fall, and nothing shows it. New slots, with a newer epoch, end that."""
        self.addCleanup(RABBIT.start)
        self.start(2)
        self.save()
        for _ in range(5):
            before = self.grants(self.here, 2)
        self.put_back()
        self.assertEqual(self.fsck(self.there), [])
        for slot, fence in self.grants(self.there, 2).items():
            self.assertLess(fence, before[slot])
        self.there.call("resize", name=self.name, slots=0)
        self.there.call("resize", name=self.name, slots=2, claim="quorum", takeover_grace=GRACE)
        self.assertEqual(self.fsck(self.there), [])
        self.check_larger(self.grants(self.there, 2), before)


class LostQueues(Operators):
    def lose(self, queue):
        """Its Raft files are gone when RabbitMQ starts, as if it had died just after the declare."""
        uid = RABBIT.eval(UID % queue).split()[0]
        RABBIT.kill()
        folder, = glob.glob(os.path.join(RABBIT.directory, "mnesia", "**", uid), recursive=True)
        shutil.rmtree(folder)
        RABBIT.start()
        for daemon in self.daemons:
            daemon.wait_broker()

    def test_a_slot_without_a_leader(self):
        """It is named, and harms nothing else. Its administrator deletes it, and fsck makes it again."""
        self.addCleanup(RABBIT.start)
        before = self.start(2)
        self.lose(self.queue(1))
        self.assertEqual(self.fsck(self.here), ["unreachable:1"])
        self.assertEqual(self.fsck(self.here, repair=True), ["unreachable:1"])
        self.hold()
        self.assertEqual(self.slot, 2)
        self.check_alone()
        self.here.call("release", lock=self.held["lock"])
        self.assertEqual(self.here.error("resize", name=self.name, slots=0).reason, "broker-unavailable")
        for daemon in self.daemons:
            self.assertNotIn("INTERNAL_ERROR", daemon.log())
        RABBIT.ctl("delete_queue", self.queue(1))
        self.check_repair(self.here, ["gap:1", "gap:2"])
        self.check_larger(self.grants(self.there, 2), before)

    def test_a_mutex_without_a_leader(self):
        """Its administrator deletes it, and its next use makes it again."""
        self.addCleanup(RABBIT.start)
        self.daemons = [self.daemon("--claim", "quorum", expect=TROUBLE)]
        here = Wire(self.daemons[0])
        mutex, queue = {"name": self.name, "kind": "mutex"}, f"lockbroker=q={self.name}"
        before = here.call("acquire", **mutex)
        here.call("release", lock=before["lock"])
        self.lose(queue)
        error = here.error("acquire", **mutex, timeout=0)
        self.assertEqual((error.reason, error.message), ("broker-unavailable", "no node leads the queue"))
        self.assertNotIn("INTERNAL_ERROR", self.daemons[0].log())
        RABBIT.ctl("delete_queue", queue)
        self.assertGreater(here.call("acquire", **mutex)["fence"], before["fence"])


class Upgrades(Operators):
    """RabbitMQ was upgraded in place. The queues have the arguments that the earlier version gave them."""

    def declare(self, queue, arguments):
        RABBIT.eval(DECLARE % (queue, arguments))

    @unittest.skipIf(VERSION < (4, 0), "no earlier version makes other queues")
    def test_from_4_0(self):
        """Slots can be used, and administered. From 4.3 on fsck gives them the new arguments."""
        before = self.start(2)
        self.declare(RECORDS, OF_4_0)
        self.assertEqual(self.fsck(self.here, repair=True), ["no-record:0!"])
        for slot in 1, 2:
            self.declare(self.queue(slot), OF_4_0)
        found = ["no-beads", "queue-arguments"][VERSION >= (4, 3)]
        self.check_repair(self.here, [f"{found}:1", f"{found}:2"])
        self.check_larger(self.grants(self.there, 2), before)
        self.assertEqual(self.here.call("resize", name=self.name, slots=3)["slots"], 3)

    @unittest.skipIf(VERSION < (4, 0), "no earlier version makes other queues")
    def test_from_3_13(self):
        """The limit of 4.x has dropped all messages."""
        before = self.start(2)
        for slot in 1, 2:
            self.declare(self.queue(slot), OF_3)
        self.assertEqual(self.there.error("acquire", name=self.name, timeout=0).reason, "would-block")
        self.check_repair(self.here, ["queue-arguments:1", "queue-arguments:2"])
        after = self.grants(self.there, 2)
        self.check_larger(after, before)
        # The queue of the records is refused. Once it is deleted, it is made anew.
        self.declare(RECORDS, OF_3)
        refused = self.here.error("fsck", name=self.name)
        self.assertEqual(refused.reason, "broker-refused")
        self.assertIn(RECORDS, str(refused))
        RABBIT.ctl("delete_queue", RECORDS)
        self.check_repair(self.here, ["no-record:0"])
        self.check_larger(self.grants(self.there, 2), after)


if __name__ == "__main__":
    tap.main()
