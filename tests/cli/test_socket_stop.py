"""Orderly stops, disorderly ones, and reloads."""

import os
import resource
import select
import signal
import socket
import threading
import time
import unittest

import tap
from daemon import Daemon
from wait import wait_until
from wire import Closed, Wire


class Stop(unittest.TestCase):
    def test_a_daemon_without_holds_ends_at_once(self):
        daemon = Daemon(self, "--stop-timeout", "600")
        peer = Wire(daemon)
        peer.call("ping")
        daemon.signal(signal.SIGTERM)
        self.assertEqual(peer.notification("draining"), {"grace": 600})
        daemon.wait_exit()
        peer.wait_closed()

    def test_a_bus_that_does_not_answer(self):
        """The daemon asks systemd whether this is a restart. sd-bus alone would wait 90 s for the bus."""
        with socket.socket(socket.AF_UNIX) as bus:
            daemon = Daemon(self, start=False)
            path = os.path.join(daemon.dir, "bus")
            bus.bind(path)
            bus.listen()
            daemon.env["DBUS_SYSTEM_BUS_ADDRESS"] = f"unix:path={path}"
            daemon.expect("does not tell within 2 s")
            daemon.start()
            daemon.stop()

    def test_sigint_is_as_good(self):
        daemon = Daemon(self)
        daemon.signal(signal.SIGINT)
        daemon.wait_exit()

    def test_holders_have_their_time(self):
        daemon = Daemon(self)
        holder, waiter, other = Wire(daemon), Wire(daemon), Wire(daemon)
        lock = holder.call("acquire", name="m", kind="mutex", timeout=0)["lock"]
        waiting = waiter.request("acquire", name="m", kind="mutex")
        wait_until(lambda: other.call("info")["counts"]["waiting"] == 1)
        daemon.signal(signal.SIGTERM)
        for peer in (holder, waiter, other):
            self.assertEqual(peer.notification("draining"), {"grace": 30})
        self.assertEqual(waiter.reply(waiting)["error"]["data"]["reason"], "draining")
        self.assertEqual(other.error("acquire", name="x", kind="mutex", timeout=0).reason,
                         "draining")
        self.assertTrue(other.call("info")["draining"])
        self.assertFalse(os.path.exists(daemon.socket))
        with self.assertRaises((ConnectionRefusedError, FileNotFoundError)):
            Wire(daemon)
        # The slot is its holder's until it lets go.
        self.assertEqual(holder.call("verify", lock=lock)["lock"], lock)
        self.assertTrue(daemon.running())
        self.assertEqual(holder.call("release", lock=lock), {"lock": lock})
        daemon.wait_exit()

    def test_a_holder_that_hangs_up_lets_it_end(self):
        daemon = Daemon(self)
        holder = Wire(daemon)
        holder.call("acquire", name="m", kind="mutex", timeout=0)
        daemon.signal(signal.SIGTERM)
        holder.notification("draining")
        holder.hang_up()
        daemon.wait_exit()

    def test_after_the_stop_timeout_the_remaining_holds_end(self):
        daemon = Daemon(self, "--stop-timeout", "0.3", expect=["the stop timeout has passed", "warning: lost "])
        holder = Wire(daemon)
        lock = holder.call("acquire", name="m", kind="mutex", timeout=0)["lock"]
        began = time.monotonic()
        daemon.signal(signal.SIGTERM)
        self.assertEqual(holder.notification("draining"), {"grace": 0.3})
        lost = holder.notification("lost")
        self.assertGreaterEqual(time.monotonic() - began, 0.28)
        self.assertEqual((lost["lock"], lost["reason"]), (lock, "draining"))
        daemon.wait_exit()
        lines = [line for line in daemon.log().splitlines() if " lost " in line]
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines[0], rf"^\S+ warning: lost m: lock \w+-\d+, uid {os.getuid()} \(\w+\), pid {os.getpid()}, held ")

    def test_a_second_signal_does_not_wait(self):
        daemon = Daemon(self, expect=["warning: lost m: "])
        holder = Wire(daemon)
        lock = holder.call("acquire", name="m", kind="mutex", timeout=0)["lock"]
        daemon.signal(signal.SIGTERM)
        holder.notification("draining")
        daemon.signal(signal.SIGTERM)
        self.assertEqual(holder.notification("lost")["lock"], lock)
        daemon.wait_exit()
        daemon.wait_log("SIGTERM again: stopping at once")

    def test_clients_in_every_state(self):
        daemon = Daemon(self, "--stop-timeout", "0.2", expect=["the stop timeout has passed", "warning: lost "])
        peers = [Wire(daemon) for _ in range(20)]
        peers[0].call("create", name="db", slots=3)
        for peer in peers:
            peer.request("acquire", name="db")
            peer.request("acquire", name="m", kind="mutex")
            peer.request("size", name="db")
            peer.send_bytes(b'{"id":')
        peers[0].socket.shutdown(socket.SHUT_WR)
        daemon.signal(signal.SIGTERM)
        daemon.wait_exit()
        for peer in peers:
            peer.wait_closed()

    def test_a_client_that_goes_on_asking_does_not_delay_it(self):
        daemon = Daemon(self, "--max-scans-per-uid", "1", "--stop-timeout", "600")
        peers = [Wire(daemon) for _ in range(4)]
        over = threading.Event()
        threads = [threading.Thread(target=self.go_on_asking, args=(peer.socket, over)) for peer in peers]
        self.addCleanup(lambda: [over.set()] + [thread.join() for thread in threads])
        for thread in threads:
            thread.start()
        wait_until(lambda: daemon.cpu() > 0.2, what="it is busy")
        daemon.signal(signal.SIGTERM)
        # It does not wait for the stop timeout: nothing is held.
        daemon.wait_exit()

    @staticmethod
    def go_on_asking(sock, over):
        """Sends requests until the daemon hangs up, and ignores its answers."""
        lines = b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"%s"}\n' % (n, method)
                         for n, method in enumerate([b"ping", b"info", b"explain"] * 500))
        lines = lines.replace(b'"explain"', b'"explain","params":{"name":"db"}')
        left = b""
        sock.setblocking(False)
        while not over.is_set():
            left = left or lines
            readable, writable, _ = select.select([sock], [sock], [], 1)
            try:
                if readable and not sock.recv(1 << 20):
                    return
                if writable:
                    left = left[sock.send(left):]
            except (BrokenPipeError, ConnectionResetError):
                return

    def test_requests_before_the_signal_are_answered(self):
        daemon = Daemon(self)
        peer = Wire(daemon)
        asked = peer.request("create", name="big", slots=200)
        other = Wire(daemon)
        other.call("ping")
        daemon.signal(signal.SIGTERM)
        try:
            self.assertEqual(peer.answer(asked)["slots"], 200)
        except Closed:
            self.fail("closed before its answer")
        daemon.wait_exit()


class Crash(unittest.TestCase):
    def test_no_core_is_dumped(self):
        """Though the administrator's limit allows one."""
        daemon = Daemon(self, start=False, env={"ASAN_OPTIONS": "disable_coredump=0"})
        most = resource.getrlimit(resource.RLIMIT_CORE)[1]
        daemon.command = ["/bin/sh", "-c", 'cd "$0" && ulimit -S -c "$(ulimit -H -c)" && exec "$@"', daemon.dir] \
            + daemon.command
        daemon.start()
        # Not 0, with which the kernel would still pipe one to a program.
        self.assertEqual(resource.prlimit(daemon.pid, resource.RLIMIT_CORE), (min(1, most) if most >= 0 else 1, most))
        daemon.signal(signal.SIGQUIT)
        _, status = os.waitpid(daemon.pid, 0)
        daemon.process = None
        self.assertEqual((os.WTERMSIG(status), os.WCOREDUMP(status)), (signal.SIGQUIT, False))


class Reload(unittest.TestCase):
    def test_a_reload_changes_limits_and_rules(self):
        daemon = Daemon(self, config="max-locks-per-connection = 1\n")
        peer = Wire(daemon)
        peer.call("acquire", name="a", kind="mutex", timeout=0)
        self.assertEqual(peer.error("acquire", name="b", kind="mutex", timeout=0).reason,
                         "too-many-locks")
        daemon.write_config("max-locks-per-connection = 2\n[access]\nrule = deny any size *\n")
        daemon.reload()
        daemon.wait_log(r"\breloaded\b")
        peer.call("acquire", name="b", kind="mutex", timeout=0)
        self.assertEqual(peer.call("info")["limits"]["locks_per_connection"], 2)
        self.assertEqual(peer.error("size", name="x").reason, "permission-denied")
        notices = daemon.read_notices()
        self.assertIn("RELOADING=1", notices)
        self.assertEqual(notices.count("READY=1"), 2)
        self.assertLess(notices.index("RELOADING=1"), len(notices) - notices[::-1].index("READY=1"))

    def test_an_option_that_needs_a_restart_is_logged_at_each_reload(self):
        daemon = Daemon(self, config="heartbeat = 10\n", expect=["heartbeat"])
        daemon.write_config("heartbeat = 11\nmax-waits-per-connection = 7\n")
        for times in (1, 2):
            daemon.reload()
            daemon.wait_log("heartbeat changes only at a restart", count=times)
        wait_until(lambda: daemon.log().count("reloaded") == 2)
        info = Wire(daemon).call("info")
        self.assertEqual(info["broker"]["heartbeat"], 10)
        self.assertEqual(info["limits"]["waits_per_connection"], 7)

    def test_a_mistake_changes_nothing(self):
        daemon = Daemon(self, config="max-waits-per-connection = 7\n", expect=["reload: "])
        daemon.write_config("max-waits-per-connection = 8\nnonsense = 1\n")
        daemon.reload()
        daemon.wait_log(r"reload: .*conf:\d+: nonsense: .*no change was made")
        self.assertEqual(Wire(daemon).call("info")["limits"]["waits_per_connection"], 7)

    def test_holds_stay(self):
        daemon = Daemon(self)
        peer = Wire(daemon)
        lock = peer.call("acquire", name="m", kind="mutex", timeout=0)["lock"]
        for times in (1, 2, 3):
            daemon.reload()
            wait_until(lambda: daemon.log().count("reloaded") == times)
        self.assertEqual(peer.call("verify", lock=lock)["lock"], lock)

    def test_limits_of_clients(self):
        daemon = Daemon(self, config="max-connections-per-uid = 1\n")
        first = Wire(daemon)
        first.call("ping")
        daemon.write_config("max-connections-per-uid = 2\n")
        daemon.reload()
        daemon.wait_log(r"\breloaded\b")
        self.assertEqual(Wire(daemon).call("ping"), {})


if __name__ == "__main__":
    tap.main()
