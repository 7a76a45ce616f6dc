"""Waits until a condition is true, with a deadline. Tests use it instead of a sleep.

Only a wait that fails takes PATIENCE, so a busy machine does not fail a test. To wait for something that must not happen
is wrong: let something happen that comes after it.
"""

import time

PATIENCE = 60.0


def wait_until(predicate, within=PATIENCE, what=None):
    """Calls predicate until it returns something true, and returns that. AssertionError after
    `within` seconds; `what` says what was waited for."""
    end = time.monotonic() + within
    pause = 0.001
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() >= end:
            raise AssertionError(f"not within {within} s: {what or predicate}")
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
