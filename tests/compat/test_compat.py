"""Version 0.1.0 beside this one: daemons, commands, libraries, and upgrades of a daemon that has locks."""

import os
import re
import shutil
import signal
import subprocess
import unittest

import old
import tap
from daemon import BUILD, Daemon, clean_environment, program
from rabbit import Rabbit
from wire import Wire, wait_until

RABBIT = Rabbit.lease()
TRIES = 100
# Of an acquire of a mutex by quorum, by an old daemon.
REFUSALS = ("would-block", "contended", "broker-blocked", "broker-refused")
# Seconds: the shortest.
GRACE = 5
OURS = {"lockbrokerd": program("lockbrokerd"), "lockbroker": program("lockbroker")}
THEIRS = {}


def setUpModule():
    RABBIT.serve_module()
    folder = old.build()
    THEIRS.update({name: os.path.join(folder, name) for name in OURS})


# It fails with the number of its step.
PROGRAM = """
#include <lockbroker.h>

int
main(int argc, char *argv[])
{
	struct lb *lb = lb_new();
	struct lb_change how = LB_CHANGE_INIT;
	struct lb_options options = LB_OPTIONS_INIT;
	struct lb_lock *lock;
	int slots;

	options.timeout_ms = 10000;
	how.exist_ok = 1;
	how.claim = LB_CLAIM_CONSUMER;
	if (argc != 2 || lb_connect(lb, argv[1], 10000) != LB_OK)
		return 1;
	if (lb_create(lb, "by-library", 2, &how, 10000) != LB_OK)
		return 2;
	if (lb_acquire(lb, "by-library", &options, &lock) != LB_OK)
		return 3;
	if (lb_verify(lock, 10000) != LB_OK || lb_release(lock, 10000) != LB_OK)
		return 4;
	if (lb_resize_by(lb, "by-library", 1, &how, 10000, &slots) != LB_OK || slots != 3)
		return 5;
	if (lb_destroy(lb, "by-library", &how, 10000) != LB_OK)
		return 6;
	lb_free(lb);
	return 0;
}
"""


class AnyWire(Wire):
    """The answers may be those of version 0.1.0, which are not as openrpc.json says."""

    def _check(self, message):
        pass


class Compat(unittest.TestCase):
    deadline = 400

    def daemon(self, programs, *options, **more):
        daemon = Daemon(self, "--rescan-interval", "0.5", *options, broker=RABBIT.url, start=False, **more)
        # A file of its own, which an upgrade replaces.
        daemon.command[0] = os.path.join(daemon.dir, "lockbrokerd")
        self.install(daemon, programs)
        daemon.start()
        daemon.wait_broker()
        return daemon

    def install(self, daemon, programs):
        path = daemon.command[0]
        shutil.copy(programs["lockbrokerd"], path + ".new")
        os.rename(path + ".new", path)

    def replace(self, daemon, programs):
        """The daemon becomes that version, and keeps its process id."""
        pid = daemon.pid
        self.install(daemon, programs)
        before = daemon.log().count("has taken over")
        daemon.signal(signal.SIGUSR2)
        daemon.wait_log("has taken over", count=before + 1)
        self.assertEqual(daemon.pid, pid)

    def new(self, *options, **more):
        return self.daemon(OURS, "--quorum-servers", "untested", *options, **more)

    def name(self):
        return self.id().rpartition(".")[2]

    def run_command(self, programs, daemon, *words, status=0):
        done = subprocess.run([programs["lockbroker"], words[0], "--socket", daemon.socket, *words[1:]], check=False,
                              env=clean_environment(), capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout + done.stderr

    def test_an_old_daemon_evicts_nobody(self):
        """It ignores the question, and the administrator hears of that."""
        old_one = self.daemon(THEIRS, "--host-name", "old", expect=("daemon message",))
        new_one = self.new("--host-name", "new")
        admin = Wire(new_one)
        admin.call("create", name=self.name(), slots=2, claim="consumer")
        holder = AnyWire(old_one)
        lock = holder.call("acquire", name=self.name())["lock"]
        shown = wait_until(lambda: [row["waiter"] for row in admin.call("show", name=self.name())["holders"]
                                    if row["host"] == "old"], what="its row is shown")
        error = admin.error("evict", holder=shown[0], grace=0)
        self.assertEqual(error.reason, "timeout")
        self.assertIn("older than 0.2.0; nothing was freed", error.message)
        self.assertEqual(admin.call("evict", name=self.name(), all=True, grace=0)["silent_hosts"], ["old"])
        self.assertEqual(holder.call("verify", lock=lock)["lock"], lock)

    # ---- slots by quorum ----

    def messages(self, name):
        rows = RABBIT.ctl("list_queues", "-p", RABBIT.vhost, "--quiet", "--no-table-headers", "name", "messages")
        return {queue: int(count) for queue, count in (row.split("\t") for row in rows.splitlines()) if name in queue}

    def try_often(self, wire, name, reasons=("would-block", "broker-blocked"), **more):
        asked = [wire.request("acquire", name=name, timeout=0, **more) for _ in range(TRIES)]
        for number in asked:
            self.assertIn(wire.reply(number)["error"]["data"]["reason"], reasons)

    def check_old_tries(self, alarm):
        ours, theirs = self.new(expect=["the broker accepts no messages"]), self.daemon(THEIRS, expect=["the broker accepts no messages"])
        admin, holder, outsider = Wire(ours), Wire(ours), AnyWire(theirs)
        name = f"{self.name()}-{alarm}"
        admin.call("create", name=name, slots=1, claim="quorum", takeover_grace=GRACE)
        holder.call("release", lock=holder.call("acquire", name=name)["lock"])
        if alarm:
            RABBIT.perform("set_vm_memory_high_watermark", "0.0000001")
        try:
            self.try_often(outsider, name)  # it is free
            lock = holder.call("acquire", name=name)["lock"]
            self.try_often(outsider, name)  # it is held
            holder.call("verify", lock=lock)
            holder.call("release", lock=lock)
        finally:
            if alarm:
                RABBIT.perform("set_vm_memory_high_watermark", "0.4")
                theirs.wait_log("accepts messages again")
        wait_until(lambda: self.messages(f"={name}=") == {f"lockbroker=q={name}=1": 3}, what="the beads are as before")
        holder.call("release", lock=holder.call("acquire", name=name)["lock"])

    def test_an_old_daemon_is_granted_no_slot_by_quorum(self):
        for alarm in False, True:
            with self.subTest(alarm=alarm):
                self.check_old_tries(alarm)

    def check_old_mutexes(self, alarm):
        """The post looks free to them. By queue, each claim is a lost race. By consumer, the queue has other arguments."""
        options = {"expect": ["the broker accepts no messages"]}
        ours = self.new("--claim", "quorum", **options)
        theirs = {way: AnyWire(self.daemon(THEIRS, "--claim", way, **options)) for way in ("exclusive-queue", "consumer")}
        holder, name = Wire(ours), f"{self.name()}-{alarm}"
        mutex = {"name": name, "kind": "mutex"}
        holder.call("release", lock=holder.call("acquire", **mutex)["lock"])
        if alarm:
            RABBIT.perform("set_vm_memory_high_watermark", "0.0000001")
        try:
            for held in False, True:
                lock = holder.call("acquire", **mutex)["lock"] if held else None
                for wire in theirs.values():
                    self.try_often(wire, name, REFUSALS, kind="mutex")
                if held:
                    holder.call("verify", lock=lock)
                    holder.call("release", lock=lock)
        finally:
            if alarm:
                RABBIT.perform("set_vm_memory_high_watermark", "0.4")
        wait_until(lambda: self.messages(f"=q={name}") == {f"lockbroker=q={name}": 3}, what="the beads are as before")
        holder.call("release", lock=holder.call("acquire", **mutex)["lock"])

    def test_an_old_daemon_is_granted_no_mutex_by_quorum(self):
        for alarm in False, True:
            with self.subTest(alarm=alarm):
                self.check_old_mutexes(alarm)

    def test_a_mutex_that_an_old_daemon_holds(self):
        """A daemon with the setting quorum waits for it, in the way that it finds."""
        for way in "exclusive-queue", "consumer":
            with self.subTest(way=way):
                ours, theirs = Wire(self.new("--claim", "quorum")), AnyWire(self.daemon(THEIRS, "--claim", way))
                mutex = {"name": f"{self.name()}-{way}", "kind": "mutex"}
                lock = theirs.call("acquire", **mutex)["lock"]
                self.assertEqual(ours.error("acquire", timeout=0, **mutex).reason, "would-block")
                waiting = ours.request("acquire", timeout=60, **mutex)
                theirs.call("release", lock=lock)
                granted = ours.answer(waiting)
                self.assertEqual(granted["fence"] is None, way == "consumer")
                self.assertIn(theirs.error("acquire", timeout=0, **mutex).reason, REFUSALS)
                ours.call("release", lock=granted["lock"])

    def problems(self, answer):
        return {finding["problem"]: (finding["slot"], finding["repaired"]) for finding in answer["findings"]}

    def test_old_daemons_during_conversions(self):
        """They find the slots with As, or a gate, and there are never more holders than slots."""
        admin, outsider, name = Wire(self.new()), AnyWire(self.daemon(THEIRS)), self.name()
        admin.call("create", name=name, slots=2, claim="exclusive-queue")
        theirs = outsider.call("acquire", name=name)
        left = admin.call("fsck", within=60, name=name, repair=True, convert="quorum", takeover_grace=GRACE)
        # The other slot has made way. That of the holder stays as it is.
        self.assertEqual([finding["problem"] for finding in left["findings"]], ["claim"])
        self.assertEqual((theirs["slot"], admin.error("acquire", name=name, timeout=0).reason), (1, "would-block"))
        outsider.call("release", lock=theirs["lock"])
        done = admin.call("fsck", within=60, name=name, repair=True, convert="quorum", wait=30)
        self.assertEqual(done["claim"], "quorum", done)
        self.try_often(outsider, name)
        done = admin.call("fsck", within=60, name=name, repair=True, convert="consumer")
        self.assertEqual((done["clean"], done["claim"]), (True, "consumer"), done)
        locks = [outsider.call("acquire", name=name) for _ in range(2)]
        self.assertEqual(admin.error("acquire", name=name, timeout=0).reason, "would-block")
        for lock in locks:
            outsider.call("release", lock=lock["lock"])

    def test_an_old_resize_opens_the_gate(self):
        """Slots with As stand beside those by quorum then. fsck finds them, and claims each before it goes."""
        admin, outsider, name = Wire(self.new()), AnyWire(self.daemon(THEIRS)), self.name()
        admin.call("create", name=name, slots=1, claim="quorum", takeover_grace=GRACE)
        held = admin.call("acquire", name=name)
        outsider.call("resize", name=name, slots=1)
        theirs = outsider.call("acquire", name=name)
        self.assertIsNone(theirs.get("fence"))
        self.assertIsNotNone(held["fence"])
        self.assertEqual(self.problems(admin.call("fsck", name=name)), {"markers": (None, False), "claim": (1, False)})
        # The slot that an old daemon has made is held, and stays. The gate is put back all the same.
        self.assertEqual(self.problems(admin.call("fsck", name=name, repair=True)),
                         {"markers": (None, False), "claim": (1, False)})
        self.assertEqual(outsider.call("verify", lock=theirs["lock"])["name"], name)
        outsider.call("release", lock=theirs["lock"])
        self.assertEqual(self.problems(admin.call("fsck", name=name, repair=True)),
                         {"markers": (None, True), "claim": (1, True)})
        self.assertTrue(admin.call("fsck", name=name)["clean"])
        self.assertEqual(outsider.error("acquire", name=name, timeout=0).reason, "would-block")
        admin.call("release", lock=held["lock"])
        self.assertGreater(admin.call("acquire", name=name)["fence"], held["fence"])

    # ---- commands ----

    def check_commands(self, programs, daemon):
        name = self.name()
        self.run_command(programs, daemon, "create", name, "2")
        self.assertEqual(self.run_command(programs, daemon, "run", name, "--", "sh", "-c", "echo $LOCKBROKER_NAME").strip(), name)
        self.assertEqual(self.run_command(programs, daemon, "size", name).strip(), "2")
        self.run_command(programs, daemon, "resize", name, "3")
        self.assertIn(name, self.run_command(programs, daemon, "list"))
        for command in "show", "explain", "fsck":
            self.run_command(programs, daemon, command, name)
        for command in "info", "ping", "metrics":
            self.run_command(programs, daemon, command)
        self.run_command(programs, daemon, "run", "--mutex", "a-mutex", "--", "true")
        self.run_command(programs, daemon, "destroy", name)

    def test_an_old_command_asks_a_new_daemon(self):
        daemon = self.new()
        self.check_commands(THEIRS, daemon)
        name = self.name() + "-quorum"
        Wire(daemon).call("create", name=name, slots=1, claim="quorum", takeover_grace=GRACE)
        self.run_command(THEIRS, daemon, "run", name, "--", "true")
        for command in "list", "show", "explain":
            self.run_command(THEIRS, daemon, command, *([name] if command != "list" else []))

    def test_a_new_command_asks_an_old_daemon(self):
        daemon = self.daemon(THEIRS)
        self.check_commands(OURS, daemon)
        said = self.run_command(OURS, daemon, "create", "--claim=quorum", "by-quorum", "1", status=64)
        self.assertIn("claim", said)

    # ---- libraries ----

    def compile(self, daemon):
        """A program that was compiled with the old header. A sanitized library wants a sanitized program."""
        with open(os.path.join(BUILD, "Makefile"), encoding="utf-8") as file:
            sanitizers = re.search(r"^SANITIZER_CFLAGS = (.*)$", file.read(), re.MULTILINE).group(1).split()
        source, path = os.path.join(daemon.dir, "program.c"), os.path.join(daemon.dir, "program")
        with open(source, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        folder = old.build()
        subprocess.run(["cc", *sanitizers, "-I", f"{folder}/client", "-o", path, source, "-L", f"{folder}/.libs",
                        "-llockbroker"], check=True)
        return path

    def test_a_program_that_was_compiled_with_the_old_header(self):
        """With both libraries at both daemons."""
        daemons = self.new(), self.daemon(THEIRS)
        path = self.compile(daemons[0])
        for daemon in daemons:
            for library in os.path.join(BUILD, ".libs"), os.path.join(old.build(), ".libs"):
                with self.subTest(library=library):
                    done = subprocess.run([path, daemon.socket], check=False,
                                          env=clean_environment(LD_LIBRARY_PATH=os.path.abspath(library)))
                    self.assertEqual(done.returncode, 0)

    # ---- upgrades ----

    def take_all(self, daemon):
        """50 locks of each way, two mutexes, waiters, and a lock of a process: (peer, grants, waiting, process)."""
        peer, waiting, name = AnyWire(daemon), [], self.name()
        grants = []
        for claim in "exclusive-queue", "consumer":
            peer.call("create", name=f"{name}-{claim}", slots=50, claim=claim)
            grants += [peer.call("acquire", name=f"{name}-{claim}") for _ in range(50)]
            for _ in range(5):
                waiter = AnyWire(daemon)
                waiting.append((waiter, waiter.request("acquire", name=f"{name}-{claim}", progress=True)))
                waiter.notification("waiting")
        grants += [peer.call("acquire", name=f"{name}-{number}", kind="mutex") for number in range(2)]
        process = subprocess.Popen(["sleep", "600"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.run_command(THEIRS, daemon, "acquire", "--mutex", "--for-pid", str(process.pid), f"{name}-pid")
        return peer, grants, waiting, process

    def check_all(self, peer, grants):
        for grant in grants:
            verified = peer.call("verify", lock=grant["lock"])
            self.assertGreaterEqual(verified["safe_until"], grant["safe_until"])
            grant["safe_until"] = verified["safe_until"]
        self.assertEqual(peer.call("info")["counts"]["lost"], 0)

    def end_all(self, daemon, peer, grants, waiting, process):
        """Each waiter is served, and the lock of the process ends with it."""
        for grant in grants:
            peer.call("release", lock=grant["lock"])
        for waiter, asked in waiting:
            waiter.call("release", lock=waiter.answer(asked)["lock"])
        name = f"{self.name()}-pid"
        self.assertEqual(peer.error("acquire", name=name, kind="mutex", timeout=0).reason, "would-block")
        process.kill()
        peer.call("acquire", name=name, kind="mutex")
        self.assertEqual(daemon.log().count("lost"), 0)

    def change_version(self, first, then):
        daemon = self.daemon(first)
        peer, grants, waiting, process = self.take_all(daemon)
        self.replace(daemon, then)
        self.check_all(peer, grants)
        self.end_all(daemon, peer, grants, waiting, process)

    def test_an_upgrade_loses_no_lock(self):
        self.change_version(THEIRS, OURS)

    def test_going_back_loses_no_lock(self):
        self.change_version(OURS, THEIRS)

    def go_back_in_vain(self, daemon):
        """The old program refuses the state in its rehearsal, and the new one goes on."""
        refused = "this program goes on, and is not replaced"
        self.install(daemon, THEIRS)
        before = daemon.log().count(refused)
        daemon.signal(signal.SIGUSR2)
        daemon.wait_log(refused, count=before + 1)
        daemon.wait_log("the state has version 2, and this program reads version 1")
        self.assertEqual(daemon.log().count("has taken over"), 0)

    def test_an_old_daemon_refuses_holds_by_quorum(self):
        """It takes over when nothing of them is left."""
        daemon = self.daemon(OURS, config="quorum-servers = untested\n", expect=["cannot take over", "is not replaced"])
        peer, name = AnyWire(daemon), self.name()
        peer.call("create", name=name, slots=1, claim="quorum", takeover_grace=GRACE)
        kept = peer.call("acquire", name="kept", kind="mutex")
        held = peer.call("acquire", name=name)
        # The old program would refuse the setting before it reads the state.
        daemon.write_config("")
        self.go_back_in_vain(daemon)
        verified = peer.call("verify", lock=held["lock"])
        self.assertGreaterEqual(verified["safe_until"], held["safe_until"])
        peer.call("release", lock=held["lock"])
        self.replace(daemon, THEIRS)
        peer.call("verify", lock=kept["lock"])
        self.replace(daemon, OURS)
        peer.call("verify", lock=kept["lock"])
        peer.call("release", lock=kept["lock"])

    def test_an_upgrade_of_an_old_daemon_and_back_again(self):
        daemon = self.daemon(THEIRS)
        peer, grants, waiting, process = self.take_all(daemon)
        for programs in OURS, THEIRS, OURS:
            self.replace(daemon, programs)
            self.check_all(peer, grants)
        self.end_all(daemon, peer, grants, waiting, process)


if __name__ == "__main__":
    tap.main()
