"""The manuals: in good mdoc, and with every key."""

import os
import re
import subprocess
import unittest
from pathlib import Path

import tap

SOURCE = Path(os.environ["top_srcdir"])
BUILT = Path(os.environ["top_builddir"])


def pages():
    found = {}
    for folder in SOURCE / "man", BUILT / "man":
        for page in folder.glob("*.[1-8]"):
            found[page.name] = page
    return found


def keys():
    """The names in the table, read from its source."""
    text = (SOURCE / "daemon/config/keys.c").read_text()
    return re.findall(r'^\t\{"([a-z-]+)", KEY_', text, re.M)


def rendered(page):
    done = subprocess.run(["mandoc", "-T", "utf8", "-O", "width=100", str(page)],
                          stdout=subprocess.PIPE, text=True, check=True)
    return re.sub(".\b", "", done.stdout)


class Manuals(unittest.TestCase):
    def test_there_are_some(self):
        self.assertLessEqual({"lockbrokerd.8", "lockbrokerd.conf.5"}, set(pages()))

    def test_lint(self):
        for name, page in pages().items():
            done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", str(page)],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            with self.subTest(page=name):
                self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_every_key(self):
        self.assertGreater(len(keys()), 20)
        conf = rendered(pages()["lockbrokerd.conf.5"])
        daemon = rendered(pages()["lockbrokerd.8"])
        for key in keys():
            self.assertRegex(conf, rf"(?m)^\s+{key} = \S+$")
            self.assertRegex(daemon, rf"(?m)^\s+--{key} \S+")

    def test_nothing_is_left_to_substitute(self):
        for name, page in pages().items():
            self.assertNotRegex(page.read_text(), r"@[A-Z]+@", name)

    def test_the_example_is_the_best_of_files(self):
        """Each key of the example exists."""
        text = (SOURCE / "man/lockbrokerd.conf.5.in").read_text()
        example = text.split(".Sh EXAMPLES")[1].split(".Ed")[0]
        used = re.findall(r"(?m)^([a-z-]+) = ", example)
        self.assertLessEqual(set(used) - {"rule"}, set(keys()))
        self.assertIn("rule", used)


if __name__ == "__main__":
    tap.main()
