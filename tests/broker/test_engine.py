"""Starts a RabbitMQ and runs the C tests of the lock engine over it against it; they say TAP."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))

import rabbit  # noqa: E402

PROGRAM = os.path.join(os.environ.get("top_builddir", "."), "tests", "broker", "test_engine")


def main():
    with rabbit.Rabbit.lease(shared=True) as node:
        # The status is in the TAP that the program says; another one would be counted twice.
        status = subprocess.run([PROGRAM], env=dict(os.environ, **node.variables()), check=False)
        if status.returncode < 0:
            print(f"Bail out! {PROGRAM} was ended by signal {-status.returncode}")


if __name__ == "__main__":
    main()
