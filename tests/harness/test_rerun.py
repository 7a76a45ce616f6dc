"""A failed test is run once more, and its result changes if it passes then."""

import contextlib
import io
import os
import shutil
import tempfile
import unittest
from unittest import mock

import rerun
import tap
from daemon import UNEXPECTED

# Passes if there is a file beside it with the name of the test.
PROGRAM = """
import os, unittest, tap
class Case(unittest.TestCase):
    def test_a(self): self.assertTrue(os.path.exists(os.path.dirname(__file__) + "/a"))
    def test_b(self): self.assertTrue(os.path.exists(os.path.dirname(__file__) + "/b"))
    def test_c(self): pass
tap.main()
"""


class Again(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="lb-rerun-")
        self.addCleanup(shutil.rmtree, self.dir)
        os.makedirs(self.path("tests/cli"))
        os.makedirs(self.path("tests/unit"))
        self.program = "tests/cli/test_x.py"
        self.write(self.program, PROGRAM)

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text=""):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def results(self, said="# AssertionError: late\n", program="tests/cli/test_x", suffix=".py", **verdicts):
        """The files that automake leaves of a program."""
        log = "".join(f"{said if verdict == 'FAIL' else ''}{verdict}: {program}{suffix} {number} - Case.test_{name}\n"
                      for number, (name, verdict) in enumerate(verdicts.items(), 1))
        trs = "".join(f":test-result: {verdict}\n" for verdict in verdicts.values())
        self.write(program + ".log", log)
        self.write(program + ".trs", f":global-test-result: FAIL\n:recheck: yes\n{trs}")

    def run_again(self, is_busy=True):
        """The exit status and the output."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said), mock.patch.object(rerun, "is_busy", lambda: is_busy):
            status = rerun.main(self.dir, self.dir)
        return status, said.getvalue()

    def test_one_that_passes_now_is_flaky(self):
        self.results(c="PASS", a="FAIL")
        self.write("tests/cli/a")
        self.assertEqual(self.run_again(), (0, f"FLAKY {self.program} Case.test_a\n"))
        self.assertEqual(self.read("tests/cli/test_x.trs"),
                         ":global-test-result: PASS\n:recheck: yes\n:test-result: PASS\n:test-result: PASS\n")
        self.assertIn("ok 1 - Case.test_a", self.read("tests/cli/test_x.log"))

    def test_one_that_fails_again_stays(self):
        self.results(a="FAIL", c="SKIP", b="FAIL")
        self.write("tests/cli/b")
        self.assertEqual(self.run_again(), (1, f"FLAKY {self.program} Case.test_b\n"))
        self.assertEqual(self.read("tests/cli/test_x.trs"), ":global-test-result: FAIL\n:recheck: yes\n"
                         ":test-result: FAIL\n:test-result: SKIP\n:test-result: PASS\n")

    def stays(self, words="", is_busy=True):
        before = self.read("tests/cli/test_x.trs")
        for name in "ab":
            self.write("tests/cli/" + name)
        status, said = self.run_again(is_busy)
        self.assertEqual(status, 1)
        self.assertIn(words, said)
        self.assertNotIn("FLAKY", said)
        self.assertEqual(self.read("tests/cli/test_x.trs"), before)

    def test_reports_and_unexpected_lines_stay(self):
        for said in ("==1==ERROR: AddressSanitizer: heap-use-after-free", "a.c:3:1: runtime error: x",
                     "a.c:3: f: Assertion `x' failed.", UNEXPECTED):
            self.results(f"# {said}\n", a="FAIL")
            self.stays()

    def test_more_than_two_stay(self):
        self.results(a="FAIL", b="FAIL", c="FAIL")
        self.stays("3 tests failed")

    def test_without_other_load_all_stay(self):
        self.results(a="FAIL")
        self.stays("no other process", is_busy=False)

    def test_a_program_that_died_stays(self):
        self.results(a="ERROR")
        self.stays()

    def test_unit_tests_stay(self):
        self.results(c="PASS")
        self.results(program="tests/unit/test_y", suffix="", a="FAIL")
        self.stays()

    def test_a_failure_that_is_no_test_s_stays(self):
        self.results(c="PASS")
        self.assertEqual(self.run_again(), (1, ""))


if __name__ == "__main__":
    tap.main()
