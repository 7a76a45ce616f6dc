#!/usr/bin/env python3
"""Runs ./quickstart and ./check on each Debian of the matrix, and prints a table of tests passed.

    matrix.py [--folder DIR] [NAME...]       # some rows: bookworm trixie khepri quorum sid

The files of this tree that git has, or would add, are copied into a root of the suite (root.py). There the commands
install the packages that they need, which stay in the root. The rows khepri, quorum and sid run only the tests over
RabbitMQ, on Debian 13. They have metadata in Khepri, default_queue_type = quorum, and the RabbitMQ of sid.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import root as roots

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ALL = "./quickstart </dev/null && ./check --all"
BROKER = "./check all_packages autoreconf configure build broker"
# name: suite, the suite that RabbitMQ comes from, the commands, two columns of the table
ROWS = {
    "bookworm": ("bookworm", "bookworm", ALL, "Mnesia", "./quickstart, ./check"),
    "trixie": ("trixie", "trixie", ALL, "Mnesia", "./quickstart, ./check"),
    "khepri": ("trixie", "trixie", f"RABBITMQ_KHEPRI=1 {BROKER}", "Khepri", "over RabbitMQ only"),
    "quorum": ("trixie", "trixie", f"RABBITMQ_QUEUE_TYPE=quorum {BROKER}", "Mnesia", "over RabbitMQ, `default_queue_type = quorum`"),
    "sid": ("trixie", "sid", f"RABBITMQ_ROOT=/tmp/rabbitmq {BROKER}", "its default", "over RabbitMQ only"),
}
HEAD = ("Debian", "RabbitMQ", "metadata", "tests", "passed", "failed", "skipped")


def said(root, *command):
    """The output of a command that runs inside."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out:
        if roots.enter(root, command, stdout=out) != 0:
            raise roots.RootError(f"{' '.join(command)} failed in {root}")
        out.seek(0)
        return out.read().strip()


def copy_tree(to):
    names = roots.run("git", "-C", TREE, "ls-files", "-z", "-co", "--exclude-standard", stdout=subprocess.PIPE)
    for name in filter(None, names.split("\0")):
        if os.path.lexists(os.path.join(TREE, name)):  # it may be deleted, and not in git yet
            os.makedirs(os.path.dirname(os.path.join(to, name)), exist_ok=True)
            shutil.copy2(os.path.join(TREE, name), os.path.join(to, name), follow_symlinks=False)


def run_row(name, folder, fresh):
    """One line of the table; fresh: the trees that were copied already, one for each suite."""
    suite, rabbit_suite, command, metadata, what = ROWS[name]
    root, rabbit_root = roots.make(folder, suite), roots.make(folder, rabbit_suite)
    tree = os.path.join(folder, f"{suite}.tree")
    log_path = os.path.join(folder, f"{name}.log")
    if suite not in fresh:
        shutil.rmtree(tree, ignore_errors=True)
        copy_tree(tree)
        fresh.add(suite)
    began = time.monotonic()
    with open(log_path, "w+", encoding="utf-8", errors="replace") as log:
        status = roots.enter(root, ["sh", "-c", f"cd /tmp/tree && {command}"],
                             [(tree, "/tmp/tree"), (rabbit_root, "/tmp/rabbitmq")],
                             stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        log.seek(0)
        text = log.read()
    counts = re.search(r"^(\d+) passed, (\d+) failed$", text, re.MULTILINE)
    skipped = re.search(r"^(\d+) skipped$", text, re.MULTILINE)
    passed, failed = counts.groups() if counts else ("none", f"status {status}")
    print(f"{name}: {passed} passed, {failed} failed, {time.monotonic() - began:.0f} s, {log_path}", file=sys.stderr)
    version = said(rabbit_root, "dpkg-query", "-W", "-f", "${Version}", "rabbitmq-server").partition("-")[0]
    debian = said(root, "cat", "/etc/debian_version").partition(".")[0]
    return status == 0, (debian, version, metadata, what, passed, failed, skipped[1] if skipped else "0")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default=roots.FOLDER)
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(ROWS))
    options = parser.parse_args()
    if unknown := set(options.names) - set(ROWS):
        parser.error(f"no row {' '.join(unknown)}")
    roots.hear_term()
    fresh = set()
    results = [run_row(name, options.folder, fresh) for name in options.names]
    for cells in (HEAD, ["---"] * len(HEAD), *[cells for _, cells in results]):
        print("|", " | ".join(cells), "|")
    return 0 if all(green for green, _ in results) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except roots.RootError as e:
        sys.exit(f"matrix.py: {e}")
