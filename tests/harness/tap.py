"""Runs unittest cases and prints TAP 13 for automake's tap-driver: one test point for each method.

	import tap
	class Grant(unittest.TestCase):
		deadline = 240		# seconds for each test; 120 by default
		def test_x(self): ...
	if __name__ == "__main__":
		tap.main()

The output of a test becomes diagnostic lines. The plan comes last. If a program dies, there is no plan, and the driver
reports that. The exit status is 1 if a test failed. With HARNESS_ACTIVE in the environment it is 0, because the driver
counts any other status as one more failure: it counts failed tests by itself. A word on the command line selects the
tests that have it in their names.
"""

import faulthandler
import os
import signal
import sys
import time
import traceback
import unittest

DEADLINE = 120.0


class DeadlinePassed(AssertionError):
    """The test took longer than its `deadline`."""


class Diagnostics:
    """Stands in for sys.stdout: whole lines go out with "# " in front."""

    def __init__(self, stream):
        self.stream = stream
        self.rest = ""

    def write(self, text):
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            self.stream.write("# " + line + "\n")
        return len(text)

    def flush(self):
        if self.rest:
            self.write("\n")
        self.stream.flush()


class TapResult(unittest.TestResult):
    def __init__(self, stream):
        super().__init__()
        self.stream = stream
        self.points = 0
        self.problems = []
        self.skipped_because = None
        self.failed = 0
        self.began = 0.0

    def startTest(self, test):
        super().startTest(test)
        self.problems = []
        self.skipped_because = None
        self.began = time.monotonic()
        seconds = float(getattr(test, "deadline", DEADLINE))
        # The alarm repeats, so that a cleanup that hangs as well ends too.
        signal.setitimer(signal.ITIMER_REAL, seconds, 15)
        faulthandler.dump_traceback_later(seconds + 60, exit=True)

    def stopTest(self, test):
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        self.point(test)
        super().stopTest(test)

    def point(self, test):
        sys.stdout.flush()
        self.points += 1
        for problem in self.problems:
            for line in problem.rstrip().split("\n"):
                self.stream.write("# " + line + "\n")
        verdict = "not ok" if self.problems else "ok"
        self.failed += bool(self.problems)
        name = test.id().removeprefix("__main__.").replace("#", "_")
        tail = ""
        if self.skipped_because is not None and not self.problems:
            tail = " # SKIP " + self.skipped_because
        self.stream.write(f"{verdict} {self.points} - {name}{tail}\n")
        if self.began:
            self.stream.write(f"# {time.monotonic() - self.began:.2f} s\n")
        self.stream.flush()

    def note(self, test, err):
        self.problems.append("".join(traceback.format_exception(*err)))
        if not isinstance(test, unittest.TestCase):
            # setUpClass or tearDownClass: no test is running, so it is a point of its own.
            self.began = 0.0
            self.point(test)
            self.problems = []

    def addError(self, test, err):
        self.note(test, err)

    def addFailure(self, test, err):
        self.note(test, err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.problems.append(f"in {subtest}:")
            self.note(test, err)

    def addSkip(self, test, reason):
        self.skipped_because = reason

    def addUnexpectedSuccess(self, test):
        self.problems.append("passed, though it is marked as an expected failure")


def alarmed(_signo, _frame):
    raise DeadlinePassed("the test's deadline passed")


def picked(suite, words):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from picked(item, words)
        elif not words or any(word in item.id() for word in words):
            yield item


def hear_signals():
    """A shell without job control starts background jobs with SIGINT and SIGQUIT ignored, and nohup does so with
    SIGHUP. The programs of a test would inherit that."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def main():
    stream = sys.stdout
    hear_signals()
    signal.signal(signal.SIGALRM, alarmed)
    sys.stdout = Diagnostics(stream)
    stream.write("TAP version 13\n")
    result = TapResult(stream)
    suite = unittest.TestLoader().loadTestsFromModule(sys.modules["__main__"])
    unittest.TestSuite(picked(suite, sys.argv[1:])).run(result)
    sys.stdout.flush()
    stream.write(f"1..{result.points}\n")
    stream.flush()
    sys.exit(1 if result.failed and "HARNESS_ACTIVE" not in os.environ else 0)
