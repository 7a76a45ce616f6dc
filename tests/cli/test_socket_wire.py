"""The wire as a client with nothing but a socket sees it: requests that are accepted, and errors of others."""

import grp
import json
import os
import pwd
import random
import re
import socket
import unittest

import openrpc
import tap
from daemon import Daemon
from guide import EXAMPLES
from wire import Wire, WireError

USER = pwd.getpwuid(os.getuid()).pw_name

PARSE, INVALID, UNKNOWN, PARAMS = -32700, -32600, -32601, -32602

# Line, code, id of the answer. The connection lives on after each.
BAD_LINES = [
    (b"{", PARSE, None),
    (b"nonsense", PARSE, None),
    (b'{"id":1,"method":"ping"} x', PARSE, None),
    (b"{'id':1,'method':'ping'}", PARSE, None),
    (b'{"id":01,"method":"ping"}', PARSE, None),
    (b'{"id":1,"id":1,"method":"ping"}', PARSE, None),
    (b'{"id":1,"method":"ping","method":"ping"}', PARSE, None),
    (b'\xef\xbb\xbf{"id":1,"method":"ping"}', PARSE, None),
    (b'{"id":1,"method":"p\xffng"}', PARSE, None),
    (b'{"id":1,"method":"p\x00ng"}', PARSE, None),
    (b'{"id":1,"method":"p\\u0000ng"}', PARSE, None),
    (b'{"id":1,"method":"p\x07ng"}', PARSE, None),
    (b"[" * 1000 + b"]" * 1000, PARSE, None),
    (b'{"a":' * 1000 + b"1" + b"}" * 1000, PARSE, None),
    (b"[]", INVALID, None),
    (b'[{"id":1,"method":"ping"},{"id":2,"method":"ping"}]', INVALID, None),
    (b"7", INVALID, None),
    (b"null", INVALID, None),
    (b'"ping"', INVALID, None),
    (b"{}", INVALID, None),
    (b'{"method":"ping"}', INVALID, None),
    (b'{"id":null,"method":"ping"}', INVALID, None),
    (b'{"id":1.5,"method":"ping"}', INVALID, None),
    (b'{"id":true,"method":"ping"}', INVALID, None),
    (b'{"id":[1],"method":"ping"}', INVALID, None),
    (b'{"id":9007199254740992,"method":"ping"}', INVALID, None),
    (b'{"id":"' + b"x" * 129 + b'","method":"ping"}', INVALID, None),
    (b'{"id":1}', INVALID, 1),
    (b'{"id":1,"method":7}', INVALID, 1),
    (b'{"ID":1,"method":"ping"}', INVALID, None),
    (b'{"id":1,"Method":"ping"}', INVALID, 1),
    (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', INVALID, 1),
    (b'{"jsonrpc":2.0,"id":1,"method":"ping"}', INVALID, 1),
    (b'{"id":1,"method":"ping","extra":1}', INVALID, 1),
    (b'{"id":1,"method":"ping","params":[]}', INVALID, 1),
    (b'{"id":1,"method":"ping","params":null}', INVALID, 1),
    (b'{"id":1,"method":"pong"}', UNKNOWN, 1),
    (b'{"id":1,"method":""}', UNKNOWN, 1),
    (b'{"id":1,"method":"Ping"}', UNKNOWN, 1),
]

# Method, params, the parameter that is named.
BAD_PARAMS = [
    ("acquire", {}, "name"),
    ("acquire", {"name": 7}, "name"),
    ("acquire", {"name": ""}, "name"),
    ("acquire", {"name": "a b"}, "name"),
    ("acquire", {"name": "amq.x"}, "name"),
    ("acquire", {"name": "x-1-A"}, "name"),
    ("acquire", {"name": "x-M"}, "name"),
    ("acquire", {"name": "x" * 201}, "name"),
    ("acquire", {"name": "x", "timeout": -1}, "timeout"),
    ("acquire", {"name": "x", "timeout": "1"}, "timeout"),
    ("acquire", {"name": "x", "timeout": 1e300}, "timeout"),
    ("acquire", {"name": "x", "kind": "lock"}, "kind"),
    ("acquire", {"name": "x", "kind": None}, "kind"),
    ("acquire", {"name": "x", "priority": 101}, "priority"),
    ("acquire", {"name": "x", "priority": 0.5}, "priority"),
    ("acquire", {"name": "x", "progress": 1}, "progress"),
    ("acquire", {"name": "x", "who": "y" * 257}, "who"),
    ("acquire", {"name": "x", "tmeout": 1}, "tmeout"),
    ("verify", {}, "lock"),
    ("verify", {"lock": 7}, "lock"),
    ("release", {"lock": ""}, "lock"),
    ("release", {"lock": "x" * 65}, "lock"),
    ("cancel", {}, "id"),
    ("cancel", {"id": None}, "id"),
    ("create", {"name": "x", "slots": -1}, "slots"),
    ("create", {"name": "x", "slots": 10001}, "slots"),
    ("create", {"name": "x", "kind": "mutex"}, "kind"),
    ("create", {"name": "x", "exist_ok": "yes"}, "exist_ok"),
    ("destroy", {}, "name"),
    ("size", {"name": None}, "name"),
    ("ping", {"x": 1}, "x"),
    ("info", {"x": 1}, "x"),
    ("rpc.discover", {"x": 1}, "x"),
]


class WireCase(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(self)
        self.peer = Wire(self.daemon)


class BadInput(WireCase):
    def test_bad_lines(self):
        for line, code, id in BAD_LINES:
            with self.subTest(line[:60]):
                self.peer.send_line(line)
                reply = self.peer.recv()
                self.assertEqual((reply["error"]["code"], reply["id"]), (code, id), reply)
        self.assertEqual(self.peer.call("ping"), {})

    def test_bad_params(self):
        for method, params, name in BAD_PARAMS:
            with self.subTest(method=method, params=params):
                error = self.peer.error(method, **params)
                self.assertEqual((error.code, error.data["parameter"]), (PARAMS, name), error)
        self.assertEqual(self.peer.call("info")["counts"]["waiting"], 0)

    def test_an_error_names_what_is_unknown_in_printable_words(self):
        self.assertIn("'p\\xc3\\xb6ng'", self.peer.error("pöng").message)

    def test_a_line_of_the_longest_length_is_taken(self):
        self.peer.send_line(b'{"id":1,"method":"ping"}'.ljust(65535))
        self.assertEqual(self.peer.answer(1), {})

    def test_a_longer_line_is_answered_and_closes(self):
        self.peer.send_bytes(b'{"id":1,"method":"ping"}'.ljust(65536) + b"\n")
        reply = self.peer.recv()
        self.assertEqual((reply["error"]["code"], reply["id"]), (INVALID, None))
        self.peer.wait_closed()
        self.assertEqual(Wire(self.daemon).call("ping"), {})

    def test_a_line_without_end_is_answered_and_closes(self):
        try:
            self.peer.send_bytes(b"x" * 200000)
        except (BrokenPipeError, ConnectionResetError):
            pass  # closed before all was written
        self.assertEqual(self.peer.recv()["error"]["code"], INVALID)
        self.peer.wait_closed()

    def test_random_bytes_harm_nobody(self):
        dice = random.Random(20)
        good = json.dumps({"id": 1, "method": "acquire",
                           "params": {"name": "x", "kind": "mutex", "timeout": 0}}).encode()
        for _ in range(200):
            line = bytearray(good)
            for _ in range(dice.randrange(1, 6)):
                at = dice.randrange(len(line))
                if dice.random() < 0.5:
                    line[at] = dice.randrange(256)
                else:
                    line[at:at + dice.randrange(8)] = dice.randbytes(dice.randrange(8))
            peer = Wire(self.daemon)
            peer.send_bytes(bytes(line) + b'\n{"id":"end","method":"ping"}\n')
            self.assertEqual(peer.answer("end"), {})
            peer.hang_up()


class Requests(WireCase):
    def test_ids_come_back_as_they_were(self):
        for id in (0, -1, 9007199254740991, -9007199254740991, "", "x" * 128, "ä\"\\\n", "7", 7):
            with self.subTest(id):
                self.peer.send_line({"id": id, "method": "ping"})
                self.assertEqual(self.peer.recv(), {"jsonrpc": "2.0", "id": id, "result": {}})

    def test_line_ends_and_empty_lines(self):
        self.peer.send_bytes(b'\n\r\n\n{"id":1,"method":"ping"}\r\n\n{"id":2,"method":"ping"}\n')
        self.assertEqual(self.peer.answer(1), {})
        self.assertEqual(self.peer.answer(2), {})

    def test_a_request_in_pieces(self):
        for byte in b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}\n':
            self.peer.send_bytes(bytes([byte]))
        self.assertEqual(self.peer.answer(1), {})

    def test_pipelined_requests_are_all_answered(self):
        count = 500
        self.peer.send_bytes(b"".join(b'{"id":%d,"method":"ping"}\n' % i for i in range(count)))
        self.assertEqual([self.peer.recv()["id"] for _ in range(count)], list(range(count)))

    def test_an_id_that_is_unanswered_is_refused_and_free_again_later(self):
        self.peer.call("acquire", name="m", kind="mutex", timeout=0)
        waiting = self.peer.request("acquire", id="w", name="m", kind="mutex")
        self.peer.send_line({"id": "w", "method": "ping"})
        refused = self.peer.recv()
        self.assertEqual((refused["id"], refused["error"]["code"]), (None, INVALID))
        self.assertTrue(self.cancel("w"))
        self.assertEqual(self.peer.reply(waiting)["error"]["data"]["reason"], "cancelled")
        self.peer.send_line({"id": "w", "method": "ping"})
        self.assertEqual(self.peer.recv()["id"], "w")

    def cancel(self, id):
        self.peer.send_line({"id": "c", "method": "cancel", "params": {"id": id}})
        return self.peer.answer("c")["cancelled"]

    def test_cancel_of_nothing(self):
        self.assertFalse(self.cancel("x"))
        self.assertFalse(self.cancel(7))
        self.assertFalse(self.cancel("c"))  # itself: it does not wait

    def test_requests_on_one_lock_keep_their_order(self):
        self.peer.call("create", name="db")
        lock = self.peer.call("acquire", name="db", timeout=0)["lock"]
        first = [self.peer.request("verify", lock=lock), self.peer.request("release", lock=lock),
                 self.peer.request("verify", lock=lock)]
        self.assertEqual(self.peer.answer(first[0])["lock"], lock)
        self.assertEqual(self.peer.answer(first[1]), {"lock": lock})
        self.assertEqual(self.peer.reply(first[2])["error"]["data"]["reason"], "not-held")

    def test_locks_that_are_none(self):
        lock = self.peer.call("acquire", name="m", kind="mutex", timeout=0)["lock"]
        run, number = lock.split("-")
        other = f"{int(run, 16) ^ 1:08x}"
        for wrong in ("x", run, "-", f"{run}-", f"{run}-0{number}", f"{run}-{int(number) + 1}",
                      f"{other}-{number}", f"{run}-+{number}", lock + " "):
            with self.subTest(wrong):
                self.assertEqual(self.peer.error("verify", lock=wrong).reason, "not-held")
                self.assertEqual(self.peer.error("release", lock=wrong).reason, "not-held")
        self.assertEqual(self.peer.call("verify", lock=lock)["lock"], lock)

    def test_another_client_may_verify_but_not_release(self):
        lock = self.peer.call("acquire", name="m", kind="mutex", timeout=0)["lock"]
        other = Wire(self.daemon)
        self.assertEqual(other.call("verify", lock=lock)["name"], "m")
        self.assertEqual(other.error("release", lock=lock).reason, "not-held")
        self.assertEqual(self.peer.call("release", lock=lock), {"lock": lock})


class Looking(WireCase):
    def test_discover_is_the_description(self):
        with open(openrpc.SOURCE + "/protocol/openrpc.json", encoding="utf-8") as file:
            self.assertEqual(self.peer.call("rpc.discover"), json.load(file))

    def test_ping(self):
        self.assertEqual(self.peer.call("ping"), {})
        self.assertEqual(self.peer.call("ping", broker=False), {})
        self.daemon.wait_broker()
        self.assertEqual(self.peer.call("ping", broker=True),
                         {"broker": {"state": "up", "why": "", "silent": 0, "suspect": False}})

    def test_info(self):
        self.daemon.wait_broker()
        self.peer.call("acquire", name="m", kind="mutex", timeout=0)
        info = self.peer.call("info")
        self.assertEqual(info["pid"], self.daemon.pid)
        self.assertFalse(info["draining"])
        self.assertEqual(info["naming"], "amqp-locks")
        self.assertEqual(info["limits"], {"line": 65536, "locks_per_connection": 1024,
                                          "waits_per_connection": 1024, "requests_per_connection": 64,
                                          "waits_per_uid": 20000, "watches_per_uid": 64,
                                          "scans_per_uid": 2, "mutexes_per_uid": 2000})
        self.assertEqual(info["broker"]["state"], "up")
        self.assertFalse(info["broker"]["persistent"])
        self.assertEqual((info["counts"]["holds"], info["counts"]["granted"]), (1, 1))
        self.assertEqual(info["counts"]["connections"], 1)

    def test_would_block_says_who_is_there(self):
        self.peer.call("create", name="db", slots=2)
        for _ in range(2):
            self.peer.call("acquire", name="db", timeout=0)
        error = Wire(self.daemon).error("acquire", name="db", timeout=0)
        self.assertEqual(error.reason, "would-block")
        self.assertTrue(error.retry)

    def test_the_log_tells_a_locks_life(self):
        lock = self.peer.call("acquire", name="m", kind="mutex", timeout=0, who="job\n7")["lock"]
        Wire(self.daemon).error("acquire", name="m", kind="mutex", timeout=0)
        self.peer.call("release", lock=lock)
        self.peer.call("acquire", name="m", kind="mutex", timeout=0)
        self.peer.hang_up()
        self.daemon.wait_log(r"requested m: .*who job\\x0a7")
        self.daemon.wait_log(rf"acquired m: lock {lock}, client \d+, uid \d+( \(\w+\))?, pid \d+, waited ")
        self.daemon.wait_log(r"refused m: .*would-block")
        self.daemon.wait_log(r"released m: .*held \d")
        self.daemon.wait_log(r"released m: .*its client has disconnected")


class Users(unittest.TestCase):
    """Clients of another uid; only root can be one."""

    NOBODY = 65534

    def as_user(self, daemon, groups, method, **params):
        """The reply to a request that another user sends, with supplementary groups."""
        inside, outside = socket.socketpair()
        with inside, outside:
            child = os.fork()
            if child == 0:
                try:
                    os.setgroups(groups)
                    os.setgid(self.NOBODY)
                    os.setuid(self.NOBODY)
                    peer = socket.socket(socket.AF_UNIX)
                    peer.connect(daemon.socket)
                    peer.sendall(json.dumps({"id": 1, "method": method, "params": params}).encode()
                                 + b"\n")
                    inside.sendall(peer.recv(65536))
                finally:
                    os._exit(0)
            inside.close()
            reply = json.loads(outside.recv(65536))
            os.waitpid(child, 0)
        openrpc.load().check_reply(method, reply)
        return reply

    @unittest.skipUnless(os.geteuid() == 0, "only root can be somebody else")
    def test_teams(self):
        """The rules of the example, with groups that need not exist."""
        rules = (EXAMPLES / "lockbrokerd-teams.conf").read_text()
        groups = {name: 60000 + n for n, name in enumerate(sorted(set(re.findall(r"group:([\w-]+)", rules))))}
        daemon = Daemon(self, "--socket-mode", "0666",
                        config=re.sub(r"group:([\w-]+)", lambda found: f"gid:{groups[found[1]]}", rules))
        os.chmod(daemon.dir, 0o711)
        root = Wire(daemon)
        for name in "shop/a", "data/a", "other":
            root.call("create", name=name, slots=9)

        def may(group, method, name):
            reply = self.as_user(daemon, [groups[group]] if group else [], method, name=name)
            if "error" in reply:
                self.assertEqual(reply["error"]["data"]["reason"], "permission-denied")
            return "result" in reply

        for group, method, name, allowed in (
                ("shop", "acquire", "shop/a", True), ("shop", "show", "shop/a", True), ("shop", "destroy", "shop/a", False),
                ("shop", "acquire", "data/a", False), ("shop", "show", "data/a", False), ("shop", "acquire", "other", False),
                ("data", "acquire", "data/a", True), ("data", "acquire", "shop/a", False),
                ("shop-ops", "create", "shop/b", True), ("shop-ops", "create", "data/b", False),
                ("shop-ops", "acquire", "shop/b", True), ("data-ops", "destroy", "data/a", True),
                ("lockbroker-admin", "destroy", "shop/b", True), ("lockbroker-admin", "acquire", "other", True),
                (None, "acquire", "other", False), (None, "acquire", "shop/a", False)):
            with self.subTest(group=group, method=method, name=name):
                self.assertIs(may(group, method, name), allowed)
        listed = self.as_user(daemon, [groups["shop"]], "list")["result"]["semaphores"]
        self.assertEqual([row["name"] for row in listed], ["shop/a"])

    @unittest.skipUnless(os.geteuid() == 0, "only root can be somebody else")
    def test_administration_needs_the_admin_group(self):
        group = grp.getgrgid(0).gr_name
        daemon = Daemon(self, "--socket-mode", "0666", "--admin-group", group)
        os.chmod(daemon.dir, 0o711)
        root = Wire(daemon)
        root.call("create", name="db")
        lock = root.call("acquire", name="db", timeout=0)["lock"]
        for method, params, reason in (
                ("create", {"name": "x"}, "permission-denied"),
                ("destroy", {"name": "db"}, "permission-denied"),
                ("resize", {"name": "db", "slots": 2}, "permission-denied"),
                ("fsck", {"name": "db"}, "permission-denied"),
                ("fsck", {"name": "db", "repair": True}, "permission-denied"),
                ("acquire", {"name": "db", "timeout": 0, "create": 1}, "would-block"),
                ("acquire", {"name": "missing", "timeout": 0, "create": 1}, "permission-denied"),
                ("verify", {"lock": lock}, "not-held"),
                ("release", {"lock": lock}, "not-held"),
                ("acquire", {"name": "db", "timeout": 0}, "would-block")):
            with self.subTest(method):
                reply = self.as_user(daemon, [], method, **params)
                self.assertEqual(reply["error"]["data"]["reason"], reason)
                if reason == "permission-denied":
                    self.assertIn(f"only root, the daemon's user and group {group} may",
                                  reply["error"]["message"])
                    # Only the scan shows that an acquire would have to create.
                    said = "refused missing" if method == "acquire" else rf"forbidden {method} of \w+"
                    daemon.wait_log(rf"{said}: client \d+, uid {self.NOBODY}( \(\w+\))?, pid \d+.*: only root")
        reply = self.as_user(daemon, [], "size", name="db")
        self.assertEqual(reply["result"]["slots"], 1)
        self.assertEqual(self.as_user(daemon, [], "explain", name="db")["result"]["verdict"], "full")
        # A rule can give the right to somebody else.
        daemon.write_config("[access]\nrule = allow any fsck *\n")
        daemon.reload()
        daemon.wait_log("reloaded")
        for repair in (False, True):
            reply = self.as_user(daemon, [], "fsck", name="db", repair=repair)
            self.assertTrue(reply["result"]["clean"])
        # A supplementary group is enough to be an administrator.
        reply = self.as_user(daemon, [7, 0, 9], "create", name="x")
        self.assertEqual(reply["result"]["slots"], 1)


class Journal(unittest.TestCase):
    def test_a_change_that_is_made_is_not_refused_because_its_wait_ended(self):
        daemon = Daemon(self)
        peer = Wire(daemon)
        peer.call("create", name="db")
        peer.call("acquire", name="db", who="Alice's job")
        self.assertEqual(peer.error("destroy", name="db", wait=0.1).reason, "timeout")
        daemon.wait_log("info: done destroy of db: .*, 1 still held, timeout: 1 of the removed slots is still busy$")
        daemon.wait_log("who Alice's job$")

    def test_json(self):
        daemon = Daemon(self, "--log-format", "json")
        peer = Wire(daemon)
        lock = peer.call("acquire", name="m", kind="mutex", why='say "no"')["lock"]
        peer.call("release", lock=lock)
        daemon.wait_log("released m")
        peer.call("create", name="db")
        slot = peer.call("acquire", name="db")["lock"]
        daemon.wait_log("acquired db")
        lines = [json.loads(line) for line in daemon.log().splitlines()]
        self.assertEqual({line["level"] for line in lines}, {"info"})
        who = {"uid": os.getuid(), "user": USER, "pid": os.getpid()}
        events = [{k: v for k, v in line.items() if k not in ("time", "level", "message")} for line in lines
                  if "event" in line]
        self.assertEqual(events, [
            {"event": "requested", "method": "acquire", "name": "m", **who},
            {"event": "acquired", "method": "acquire", "name": "m", "lock": lock, **who},
            {"event": "released", "name": "m", "lock": lock, **who},
            {"event": "requested", "method": "create", "name": "db", **who},
            {"event": "done", "method": "create", "name": "db", **who},
            {"event": "requested", "method": "acquire", "name": "db", **who},
            {"event": "acquired", "method": "acquire", "name": "db", "lock": slot, "slot": 1, **who}])

    def test_changes_of_semaphores(self):
        daemon = Daemon(self)
        peer = Wire(daemon)
        who = rf"client \d+, uid {os.getuid()} \({USER}\), pid {os.getpid()}"
        peer.call("create", name="db", slots=3)
        daemon.wait_log(f"info: requested create of db: {who}, 3 slots$")
        daemon.wait_log(f"info: done create of db: {who}, 3 slots$")
        peer.error("create", name="db")
        daemon.wait_log(f"info: refused create of db: {who}, .*already-exists: it exists already, with 3 slots$")
        peer.call("destroy", name="db")
        daemon.wait_log(f"info: requested destroy of db: {who}$")
        daemon.wait_log(f"info: done destroy of db: {who}$")
        self.assertEqual(peer.error("destroy", name="db").reason, "no-such-lock")
        daemon.wait_log(f"info: refused destroy of db: {who}, no-such-lock$")

    def test_the_parameters_of_a_change_are_logged(self):
        daemon = Daemon(self, "--log-level", "debug")
        peer = Wire(daemon)
        peer.call("create", name="db", slots="unlimited", exist_ok=True)
        daemon.wait_log("info: requested create of db: client .*, unlimited, may exist$")
        daemon.wait_log("info: done create of db: client .*, unlimited$")
        peer.call("resize", name="db", slots=4, order="ascending", wait=1.5)
        daemon.wait_log("info: requested resize of db: client .*, to 4 slots, ascending, waits 1.500 s for holders$")
        daemon.wait_log("info: done resize of db: client .*, 4 slots: .")
        peer.call("resize", name="db", remove=2, overshoot=7)
        daemon.wait_log("info: requested resize of db: client .*, removes 2, overshoot 7$")
        daemon.wait_log("info: done resize of db: client .*, 2 slots$")
        peer.error("resize", name="db", add=9999)
        daemon.wait_log("info: requested resize of db: client .*, adds 9999$")
        daemon.wait_log("info: refused resize of db: client .*, target 10001 slots, 2 slots, invalid-params: ")
        peer.call("size", name="db")
        daemon.wait_log(r"debug: requested size of db: client \d+, uid \d+( \(\w+\))?, pid \d+$")
        daemon.wait_log(r"debug: done size of db: client \d+, uid \d+( \(\w+\))?, pid \d+, 2 slots$")

    def test_a_change_is_logged_to_its_end_though_its_client_is_gone(self):
        daemon = Daemon(self)
        peer, other = Wire(daemon), Wire(daemon)
        peer.call("create", name="db", slots=1)
        peer.call("acquire", name="db")
        other.request("destroy", name="db", wait=None)
        peer.notification("revoked")
        other.hang_up()
        daemon.wait_log("info: left destroy of db: client .*, its client has disconnected$")
        other = Wire(daemon)
        other.send_line({"id": 1, "method": "create", "params": {"name": "new", "slots": 300}})
        other.hang_up()
        daemon.wait_log("info: done create of new: client .*, 300 slots$")


class Rules(unittest.TestCase):
    def test_a_rule_decides_before_anything_happens(self):
        daemon = Daemon(self, config="[access]\nrule = deny any create,acquire secret-*\n"
                                     "rule = deny any info *\n")
        peer = Wire(daemon)
        with self.assertRaises(WireError) as caught:
            peer.call("create", name="secret-1")
        self.assertEqual(caught.exception.reason, "permission-denied")
        self.assertIn("secret-1", caught.exception.message)
        self.assertIn("an access rule denies it", caught.exception.message)
        daemon.wait_log(rf"forbidden create of secret-1: client \d+, uid {os.getuid()} \({USER}\), pid {os.getpid()}: an access")
        self.assertEqual(peer.error("acquire", name="secret-1").reason, "permission-denied")
        daemon.wait_log(r"forbidden acquire of secret-1: ")
        self.assertEqual(peer.error("info").reason, "permission-denied")
        self.assertEqual(peer.error("acquire", name="secret-1", x=1).code, PARAMS)
        self.assertEqual(peer.call("create", name="open")["slots"], 1)
        self.assertEqual(peer.error("size", name="secret-1").reason, "no-such-lock")


if __name__ == "__main__":
    tap.main()
