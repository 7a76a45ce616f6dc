"""The C sources are as .clang-format says; scripts and Python at least make sense."""

import ast
import os
import re
import shutil
import subprocess
import sys
import unittest

import tap
from tree import ROOT, sources, text

# The one program that is there for its library.
ELSEWHERE = {"tests/interop/pika_client.py": ("pika",),
             "tests/prove/adapters/pika_service.py": ("pika",),
             "tests/prove/adapters/seeds002.py": ("pika",),
             "tests/cli/screen.py": ("pyte",),
             "tests/cli/test_metrics.py": ("prometheus_client",),
             "tests/web/test_browser.py": ("selenium",)}
SCRIPTS = ("quickstart", "check", ".ci/run", "build-aux/packages.sh")


class Format(unittest.TestCase):
    deadline = 120

    def run_tool(self, *argv):
        if shutil.which(argv[0]) is None:
            self.skipTest(f"no {argv[0]} here")
        return subprocess.run(argv, cwd=ROOT, stdin=subprocess.DEVNULL, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def test_clang_format(self):
        self.assertTrue(os.path.exists(os.path.join(ROOT, ".clang-format")))
        # Each version breaks some lines elsewhere.
        version = self.run_tool("clang-format", "--version").stdout.strip()
        if "version 14." not in version:
            self.skipTest(f"the format is clang-format 14's, and here is {version}")
        done = self.run_tool("clang-format", "--dry-run", "-Werror", "--style=file",
                             *sources(".c", ".h"))
        wrong = sorted(set(re.findall(r"^([^:\s]+):\d+:", done.stdout, re.MULTILINE)))
        self.assertFalse(wrong, "clang-format -i " + " ".join(wrong))
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_shellcheck(self):
        done = self.run_tool("shellcheck", "-x", "-s", "bash", "-S", "warning", *SCRIPTS)
        self.assertEqual(done.returncode, 0, "\n" + done.stdout)

    def test_python_is_python_and_uses_only_its_standard_library(self):
        allowed = set(sys.stdlib_module_names)
        paths = sources(".py", rooms=("tests", "client"))
        allowed |= {os.path.basename(path)[:-3] for path in paths}
        allowed |= {os.path.basename(os.path.dirname(path)) for path in paths if path.endswith("__init__.py")}
        wrong = []
        for path in paths:
            for node in ast.walk(ast.parse(text(path), path)):
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and node.level == 0:
                    names = [node.module]
                else:
                    continue
                wrong += [f"{path} imports {name}" for name in names
                          if name.partition(".")[0] not in allowed
                          and name.partition(".")[0] not in ELSEWHERE.get(path, ())]
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_no_trailing_space(self):
        wrong = [f"{path}:{number}" for path in sources(".c", ".h", ".py", ".md", ".json", ".am", ".js", ".css", ".html")
                 for number, line in enumerate(text(path).split("\n"), 1)
                 if line != line.rstrip()]
        self.assertFalse(wrong, "\n" + "\n".join(wrong))


if __name__ == "__main__":
    tap.main()
