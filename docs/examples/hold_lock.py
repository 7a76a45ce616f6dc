#!/usr/bin/python3
"""Does a job in steps while it holds a slot of a semaphore: hold_lock.py NAME [SECONDS]

It waits up to SECONDS for the slot (60 if they are not given). Before each step it checks that it still holds the slot.
"""

import sys

import lockbroker


def step(number: int, lock: lockbroker.Lock) -> None:
    print(f"step {number} with slot {lock.slot}", flush=True)


def main(name: str, seconds: float) -> int:
    try:
        with lockbroker.Client() as client, client.acquire(name, timeout=seconds, why="an example") as lock:
            for number in range(1, 4):
                lock.check()
                step(number, lock)
    except lockbroker.Busy as error:
        print(f"{name}: {error}: try again later", file=sys.stderr)
        return 75
    except lockbroker.Lost as error:
        print(f"{error}: another process may have the slot now", file=sys.stderr)
        return 79
    except lockbroker.Error as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 69
    return 0


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit("usage: hold_lock.py NAME [SECONDS]")
    sys.exit(main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 60.0))
