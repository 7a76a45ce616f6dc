#!/usr/bin/python3
"""Does parts of a job at once, no more of them than a semaphore has slots on all hosts: hold_lock_asyncio.py NAME PARTS

If a slot is lost, only its part is cancelled.
"""

import asyncio
import sys

import lockbroker


async def part(client: lockbroker.AsyncClient, name: str, number: int) -> None:
    try:
        async with client.acquire(name, why=f"part {number}") as lock:
            print(f"part {number} with slot {lock.slot}", flush=True)
            await asyncio.sleep(0.01)  # the work
    except lockbroker.Lost as error:
        print(f"part {number}: {error}", file=sys.stderr)


async def main(name: str, parts: int) -> None:
    async with lockbroker.AsyncClient() as client:
        await asyncio.gather(*(part(client, name, number) for number in range(1, parts + 1)))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: hold_lock_asyncio.py NAME PARTS")
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
