"""The programs of version 0.1.0, built from the repository's history.

OLD: the folder of a build, as build() leaves it. Without it, the build tree gets one, once, which takes a minute.
"""

import fcntl
import os
import shutil
import subprocess
import unittest

from daemon import BUILD

COMMIT = "82fb7756"
SOURCE = os.path.abspath(os.environ.get("top_srcdir", "."))
WANTED = ("lockbrokerd", "lockbroker", "liblockbroker.la")


def has_history():
    """Whether this is a clone that has the commit."""
    found = subprocess.run(["git", "-C", SOURCE, "cat-file", "-e", COMMIT + "^{commit}"], check=False,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return found.returncode == 0


def make(folder):
    archive = subprocess.run(["git", "-C", SOURCE, "archive", COMMIT], check=True, stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", folder], check=True, input=archive.stdout)
    for command in (["autoreconf", "-fi"], ["./configure", "-q", "CFLAGS=-O1"],
                    ["make", "-s", f"-j{os.cpu_count()}", *WANTED]):
        done = subprocess.run(command, cwd=folder, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: {done.stdout.decode(errors='replace')[-3000:]}")


def build():
    """The folder with the programs. Skips the test if the history is not there."""
    given = os.environ.get("OLD")
    if given:
        return given
    if not shutil.which("git") or not has_history():
        raise unittest.SkipTest(f"this is no clone with the commit {COMMIT}")
    folder = os.path.join(os.path.abspath(BUILD), f"old-{COMMIT}")
    with open(folder + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(os.path.join(folder, "built")):
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            make(folder)
            with open(os.path.join(folder, "built"), "w", encoding="ascii"):
                pass
    return folder
