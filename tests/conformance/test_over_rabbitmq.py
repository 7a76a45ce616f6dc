"""Starts a RabbitMQ and runs the conformance suite over it, which says TAP. RABBITMQ_ROOT chooses the version."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))

import rabbit  # noqa: E402

PROGRAM = os.path.join(os.environ.get("top_builddir", "."), "tests", "conformance", "test_conformance")


def main():
    with rabbit.Rabbit.lease() as node:
        # The status is in the TAP that the program says; another one would be counted twice.
        status = subprocess.run([PROGRAM, "rabbitmq"], env=dict(os.environ, **node.variables()), check=False)
        if status.returncode < 0:
            print(f"Bail out! {PROGRAM} was ended by signal {-status.returncode}")


if __name__ == "__main__":
    main()
