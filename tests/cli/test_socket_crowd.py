"""One user that stays within every limit, with many connections, beside root that only wants a lock."""

import json
import os
import resource
import select
import socket
import threading
import time
import unittest

import tap
from daemon import Daemon
from timing import at_most
from wait import PATIENCE
from wire import Wire

MIB = 1024  # of Daemon.rss()
RSS_MAX = 512 * MIB
NOBODY = 65534


def line(id, method, **params):
    return json.dumps({"id": id, "method": method, "params": params}).encode() + b"\n"


def p99(values):
    return sorted(values)[int(len(values) * 0.99)]


class Stranger:
    """A process of another user, which does what `job` does; job says what it has to say by say()."""

    def __init__(self, test, daemon, job):
        os.chmod(daemon.dir, 0o711)
        os.chmod(daemon.socket, 0o666)
        self.words, theirs = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self.words)
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                job(daemon.socket, lambda word: os.write(theirs, f"{word}\n".encode()))
                threading.Event().wait()
            except BaseException as error:
                os.write(theirs, f"failed: {error!r}\n".encode())
            finally:
                os._exit(0)
        os.close(theirs)
        self.rest = b""
        test.addCleanup(self.end)

    def hear(self, within=PATIENCE):
        """The next word."""
        end = time.monotonic() + within
        while b"\n" not in self.rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.words], [], [], left)[0]:
                raise AssertionError(f"the stranger said nothing within {within} s")
            more = os.read(self.words, 4096)
            if not more:
                raise AssertionError("the stranger ended")
            self.rest += more
        word, self.rest = self.rest.split(b"\n", 1)
        if word.startswith(b"failed"):
            raise AssertionError(f"the stranger {word.decode()}")
        return word.decode()

    def end(self):
        if self.pid == 0:
            return
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        os.close(self.words)
        self.pid = 0


def connect(path):
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(60)
    peer.connect(path)
    return peer


def pour(peers, data):
    """Sends data again and again to all clients, as fast as they take it, and reads nothing."""
    for peer in peers:
        peer.setblocking(False)
    left = {peer.fileno(): (peer, memoryview(data)) for peer in peers}
    poll = select.epoll()
    for fd in left:
        poll.register(fd, select.EPOLLOUT)
    while True:
        for fd, _ in poll.poll():
            peer, rest = left[fd]
            try:
                sent = peer.send(rest)
                left[fd] = (peer, rest[sent:] or memoryview(data))
            except BlockingIOError:
                pass
            except OSError:
                poll.unregister(fd)


@unittest.skipUnless(os.geteuid() == 0, "only root can be somebody else")
class Crowd(unittest.TestCase):
    deadline = 240

    def daemon(self, *options, **kwargs):
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if limit < 10000:
            self.skipTest(f"{limit} files are too few")
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (1024, limit))
        # AddressSanitizer keeps what was freed for a while: that is no memory that the daemon needs.
        asan = f"{os.environ.get('ASAN_OPTIONS', '')}:quarantine_size_mb=16"
        return Daemon(self, *options, env={"ASAN_OPTIONS": asan}, **kwargs)

    def hold(self, daemon):
        """Three locks of root, with notices of their leases."""
        holder = Wire(daemon)
        for name in ("a", "b", "c"):
            holder.call("acquire", name=name, kind="mutex", timeout=0, lease=True)
        return holder

    def latencies(self, daemon, seconds=3.0, name="honest"):
        """How long root waits for a free lock, each time."""
        peer = Wire(daemon)
        took = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.monotonic()
            lock = peer.call("acquire", name=name, kind="mutex", timeout=None)["lock"]
            took.append(time.monotonic() - began)
            peer.call("release", lock=lock)
        peer.hang_up()
        return took

    def kept(self, holder):
        """Nothing was said of the locks but how long they are safe."""
        holder.pump()
        self.assertEqual({n["method"] for n in holder.notifications} - {"lease"}, set())

    def check(self, daemon, holder, quiet):
        took = self.latencies(daemon)
        print(f"acquire: p99 {p99(quiet) * 1e3:.2f} ms alone, {p99(took) * 1e3:.2f} ms beside it, "
              f"longest {max(took) * 1e3:.2f} ms ({len(took)}); RSS {daemon.rss() / MIB:.0f} MiB")
        self.kept(holder)
        at_most(self, "longest acquire beside it, seconds", max(took), 2.0)
        self.assertLess(daemon.rss(), RSS_MAX)

    def test_watches_and_acquires(self):
        """4,000 connections with a watch each, and 40 that acquire and hang up all the time."""
        daemon = self.daemon()
        holder = self.hold(daemon)
        quiet = self.latencies(daemon)

        def job(path, say):
            watchers = [connect(path) for _ in range(4000)]
            for peer in watchers:
                peer.sendall(line(1, "watch"))
            say("watching")
            lines = b"".join(line(id, "acquire", name=f"x{id}", kind="mutex", why="w" * 256)
                             for id in range(32))
            while True:
                peers = [connect(path) for _ in range(40)]
                for peer in peers:
                    peer.sendall(lines)
                for peer in peers:
                    peer.recv(1)
                    peer.close()

        stranger = Stranger(self, daemon, job)
        stranger.hear()
        self.check(daemon, holder, quiet)

    def test_answers_that_nobody_reads(self):
        """150 connections that ask for what is long and read nothing."""
        daemon = self.daemon(expect=["does not read", "pauses reading"])
        holder = self.hold(daemon)
        quiet = self.latencies(daemon)

        def job(path, say):
            peers = [connect(path) for _ in range(150)]
            say("asking")
            pour(peers, (line("d", "rpc.discover") + line("i", "info")) * 50)

        stranger = Stranger(self, daemon, job)
        stranger.hear()
        most = 0
        end = time.monotonic() + 5
        while time.monotonic() < end:
            most = max(most, daemon.rss())
            time.sleep(0.05)
        print(f"RSS at most {most / MIB:.0f} MiB")
        self.assertLess(most, RSS_MAX)
        self.check(daemon, holder, quiet)


if __name__ == "__main__":
    tap.main()
