"""One hostile user, one honest user, over every limit that there is.

The honest user holds locks, and acquires and releases free slots all the time. A second process of it connects for
each acquire. It is alone at first. Then it uses the same daemon beside the hostile user, from the attack's first byte
until the daemon has cleaned up. During each attack:

- No hold of the honest user is lost or suspect, and no lease of it ends.
- None of its acquires of a free slot is refused.
- With TIMED=1, its 99th percentile is at most the largest of three values: FLOOR, the value when it was alone, and
  RATIO_MOST times that value. That value counts as at most ALONE_MOST in the product, as the machine may be busy. It
  needs ROUNDS_LEAST rounds of either kind. Without TIMED=1 a larger value is only printed.
- The daemon's memory stays below MEMORY_MOST.

A latency counts from the time at which a round was due. So an answer that takes a second makes all rounds of that
second late. The time in which the daemon or the honest user was ready and had no processor is subtracted. Both, and
RabbitMQ, have a higher priority than the hostile user: the test is not about the kernel's scheduler. FLOOR is a
latency that no user notices, and that a busy machine causes: a daemon that makes 0.5 ms into 19 ms passes. An attack
that is too slow, and nothing worse, is measured up to TRIES times. It fails if it is too slow each time. Memory is
not judged in a build with sanitizers, which need more.

An attack that is marked `late` may be slow, in the rounds and up to the time that the mark names, and nothing
worse.

HOSTILE_SECONDS: how long the honest user is alone, and how long the hostile user goes on.
"""

import os
import resource
import subprocess
import time
import unittest
from typing import NamedTuple

import attacks
import tap
from daemon import Daemon, clean_environment, program
from rabbit import Rabbit
from timing import TIMED
from users import (BROKER_NICE, HONEST_UID, HOSTILE_UID, Honest, Line, Newcomer, Refused, User, honest_work,
                   prefer)
from wait import wait_until
from wire import Wire

SECONDS = float(os.environ.get("HOSTILE_SECONDS", "2"))
RATIO_MOST = 5
FLOOR = ALONE_MOST = 0.020  # seconds
ROUNDS_LEAST = 100
TRIES = 3
MEMORY_MOST = 512  # MiB
# Rounds of the honest user a second, and of those that connect: a part of what either broker can do.
RATES = {"memory": (75, 25), "rabbit": (15, 5)}
# How long the hostile user may take to get what it wants, and the daemon to clean up.
PATIENCE = 120
# No user may have all descriptors, whatever the limit of open files is here.
CONNECTIONS = min(20000, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 1000)
LINES_A_SECOND = 64 + 1  # of the log, about one user
MUTEXES = 200
RABBIT = Rabbit()
TABLE = [("attack", "broker", "what", "alone", "beside", "ratio", "rounds", "harm", "refused", "MiB", "")]


class Late(NamedTuple):
    """Requests for which the honest user may wait longer, though its holds stay safe."""
    why: str
    most: float  # seconds: the 99th percentile of the latencies, whatever it was alone
    kinds: tuple = ("acquire", "connect", "wake")


BEHIND = "RabbitMQ answers the hostile user's scans first, and each may probe 300 slots"
BEHIND_QUEUES = "RabbitMQ makes the hostile user's queues first, of which four are at it at once"
# 12 to 62 ms on two processors, with four of them placed at a time.
BEHIND_CONSUMERS = Late("RabbitMQ adds the hostile user's 2,211 consumers to a queue that orders them by priority", 0.1)
STANDS = Late("a new connection stands in the kernel's queue behind the 4,096 of the hostile user that it takes",
              0.5, ("connect",))


def setUpModule():
    unittest.addModuleCleanup(RABBIT.close)


def tearDownModule():
    for row in TABLE:
        print("{:<11} {:<6} {:<7} {:>9} {:>11} {:>7} {:>6} {:>4} {:>7} {:>5} {}".format(*row))


def percentile(values, percent):
    return sorted(values)[-(-len(values) * percent // 100) - 1] if values else float("nan")


def peak_memory(pid):
    """MiB, the most that it had."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")) / 1024


def is_sanitized():
    with open(program("lockbrokerd"), "rb") as file:
        return b"libasan" in file.read()


def tally(events):
    """(when, what)...: each what once, with its number and the first time."""
    found = {}
    for when, what in events:
        count, first = found.get(what, (0, when))
        found[what] = count + 1, first
    return [f"{what} ({count} times, first after {first:.1f} s)" for what, (count, first) in found.items()]


class Hostile(unittest.TestCase):
    deadline = 12 * PATIENCE

    def setUp(self):
        if os.getuid() != 0:
            self.skipTest("needs root, to be two users")

    def start(self, broker, elsewhere, options, files):
        """Starts the daemons and creates the semaphores."""
        url = "memory:"
        if broker == "rabbit":
            url = RABBIT.start().url
            prefer(RABBIT.pid, BROKER_NICE)
        daemons = []
        for _ in range(2 if elsewhere else 1):
            daemon = Daemon(self, "--socket-mode", "0666", "--heartbeat", "4", "--max-connections-per-uid",
                            str(CONNECTIONS), *options, broker=url, expect=[".*"], start=False)
            if files is not None:
                daemon.command = ["prlimit", f"--nofile={files}", *daemon.command]
            daemon.start()
            os.chmod(daemon.dir, 0o711)
            prefer(daemon.pid)
            daemon.wait_broker()
            daemons.append(daemon)
        root = Wire(daemons[0])
        for lock, slots in (("honest/free", 4), ("honest/pass", 1), ("shared/big", 300)):
            root.call("create", name=lock, slots=slots, exist_ok=True)
        return daemons, root

    def attack(self, attack, *options, most=None, late=None, **how):
        """Judges one attack. most: the least counts of the hostile user, so that the attack shows something. late: how
        slow it may be. how: as in measure()."""
        for tries in range(1, TRIES + 1):
            done, problems, slow, waits = self.measure(attack, options, late, most or {}, **how)
            for counter, least in (most or {}).items():
                self.assertGreaterEqual(done[counter], least, f"the attack was too weak to show anything: {done}")
            if waits:
                print(f"EXPECTED WAITS in {attack.__name__}, {late.why}:", *waits, sep="\n    ")
            if problems or not slow:
                break
            print(f"{attack.__name__}: slow {tries} times:", *slow, sep="\n    ")
            if not TIMED:
                break
        problems += slow if TIMED else []
        self.assertFalse(problems, f"{attack.__name__}:\n" + "\n".join(problems))

    def measure(self, attack, options, late, most, broker="memory", elsewhere=False, files=None, then=None):
        """Returns the counts of the hostile user, the problems, the slow latencies, and those that `late` allows.

        elsewhere: whether there is another daemon, from which the honest user is woken. files: the daemon's limit of
        them. then: a function that returns problems. It gets the daemon and a connection of root's during the attack.
        Later observations of the honest user do not count."""
        name = attack.__name__
        daemons, root = self.start(broker, elsewhere, options, files)
        honest = [User(self, HONEST_UID, honest_work, make, daemons[0].socket, daemons[0].pid,
                       daemons[1].socket if elsewhere else None, rate, preferred=True)
                  for make, rate in zip((Honest, Newcomer), RATES[broker])]
        wait_until(lambda: all(user.is_ready() for user in honest), PATIENCE, "the honest user works")
        alone = self.let_pass()
        began = self.began = time.monotonic()
        hostile = User(self, HOSTILE_UID, lambda user: attack(attacks.Hostile(user, daemons[0].socket)),
                       counted=attacks.COUNTED)
        problems = []
        try:
            wait_until(hostile.is_ready, PATIENCE, "the hostile user has what it wants")
            self.let_pass()
            wait_until(lambda: all(hostile.counts()[counter] >= least for counter, least in most.items()), PATIENCE,
                       "the attack is strong enough")
            ended = time.monotonic()
            if then is not None:
                problems += then(daemons[0], root)
        except AssertionError as error:
            problems.append(str(error))
            ended = time.monotonic()
        hostile.kill()
        problems += self.clean_up(root)
        if then is None:
            ended = time.monotonic()
        reports = [user.result(PATIENCE) for user in honest]
        memory = peak_memory(daemons[0].pid)
        for daemon in daemons:
            daemon.stop(PATIENCE)
        print(f"{name}: {hostile.counts()}; {ended - began:.1f} s")

        events = {what: [(when - began, word) for report in reports for when, word in report[what] if when < ended]
                  for what in ("harm", "refused")}
        for what in events:
            problems += [f"{what}: {word}" for word in tally(events[what])]
        if memory > MEMORY_MOST and not is_sanitized():
            problems.append(f"memory: {memory:.0f} MiB")
        slow, waits = [], []
        samples = [sample for report in reports for sample in report["samples"]]
        for kind in sorted({kind for _, _, kind in samples}):
            columns = [[took for due, took, of in samples if of == kind and since <= due < until]
                       for since, until in (alone, (began, ended))]
            before, during = (percentile(column, 99) for column in columns)
            verdict = ""
            if min(map(len, columns)) < ROUNDS_LEAST:
                verdict = "few rounds"
            elif not during <= max(FLOOR, RATIO_MOST * min(before, ALONE_MOST), before):
                is_late = late is not None and kind in late.kinds and during <= late.most
                verdict = "expected" if is_late else "SLOW"
                (waits if is_late else slow).append(f"{kind}: {before * 1e3:.1f} ms became {during * 1e3:.1f} ms")
            TABLE.append((name, broker, kind, f"{before * 1e3:.2f} ms", f"{during * 1e3:.2f} ms",
                          f"{during / before:.1f}", len(columns[1]), len(events["harm"]), len(events["refused"]),
                          f"{memory:.0f}", "FAILED" if problems else verdict))
        return hostile.counts(), problems, slow, waits

    def let_pass(self):
        """Lets the users work for SECONDS. Returns the beginning and the end."""
        began = time.monotonic()
        time.sleep(SECONDS)
        return began, time.monotonic()

    def clean_up(self, root):
        """Waits until nothing of the hostile user is left. Returns the problems."""
        counts = {}

        def is_clean():
            nonlocal counts
            counts = root.call("info", within=PATIENCE)["counts"]
            return counts["connections"] <= 6 and counts["waiting"] <= 1 and counts["in_flight"] <= 1
        try:
            wait_until(is_clean, PATIENCE, "the daemon has cleaned up")
        except (AssertionError, OSError) as error:
            return [f"{error}: {counts}"]
        return []

    # ---- limits of the socket, over the broker in memory ----

    def test_connections(self):
        self.attack(attacks.connections, most={"connections": CONNECTIONS}, late=STANDS)

    def test_churn(self):
        self.attack(attacks.churn, most={"connections": 1000})

    def test_half_lines(self):
        self.attack(attacks.half_lines, most={"connections": 1000}, late=STANDS)

    def test_left_lines(self):
        self.attack(attacks.left_lines, most={"connections": 1000, "lines": 1000}, late=STANDS)

    def test_bytewise(self):
        self.attack(attacks.bytewise, most={"connections": 50})

    def test_pings(self):
        self.attack(attacks.pings, most={"requests": 25600})

    def test_unread(self):
        self.attack(attacks.unread, most={"connections": 1000})

    def test_trickle(self):
        self.attack(attacks.trickle, most={"connections": 500})

    def test_watches(self):
        self.attack(attacks.watches, most={"connections": 4040})

    def test_queries(self):
        self.attack(attacks.queries, most={"requests": 32000})

    def test_rows(self):
        self.attack(attacks.rows, most={"requests": 18000})

    def test_explains(self):
        self.attack(attacks.explains, most={"requests": 6400})

    def test_locks(self):
        self.attack(attacks.locks, most={"granted": 512})

    def test_words(self):
        """Root's commands, and the log, show the words of the hostile user."""
        def need_clean_words(daemon, _):
            problems = []
            environment = clean_environment(LOCKBROKER_SOCKET=daemon.socket)
            texts = {"the log": daemon.log()}
            for argv in (("show", "hostile/words"), ("show", "shared/big"), ("show",), ("list",), ("metrics",),
                         ("explain", "shared/big"), ("run", "--nonblock", "--mutex", "hostile/words", "true")):
                done = subprocess.run([program("lockbroker"), *argv], env=environment, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE, check=False)
                texts[" ".join(argv)] = done.stdout.decode("utf-8", "surrogateescape")
            for what, text in texts.items():
                if any((character < " " and character not in "\n\t") or "\x7f" <= character <= "\x9f"
                       for character in text) or "\nlockbroker: forged" in text:
                    problems.append(f"{what} has a control character or a forged line: {ascii(text)[:500]}")
            for what in "show hostile/words", "run --nonblock --mutex hostile/words true":
                if "lockbroker: forged" not in texts[what]:
                    problems.append(f"{what} shows no word of the hostile user: {ascii(texts[what])[:500]}")
            return problems
        self.attack(attacks.words, then=need_clean_words, most={"granted": 17})

    def test_waiters(self):
        self.attack(attacks.waiters, most={"requests": 19000})

    def test_cancels(self):
        self.attack(attacks.cancels, most={"requests": 10000})

    # ---- what the broker has a limit of, over RabbitMQ ----

    def test_channels(self):
        self.attack(attacks.channels, broker="rabbit", most={"requests": 4000})

    def test_floods(self):
        """A loss of another user is in the log, and not many lines of the hostile user are."""
        def need_lines(daemon, _):
            victim = Line(daemon.socket)  # it hangs up without a name
            victim.call("acquire", name="victim", kind="mutex", timeout=0)
            RABBIT.perform("delete_queue", "victim-M")
            try:
                wait_until(lambda: "lost victim" in daemon.log(), PATIENCE, "the log has the loss")
            except AssertionError as error:
                return [str(error)]
            lines = sum(f"uid {HOSTILE_UID}" in line and ("forbidden" in line or "left out" in line)
                        for line in daemon.log().splitlines())
            most = LINES_A_SECOND * (int(time.monotonic() - self.began) + 1)
            print(f"floods: {lines} lines of the log, at most {most}")
            return [f"{lines} lines of the log"] if lines > most else []
        self.attack(attacks.floods, "--claim", "consumer", broker="rabbit", then=need_lines, most={"requests": 20000})

    def test_names(self):
        """The broker keeps no more mutexes than the limit."""
        def need_few_queues(_, __):
            names = RABBIT.eval('[io:format("~ts~n", [element(4, Name)]) || Name <- rabbit_amqqueue:list_names(<<"/">>)], ok.')
            count = sum(name.startswith("hostile/") and name.endswith("-M") for name in names.splitlines())
            print(f"names: {count} queues, at most {MUTEXES}")
            return [f"{count} queues of mutexes"] if count > MUTEXES else []
        self.attack(attacks.names, "--claim", "consumer", "--max-mutexes-per-uid", str(MUTEXES), broker="rabbit",
                    then=need_few_queues, most={"requests": 4000, "granted": MUTEXES}, late=Late(BEHIND_QUEUES, 1))

    def test_locks_of_rabbit(self):
        self.attack(attacks.locks, broker="rabbit", most={"granted": 200}, late=Late(BEHIND_QUEUES, 1))

    def test_queries_of_rabbit(self):
        self.attack(attacks.queries, broker="rabbit", most={"requests": 32000}, late=Late(BEHIND, 1))

    def test_explains_of_rabbit(self):
        self.attack(attacks.explains, broker="rabbit", most={"requests": 6400}, late=Late(BEHIND, 1))

    def test_awaits(self):
        self.attack(attacks.awaits, broker="rabbit", most={"requests": 20000})

    def test_priorities(self):
        self.attack(attacks.priorities, broker="rabbit", elsewhere=True, most={"requests": 2200}, late=BEHIND_CONSUMERS)

    def test_descriptors(self):
        """A daemon with few: administrators come in, and the way to the broker is made anew."""
        def need_descriptors(daemon, root):
            problems = []
            try:
                Line(daemon.socket).call("info")
            except (OSError, Refused) as error:
                problems.append(f"an administrator is not served: {type(error).__name__} {error}")
            RABBIT.perform("close_all_connections", "a test of the daemon")
            try:
                wait_until(lambda: root.call("ping", broker=True)["broker"]["state"] == "up",
                           PATIENCE, "the daemon is connected anew")
            except (AssertionError, OSError) as error:
                problems.append(str(error))
            return problems
        self.attack(attacks.connections, broker="rabbit", files=256, then=need_descriptors,
                    most={"connections": 200}, late=STANDS)


if __name__ == "__main__":
    tap.main()
