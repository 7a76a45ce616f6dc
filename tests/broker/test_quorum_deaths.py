"""A purge, and kill -9 of RabbitMQ, a daemon and a client, in each state of a hold by quorum, over a real
RabbitMQ. test_lock_quorum.c has the same table over the server in memory.

A daemon for each state speaks to RabbitMQ through a proxy that holds one frame back. So the state is certain. Then all of
them die in the same way, the frames go on, and a rival acquires each slot. It gets each, with a larger fence, and not
before the first holder has stopped.
"""

import json
import subprocess
import time
import unittest

import tap
from daemon import BY_QUORUM, GRACE, UNTESTED, Daemon
from frame_proxy import FrameProxy
from rabbit import Rabbit
from wire import Wire, wait_until

RABBIT = Rabbit.lease()
TROUBLE = ("lost", "lease", "connection", "broker")
ANSWERED = "answered"
# The states, and the frame that is held back. RabbitMQ performs it if it is answered.
STATES = {
    "free": (), "gathering": ("beads",), "in-grace": (), "held": (),
    "claiming": ("flip",), "claimed": ("flip", ANSWERED), "renewing": ("proof",), "renewed": ("proof", ANSWERED),
    "releasing": ("flip",), "released": ("flip", ANSWERED),
}
GRANTED = ("held", "renewing", "renewed", "releasing", "released")
RELEASED = ("releasing", "released")
QUEUE = '{ok, Queue} = rabbit_amqqueue:lookup({resource, <<"%s">>, queue, <<"%s">>}), '
PURGE = QUEUE + "{ok, Count} = rabbit_amqqueue:purge(Queue), Count."
DELETE = QUEUE + '{ok, _} = rabbit_amqqueue:delete(Queue, false, false, <<"test">>), done.'

setUpModule = RABBIT.serve_module


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Client:
    """A process that passes lines on to a daemon."""

    def __init__(self, test, daemon):
        self.process = subprocess.Popen(["socat", "STDIO", f"UNIX-CONNECT:{daemon.socket}"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        test.addCleanup(self.end)
        self.safe_until = 0.0

    def ask(self, number, method, **params):
        self.process.stdin.write(json.dumps({"id": number, "method": method, "params": params}) + "\n")
        self.process.stdin.flush()

    def read(self):
        """The next message; None at the end."""
        line = self.process.stdout.readline()
        message = json.loads(line) if line else None
        for told in (message or {}).get("result"), (message or {}).get("params"):
            self.safe_until = max(self.safe_until, (told or {}).get("safe_until") or 0.0)
        return message

    def answer(self, number):
        while (message := self.read()).get("id") != number:
            pass
        return message["result"]

    def believed_until(self):
        """As far as it was told before its daemon died."""
        while self.read() is not None:
            pass
        return self.safe_until

    def hear_of_loss(self):
        while self.read().get("method") != "lost":
            pass

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.kill()
        self.process.stdin.close()
        self.process.stdout.close()


class Case:
    """A slot, with its first holder."""

    def __init__(self, test, state, name):
        self.test, self.state, self.name, self.fence, self.lock = test, state, name, 0, None
        self.queue = f"lockbroker=q={name}=1"
        self.proxy = FrameProxy(test, RABBIT.port)
        self.daemon = self.start(broker=RABBIT.url_at(self.proxy.port))
        self.client = Client(test, self.daemon)
        self.doomed = None

    def start(self, broker):
        daemon = Daemon(self.test, *UNTESTED, "--quorum-connections", "1", "--probe-timeout", "60",
                        "--request-timeout", "120", broker=broker, expect=TROUBLE)
        daemon.wait_broker()
        return daemon

    def prepare(self):
        if self.state in GRANTED:
            self.acquire()
            self.granted()
        elif self.state == "in-grace":
            self.doomed = self.start(RABBIT.url)
            Wire(self.doomed).call("acquire", name=self.name, timeout=0)

    def acquire(self):
        self.client.ask(1, "acquire", name=self.name, timeout=None, lease=True)

    def granted(self):
        grant = self.client.answer(1)
        self.fence, self.lock = grant["fence"], grant["lock"]

    def release(self):
        self.client.ask(2, "release", lock=self.lock)

    def go(self):
        """Towards the state. A lease is short, so all cases go at once."""
        if STATES[self.state]:
            self.proxy.hold(STATES[self.state][0], ANSWERED in STATES[self.state])
        if self.doomed:
            self.doomed.kill()
        if self.state in RELEASED:
            self.release()
        elif self.state not in ("free", *GRANTED):
            self.acquire()

    def wait_there(self):
        if STATES[self.state]:
            self.test.assertTrue(self.proxy.held.wait(60), self.state)
        elif self.state == "in-grace":
            wire = Wire(self.daemon)
            wait_until(lambda: "free in" in str(wire.error("acquire", name=self.name, timeout=0)), what="the grace is told")


class Deaths(unittest.TestCase):
    deadline = 400

    def setUp(self):
        self.rival = Daemon(self, *UNTESTED, "--rescan-interval", "0.2", broker=RABBIT.url, expect=TROUBLE)
        self.rival.wait_broker()
        self.wires = {state: Wire(self.rival) for state in STATES}
        names = {state: f"{self.id().rpartition('.')[2]}-{state}" for state in STATES}
        asked = [(self.wires[state], self.wires[state].request("create", name=name, slots=1, **BY_QUORUM))
                 for state, name in names.items()]
        for wire, request in asked:
            wire.answer(request)
        self.cases = {state: Case(self, state, name) for state, name in names.items()}
        self.all = list(self.cases.values())
        for act in Case.prepare, Case.go, Case.wait_there:
            for case in self.all:
                act(case)

    def frames_go_on(self):
        for case in self.all:
            case.proxy.let_go()

    def succeed(self, unclean=()):
        """The rival gets each slot with a larger fence. It waits for T after these states, and then has not begun before
        the first holder has certainly stopped."""
        began = now()
        asked = {state: self.wires[state].request("acquire", name=case.name, timeout=None)
                 for state, case in self.cases.items()}
        for state, request in asked.items():
            grant, case = self.wires[state].answer(request, 120), self.cases[state]
            self.assertGreater(grant["fence"], case.fence, state)
            if state in unclean:
                self.assertGreaterEqual(grant["waited"], GRACE, state)
                self.assertGreaterEqual(began + grant["waited"], case.client.safe_until, state)
            self.wires[state].call("release", lock=grant["lock"])
            self.cases[state].fence = grant["fence"]

    def test_a_killed_daemon(self):
        """The frames that it has sent arrive."""
        for case in self.cases.values():
            case.daemon.kill()
            case.client.believed_until()
        self.frames_go_on()
        self.succeed(("in-grace", "claiming", "claimed", "held", "renewing", "renewed"))

    def test_a_killed_broker(self):
        """The frames come to a connection that is gone. Clients that wait would get the slot, too. The daemon reclaims the
        slots of clients that have stopped. RabbitMQ is back when the leases are over."""
        RABBIT.kill()
        self.frames_go_on()
        for state in "gathering", "in-grace", "claiming", "claimed":
            self.cases[state].client.kill()
        for state in "held", "renewing", "renewed":
            self.cases[state].client.hear_of_loss()
        RABBIT.start()
        self.succeed(("in-grace", "held", "renewing", "renewed"))

    def test_a_killed_client(self):
        """Its daemon releases, so nobody has to wait after a hold."""
        for case in self.cases.values():
            case.client.kill()
        self.frames_go_on()
        self.succeed()

    def test_a_purge(self):
        """It removes nothing of a slot that somebody has. A free slot stays busy until it is made again."""
        free = self.cases["free"]
        del self.cases["released"]  # the daemon has given up the slot by now, or does so soon
        for state, case in self.cases.items():
            removed = RABBIT.eval(PURGE % (RABBIT.vhost, case.queue)).strip()
            self.assertEqual(removed, "3" if case is free else "0", state)
        self.frames_go_on()
        for state, case in self.cases.items():
            if case is free or state in RELEASED:
                continue
            if state not in GRANTED:
                case.granted()
            self.assertEqual(self.wires[state].error("acquire", name=case.name, timeout=0).reason, "would-block", state)
            case.release()
        self.assertEqual(self.wires["free"].error("acquire", name=free.name, timeout=0).reason, "would-block")
        RABBIT.eval(DELETE % (RABBIT.vhost, free.queue))
        self.wires["free"].call("resize", name=free.name, slots=1, claim="quorum")
        self.succeed()


if __name__ == "__main__":
    tap.main()
