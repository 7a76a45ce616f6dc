"""liblockbroker as others get it: installed, found by pkg-config, compiled and linked by C and C++;
which symbols it shows; the example against a daemon."""

import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest

import tap
from cli import Job, command
from daemon import BUILD, Daemon, clean_environment
from wire import Wire

SOURCE = os.environ.get("top_srcdir", ".")
EXAMPLE = os.path.join(SOURCE, "client", "examples", "hold.c")
HEADER = os.path.join(SOURCE, "client", "lockbroker.h")
MAP = os.path.join(SOURCE, "client", "liblockbroker.map")
SYMBOLS = os.path.join(SOURCE, "debian", "liblockbroker0.symbols")
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror")


GIVEN_UP = """
#include <lockbroker.h>
#include <stdio.h>

int
main(void)
{
	struct lb_options options = LB_OPTIONS_INIT;
	struct lb *lb = lb_new();
	struct lb_lock *lock;

	options.kind = LB_MUTEX;
	options.timeout_ms = 1000;
	if (lb_connect(lb, NULL, 1000) != LB_OK)
		return 1;
	puts("connected");
	fflush(stdout);
	getchar();
	if (lb_acquire(lb, "m", &options, &lock) == LB_DEADLINE)
		puts("deadline");
	fflush(stdout);
	getchar();
	lb_free(lb);
	return 0;
}
"""


def text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def run(*argv, **more):
    done = subprocess.run(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, env=clean_environment(**more))
    if done.returncode != 0:
        raise AssertionError(f"{argv} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def named():
    """The symbols of the map, each with its version."""
    return [(name, version) for version, block in re.findall(r"^(LOCKBROKER_[\d.]+) \{(.*?)^\}", text(MAP), re.M | re.S)
            for name in re.findall(r"^\t(lb_\w+);$", block, re.M)]


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="lb-library-")
        make = ("make", "-s", "-C", BUILD, "install-libLTLIBRARIES", "install-includeHEADERS",
                "install-pkgconfigDATA", f"prefix={cls.dir}", f"exec_prefix={cls.dir}",
                f"libdir={cls.dir}/lib", f"includedir={cls.dir}/include")
        run(*make, MAKEFLAGS="")
        # A sanitized library wants a sanitized program.
        flags = re.search(r"^SANITIZER_CFLAGS = (.*)$", text(os.path.join(BUILD, "Makefile")), re.MULTILINE)
        cls.sanitizers = flags.group(1).split()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir, ignore_errors=True)

    def setUp(self):
        self.library = os.path.join(self.dir, "lib", "liblockbroker.so")

    def compile(self, compiler, *flags, source=EXAMPLE):
        pc = text(os.path.join(self.dir, "lib", "pkgconfig", "lockbroker.pc"))
        # The file that is installed there names the prefix that was configured.
        pc = re.sub(r"^(prefix|exec_prefix|libdir|includedir)=.*$", "", pc, flags=re.MULTILINE)
        config = os.path.join(self.dir, "pc")
        os.makedirs(config, exist_ok=True)
        with open(os.path.join(config, "lockbroker.pc"), "w", encoding="utf-8") as file:
            file.write(f"libdir={self.dir}/lib\nincludedir={self.dir}/include\n{pc}")
        asked = run("pkg-config", "--cflags", "--libs", "lockbroker", PKG_CONFIG_PATH=config).split()
        program = os.path.join(self.dir, f"hold-{compiler}")
        run(compiler, *flags, *STRICT, *self.sanitizers, "-o", program, source, *asked,
            f"-Wl,-rpath,{self.dir}/lib")
        return program

    def hold(self, compiler, *flags):
        program = self.compile(compiler, *flags)
        daemon = Daemon(self)
        command(self, daemon, "create", "db", "2")
        job = Job(self, daemon, "db", binary=program, stdin=subprocess.PIPE)
        job.wait_out("holding slot 1 of db\n")
        job.process.stdin.close()
        job.wait(0)
        self.assertTrue(job.out.endswith("released\n"))
        job = Job(self, daemon, "missing", binary=program)
        job.wait(1)
        self.assertEqual(job.err, "missing: the lock does not exist\n")
        job = Job(self, daemon, "db", "0", binary=program, stdin=subprocess.PIPE)
        job.wait_out("holding")
        daemon.kill()
        job.wait(2)
        job.process.stdin.close()
        self.assertIn("lost: closed", job.out)

    def test_the_example_in_c(self):
        self.hold("cc", "-std=c99", "-D_POSIX_C_SOURCE=200809L")

    def test_the_example_and_a_daemon_that_is_frozen(self):
        program = self.compile("cc", "-std=c99", "-D_POSIX_C_SOURCE=200809L")
        heartbeat = 3
        daemon = Daemon(self, "--heartbeat", str(heartbeat), "--margin", "1.5", expect=["warning: lost db "])
        command(self, daemon, "create", "db")
        job = Job(self, daemon, "db", binary=program, stdin=subprocess.PIPE)
        job.wait_out("holding slot 1 of db\n")
        daemon.freeze()
        began = time.monotonic()
        job.wait_out("lost: lease")
        # Two heartbeats after the last answer the broker may free the slot.
        self.assertLess(time.monotonic(), began + 2 * heartbeat)
        job.wait(2)
        job.process.stdin.close()
        daemon.thaw()

    def test_an_acquire_that_was_given_up_is_not_granted(self):
        """The program makes no other call: the daemon wakes, and finds the acquire withdrawn."""
        source = os.path.join(self.dir, "given-up.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(GIVEN_UP)
        program = self.compile("cc", "-std=c99", source=source)
        daemon = Daemon(self)
        job = Job(self, daemon, binary=program, stdin=subprocess.PIPE)
        job.wait_out("connected\n")
        daemon.freeze()
        job.process.stdin.write(b"\n")
        job.process.stdin.flush()
        job.wait_out("deadline\n")
        daemon.thaw()
        daemon.wait_log("requested m")
        Wire(daemon).call("acquire", name="m", kind="mutex", timeout=5)
        self.assertTrue(job.running())
        job.process.stdin.close()
        job.wait(0)

    def test_the_example_in_cpp(self):
        self.hold("c++", "-xc++", "-std=c++11")

    def test_the_header_alone(self):
        for compiler, flags in (("cc", ("-xc", "-std=c99")), ("cc", ("-xc", "-std=c11")),
                                ("c++", ("-xc++", "-std=c++98", "-Wno-long-long")), ("c++", ("-xc++", "-std=c++20"))):
            with self.subTest(flags=flags):
                run(compiler, *flags, *STRICT, "-fsyntax-only", "-include", HEADER, "/dev/null")

    def test_only_symbols_of_the_map_are_exported(self):
        shown = {line.split()[-1] for line in run("nm", "-D", "--defined-only", self.library).splitlines()}
        declared = set(re.findall(r"\b(lb_\w+)\(", re.sub(r"/\*.*?\*/", "", text(HEADER), flags=re.DOTALL)))
        self.assertEqual(shown, {f"{name}@@{version}" for name, version in named()} | {version for _, version in named()})
        self.assertEqual({name for name, _ in named()}, declared)

    def test_debian_lists_the_symbols_of_the_map(self):
        listed = re.findall(r"^ (lb_\w+)@(LOCKBROKER_[\d.]+) ", text(SYMBOLS), re.MULTILINE)
        self.assertEqual(sorted(listed), sorted(named()))

    def test_documents_and_examples(self):
        docs = os.path.join(self.dir, "doc")
        run("make", "-s", "-C", BUILD, "install-dist_docDATA", "install-dist_examplesDATA", "install-dist_examplesSCRIPTS",
            f"docdir={docs}", f"examplesdir={docs}/examples", MAKEFLAGS="")
        self.assertEqual({name for name in os.listdir(docs) if not name.endswith(".svg")},
                         {"COMPARE.md", "COPYING", "FENCING.md", "MATRIX.md", "NEWS.md", "OPERATIONS.md", "PERFORMANCE.md", "PROOF.md",
                          "PROTOCOL.md", "QUORUM.md", "SAFETY.md", "examples", "openrpc.json"})
        for name in "OPERATIONS.md", "PERFORMANCE.md":
            for linked in re.findall(r"\]\(([^)#:]+\.\w+)(?:#[^)]*)?\)", text(os.path.join(docs, name))):
                self.assertTrue(os.path.exists(os.path.join(docs, linked)), f"{name}: {linked}")
        self.assertLessEqual({"hold.c", "lockbroker_client.py", "lockbrokerd.conf"}, set(os.listdir(f"{docs}/examples")))

    def test_only_one_header_is_installed(self):
        self.assertEqual(os.listdir(os.path.join(self.dir, "include")), ["lockbroker.h"])


if __name__ == "__main__":
    tap.main()
