"""Runs tests in C with each planted fault of UNIT_FAULTS (daemon/base/fault.h), one at a time: a test must fail.

`unit_faults.py [FAULT]...` runs all, or some. The programs are NAME-faults in the build folder. Without a fault,
each of them must succeed. Prints TAP.
"""

import concurrent.futures
import os
import re
import subprocess
import sys

BUILD = os.environ.get("top_builddir", ".")
SOURCE = os.environ.get("top_srcdir", ".")
ROW = re.compile(r'X\((\w+), "(\w+(?:/\w+)?)",\s*"((?:[^"\\]|\\.)*)"\)')
SECONDS_MOST = 300


def rows():
    with open(os.path.join(SOURCE, "daemon/base/fault.h"), encoding="utf-8") as file:
        return ROW.findall(file.read().partition("#define UNIT_FAULTS(X)")[2].replace("\\\n", "\n"))


def run(where, fault=None):
    """(whether it is as it must be, the names of failed tests or what is wrong). where: a program, or one case of it."""
    program, _, case = where.partition("/")
    # With a fault a test may hang, which finds it. Without one, a busy machine must not end a test.
    environment = {**os.environ, "CK_FORK": "yes", "CK_DEFAULT_TIMEOUT": "240" if fault is None else "20"}
    environment.pop("FAULT", None)
    if case:
        environment["CK_RUN_CASE"] = case
    if fault is not None:
        environment["FAULT"] = fault
    try:
        done = subprocess.run([os.path.join(BUILD, "tests/unit", program + "-faults")], env=environment, text=True,
                              timeout=SECONDS_MOST, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, errors="replace")
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    passed = len(re.findall(r"^ok ", done.stdout, re.MULTILINE))
    failed = re.findall(r"^not ok \d+ - [^:]*:[^:]*:(\w+)", done.stdout, re.MULTILINE)
    if fault is None:
        return done.returncode == 0 and passed > 0 and not failed, f"status {done.returncode}: {' '.join(failed)}"
    if done.returncode == 1 and failed:
        return True, f"{where}: {failed[0]}" + (f", and {len(failed) - 1} more" if failed[1:] else "")
    return False, f"{where}: not found, status {done.returncode}"


def main(wanted):
    planted = [row for row in rows() if not wanted or row[0] in wanted]
    tests = [(f"{where} without a fault", where, None) for where in sorted({where for _, where, _ in planted})]
    tests += [(words, where, name) for name, where, words in planted]
    found = 0
    # With some mistakes, tests wait more than they work.
    with concurrent.futures.ThreadPoolExecutor(2 * os.cpu_count()) as pool:
        results = pool.map(lambda test: run(*test[1:]), tests)
        for number, (test, (good, words)) in enumerate(zip(tests, results), 1):
            print(f"{'ok' if good else 'not ok'} {number} - {test[0]}")
            if test[2] is not None or not good:
                print(f"# {words}", flush=True)
            found += good
    print(f"1..{len(tests)}")
    print(f"# unit-faults: {found} of {len(tests)}")
    return 0 if planted and found == len(tests) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
