#!/usr/bin/env python3
"""Tries the units, and the recipes that the manuals print, under a real systemd with RabbitMQ on the same host.

    systemd_check.py [--folder DIR] [--built] TARBALL [SUITE...]      # bookworm, trixie

The packages are built as deb_check.py builds them; with --built, those in DIR/SUITE.deb are taken. The host is an
overlay over the root SUITE.systemd, without a network once the packages are installed. It prints how long each
recipe takes until its worker runs again with the lock. Needs root and the network.
"""
import json
import os
import re
import sys
import time

import deb_check as deb
import root as roots
from boot import Host

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import manual  # noqa: E402
from wait import wait_until  # noqa: E402

HEALED = 120  # seconds
# While /run/ask exists, a worker that is stopped writes how many slots are busy.
WORKER = """#!/bin/sh
trap '[ ! -e /run/ask ] || lockbroker list --no-headers >/run/told 2>&1; exit 0' TERM
while :; do sleep 0.2; done
"""
# In the unit $1: the process whose name is $2.
FIND = """
group=$(systemctl show -P ControlGroup {0})
for pid in $(cat /sys/fs/cgroup$group/cgroup.procs 2>/dev/null); do
	if [ -n "$group" ] && [ "$(cat /proc/$pid/comm 2>/dev/null)" = {1} ]; then echo $pid; break; fi
done
"""
KILL_DAEMON = "systemctl kill -s KILL lockbrokerd"


def expect(true, words):
    if not true:
        raise AssertionError(words)


def write(host, path, text, mode=0o644):
    os.makedirs(os.path.dirname(host.path(path)), exist_ok=True)
    roots.write(host.path(path), text, mode)


def install(host, recipe):
    """Installs a unit where its first line says."""
    write(host, re.match(r"# (/\S+)\n", recipe)[1], recipe)
    host.run("systemctl daemon-reload")


def counts(host, lock):
    """(busy slots, waiters) of a lock; None: the daemon does not say."""
    status, said = host.try_run("lockbroker list --no-headers --timeout 5")
    rows = [line.split("\t") for line in said.split("\n")]
    return next((tuple(row[2:4]) for row in rows if row[0] == lock), None) if status == 0 else None


def takeovers(host):
    """How often a successor of the daemon has taken over; None: the daemon does not say."""
    found = re.search(r"(?m)^takeovers: (\d+)$", host.try_run("lockbroker info")[1])
    return int(found[1]) if found else None


class Recipe:
    """A worker under a lock. program: the name of its process. holder: the unit that holds the lock."""

    def __init__(self, host, title, lock, unit, program, holder):
        self.host, self.title, self.lock, self.unit, self.program, self.holder = host, title, lock, unit, program, holder
        self.pid = ""

    def process(self, unit, program):
        return self.host.try_run(FIND.format(unit, program))[1].strip()

    def works(self):
        """Whether another worker than before runs, and the lock is held."""
        pid = self.process(self.unit, self.program)
        return pid if pid != self.pid and counts(self.host, self.lock) == ("1", "0") else None

    def heals(self, words, command):
        self.host.run(command)
        began = time.monotonic()
        self.pid = wait_until(self.works, HEALED, f"{self.title}: {words}")
        print(f"        {self.title}: {words}: {time.monotonic() - began:.1f} s", flush=True)

    def stays(self, words, command):
        """A successor takes over, once or twice, and the worker runs on with its lock."""
        before = takeovers(self.host)
        self.host.run(command)
        wait_until(lambda: (takeovers(self.host) or before) > before, HEALED, f"{self.title}: {words}: a successor")
        expect(self.process(self.unit, self.program) == self.pid and counts(self.host, self.lock) == ("1", "0"),
               f"{self.title}: {words}: the worker runs on")
        print(f"        {self.title}: {words}: the worker runs on", flush=True)

    def is_free(self):
        return counts(self.host, self.lock) == ("0", "0") and \
            self.host.try_run(f"systemctl is-active {self.unit} {self.holder}")[1].split() == ["inactive", "inactive"]

    def stop(self):
        """The lock is free, and stays free after the death of the daemon."""
        self.host.run(f"systemctl stop {self.unit}")
        wait_until(self.is_free, 30, f"{self.title}: free after a stop")
        self.host.run(KILL_DAEMON)
        wait_until(self.is_free, HEALED, f"{self.title}: free after a stop and a kill of the daemon")
        self.pid = ""

    def stop_in_wait(self):
        self.host.run(f"systemd-run -q -G --unit=other lockbroker run {self.lock} sleep infinity")
        wait_until(lambda: counts(self.host, self.lock) == ("1", "0"), 30, "another holder")
        self.host.run(f"systemctl start --no-block {self.unit}")
        wait_until(lambda: counts(self.host, self.lock) == ("1", "1"), 30, f"{self.title}: a waiter")
        self.host.run(f"systemctl stop {self.unit}; systemctl stop other")
        wait_until(self.is_free, 30, f"{self.title}: free after a stop of a waiter")

    def attempt(self):
        self.heals("start", f"systemctl start {self.unit}")
        expect(self.holder in self.host.run(f"lockbroker show {self.lock}"), "--who=%n")
        self.heals("kill -9 of the daemon", KILL_DAEMON)
        self.heals("restart of RabbitMQ", "systemctl restart rabbitmq-server")
        self.heals("kill -9 of the worker", f"kill -9 {self.pid}")
        for _ in range(2):
            self.stays("reload of the daemon", "systemctl reload lockbrokerd")
        if self.holder == self.unit:
            self.stays("restart of the daemon", "systemctl restart lockbrokerd")
            self.stays("restart of the socket unit", "systemctl restart lockbrokerd.socket")
            self.stays("restart during a reload", "systemctl reload lockbrokerd; systemctl restart lockbrokerd")
        else:  # systemd stops it first, as it is a part of the daemon's unit
            self.heals("restart of the daemon", "systemctl restart lockbrokerd")
        self.stop()
        self.stop_in_wait()


def set_up(host):
    """As the manuals and README.md say."""
    host.run(f"rabbitmqctl await_startup; {manual.block('lockbrokerd.8', 'rabbitmqctl add_vhost').replace('PASSWORD', 'first')}")
    write(host, "/etc/lockbroker/lockbrokerd.conf", "broker = amqp://lockbroker@localhost/locks\n")
    host.run("echo first | install -m 600 /dev/stdin /etc/lockbroker/broker-password; systemctl stop lockbrokerd.socket lockbrokerd")
    host.run(manual.block("lockbrokerd.8", "systemd-sysusers"))
    wait_until(lambda: host.try_run("lockbroker ping --broker")[0] == 0, HEALED, "the broker")
    host.run("lockbroker create nightly; lockbroker create db/main")
    for program in "report", "worker":
        write(host, f"/usr/local/bin/{program}", WORKER, 0o755)
    write(host, "/etc/systemd/system/worker.service", "[Service]\nExecStart=/usr/local/bin/worker\n")


def try_recipes(host):
    install(host, manual.block("lockbroker.1", "ExecStart=lockbroker run"))
    recipe = Recipe(host, "run", "nightly", "report.service", "report", "report.service")
    recipe.attempt()
    recipe.heals("start", f"systemctl start {recipe.unit}")
    expect(host.run("systemctl show -P StatusText report") == "holding nightly\n", "the status of the unit")
    recipe.stop()

    install(host, manual.block("lockbroker.1", "--for-pid $$$$"))
    Recipe(host, "main process", "nightly", "report.service", "report", "report.service").attempt()

    text = manual.block("lockbroker.1", "Requires=lockbroker-hold@")
    install(host, text)
    hold = "lockbroker-hold@nightly.service"
    recipe = Recipe(host, "hold unit", "nightly", "worker.service", "worker", hold)
    recipe.attempt()
    recipe.heals("start", f"systemctl start {recipe.unit}")
    holder = recipe.process(hold, "lockbroker")
    expect(host.run(f"systemctl show -P StatusText {hold}") == "holding nightly\n", "the status of the unit")
    recipe.heals("kill -9 of the worker", f"kill -9 {recipe.pid}")
    expect(recipe.process(hold, "lockbroker") == holder, "the lock was released when the worker failed")
    recipe.heals("kill -9 of the holder", f"kill -9 {holder}")
    recipe.heals("restart of the daemon", "touch /run/ask; systemctl restart lockbrokerd; rm /run/ask")
    expect("nightly\t1\t1\t" in host.run("cat /run/told"), "the lock was free when the worker was told to stop")
    recipe.stop()

    slash = host.run(manual.block("lockbroker.1", "systemd-escape")).strip()
    install(host, text.replace(hold, slash))
    recipe = Recipe(host, "hold unit with a slash", "db/main", "worker.service", "worker", slash)
    recipe.heals("start", f"systemctl start {recipe.unit}")
    recipe.heals("kill -9 of the daemon", KILL_DAEMON)
    recipe.stop()


def try_private_daemon(host):
    write(host, "/run/url", "memory:\n")
    host.run("systemd-run -q -G --unit=private -p Type=notify -p NotifyAccess=all -p KillMode=mixed "
             "lockbroker run --broker-file /run/url --mutex deploy sleep infinity")
    deb.same(host, "systemctl is-active private; systemctl show -P StatusText private; systemctl stop private", ["active", "holding deploy"])


def try_rotation(host):
    """A reload takes a new password, and no hold ends."""
    write_password, change = manual.block("lockbrokerd.8", "-o lockbroker /dev/stdin"), manual.block("lockbrokerd.8", "change_password")
    host.run(f"echo first | {write_password} echo 'password-file = /etc/lockbroker/password' >>/etc/lockbroker/lockbrokerd.conf; "
             "rm /etc/lockbroker/broker-password; systemctl restart lockbrokerd")
    wait_until(lambda: host.try_run("lockbroker ping --broker")[0] == 0, HEALED, "the broker")
    host.run("systemd-run -q -G --unit=job -p Type=notify lockbroker run nightly sleep infinity")
    running = "systemctl show -P MainPID lockbrokerd job"
    before = host.run(running).split("\n")[:-1]
    host.run(f"echo second | {write_password} {change.replace('PASSWORD', 'second')}")
    deb.same(host, running, before)
    # Not as root, which may lack CAP_SYS_RESOURCE in a container.
    host.run(f"runuser -u lockbroker -- sh -c '{manual.block('lockbrokerd.8', 'prlimit').strip()}'; "
             "grep 'Max core file size *unlimited' /proc/$(pidof lockbrokerd)/limits")
    host.run("systemctl restart rabbitmq-server")
    wait_until(lambda: host.try_run("lockbroker ping --broker")[0] == 0, HEALED, "the broker takes the new password")
    deb.same(host, "systemctl show -P MainPID lockbrokerd", before[:1])


def try_journal(host):
    ids = dict(re.findall(r"(?m)^\.It ([a-z-]+)\n.*\n\.br\n\.Li (\w+)$", manual.source("lockbrokerd.8")))
    said = host.run("journalctl -q -o json -u lockbrokerd LOCKBROKER_NAME=nightly")
    entries = [json.loads(line) for line in said.splitlines()]
    kinds = {entry["LOCKBROKER_EVENT"] for entry in entries}
    expect({"acquired", "released", "lost"} <= kinds, f"events in the journal: {kinds}")
    wrong = [entry for entry in entries if entry["MESSAGE_ID"] != ids[entry["LOCKBROKER_EVENT"]]]
    expect(not wrong, f"other message ids than the manual's: {wrong}")
    for entry in entries:
        if entry["LOCKBROKER_EVENT"] in ("acquired", "released", "lost"):
            values = [entry[f"LOCKBROKER_{field}"] for field in ("LOCK", "SLOT", "UID", "PID")]
            expect(re.fullmatch(r"[0-9a-f]+-\d+ 1 \d+ \d+", " ".join(values)), f"fields in the journal: {entry}")
    expect(" lost " in host.run(manual.block("lockbrokerd.8", "journalctl LOCKBROKER_EVENT=lost")), "the manual's journalctl")


def try_metrics(host):
    """The units among the examples, at the place where the node_exporter of Debian has its folder."""
    host.run("cp /usr/share/doc/lockbroker/examples/lockbroker-metrics.* /etc/systemd/system/; "
             "mkdir -p /var/lib/prometheus/node-exporter; systemctl daemon-reload; systemctl start lockbroker-metrics.timer")
    read = "cat /var/lib/prometheus/node-exporter/lockbroker.prom"
    first = wait_until(lambda: host.try_run(f"{read} | grep lockbroker_time_seconds")[1], 60, "the metrics")
    wait_until(lambda: host.try_run(f"{read} | grep lockbroker_time_seconds")[1] != first, 60, "newer metrics")
    host.run(f"{read} | grep 'lockbroker_grants_total.*nightly'; systemctl stop lockbroker-metrics.timer")


def try_failures(host):
    """A daemon that fails is always started again, unless its configuration is wrong."""
    install(host, manual.block("lockbroker.1", "ExecStart=lockbroker run"))
    recipe = Recipe(host, "start limit", "nightly", "report.service", "report", "report.service")
    recipe.heals("start", f"systemctl start {recipe.unit}")
    for _ in range(12):
        pid = host.run("systemctl show -P MainPID lockbrokerd")
        host.run(KILL_DAEMON)
        wait_until(lambda: host.run("systemctl show -P MainPID lockbrokerd") not in ("0\n", pid), 30, "a daemon")
    recipe.heals("12 times kill -9 of the daemon", "true")
    recipe.stop()

    spoil, correct = (f"{command} /etc/lockbroker/lockbrokerd.conf" for command in ("echo nonsense >>", "sed -i /nonsense/d"))
    units = "lockbrokerd.socket lockbrokerd.service"
    host.run(f"{spoil}; ! systemctl restart lockbrokerd")
    starts = "sleep 1; journalctl --sync; journalctl -q -u lockbrokerd | grep -c lockbrokerd.conf:"
    before = int(host.run(starts))
    status, said = host.try_run("lockbroker ping")
    expect(status == 69 and "journalctl -u lockbrokerd" in said, f"ping: {status} {said}")
    expect(int(host.run(starts)) == before + 1, "one client starts the daemon once")
    said = host.try_run(manual.block("lockbrokerd.8", "systemctl status lockbrokerd.socket").replace("\n", " || true\n"))[1]
    expect(re.search(r"lockbrokerd\.conf:\d+: ", said), f"the reason: {said}")
    deb.same(host, f"{correct}; lockbroker ping >/dev/null; systemctl is-active {units}", ["active", "active"])

    # On a busy machine, 15 starts take longer than the limit's 10 s.
    write(host, "/run/systemd/system/lockbrokerd.service.d/limit.conf", "[Unit]\nStartLimitIntervalSec=100\n")
    host.run(f"systemctl daemon-reload; {spoil}; ! systemctl restart lockbrokerd")
    host.run("timeout 90 sh -c 'until systemctl -q is-failed lockbrokerd.socket; do lockbroker ping || true; done'")
    deb.same(host, f"systemctl is-failed {units}", ["failed", "failed"])
    host.run(f"{correct}; {manual.block('lockbrokerd.8', 'systemctl reset-failed')}")
    recipe.heals("a wrong configuration that was corrected", f"systemctl start {recipe.unit}")
    recipe.stop()


def try_all(debs, folder, suite, log):
    base = roots.make(folder, suite, name=f"{suite}.systemd", first=deb.SYSTEMD)
    with deb.overlay(folder, base) as root:
        deb.shell(root, f"apt-get -q update; {deb.APT} install rabbitmq-server /mnt/lockbroker_*.deb", log, [(debs, "/mnt")])
        os.unlink(os.path.join(root, "usr/sbin/policy-rc.d"))
        roots.write(os.path.join(root, "etc/hostname"), "north\n")
        roots.write(os.path.join(root, "etc/hosts"), "127.0.0.1 localhost north\n::1 localhost\n")
        with Host(root, folder, log, network=False) as host:
            try:
                set_up(host)
                for step in try_recipes, try_private_daemon, try_rotation, try_journal, try_metrics, try_failures:
                    step(host)
            except BaseException:
                print(host.try_run("systemctl list-jobs; systemctl status '*lock*' report worker; journalctl -n 300")[1], file=log)
                raise


def check(options, suite):
    folder = options.folder
    built = options.built or deb.run(f"build {suite}", deb.build, folder, options.tarball, folder, suite)
    yield built and deb.run(f"systemd {suite}", try_all, folder, os.path.join(folder, f"{suite}.deb"), folder, suite)


if __name__ == "__main__":
    sys.exit(deb.main(__doc__, check, "--built"))
