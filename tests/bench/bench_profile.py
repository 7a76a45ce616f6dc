"""Where the time of an operation goes: the processor time of each process, beside the time that a client waits.

    make bench-profile

A line is one operation of one service, in microseconds. `p50` is the median that its client waits. `daemons`, `RabbitMQ`
and `client` are the times that these processes ran. `ready` is how long they waited for a processor, and the last column
is how often one of them began to run. The kernel counts all that for each thread (/proc/PID/task/TID/schedstat, in Linux's
Documentation/scheduler/sched-stats.rst). A process also does work for which no client waits.
"""

import contextlib
import glob
import subprocess
import time

from daemon import Daemon, clean_environment, program
from rabbit import Rabbit, version
from wire import Wire

HEAD = ("operation", "service", "p50", "daemons", "RabbitMQ", "client", "ready", "began to run")
ROUNDS = 6
HOLDS = 1000
# operation: group, its count and size, operations that a count stands for, rest in ms, services
OPERATIONS = {
    "acquire and release": ("locks", 1000, 1, "0", ("daemon", "raw:consumer", "raw:queue")),
    "try, 1 slot": ("try", 1000, 1, "0", ("daemons", "raw:consumer", "raw:queue")),
    "try, 10 slots": ("try", 500, 10, "0", ("daemons", "raw:consumer", "raw:queue")),
    "try, 1,000 slots": ("try", 10, 1000, "0", ("daemons", "raw:consumer")),
    "hand-off between daemons": ("handoff", 100, 1, "5", ("daemons", "raw:consumer")),
    "hand-off within a daemon": ("handoff", 1000, 1, "0", ("daemon",)),
}


def schedule(pids):
    """[seconds of running, of waiting for a processor, how often] of all threads of these processes."""
    sums = [0.0, 0.0, 0]
    for pid in pids:
        for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(path, encoding="ascii") as file:
                run, wait, times = file.read().split()
                sums = [sums[0] + int(run) / 1e9, sums[1] + int(wait) / 1e9, sums[2] + int(times)]
    return sums


class Profile(contextlib.ExitStack):
    def addCleanup(self, call, *args):  # a Daemon takes this for its test
        self.callback(call, *args)

    def start(self):
        self.rabbit = Rabbit()
        self.addCleanup(self.rabbit.close)
        self.rabbit.start()
        self.daemons = [Daemon(self, "--channels-reserve", "0", "--claim", "consumer", broker=self.rabbit.url)
                        for _ in range(2)]
        for daemon in self.daemons:
            daemon.wait_broker()

    def where(self, kind):
        first, second = (daemon.socket for daemon in self.daemons)
        return {"daemon": f"daemon:consumer={first}", "daemons": f"daemon:consumer={first},{second}"}.get(
            kind, f"{kind}={self.rabbit.url}")

    def look(self, client):
        return [schedule(pids) for pids in ([daemon.pid for daemon in self.daemons], [self.rabbit.pid], [client])]

    def line(self, operation, service, p50, count, before, after):
        """p50 in seconds."""
        spent = [[b - a for a, b in zip(*pair, strict=True)] for pair in zip(before, after, strict=True)]
        runs, waits, times = zip(*spent, strict=True)
        micro = [f"{seconds / count * 1e6:.0f}" for seconds in (*runs, sum(waits))]
        print("|", " | ".join((operation, service, f"{p50 * 1e6:.0f}", *micro, f"{sum(times) / count:.1f}")), "|",
              flush=True)

    def operation(self, operation, kind):
        """The first round is for warming up."""
        group, count, size, rest, _ = OPERATIONS[operation]
        argv = [program("tests/bench/load"), group, str(ROUNDS), str(count), str(size), f"rest={rest}", self.where(kind)]
        rounds = []
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=clean_environment()) as load:
            for line in load.stdout:
                side, number, samples, p50, *_ = line.split("\t")
                if side.endswith((" lock", " unlock", " cpu")):
                    continue
                if number == "all":
                    median = float(p50) / 1e6
                else:
                    rounds.append((self.look(load.pid), int(samples)))
        if load.returncode != 0:
            raise AssertionError(f"{argv}: exit status {load.returncode}")
        self.line(operation, kind, median, sum(samples for _, samples in rounds[1:]), rounds[0][0], rounds[-1][0])

    def hang_up(self):
        """Of one hold among many whose client hangs up."""
        watcher = Wire(self.daemons[0])
        watcher.call("create", name="hold", slots=HOLDS)
        holder = Wire(self.daemons[0])
        for request in [holder.request("acquire", name="hold") for _ in range(HOLDS)]:
            holder.answer(request)
        me = "self"
        before, began = self.look(me), time.monotonic()
        holder.hang_up()
        while (counts := watcher.call("info")["counts"])["holds"] > 0 or counts["in_flight"] > 0:
            time.sleep(0.001)
        took = time.monotonic() - began
        self.line(f"hang-up of {HOLDS:,} holds, for one hold", "daemon", took / HOLDS, HOLDS, before, self.look(me))


def main():
    with Profile() as profile:
        profile.start()
        print(f"RabbitMQ {version()}, held by consumer\n\n| {' | '.join(HEAD)} |\n|---|---|{'---:|' * (len(HEAD) - 2)}")
        for operation, (*_, kinds) in OPERATIONS.items():
            for kind in kinds:
                profile.operation(operation, kind)
        profile.hang_up()


if __name__ == "__main__":
    main()
