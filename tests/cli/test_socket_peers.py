"""Clients that come and go: half-closed, hanging up in every state, too slow, too many."""

import json
import os
import resource
import socket
import unittest

import tap
from daemon import Daemon
from wait import wait_until
from wire import Wire, WireError

# A slot that becomes free without a hint is found by a rescan, an hour later.
RESCAN = ("--rescan-interval", "3600")


def line(id, method, **params):
    return json.dumps({"id": id, "method": method, "params": params}).encode() + b"\n"


class HangUp(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(self, *RESCAN)
        self.watcher = Wire(self.daemon)
        self.watcher.call("create", name="db")

    def assert_free(self, name="db", **params):
        """Another client gets the slot at once, and nothing is left of its former holders."""
        lock = self.watcher.call("acquire", name=name, **params)["lock"]
        self.watcher.call("release", lock=lock)
        wait_until(lambda: self.watcher.call("info")["counts"]["connections"] == 1)
        counts = self.watcher.call("info")["counts"]
        self.assertEqual((counts["holds"], counts["waiting"], counts["in_flight"]), (0, 0, 0))

    def test_while_it_holds(self):
        peer = Wire(self.daemon)
        peer.call("acquire", name="db", timeout=0)
        peer.hang_up()
        self.assert_free()

    def test_while_it_holds_a_mutex(self):
        peer = Wire(self.daemon)
        peer.call("acquire", name="m", kind="mutex", timeout=0)
        peer.hang_up()
        self.assert_free("m", kind="mutex")

    def test_while_its_acquire_is_in_flight(self):
        for _ in range(20):
            peer = Wire(self.daemon)
            peer.request("acquire", name="db", timeout=0)
            peer.hang_up()
            self.assert_free()

    def test_while_its_acquire_waits(self):
        holder = Wire(self.daemon)
        holder.call("acquire", name="db", timeout=0)
        peer = Wire(self.daemon)
        peer.request("acquire", name="db", progress=True)
        wait_until(lambda: self.watcher.call("info")["counts"]["waiting"] == 1)
        peer.hang_up()
        wait_until(lambda: self.watcher.call("info")["counts"]["waiting"] == 0)
        holder.hang_up()
        self.assert_free()

    def test_while_its_release_is_in_flight(self):
        peer = Wire(self.daemon)
        lock = peer.call("acquire", name="db", timeout=0)["lock"]
        peer.request("release", lock=lock)
        peer.hang_up()
        self.assert_free()

    def test_while_it_creates(self):
        peer = Wire(self.daemon)
        peer.request("create", name="other", slots=3)
        peer.hang_up()
        # The daemon still performs the request.
        wait_until(lambda: "error" not in self.watcher.reply(
            self.watcher.request("size", name="other")))
        self.assertEqual(self.watcher.call("size", name="other")["slots"], 3)

    def test_in_the_middle_of_a_line(self):
        peer = Wire(self.daemon)
        peer.call("acquire", name="db", timeout=0)
        peer.send_bytes(b'{"id":1,"meth')
        peer.hang_up()
        self.assert_free()

    def test_before_it_said_anything(self):
        for _ in range(20):
            Wire(self.daemon).hang_up()
        self.assert_free()

    def test_with_answers_unread(self):
        peer = Wire(self.daemon)
        peer.request("acquire", name="db", timeout=0)
        for _ in range(50):
            peer.request("info")
        peer.hang_up()
        self.assert_free()

    def test_with_many_requests_behind(self):
        peer = Wire(self.daemon)
        peer.send_bytes(b"".join(line(i, "acquire", name="db") for i in range(1, 300)))
        peer.hang_up()
        wait_until(lambda: self.watcher.call("info")["counts"]["connections"] == 1)
        self.assert_free()

    def test_a_waiter_gets_it(self):
        holder = Wire(self.daemon)
        holder.call("acquire", name="m", kind="mutex", timeout=0)
        waiter = Wire(self.daemon)
        waiting = waiter.request("acquire", name="m", kind="mutex")
        wait_until(lambda: self.watcher.call("info")["counts"]["waiting"] == 1)
        holder.hang_up()
        self.assertEqual(waiter.answer(waiting)["name"], "m")


class HalfClose(unittest.TestCase):
    """As `printf ... | socat - UNIX:...` does."""

    def setUp(self):
        self.daemon = Daemon(self, *RESCAN)
        self.watcher = Wire(self.daemon)
        self.watcher.call("create", name="db")

    def talk(self, *lines):
        """All replies to lines that are followed by a half-close."""
        peer = Wire(self.daemon)
        peer.send_bytes(b"".join(lines))
        peer.socket.shutdown(socket.SHUT_WR)
        peer.wait_closed()
        return {reply["id"]: reply for reply in peer.replies}

    def test_answers_are_still_written(self):
        replies = self.talk(line(1, "ping"), line(2, "size", name="db"), line(3, "info"),
                            line(4, "create", name="other", slots=50), line(5, "nonsense"))
        self.assertEqual(sorted(replies), [1, 2, 3, 4, 5])
        self.assertEqual(replies[2]["result"], {"name": "db", "slots": 1})
        self.assertEqual(replies[4]["result"]["slots"], 50)

    def test_many_requests_are_all_answered(self):
        replies = self.talk(*(line(i, "size", name="db") for i in range(1000)))
        self.assertEqual(sorted(replies), list(range(1000)))
        self.assertFalse([reply for reply in replies.values() if "error" in reply])

    def test_its_hold_ends_at_once(self):
        peer = Wire(self.daemon)
        peer.call("acquire", name="db", timeout=0)
        peer.socket.shutdown(socket.SHUT_WR)
        self.watcher.call("acquire", name="db")
        peer.wait_closed()

    def test_an_acquire_ends_with_it(self):
        self.talk(line(1, "acquire", name="db"))
        self.assertEqual(self.watcher.call("info")["counts"]["holds"], 0)
        self.watcher.call("acquire", name="db", timeout=0)

    def test_a_line_without_end_is_no_request(self):
        replies = self.talk(line(1, "ping"), b'{"id":2,"method":"ping"}')
        self.assertEqual(replies.keys(), {1, None})
        self.assertEqual(replies[None]["error"]["message"], "the last line has no LF")


class Limits(unittest.TestCase):
    def test_a_client_that_does_not_read_is_closed(self):
        daemon = Daemon(self, *RESCAN, expect=["does not read"])
        peer = Wire(daemon)
        peer.call("acquire", name="m", kind="mutex", timeout=0)
        request = line("d", "rpc.discover")
        peer.socket.settimeout(0.05)
        try:
            while not daemon.log().count("does not read"):
                try:
                    peer.socket.send(request * 100)
                except TimeoutError:
                    pass
        except (BrokenPipeError, ConnectionResetError):
            pass
        daemon.wait_log(r"client \d+ \(uid \d+, pid \d+\) is closed: it does not read")
        Wire(daemon).call("acquire", name="m", kind="mutex")
        self.assertLess(daemon.rss(), 512 * 1024)

    def test_waiting_requests_are_bounded_and_stop_nothing(self):
        daemon = Daemon(self, "--max-waits-per-connection", "2", "--max-requests-per-connection", "1")
        peer = Wire(daemon)
        lock = peer.call("acquire", name="m", kind="mutex", timeout=0)["lock"]
        waiting = [peer.request("acquire", name="m", kind="mutex") for _ in range(2)]
        self.assertEqual(peer.error("acquire", name="m", kind="mutex").reason, "too-many-waiters")
        self.assertEqual(peer.call("ping"), {})
        self.assertEqual(peer.call("verify", lock=lock)["lock"], lock)
        peer.call("release", lock=lock)
        self.assertEqual(peer.answer(waiting[0])["name"], "m")

    def test_the_waiting_requests_of_a_user_are_bounded_over_all_connections(self):
        daemon = Daemon(self, config="max-waits-per-uid = 3\n")
        one, two, three = Wire(daemon), Wire(daemon), Wire(daemon)
        one.call("acquire", name="m", kind="mutex", timeout=0)
        waiting = [peer.request("acquire", name="m", kind="mutex") for peer in (one, two, two)]
        one.call("ping")
        two.call("ping")
        for method, params in (("acquire", {"name": "m", "kind": "mutex"}), ("watch", {}),
                               ("await", {"name": "db", "slot": 1, "state": "busy"})):
            refused = three.error(method, **params)
            self.assertEqual((refused.reason, refused.message),
                             ("too-many-waiters", f"uid {os.getuid()} has 3 requests waiting, the maximum"))
        # One that is over, for whatever reason, makes room for one.
        two.send_line({"id": "c", "method": "cancel", "params": {"id": waiting[1]}})
        self.assertTrue(two.answer("c")["cancelled"])
        three.request("acquire", name="m", kind="mutex")
        three.call("ping")
        self.assertEqual(one.error("watch").reason, "too-many-waiters")
        two.hang_up()
        wait_until(lambda: one.call("info")["counts"]["connections"] == 2, what="it is gone")
        three.request("acquire", name="m", kind="mutex")
        three.call("ping")
        self.assertEqual(one.error("watch").reason, "too-many-waiters")
        # Present waiters stay when the limit falls.
        daemon.write_config("max-waits-per-uid = 1\n")
        daemon.reload()
        wait_until(lambda: one.call("info")["limits"]["waits_per_uid"] == 1, what="it is reloaded")
        self.assertEqual(one.call("info")["counts"]["waiting"], 3)

    def test_the_watches_of_a_user_are_bounded_over_all_connections(self):
        daemon = Daemon(self, config="max-watches-per-uid = 3\n")
        one, two = Wire(daemon), Wire(daemon)
        watches = [peer.request("watch") for peer in (one, two, two)]
        two.call("ping")
        refused = one.error("watch", name="db")
        self.assertEqual((refused.reason, refused.message),
                         ("too-many-waiters", f"uid {os.getuid()} has 3 watches, the maximum"))
        two.send_line({"id": "c", "method": "cancel", "params": {"id": watches[1]}})
        self.assertTrue(two.answer("c")["cancelled"])
        one.request("watch", name="db")
        self.assertEqual(one.error("watch").reason, "too-many-waiters")
        two.hang_up()
        wait_until(lambda: one.call("info")["counts"]["connections"] == 1, what="it is gone")
        one.request("watch", name="db")
        one.call("ping")

    def test_no_scan_fails_because_its_user_has_many(self):
        daemon = Daemon(self, config="max-scans-per-uid = 2\n")
        Wire(daemon).call("create", name="db")
        peers = [Wire(daemon) for _ in range(40)]
        daemon.freeze()
        asked = []
        for peer in peers:
            asked += [(peer, peer.request(method, name="db")) for method in ("size", "show", "explain", "fsck")]
            asked.append((peer, peer.request("list")))
        daemon.thaw()
        for peer, id in asked:
            peer.answer(id)

    def test_ten_thousand_of_one_user_may_wait(self):
        daemon = Daemon(self)
        peers = [Wire(daemon) for _ in range(10)]
        lock = peers[0].call("acquire", name="m", kind="mutex", timeout=0)["lock"]
        for peer in peers:
            peer.send_bytes(b"".join(line(f"w{i}", "acquire", name="m", kind="mutex") for i in range(1000)))
            peer.call("ping")
        self.assertEqual(peers[0].call("info")["counts"]["waiting"], 10000)
        peers[0].call("release", lock=lock)
        self.assertEqual(peers[0].recv()["result"]["name"], "m")

    def scan(self, daemon):
        """A client with 16 scans, after the answer to the first one."""
        peer = Wire(daemon)
        for id in range(16):
            peer.send_line({"id": id, "method": "fsck", "params": {"name": f"db{id}"}})
        self.assertEqual(peer.recv()["id"], 0)
        return peer

    def test_scans_of_a_client_that_hangs_up_are_cancelled(self):
        daemon = Daemon(self, "--max-scans-per-uid", "16")
        daemon.wait_broker()
        self.scan(daemon).hang_up()
        daemon.wait_log(r"refused fsck of db15: client \d+, .* cancelled: its connection has ended")
        # One had begun, and goes on.
        daemon.wait_log(r"refused fsck of db1: client \d+, .* no-such-lock")

    def test_scans_of_a_half_closed_client_are_answered(self):
        daemon = Daemon(self, "--max-scans-per-uid", "16")
        daemon.wait_broker()
        peer = self.scan(daemon)
        peer.socket.shutdown(socket.SHUT_WR)
        self.assertEqual({peer.recv()["error"]["data"]["reason"] for _ in range(15)}, {"no-such-lock"})
        peer.wait_closed()

    def test_one_request_at_a_time_answers_all(self):
        daemon = Daemon(self, "--max-requests-per-connection", "1")
        peer = Wire(daemon)
        peer.call("create", name="db")
        asked = [peer.request("size", name="db") for _ in range(200)]
        for id in asked:
            self.assertEqual(peer.answer(id)["slots"], 1)

    def test_locks_are_bounded(self):
        daemon = Daemon(self, "--max-locks-per-connection", "2")
        peer = Wire(daemon)
        for name in ("a", "b"):
            peer.call("acquire", name=name, kind="mutex", timeout=0)
        self.assertEqual(peer.error("acquire", name="c", kind="mutex", timeout=0).reason,
                         "too-many-locks")
        Wire(daemon).call("acquire", name="c", kind="mutex", timeout=0)

    def test_clients_of_a_uid_are_bounded(self):
        daemon = Daemon(self, "--max-connections-per-uid", "3", expect=["connections are refused"])
        peers = [Wire(daemon) for _ in range(3)]
        for peer in peers:
            peer.call("ping")
        for _ in range(3):
            turned_away = Wire(daemon)
            reply = turned_away.recv()
            turned_away.wait_closed()
        self.assertIsNone(reply["id"])
        self.assertEqual(reply["error"]["data"], {"reason": "too-many-requests", "retry": True})
        self.assertIn(f"uid {os.getuid()}", reply["error"]["message"])
        daemon.wait_log("connections are refused")
        self.assertEqual(daemon.log().count("connections are refused"), 1)
        peers[0].hang_up()
        wait_until(lambda: peers[1].call("info")["counts"]["connections"] == 2)
        self.assertEqual(Wire(daemon).call("ping"), {})

    def test_many_clients_each_with_a_hold(self):
        daemon = Daemon(self)
        watcher = Wire(daemon)
        peers = [Wire(daemon) for _ in range(300)]
        asked = [peer.request("acquire", name=f"m{i}", kind="mutex", timeout=0)
                 for i, peer in enumerate(peers)]
        for peer, id in zip(peers, asked):
            peer.answer(id)
        counts = watcher.call("info")["counts"]
        self.assertEqual((counts["holds"], counts["connections"]), (300, 301))
        for peer in peers:
            peer.hang_up()
        wait_until(lambda: watcher.call("info")["counts"]["connections"] == 1)
        self.assertEqual(watcher.call("info")["counts"]["holds"], 0)


class Channels(unittest.TestCase):
    """One user leaves channels of the connection to the broker to the others; only root can be two users."""

    ALL, RESERVE = 2047, 256
    ALICE, BOB = 65533, 65534

    def setUp(self):
        self.daemon = Daemon(self, "--socket-mode", "0666")
        os.chmod(self.daemon.dir, 0o711)
        self.root = Wire(self.daemon)

    def user(self, uid):
        """A connection of another user: the kernel notes the effective uid that connects."""
        os.seteuid(uid)
        try:
            return Wire(self.daemon, self)
        finally:
            os.seteuid(0)

    def take(self, peers, count, prefix):
        """Asks for so many mutexes by turns; returns who was refused, and why."""
        asked = [(peers[i % len(peers)], peers[i % len(peers)].request(
            "acquire", name=f"{prefix}{i}", kind="mutex", timeout=0)) for i in range(count)]
        refused = []
        for peer, id in asked:
            try:
                peer.answer(id)
            except WireError as error:
                refused.append(error)
        return refused

    @unittest.skipUnless(os.geteuid() == 0, "only root can be somebody else")
    def test_one_user_leaves_channels_to_others(self):
        self.root.call("create", name="db")
        alice = [self.user(self.ALICE) for _ in range(2)]
        refused = self.take(alice, self.ALL, "m")
        self.assertEqual(len(refused), self.RESERVE)
        self.assertEqual({error.reason for error in refused}, {"too-many-locks"})
        self.assertIn(f"user {self.ALICE} uses {self.ALL - self.RESERVE} channels", refused[0].message)
        self.assertIn(f"user {self.ALICE} uses", alice[0].call("explain", name="db")["text"])
        bob = self.user(self.BOB)
        lock = bob.call("acquire", name="db", timeout=0)["lock"]
        # A user without a channel is not refused when the slot is free, and stops no waiter behind it.
        waits = alice[0].request("acquire", name="db")
        alice[0].call("ping")
        behind = bob.request("acquire", name="db")
        bob.call("ping")
        bob.call("release", lock=lock)
        bob.call("release", lock=bob.answer(behind)["lock"])
        # Root is exempt, up to the last channel.
        self.assertEqual(self.take([self.root], self.RESERVE, "r"), [])
        (refused,) = self.take([self.root], 1, "s")
        self.assertEqual(refused.reason, "too-many-locks")
        self.assertIn(f"all {self.ALL} channels", refused.message)
        alice[1].hang_up()
        self.assertEqual(alice[0].answer(waits)["slot"], 1)

    @unittest.skipUnless(os.geteuid() == 0, "only root can be somebody else")
    def test_a_reload_counts_and_the_admin_group_is_exempt(self):
        def reload(config):
            reloads = self.daemon.log().count(" reloaded")
            self.daemon.write_config(config)
            self.daemon.reload()
            wait_until(lambda: self.daemon.log().count(" reloaded") > reloads)

        alice = self.user(self.ALICE), self.user(self.ALICE)
        reload("channels-reserve = 2045\n")
        self.assertEqual(len(self.take(alice, 1025, "m")), 1)  # at most half is kept back
        waits = alice[0].request("acquire", name="n", kind="mutex")
        alice[0].call("ping")
        reload("channels-reserve = 1022\n")
        self.assertIsNone(alice[0].answer(waits)["slot"])
        self.assertEqual(len(self.take(alice, 1, "o")), 1)
        reload("channels-reserve = 1022\nadmin-group = root\n")  # her group, if not her user
        self.assertEqual(self.take(alice, 1, "p"), [])


class OutOfFiles(unittest.TestCase):
    def test_accepting_pauses_and_goes_on(self):
        daemon = Daemon(self, expect=["no client can be accepted"])
        first = Wire(daemon)
        first.call("ping")
        _, before = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (daemon.fds() + 2, before))
        peers = [Wire(daemon) for _ in range(5)]
        served = peers[:2]
        for peer in served:
            peer.call("ping")
        daemon.wait_log("no client can be accepted now: Too many open files")
        asked = [peer.request("ping") for peer in peers[2:]]
        for _ in range(10):
            first.call("ping")  # connected clients are served
            daemon.wait_asleep()  # between two tries to accept
        for peer in peers[2:]:
            peer.pump()
            self.assertFalse(peer.replies)
        self.assertEqual(len(list(daemon.log().split("no client can be accepted"))), 2)
        served[0].hang_up()
        self.assertEqual(peers[2].answer(asked[0]), {})
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (before, before))
        for peer, id in zip(peers[3:], asked[1:]):
            self.assertEqual(peer.answer(id), {})
        daemon.wait_log("clients are accepted again")


if __name__ == "__main__":
    tap.main()
