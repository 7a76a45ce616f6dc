"""The documents that name tests name tests that there are: `file: test, test`, and faults in brackets."""

import os
import re
import unittest

import tap
from tree import ROOT, text

DOCUMENTS = ("docs/SAFETY.md", "docs/SEEDS.md")
NAMED = re.compile(r"\b((?:test|fuzz|bench)_\w+\.(?:c|py))\b(?::((?: \w+,?)+))?")


def tests():
    """{file name: its text}, of all tests."""
    found = {}
    for folder, _, files in os.walk(os.path.join(ROOT, "tests")):
        for name in files:
            if name.endswith((".c", ".py")):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    found[name] = file.read()
    return found


class Documents(unittest.TestCase):
    def test_name_existing_tests(self):
        sources, wrong = tests(), []
        for document in DOCUMENTS:
            for line in text(document).split("\n"):
                for file, names in NAMED.findall(line):
                    wanted = [name for name in re.findall(r"\w+", names) if "_" in name]
                    wrong += [f"{document}: {file}: {name}" for name in [None, *wanted]
                              if file not in sources
                              or name and not re.search(rf"\b{name}\b", sources[file])]
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_name_existing_faults(self):
        faults = set(re.findall(r"X\(([A-Z_0-9]+),", text("daemon/base/fault.h")))
        wrong = [f"{document}: {name}" for document in DOCUMENTS
                 for listed in re.findall(r"\b[Ss]im \(([^)]*)\)", text(document))
                 for name in re.findall(r"\b[A-Z][A-Z_0-9]{3,}\b", listed) if name not in faults]
        self.assertFalse(wrong, "\n" + "\n".join(wrong))


if __name__ == "__main__":
    tap.main()
