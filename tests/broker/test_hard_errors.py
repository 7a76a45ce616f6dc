"""Errors that end a connection to the broker, or that keep the daemon from connecting. Each error ends every hold
once, and the clients get the broker's own words. When the cause is gone, the daemon serves again."""

import re
import unittest

import tap
from daemon import CLAIM, Daemon
from rabbit import Rabbit
from wire import Wire, WireError, wait_until

TROUBLE = ("lock connection", "auxiliary connection", "lost")
RABBIT = Rabbit.lease()
USER, PASSWORD = "locksmith", "secret"
HOLDS = 3

setUpModule = RABBIT.serve_module


class HardError(unittest.TestCase):
    """A vhost and a user of its own, a daemon, and clients that hold slots and a mutex."""


    def setUp(self):
        self.vhost = self.id().rpartition(".")[2]
        self.user = f"{USER}-{self.vhost}"
        self.admit()
        self.daemon = Daemon(
            self, "--rescan-interval", "0.3", "--probe-timeout", "2", expect=TROUBLE,
            broker=f"amqp://{self.user}:{PASSWORD}@127.0.0.1:{RABBIT.port}/{self.vhost}")
        self.daemon.wait_broker()
        self.admin = Wire(self.daemon)
        self.admin.call("create", name="db", slots=HOLDS + 1)
        self.peers = [Wire(self.daemon) for _ in range(HOLDS)]
        self.locks = [self.acquire(peer, n) for n, peer in enumerate(self.peers)]

    def admit(self):
        """add_vhost, add_user and set_permissions, in one go."""
        RABBIT.eval(f"""
            Vhost = <<"{self.vhost}">>, User = <<"{self.user}">>, All = <<".*">>, By = <<"tests">>,
            ok = rabbit_vhost:add(Vhost, By),
            ok = rabbit_auth_backend_internal:add_user(User, <<"{PASSWORD}">>, By),
            ok = rabbit_auth_backend_internal:set_permissions(User, Vhost, All, All, All, By).""")

    def permit(self):
        RABBIT.perform("set_permissions", "-p", self.vhost, self.user, ".*", ".*", ".*")

    @staticmethod
    def acquire(peer, number):
        what = {"name": "db"} if number else {"name": "alone", "kind": "mutex"}
        return peer.call("acquire", timeout=10, **what)["lock"]

    # ---- what is done to it ----

    def force_close(self, why="maintenance"):
        RABBIT.perform("close_all_connections", "--vhost", self.vhost, why)

    def owner(self):
        """The broker's name of the lock connection."""
        return RABBIT.holders(self.vhost)["alone-M"]

    # ---- what must come of it ----

    def all_lost(self, words):
        for peer, lock in zip(self.peers, self.locks):
            lost = peer.notification("lost")
            self.assertEqual((lost["lock"], lost["reason"]), (lock, "lost"))
            self.assertRegex(lost["why"], words)
            self.assertIn(self.refusal(peer, "verify", lock=lock), ("not-held", "lost"))
        print("lost:", lost["why"])

    def all_kept(self):
        for peer, lock in zip(self.peers, self.locks):
            peer.call("verify", lock=lock)

    def all_kept_unseen(self):
        """From 4.2.6 on RabbitMQ also refuses the passive declare of a verify (rabbitmq-server 16085)."""
        for peer, lock in zip(self.peers, self.locks):
            self.assertIn(self.refusal(peer, "verify", lock=lock), (None, "broker-refused"))
            self.assertEqual([note for note in peer.notifications if note["method"] == "lost"], [])

    def denied(self, words):
        """The daemon refuses acquires at once, also those that may wait, in the broker's words."""
        wait_until(lambda: self.admin.call("info")["broker"]["state"] == "refused", what="it is refused")
        error = self.admin.error("acquire", name="db", timeout=30)
        self.assertEqual(error.reason, "broker-refused")
        self.assertRegex(error.message, words)
        print("denied:", error.message)

    def serves_again(self, create=False):
        self.daemon.wait_broker()
        if create:
            self.admin.call("create", name="db", slots=HOLDS + 1)
        locks = [self.acquire(peer, number) for number, peer in enumerate(self.peers)]
        for peer, lock in zip(self.peers, locks):
            peer.call("verify", lock=lock)
        for peer, lock in zip(self.peers, locks):
            peer.call("release", lock=lock)
        self.once()

    def once(self, lost=HOLDS):
        for peer in self.peers:
            peer.pump()
            self.assertEqual([note for note in peer.notifications if note["method"] == "lost"], [])
        counts = self.admin.call("info")["counts"]
        self.assertEqual((counts["lost"], counts["holds"]), (lost, 0))
        self.assertEqual(counts["granted"], counts["released"] + lost)
        metrics = self.admin.call("metrics")["text"]
        by_name = re.findall(r"^lockbroker_losses_total\{.*\} (\d+)$", metrics, re.MULTILINE)
        self.assertEqual(sum(map(int, by_name)), lost)

    @staticmethod
    def refusal(peer, method, **params):
        try:
            peer.call(method, **params)
        except WireError as error:
            return error.reason
        return None


class Closed(HardError):
    """Connections that the broker ends. The daemon may come back at once."""

    def test_all_connections_closed(self):
        self.force_close("the operator says so")
        self.all_lost("CONNECTION_FORCED - the operator says so")
        self.serves_again()

    def test_lock_connection_closed(self):
        RABBIT.perform("close_connection", self.owner(), "this one alone")
        self.all_lost("CONNECTION_FORCED - this one alone")
        self.serves_again()
        self.assertIn('\nlockbroker_broker_reconnects_total{connection="lock"} 1\n', self.admin.call("metrics")["text"])

    def test_auxiliary_connection_closed(self):
        """It can end without a loss."""
        self.admin.call("size", name="db")
        hold = self.owner()
        side = [pid for pid, vhost in RABBIT.connections("pid", "vhost") if vhost == self.vhost and pid != hold]
        self.assertEqual(len(side), 1)
        RABBIT.perform("close_connection", side[0], "expendable")
        self.daemon.wait_log("expendable")
        self.all_kept()
        self.assertEqual(self.admin.call("size", name="db")["slots"], HOLDS + 1)
        self.assertEqual(self.admin.call("info")["counts"]["lost"], 0)

    def test_internal_error(self):
        """541, by ending the process of a channel of the lock connection inside RabbitMQ."""
        hold = self.owner()
        victim = next(pid for connection, pid in RABBIT.channels("connection", "pid") if connection == hold)
        RABBIT.eval(f'exit(rabbit_misc:string_to_pid("{victim}"), provoked).')
        self.all_lost("INTERNAL_ERROR")
        self.daemon.wait_log("541")
        self.serves_again()

    def test_too_many_channels(self):
        """530 in the middle of an acquire ends the holds; the daemon learns, and stays below it."""
        self.daemon.expect("the broker allows no more channels")
        hold = self.owner()
        open_channels = [connection for connection, user in RABBIT.channels("connection", "user") if user == self.user]
        channels = open_channels.count(hold)
        RABBIT.perform("set_user_limits", self.user, f'{{"max-channels": {len(open_channels)}}}')
        greedy = Wire(self.daemon)
        asked = [greedy.request("acquire", name=f"m{n}", kind="mutex", timeout=5)
                 for n in range(channels + 2)]
        self.all_lost("NOT_ALLOWED - number of channels opened for user")
        answers = [self.outcome(greedy, one) for one in asked]
        # While slots are held by consumers, one channel is left for the checks of their slot queues.
        left = channels - (CLAIM == "consumer")
        self.assertEqual((answers.count("granted"), answers.count("timeout")), (left, len(asked) - left))
        self.daemon.wait_log("lock connection down")
        self.assertEqual(len(re.findall("lock connection down", self.daemon.log())), 1, self.daemon.log())
        greedy.hang_up()
        RABBIT.perform("clear_user_limits", self.user, "all")
        wait_until(lambda: self.admin.call("info")["counts"]["holds"] == 0)
        self.serves_again()

    @staticmethod
    def outcome(peer, asked):
        try:
            peer.answer(asked)
        except WireError as error:
            return error.reason
        return "granted"


class KeptOut(HardError):
    """The daemon may not come back before an administrator permits it."""

    def test_vhost_deleted(self):
        # RabbitMQ takes the permissions away first, then deletes one queue after another. If that takes long,
        # the daemon makes its inbox or a watch anew meanwhile, and is refused.
        self.daemon.expect("the broker refused (to watch a slot queue|this daemon the wait queue|a message to another daemon"
                           "|a hint to other daemons|a probe): (ACCESS_REFUSED|NOT_FOUND - no exchange)",
                           "the broker closed a channel of watches: ACCESS_REFUSED")
        RABBIT.perform("delete_vhost", self.vhost)
        # The queue of a consumer may end before its connection.
        self.all_lost(f"vhost '{self.vhost}'" + ("|the broker ended the hold" if CLAIM == "consumer" else ""))
        self.denied(f"vhost {self.vhost} not found")
        RABBIT.perform("add_vhost", self.vhost)
        self.permit()
        self.serves_again(create=True)

    def test_user_deleted(self):
        self.daemon.expect("the broker refused to watch a slot queue: ACCESS_REFUSED")  # one that is not placed yet
        RABBIT.perform("delete_user", self.user)
        self.all_lost(f"user '{self.user}'")
        self.denied("ACCESS_REFUSED")
        RABBIT.perform("add_user", self.user, PASSWORD)
        self.permit()
        self.serves_again()

    def test_password_changed(self):
        """RabbitMQ asks for it at login alone."""
        RABBIT.perform("change_password", self.user, "another")
        self.all_kept()
        self.force_close()
        self.all_lost("maintenance")
        self.denied("ACCESS_REFUSED")
        RABBIT.perform("change_password", self.user, PASSWORD)
        self.serves_again()

    def test_permission_revoked(self):
        """Holders keep their locks, and the daemon grants no new ones. When the connection ends, all holds are lost."""
        # The probe's channel may still have the old permission in RabbitMQ's cache. A watch may not be placed yet.
        self.daemon.expect("the broker refused (a probe|to watch a slot queue): ACCESS_REFUSED")
        RABBIT.perform("clear_permissions", "-p", self.vhost, self.user)
        self.all_kept_unseen()
        error = self.admin.error("acquire", name="other", kind="mutex", timeout=5)
        self.assertEqual(error.reason, "broker-refused")
        self.assertIn("ACCESS_REFUSED", error.message)
        self.all_kept_unseen()
        self.force_close()
        self.all_lost("maintenance")
        self.denied(f"access to vhost '{self.vhost}' refused")
        self.permit()
        self.serves_again()

    def test_no_more_connections(self):
        RABBIT.perform("set_vhost_limits", "-p", self.vhost, '{"max-connections": 0}')
        self.all_kept()
        self.force_close()
        self.all_lost("maintenance")
        self.denied("connection limit")
        RABBIT.perform("clear_vhost_limits", "-p", self.vhost)
        self.serves_again()

    def test_one_connection_alone(self):
        """The lock connection is the one; without the other, slots are claimed unseen."""
        RABBIT.perform("set_vhost_limits", "-p", self.vhost, '{"max-connections": 1}')
        self.daemon.expect("exclusive queues of the broker are not tested")
        self.force_close()
        self.all_lost("maintenance")
        wait_until(lambda: self.admin.call("info")["broker"]["state"] == "up", what="it is back")
        lock = self.peers[1].call("acquire", name="db", timeout=0)["lock"]
        self.peers[1].call("verify", lock=lock)
        self.peers[1].call("release", lock=lock)
        self.assertIn(self.refusal(self.admin, "size", name="db"),
                      ("broker-unavailable", "broker-refused"))
        RABBIT.perform("clear_vhost_limits", "-p", self.vhost)
        wait_until(lambda: self.refusal(self.admin, "size", name="db") is None)
        self.serves_again()


class Stopped(HardError):
    def test_node_stopped(self):
        RABBIT.stop()
        # The node closes sockets. Bytes on their way to one of them make a reset, perhaps before any words.
        self.all_lost("CONNECTION_FORCED - broker forced connection closure|Connection reset by peer|Broken pipe")
        self.assertEqual(self.refusal(self.admin, "acquire", name="db", timeout=0), "broker-unavailable")
        waiting = self.admin.request("acquire", name="db", timeout=60)
        RABBIT.start()
        self.admin.call("release", lock=self.admin.answer(waiting)["lock"])
        self.serves_again()


if __name__ == "__main__":
    tap.main()
