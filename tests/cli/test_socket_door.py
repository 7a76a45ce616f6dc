"""How the daemon gets its socket, by making it, replacing a stale one or from systemd, and its messages then."""

import ctypes
import fcntl
import grp
import os
import re
import signal
import socket
import stat
import subprocess
import time
import unittest

import tap
from daemon import Daemon, program
from wait import wait_until
from wire import Wire, WireError

UNUSABLE = 69  # EX_UNAVAILABLE


class Door(unittest.TestCase):
    def refused(self, daemon, pattern):
        """The daemon does not start, and says why."""
        daemon.expect(pattern)
        daemon.launch()
        daemon.wait_exit(UNUSABLE)
        self.assertRegex(daemon.log(), pattern)

    def test_mode_and_removal_of_the_socket(self):
        daemon = Daemon(self)
        made = os.stat(daemon.socket)
        self.assertTrue(stat.S_ISSOCK(made.st_mode))
        self.assertEqual(stat.S_IMODE(made.st_mode), 0o660)
        daemon.stop()
        self.assertFalse(os.path.exists(daemon.socket))

    def test_mode_and_group(self):
        group = os.getgid()
        daemon = Daemon(self, "--socket-mode", "0600", "--socket-group", grp.getgrgid(group).gr_name)
        made = os.stat(daemon.socket)
        self.assertEqual((stat.S_IMODE(made.st_mode), made.st_gid), (0o600, group))

    def test_a_stale_file_is_replaced(self):
        daemon = Daemon(self)
        daemon.kill()
        self.assertTrue(os.path.exists(daemon.socket))
        daemon.start()
        self.assertEqual(Wire(daemon).call("ping"), {})

    def test_standard_descriptors_that_are_closed_become_nobody_elses(self):
        daemon = Daemon(self, start=False)
        daemon.command = ["/bin/sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh"] + daemon.command
        daemon.start()
        self.assertEqual([os.readlink(f"/proc/{daemon.pid}/fd/{fd}") for fd in range(3)], ["/dev/null"] * 3)
        peer = Wire(daemon)
        peer.call("acquire", name="m", kind="mutex", timeout=0)  # a line of the log
        self.assertEqual(peer.call("ping"), {})

    def test_a_live_one_is_left_alone(self):
        first = Daemon(self)
        peer = Wire(first)
        peer.call("acquire", name="m", kind="mutex", timeout=0)
        second = Daemon(self, start=False)
        second.command[second.command.index("--socket") + 1] = first.socket
        self.refused(second, rf"pid {first.pid} \(lockbrokerd\) listens there already")
        self.assertEqual(Wire(first).error("acquire", name="m", kind="mutex", timeout=0).reason,
                         "would-block")

    def test_of_many_that_start_at_once_one_serves(self):
        daemon = Daemon(self)
        daemon.kill()  # and its file is stale
        command = daemon.command
        others = [subprocess.Popen(command, env=daemon.env, stdin=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True) for _ in range(6)]
        try:
            wait_until(lambda: sum(p.poll() is None for p in others) == 1)
            winner = next(p for p in others if p.poll() is None)
            wait_until(lambda: self.pid_of(daemon.socket) == winner.pid)
        finally:
            for p in others:
                p.terminate()
            said = [p.communicate()[1] for p in others]
        self.assertEqual(sorted(p.returncode for p in others), [0] + [UNUSABLE] * 5, said)

    def test_one_daemon_at_a_time_checks_and_replaces_a_socket(self):
        daemon = Daemon(self)
        daemon.kill()
        stale = os.stat(daemon.socket).st_ino
        lock = os.open(daemon.socket + ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        self.addCleanup(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
        daemon.launch()
        # It tries again and again, and sleeps in between.
        while daemon.switches() < 50:
            self.assertEqual(os.stat(daemon.socket).st_ino, stale)
        self.assertNotIn("READY=1", daemon.read_notices())
        fcntl.flock(lock, fcntl.LOCK_UN)
        daemon.wait_notice("READY=1")

    def test_a_process_that_can_only_read_the_folder_cannot_keep_it_from_starting(self):
        daemon = Daemon(self, start=False)
        folder = os.open(daemon.dir, os.O_RDONLY)
        self.addCleanup(os.close, folder)
        fcntl.flock(folder, fcntl.LOCK_EX)
        daemon.start()
        self.assertEqual(Wire(daemon).call("ping"), {})
        # Nothing is left beside the socket that another process could lock.
        self.assertEqual(sorted(os.listdir(daemon.dir)), ["conf", "log", "notify", "s"])

    def test_a_lock_file_that_another_user_could_hold_is_not_waited_for(self):
        daemon = Daemon(self, start=False)
        with open(daemon.dir + "/theirs", "w", encoding="ascii") as file:
            file.write("mine")
        os.symlink(daemon.dir + "/theirs", daemon.socket + ".lock")
        self.refused(daemon, r"s\.lock: Too many levels of symbolic links")
        os.unlink(daemon.socket + ".lock")
        if os.geteuid() == 0:  # only root can make a file of another user
            with open(daemon.socket + ".lock", "w", encoding="ascii") as file:
                os.fchown(file.fileno(), 65534, 65534)
                fcntl.flock(file, fcntl.LOCK_EX)
                self.refused(daemon, r"s\.lock: belongs to uid 65534")
        with open(daemon.dir + "/theirs", encoding="ascii") as file:
            self.assertEqual(file.read(), "mine")

    def test_a_swapped_file_gets_neither_mode_nor_group(self):
        """A process that may write to the folder puts a link to another file in the socket's place as soon
        as bind(2) has made it. The daemon is started until that has succeeded some times."""
        mine = grp.getgrgid(os.getgid()).gr_name
        daemon = Daemon(self, "--socket-group", mine, "--socket-mode", "0666", start=False,
                        expect=["is not the socket"])
        victim, link = daemon.dir + "/victim", daemon.dir + "/link"
        with open(victim, "w", encoding="ascii"):
            pass
        os.chmod(victim, 0o600)
        before = os.stat(victim)
        swap = ctypes.CDLL(None, use_errno=True).renameat2
        names = -100, daemon.socket.encode(), -100, link.encode(), 2  # AT_FDCWD, RENAME_EXCHANGE
        for _ in range(20):
            os.symlink(victim, link)
            daemon.launch()
            wait_until(lambda: any(swap(*names) == 0 for _ in range(100000)))
            wait_until(lambda: not daemon.running() or "READY=1" in daemon.read_notices())
            if daemon.running():
                daemon.kill()
            daemon.process = None
            os.unlink(daemon.socket)
            os.unlink(link)
            after = os.stat(victim)
            self.assertEqual((oct(after.st_mode), after.st_ctime_ns), (oct(before.st_mode), before.st_ctime_ns))

    def pid_of(self, path):
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(path)
                s.settimeout(60)
                s.sendall(b'{"id":1,"method":"info"}\n')
                return int(re.search(rb'"pid":(\d+)', s.recv(4096)).group(1))
        except (ConnectionRefusedError, FileNotFoundError):
            return None

    def test_a_file_that_is_no_socket_is_left_alone(self):
        daemon = Daemon(self, start=False)
        with open(daemon.socket, "w", encoding="ascii") as file:
            file.write("mine")
        self.refused(daemon, "exists and is not a socket")
        with open(daemon.socket, encoding="ascii") as file:
            self.assertEqual(file.read(), "mine")

    def test_a_folder_that_is_not_there(self):
        daemon = Daemon(self, start=False)
        daemon.command[daemon.command.index("--socket") + 1] = daemon.dir + "/none/s"
        self.refused(daemon, "none: there is no such folder for the socket")

    def test_somebody_elses_file_is_not_removed_at_the_end(self):
        daemon = Daemon(self)
        os.rename(daemon.socket, daemon.socket + ".kept")
        with open(daemon.socket, "w", encoding="ascii"):
            pass
        daemon.stop()
        self.assertTrue(os.path.exists(daemon.socket))
        os.unlink(daemon.socket)


class Activation(unittest.TestCase):
    def test_a_socket_handed_over_is_used_and_stays(self):
        daemon = Daemon(self, activate=True)
        self.assertEqual(Wire(daemon).call("ping"), {})
        daemon.wait_log(f"listening at {daemon.socket}, the service manager's socket$")
        daemon.stop()
        self.assertTrue(os.path.exists(daemon.socket))
        daemon.start()  # the next one gets the same
        self.assertEqual(Wire(daemon).call("ping"), {})

    def test_a_client_that_connected_before_the_daemon_started(self):
        daemon = Daemon(self, activate=True)
        daemon.stop()
        early = Wire(daemon)
        asked = early.request("ping")
        daemon.start()
        self.assertEqual(early.answer(asked), {})

    def test_requests_wait_for_the_first_connection_to_the_broker(self):
        grace = 0.5
        daemon = Daemon(self, "--connect-grace", str(grace), activate=True, start=False,
                        broker="amqp://127.0.0.1:1", expect=["127.0.0.1:1"])
        began = time.monotonic()
        daemon.launch()
        daemon.wait_log("listening at")
        peer = Wire(daemon)
        self.assertEqual(peer.error("acquire", name="db", timeout=0).reason, "broker-unavailable")
        self.assertGreaterEqual(time.monotonic() - began, grace)
        daemon.wait_notice("READY=1")

    def silent_host(self):
        """A broker that accepts connections and says nothing. Returns host:port."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        return "127.0.0.1:%d" % listener.getsockname()[1]

    def test_a_short_wait_ends_in_time_while_the_first_connection_is_made(self):
        host = self.silent_host()
        daemon = Daemon(self, "--connect-grace", "60", start=False, broker=f"amqp://{host}")
        daemon.launch()
        daemon.wait_log("listening at")
        trier, pinger = Wire(daemon), Wire(daemon)
        held = trier.request("acquire", name="db", timeout=0), pinger.request("ping")
        for timeout in 0.000001, 0.2:
            error = Wire(daemon).error("acquire", name="db", timeout=timeout)
            self.assertEqual((error.reason, error.message), ("broker-unavailable", f"{host}: not connected yet"))
        done = subprocess.run([program("lockbroker"), "run", "--socket", daemon.socket, "--wait=0.2", "-E0", "db", "true"],
                              capture_output=True, text=True, timeout=20, check=False)
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertIn(host, done.stderr)
        self.assertEqual([*trier.replies, *pinger.replies], [])
        self.assertNotIn("READY=1", daemon.read_notices())
        daemon.signal(signal.SIGTERM)
        with self.assertRaises(WireError) as refused:
            trier.answer(held[0])
        self.assertEqual(refused.exception.reason, "draining")
        self.assertEqual(pinger.answer(held[1]), {})
        daemon.wait_exit()

    def test_the_host_that_is_silent_is_named(self):
        host = self.silent_host()
        daemon = Daemon(self, "--connect-grace", "0", "--connect-timeout", "0.2", broker=f"amqp://{host}",
                        expect=[f"lock connection down: {host}: no connection within 0.2 s"])
        daemon.wait_log(f"lock connection down: {host}: no connection within 0.2 s .waiting for connection.start")
        self.assertRegex(Wire(daemon).call("info")["broker"]["why"], f"^{host}: ")
        self.assertRegex(Wire(daemon).error("acquire", name="db", timeout=0).message, f"^{host}: ")

    def test_a_stop_while_requests_wait_for_the_broker(self):
        daemon = Daemon(self, "--connect-grace", "60", start=False, broker="amqp://127.0.0.1:1",
                        expect=["127.0.0.1:1"])
        daemon.launch()
        daemon.wait_log("listening at")
        peer = Wire(daemon)
        peer.request("ping")
        daemon.reload()
        daemon.wait_log("reloaded")
        self.assertNotIn("READY=1", daemon.read_notices())
        daemon.stop()
        self.assertFalse(os.path.exists(daemon.socket))

    def test_clients_of_a_daemon_that_cannot_start_are_disconnected(self):
        """Otherwise systemd starts the daemon again and again for the same client, which is not told."""
        for config in "nonsense\n", "broker = amqps://localhost\ntls-ca = /no/such\n":
            with self.subTest(config):
                door = self.bound(socket.SOCK_STREAM, listen=True)
                clients = [socket.socket(socket.AF_UNIX) for _ in range(3)]
                for client in clients:
                    self.addCleanup(client.close)
                    client.connect(door.getsockname())
                    client.settimeout(60)
                clients[0].sendall(b'{"id":1,"method":"ping"}\n')
                status, said = self.hand_over(door, broker=None, config=config)
                self.assertEqual(status, 78, said)
                # The request of the first was not read.
                self.assertRaises(ConnectionResetError, clients[0].recv, 1)
                self.assertEqual([client.recv(1) for client in clients[1:]], [b"", b""])

    def hand_over(self, *sockets, **more):
        """Starts the daemon with these as descriptors 3, 4, ... Returns its status and its messages."""
        daemon = Daemon(self, start=False, **more)
        fds = [s.fileno() for s in sockets]
        moves = " ".join(f"{3 + i}<&{fd}" for i, fd in enumerate(fds))
        script = f'export LISTEN_PID=$$ LISTEN_FDS={len(fds)}; exec "$@" {moves}'
        done = subprocess.run(["/bin/bash", "-c", script, "sh"] + daemon.command, env=daemon.env,
                              pass_fds=fds, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True, timeout=60, check=False)
        self.assertFalse(os.path.exists(daemon.socket))
        return done.returncode, done.stderr

    def bound(self, kind, listen=False):
        s = socket.socket(socket.AF_UNIX, kind)
        self.addCleanup(s.close)
        s.bind("")  # an abstract address of its own
        if listen:
            s.listen()
        return s

    def test_systemd_must_pass_one_listening_stream_socket(self):
        internet = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.addCleanup(internet.close)
        internet.bind(("127.0.0.1", 0))
        internet.listen()
        for wrong in (internet, self.bound(socket.SOCK_DGRAM),
                      self.bound(socket.SOCK_STREAM)):
            with self.subTest(wrong):
                status, said = self.hand_over(wrong)
                self.assertEqual(status, UNUSABLE, said)
                self.assertIn("did not hand over a listening Unix stream socket", said)
        status, said = self.hand_over(self.bound(socket.SOCK_STREAM, listen=True), self.bound(socket.SOCK_STREAM, listen=True))
        self.assertEqual(status, UNUSABLE, said)
        self.assertIn("2 sockets", said)


class Telling(unittest.TestCase):
    def test_ready_comes_when_it_listens_and_status_follows(self):
        daemon = Daemon(self, start=False)
        daemon.launch()
        daemon.wait_notice("READY=1")
        self.assertEqual(Wire(daemon).call("ping"), {})
        daemon.wait_notice("STATUS=broker up")
        daemon.signal(signal.SIGTERM)
        daemon.wait_exit()
        self.assertIn("STOPPING=1", daemon.read_notices())

    def test_a_daemon_that_cannot_listen_is_not_ready(self):
        daemon = Daemon(self, start=False, expect=["not a socket"])
        with open(daemon.socket, "w", encoding="ascii"):
            pass
        daemon.launch()
        daemon.wait_exit(UNUSABLE)
        self.assertNotIn("READY=1", daemon.read_notices())

    def test_the_watchdog_is_fed_by_the_loop(self):
        daemon = Daemon(self, env={"WATCHDOG_USEC": "200000"})
        wait_until(lambda: daemon.read_notices().count("WATCHDOG=1") >= 4)
        daemon.freeze()
        daemon.read_notices()
        count = daemon.notices.count("WATCHDOG=1")
        time.sleep(0.3)
        self.assertEqual(daemon.read_notices().count("WATCHDOG=1"), count)
        daemon.thaw()
        wait_until(lambda: daemon.read_notices().count("WATCHDOG=1") > count)

    def test_without_a_watchdog_none_is_fed(self):
        daemon = Daemon(self)
        Wire(daemon).call("ping")
        self.assertNotIn("WATCHDOG=1", daemon.read_notices())


class WithoutBroker(unittest.TestCase):
    def test_it_starts_says_so_and_stops(self):
        # Nothing listens on a port that was just bound and never listened on.
        taken = socket.socket()
        self.addCleanup(taken.close)
        taken.bind(("127.0.0.1", 0))
        daemon = Daemon(self, broker=f"amqp://127.0.0.1:{taken.getsockname()[1]}",
                        expect=["lock connection down"])
        daemon.wait_notice("STATUS=broker down: .*refused")
        peer = Wire(daemon)
        broker = peer.call("ping", broker=True)["broker"]
        self.assertEqual((broker["state"], broker["silent"], broker["suspect"]), ("down", None, False))
        self.assertIn("Connection refused", broker["why"])
        self.assertRegex(peer.call("info")["broker"]["why"], "refused")
        for kind in ("semaphore", "mutex"):
            error = peer.error("acquire", name="x", kind=kind, timeout=0)
            self.assertEqual((error.reason, error.retry), ("broker-unavailable", True))
        self.assertEqual(peer.error("create", name="x").reason, "broker-unavailable")
        waiting = peer.request("acquire", name="x", timeout=0.2)
        self.assertEqual(peer.reply(waiting)["error"]["data"]["reason"], "broker-unavailable")
        daemon.stop()
        peer.wait_closed()


class Idle(unittest.TestCase):
    def test_an_idle_daemon_sleeps(self):
        daemon = Daemon(self)
        peer = Wire(daemon)
        peer.call("acquire", name="m", kind="mutex", timeout=0)
        half = Wire(daemon)
        waiting = half.request("acquire", name="m", kind="mutex")
        self.assertFalse(half.replies)
        daemon.wait_asleep()
        before, began = daemon.switches(), time.monotonic()
        time.sleep(1)
        # Its timers for keepalive and rescan are seconds apart.
        self.assertLess(daemon.switches() - before, 20 * (time.monotonic() - began))
        peer.hang_up()
        half.answer(waiting)


class Options(unittest.TestCase):
    def run_daemon(self, *options):
        return subprocess.run([program("lockbrokerd"), *options], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False)

    def test_actions(self):
        done = self.run_daemon("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^lockbrokerd \d+\.\d+\.\d+\n$")
        done = self.run_daemon("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--max-connections-per-uid", done.stdout)
        done = self.run_daemon("--config", "/dev/null", "--print-config")
        self.assertEqual(done.returncode, 0)
        self.assertIn("heartbeat", done.stdout)
        self.assertEqual(self.run_daemon("--config", "/dev/null", "--check-config").returncode, 0)

    def test_a_wrong_configuration_is_78(self):
        for options in (["--no-such-option"], ["--heartbeat", "soon"], ["--config", "/no/such"],
                        ["--socket", "/tmp/" + "x" * 120]):
            with self.subTest(options):
                done = self.run_daemon(*options)
                self.assertEqual(done.returncode, 78)
                self.assertRegex(done.stderr, r"^lockbrokerd: .+\n$")


if __name__ == "__main__":
    tap.main()
