"""One client of a run: a process of an adapter (docs/PROOF.md), with its lines in the record.

	client = Client(record, "c1", command("lockbroker", daemon.socket), targets=["daemon=1"])
	client.ask("acquire", 1, "db", "semaphore", 5000)
"""

import contextlib
import os
import signal
import subprocess
import threading

from daemon import clean_environment, program

ADAPTERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "adapters")
PYTHON = "/usr/bin/python3"  # Debian's, whose pika it is


def command(adapter, address, *options):
    """The command of an adapter of this tree."""
    run = [program("tests/prove/adapters/lockbroker")] if adapter == "lockbroker" else [
        PYTHON, os.path.join(ADAPTERS, f"{adapter}.py")]
    return [*run, address, *options]


def missing():
    """Why an adapter in Python cannot use RabbitMQ; None: it can."""
    done = subprocess.run([PYTHON, "-c", "import pika"], stderr=subprocess.DEVNULL, check=False)
    return "no pika (Debian: python3-pika)" if done.returncode != 0 else None


class Client:
    def __init__(self, record, actor, argv, targets=(), heard=None, env=None, store=None):
        """targets: words of `started`. heard: is called with the words of each line of the adapter, without its time, in
        another thread. Its last line is always `ended`. env: more of the environment. store: a Store, for write()."""
        self.record, self.actor, self.heard = record, actor, heard
        self.over = False  # it has said its end, or is killed
        record.note(actor, "started", *targets)
        self.lock = threading.Lock()
        with store.connect(actor) if store else contextlib.nullcontext() as end:
            fds = (end.fileno(),) if end else ()
            env = {**(env or {}), **{"PROVE_STORE": str(fd) for fd in fds}}
            self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, pass_fds=fds,
                                            env=clean_environment(PYTHONDONTWRITEBYTECODE="1", **env))
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    @property
    def pid(self):
        return self.process.pid

    def listen(self):
        for line in self.process.stdout:
            words = line.split()[1:]
            if self.over:
                continue
            self.over = words == ["ended"]
            self.record.heard(self.actor, line)
            if self.heard and not self.over:
                self.heard(words)
        status = self.process.wait()
        if not self.over:
            self.over = True
            self.record.note(self.actor, "ended")
        if self.heard:
            self.heard(["ended"])
        if status not in (0, -signal.SIGKILL):
            self.record.note(self.actor, "wrong", "the adapter ended with", status)

    def ask(self, word, *words):
        """acquire ID NAME KIND TIMEOUT, verify ID, write ID PAUSE or release ID. Several threads can ask."""
        self.record.note(self.actor, word, *words)
        self.write(word, *words)

    def create(self, name, slots):
        self.record.note(self.actor, "sizing", name, slots)
        self.write("create", name, slots)

    def write(self, *words):
        try:
            with self.lock:
                print(*words, file=self.process.stdin, flush=True)
        except (BrokenPipeError, ValueError):
            pass  # its end is in the record, or will be

    def pause(self):
        """Whether it was there to be stopped."""
        if not self.over:
            self.process.send_signal(signal.SIGSTOP)
        return not self.over

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.record.note(self.actor, "killed")
        self.over = True
        self.process.kill()
        self.thread.join()

    def close(self):
        """Ends it by the end of its input."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.thread.join()
        self.process.stdout.close()
