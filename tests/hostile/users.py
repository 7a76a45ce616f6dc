"""Processes of other users: a bare client of the daemon, and the honest user whom nothing may harm.

A process is forked, gives up its rights for good, and dies with the test. Its counters are in memory that the test
shares, and survive its SIGKILL.
"""

import bisect
import collections
import ctypes
import gc
import json
import multiprocessing
import os
import resource
import select
import signal
import socket
import time
import traceback

HOSTILE_UID, HONEST_UID = 65533, 65532
FORK = multiprocessing.get_context("fork")
PR_SET_PDEATHSIG = 1

# The broker has less: its work for the hostile user counts.
NICE, BROKER_NICE = -10, -5
WARM_UP = 40  # rounds
# No answer for so long is a refusal, and the honest user connects anew.
GIVES_UP = 30.0


def prefer(pid, nice=NICE):
    """Gives all threads of a process, the leader of a session, a higher priority than others have."""
    if os.path.exists(f"/proc/{pid}/autogroup"):  # which makes nice(1) count within a session alone
        with open(f"/proc/{pid}/autogroup", "w", encoding="ascii") as file:
            file.write(str(nice))
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            os.setpriority(os.PRIO_PROCESS, int(thread), nice)
        except ProcessLookupError:
            pass


class User:
    """A forked process of another user. work(user, *args) runs in it; a name in `counted` is a counter."""

    def __init__(self, test, uid, work, *args, preferred=False, counted=()):
        self.counters = FORK.RawArray("q", len(counted))
        self.counted = counted
        self.ready_event = FORK.Event()
        self.stop_event = FORK.Event()
        self.results, sender = FORK.Pipe(False)
        self.process = FORK.Process(target=self._run, args=(uid, preferred, work, args, sender), daemon=True)
        self.process.start()
        sender.close()
        test.addCleanup(self.kill)

    def _run(self, uid, preferred, work, args, sender):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        os.setsid()
        if preferred:
            prefer(os.getpid())
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        gc.disable()
        try:
            result = work(self, *args)
        except BaseException:  # pylint: disable=broad-except
            result = traceback.format_exc()
        sender.send(result)

    # ---- in the process ----

    def count(self, what, by=1):
        self.counters[self.counted.index(what)] += by

    def set_ready(self):
        self.ready_event.set()

    def told_to_stop(self):
        return self.stop_event.is_set()

    # ---- in the test ----

    def is_ready(self):
        """Whether it has done what it does first. AssertionError when it ended instead."""
        if self.results.poll():
            raise AssertionError(f"a user's process ended: {self.results.recv()}")
        return self.ready_event.is_set()

    def counts(self):
        return dict(zip(self.counted, self.counters))

    def result(self, within):
        """Tells it to stop. Returns the result of its work."""
        self.stop_event.set()
        if not self.results.poll(within):
            raise AssertionError(f"a user's process did not stop within {within} s")
        result = self.results.recv()
        if isinstance(result, str):
            raise AssertionError(result)
        return result

    def kill(self):
        self.process.kill()
        self.process.join()


class Refused(Exception):
    """The daemon answered with an error; the reason."""


class Line:
    """A blocking client that checks nothing, as the test must not measure Python."""

    def __init__(self, path, within=GIVES_UP):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(within)
        self.socket.connect(path)
        self.rest = b""
        self.told = collections.deque()  # notifications
        self.last_id = 0

    def send(self, method, **params):
        self.last_id += 1
        self.socket.sendall(b'{"id":%d,"method":"%s","params":%s}\n' % (
            self.last_id, method.encode(), json.dumps(params).encode()))
        return self.last_id

    def receive(self):
        """The next message. ConnectionError at the end."""
        while b"\n" not in self.rest:
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError("the daemon closed the connection")
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def answer(self, id):
        """The result of the only request that has no answer."""
        while True:
            message = self.receive()
            if "method" in message:
                self.told.append(message)
                continue
            if message["id"] not in (id, None):
                raise AssertionError(f"an answer without a request: {message}")
            if "error" in message:
                raise Refused(message["error"]["data"]["reason"])
            return message["result"]

    def call(self, method, **params):
        return self.answer(self.send(method, **params))

    def pump(self):
        """Takes the notifications that are there."""
        while b"\n" in self.rest or select.select([self.socket], [], [], 0)[0]:
            message = self.receive()
            if "method" not in message:
                raise AssertionError(f"an answer without a request: {message}")
            self.told.append(message)

    def close(self):
        self.socket.close()


class Waits:
    """How long processes that could run have waited for a processor, and since when: latencies without that are
    what the processes themselves make of them."""

    def __init__(self, pid):
        self.files = [open(f"/proc/{which}/schedstat", "rb", buffering=0)  # pylint: disable=consider-using-with
                      for which in ("self", pid)]
        self.times = []
        self.values = []

    def waited(self, which):
        """Seconds, of this process (0) or of the other (1)."""
        return int(os.pread(self.files[which].fileno(), 100, 0).split()[1]) / 1e9

    def sleep_until(self, due):
        """Notes the waits up to `due`, or up to now when that is over."""
        mine = self.waited(0)
        left = due - time.monotonic()
        if left > 0:
            time.sleep(left)
        self.times.append(due if left > 0 else time.monotonic())
        self.values.append(mine + self.waited(1))

    def without(self, since):
        """Seconds from `since` until now, without the waits."""
        value = self.values[max(0, bisect.bisect_right(self.times, since) - 1)]
        return max(0, time.monotonic() - since - (self.waited(0) + self.waited(1) - value))


class Honest:
    """Holds locks, and acquires and releases free slots at a given rate.

    Of each acquire it notes (when it was due, seconds until the grant, kind). `harm` has each hold that was lost or
    suspect. `refused` has each acquire of a free slot that was not granted: (when, reason)."""

    HOLDS = 3  # of each make

    def __init__(self, user, path, pid, elsewhere, fresh, rate):
        """pid: of the daemon at path. elsewhere: the socket of another daemon of the same broker, or None. fresh: whether to connect, too.
        rate: rounds a second; one that is due while an earlier one is stuck counts from then on."""
        self.user = user
        self.path = path
        self.waits = Waits(pid)
        self.elsewhere = elsewhere
        self.fresh = fresh
        self.rate = rate
        self.samples = []
        self.harm = []
        self.refused = []
        self.safe_until = None

    def run(self):
        self.hold()
        self.worker = Line(self.path)
        self.other = Line(self.elsewhere) if self.elsewhere else None
        for number in range(WARM_UP):
            self.waits.sleep_until(0)
            self.round(number, time.monotonic())
        self.samples.clear()
        self.user.set_ready()
        due, number = time.monotonic(), 0
        while not self.user.told_to_stop():
            self.listen()
            self.waits.sleep_until(due)
            number += 1
            self.round(number, due)
            due += 1 / self.rate
        while due < time.monotonic():  # overdue when it was told to stop
            self.samples.append((due, self.waits.without(due), "acquire"))
            due += 1 / self.rate
        self.verify_holds()
        return {"samples": self.samples, "harm": self.harm, "refused": self.refused}

    # ---- what it holds ----

    def hold(self):
        """Three locks on a connection with notices of the lease, and three on one without."""
        self.holders = []
        self.locks = []
        for lease in (True, False):
            line = Line(self.path)
            self.holders.append(line)
            for number in range(self.HOLDS):
                name = f"honest/{'lease' if lease else 'plain'}-{number}"
                grant = line.call("acquire", name=name, kind="mutex", timeout=0, lease=lease)
                self.locks.append((line, grant["lock"]))
        self.safe_until = grant["safe_until"]

    def note_harm(self, what):
        self.harm.append((time.monotonic(), what))

    def listen(self):
        """Reads the notifications of its holders, and notes leases that have ended by now."""
        for line in list(self.holders):
            try:
                line.pump()
            except (OSError, ConnectionError) as error:
                self.note_harm(f"connection lost: {error}")
                self.holders.remove(line)
            while line.told:
                message = line.told.popleft()
                if message["method"] == "lease":
                    self.safe_until = message["params"]["safe_until"]
                elif message["method"] in ("lost", "suspect", "revoked", "draining"):
                    self.note_harm(message["method"])
        if time.clock_gettime(time.CLOCK_BOOTTIME) > self.safe_until:
            self.note_harm("lease over")
            self.safe_until = float("inf")

    def verify_holds(self):
        self.listen()
        for line, lock in self.locks:
            if line in self.holders:
                try:
                    line.call("verify", lock=lock)
                except (Refused, OSError, ConnectionError) as error:
                    self.note_harm(f"verify: {error}")
        self.listen()

    # ---- what it does all the time ----

    def round(self, number, due):
        """One acquire and its release."""
        kind = "acquire"
        try:
            if self.other is not None and number % 10 == 0:
                kind = "wake"
                self.wake()
            elif self.fresh and number % 4 == 1:
                kind = "connect"
                line = Line(self.path)
                try:
                    self.take(line, number, due, kind)
                finally:
                    line.close()
            else:
                self.take(self.worker, number, due, kind)
        except Refused as error:
            self.refused.append((due, str(error)))
        except (OSError, ConnectionError) as error:
            self.refused.append((due, f"{kind}: {error}"))
            self.samples.append((due, self.waits.without(due), kind))
            if kind == "acquire":
                self.worker.close()
                self.worker = Line(self.path)

    def take(self, line, number, due, kind):
        """Half of the acquires are ready to wait, half are not; a third want a mutex."""
        params = {"name": f"honest/mutex-{number % 5}", "kind": "mutex"} if number % 3 == 0 else {
            "name": "honest/free"}
        if number % 2:
            params["timeout"] = 0
        lock = line.call("acquire", **params)["lock"]
        self.samples.append((due, self.waits.without(due), kind))
        line.call("release", lock=lock)

    def wake(self):
        """From the release at the other daemon to the grant at this one."""
        lock = self.other.call("acquire", name="honest/pass")["lock"]
        waiting = self.worker.send("acquire", name="honest/pass", progress=True)
        while not any(message["method"] == "waiting" for message in self.worker.told):
            self.worker.told.append(self.worker.receive())
        self.worker.told.clear()
        began = time.monotonic()
        self.other.send("release", lock=lock)
        mine = self.worker.answer(waiting)["lock"]
        self.samples.append((began, self.waits.without(began), "wake"))
        self.other.answer(self.other.last_id)
        self.worker.call("release", lock=mine)


def honest_work(user, *args):
    return Honest(user, *args).run()
