"""Waits until a condition is true, with a deadline. Tests use it instead of a sleep."""

import time


def wait_until(predicate, within=5.0, what=None):
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
