"""client/python for asyncio, against a daemon."""

import asyncio
import logging
import os
import sys
import unittest
import unittest.mock

import tap
from daemon import Daemon
from openrpc import SOURCE
from wire import Wire

sys.path.insert(0, os.path.join(SOURCE, "tests", "cli"))
sys.path.insert(0, os.path.join(SOURCE, "client", "python"))
import fake  # noqa: E402
import lockbroker  # noqa: E402
from lockbroker import _core  # noqa: E402

# The tests run in debug mode, which also reports slow steps.
logging.getLogger("asyncio").setLevel(logging.ERROR)
LOST = ["warning: lost ", "the stop timeout has passed"]
GRANT = {"lock": "f-1", "name": "db", "kind": "semaphore", "slot": 1, "waited": 0.0, "safe_for": 1000,
         "safe_until": 4e9, "lease": {"heartbeat": 10, "margin": 2}}


async def until(predicate, within=60.0):
    """As wait_until(), but the loop runs meanwhile."""
    async with asyncio.timeout(within):
        while not predicate():
            await asyncio.sleep(0.002)


class Asyncio(unittest.IsolatedAsyncioTestCase):
    def start(self, *options):
        self.daemon = Daemon(self, "--stop-timeout", "0.5", *options, expect=LOST)
        self.wire = Wire(self.daemon)
        self.wire.call("create", name="db", slots=2)

    async def asyncSetUp(self):
        self.start()
        self.client = await self.connect()

    async def connect(self, **more):
        client = await lockbroker.AsyncClient(self.daemon.socket, **more).connect()
        self.addAsyncCleanup(client.close)
        return client

    def counts(self):
        return self.wire.call("info")["counts"]

    async def wait_counts(self, **wanted):
        await until(lambda: self.counts().items() >= wanted.items())

    async def full(self):
        """Two locks: every slot is busy."""
        return [await self.client.acquire("db") for _ in range(2)]

    # ---- the way of a lock ----

    async def test_the_block_of_the_documentation(self):
        with unittest.mock.patch.dict(os.environ, LOCKBROKER_SOCKET=self.daemon.socket):
            async with lockbroker.AsyncClient() as client:
                async with client.acquire("db", timeout=5) as lock:
                    await lock.verify()
                    self.assertEqual((lock.slot, lock.held, client.closed), (1, True, False))
                self.assertFalse(lock.held)
                self.assertEqual(await client.size("db"), 2)
                self.assertEqual((await client.resize("db", add=1))["slots"], 3)
        self.assertTrue(client.closed)
        with self.assertRaises(lockbroker.Closed):
            await client.ping()
        with self.assertRaises(lockbroker.Closed):
            await lockbroker.AsyncClient().ping()
        with self.assertRaises(lockbroker.NoDaemon):
            await lockbroker.AsyncClient(self.daemon.dir + "/none").connect()
        with self.assertRaises(RuntimeError):
            await self.client.connect()

    async def test_errors_and_blocks_that_fail(self):
        with self.assertRaises(ZeroDivisionError):
            async with self.client.acquire("db"):
                raise ZeroDivisionError
        async with self.client.acquire("db") as lock:
            await lock.release()
        await self.full()
        with self.assertRaises(lockbroker.WouldBlock):
            await self.client.acquire("db", timeout=0)
        with self.assertRaises(lockbroker.Timeout):
            async with self.client.acquire("db", timeout=0.01):
                self.fail("it was not acquired")
        with self.assertRaises(ValueError):
            await self.client.acquire("x" * 70000)
        self.assertEqual(self.counts()["holds"], 2)

    async def test_progress_and_revoked(self):
        heard, progress, revoked = [], [], []
        client = await self.connect(on_notification=lambda *said: heard.append(said))
        locks = await self.full()
        waiting = asyncio.ensure_future(client.acquire("db", on_progress=lambda *said: progress.append(said),
                                                       on_revoked=revoked.append))
        await until(lambda: progress == [(1, 2)])
        await locks[1].release()
        async with await waiting as lock:
            await client.resize("db", 1)
            await until(lambda: revoked == [lock])
            with self.assertRaises(lockbroker.Revoked):
                await lock.verify()
        self.assertEqual([method for method, _ in heard], ["waiting", "revoked"])

    async def test_a_thousand_tasks(self):
        inside, rounds = set(), []

        async def work():
            async with self.client.acquire("db") as lock:
                self.assertNotIn(lock.slot, inside)
                inside.add(lock.slot)
                await asyncio.sleep(0)
                lock.check()
                inside.remove(lock.slot)
                rounds.append(lock.slot)
        await asyncio.gather(*(work() for _ in range(1000)))
        self.assertEqual((len(rounds), set(rounds)), (1000, {1, 2}))
        self.assertEqual(self.counts()["holds"], 0)

    # ---- cancellation ----

    async def test_a_cancelled_task_cancels_its_acquire(self):
        locks = await self.full()
        task = asyncio.ensure_future(self.client.acquire("db"))
        await self.wait_counts(waiting=1)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        await self.wait_counts(waiting=0)
        with self.assertRaises(TimeoutError):
            async with asyncio.timeout(0.01):
                await self.client.acquire("db")
        for lock in locks:
            await lock.release()
        await self.wait_counts(holds=0, waiting=0)

    async def test_no_moment_of_a_cancellation_leaves_a_lock(self):
        """The task is cancelled after each number of steps of the loop, before and behind the grant."""
        for steps in range(60):
            task = asyncio.ensure_future(self.client.acquire("db"))
            for _ in range(steps):
                await asyncio.sleep(0)
            if not task.cancel():
                await task.result().release()
        outcomes = [asyncio.ensure_future(self.client.acquire("db")) for _ in range(300)]
        for number, task in enumerate(outcomes):
            if number % 3:
                await asyncio.sleep(0)
                task.cancel()
        for task in outcomes:
            try:
                await (await task).release()
            except asyncio.CancelledError:
                pass
        await self.wait_counts(holds=0, waiting=0)

    async def test_a_grant_that_comes_after_the_cancel_is_released(self):
        daemon = fake.Fake(self, acquire=None, cancel={"cancelled": False}, release={"lock": "f-1"})
        async with lockbroker.AsyncClient(daemon.socket) as client:
            task = asyncio.ensure_future(client.acquire("db"))
            await until(lambda: daemon.asked("acquire"))
            task.cancel()
            await until(lambda: daemon.asked("cancel"))
            daemon.say(fake.reply(daemon.asked("acquire")[0], result=GRANT))
            await until(lambda: daemon.asked("release"))
            self.assertEqual(daemon.asked("release")[0]["params"], {"lock": "f-1"})

    async def test_an_acquire_that_is_not_answered_is_given_up(self):
        daemon = fake.Fake(self, acquire=None, cancel={"cancelled": True})
        async with lockbroker.AsyncClient(daemon.socket) as client:
            with unittest.mock.patch.object(lockbroker._calls, "GRACE", 0.0):
                with self.assertRaises(lockbroker.NoAnswer):
                    await client.acquire("db", timeout=0.01)
            await until(lambda: daemon.asked("cancel"))

    async def test_a_task_that_is_cancelled_in_the_block_releases(self):
        inside = asyncio.Event()

        async def work():
            async with self.client.acquire("db"):
                inside.set()
                await asyncio.Event().wait()
        task = asyncio.create_task(work())
        await inside.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertEqual(self.counts()["holds"], 0)

    # ---- loss ----

    async def lose(self, lose, cause):
        """A task works in a block without an end, until the lock is lost."""
        lost, inside = [], asyncio.Event()

        async def work():
            async with self.client.acquire("db", on_lost=lost.append):
                inside.set()
                await asyncio.Event().wait()
        task = asyncio.create_task(work())
        await inside.wait()
        lose()
        with self.assertRaises(lockbroker.Lost) as caught:
            await task
        self.assertEqual((caught.exception.cause, task.cancelling()), (cause, 0))
        self.assertEqual([lock.held for lock in lost], [False])
        return lost[0]

    async def test_a_killed_daemon_cancels_the_block(self):
        await self.lose(self.daemon.kill, "closed")
        self.assertTrue(self.client.closed)
        with self.assertRaises(lockbroker.Closed):
            await self.client.acquire("db")

    async def test_a_frozen_daemon_cancels_the_block_when_safe_until_passes(self):
        self.start("--heartbeat", "3", "--margin", "1.5")
        self.client = await self.connect()
        async with self.client.acquire("db") as lock:
            first = lock.safe_until
            await until(lambda: lock.safe_until > first)
        lock = await self.lose(self.daemon.freeze, "lease")
        self.assertGreaterEqual(_core.now(), lock.safe_until)
        self.daemon.thaw()
        await self.wait_counts(holds=0)

    async def test_a_lock_that_only_this_side_lost_is_given_back(self):
        daemon = fake.Fake(self, acquire=GRANT | {"safe_until": _core.now() + 3}, release={"lock": "f-1"})
        async with lockbroker.AsyncClient(daemon.socket) as client:
            with self.assertRaises(lockbroker.Lost):
                async with client.acquire("db"):
                    try:
                        await asyncio.Event().wait()
                    finally:
                        # The holder may still work under it.
                        self.assertEqual(daemon.asked("release"), [])
            await until(lambda: daemon.asked("release"))

    async def test_a_loop_that_does_not_run_sees_the_end_by_check(self):
        self.start("--heartbeat", "3", "--margin", "1.5")
        client = await self.connect()
        lost = []
        lock = await client.acquire("db", on_lost=lost.append)
        self.daemon.freeze()
        while _core.now() < lock.safe_until:
            pass  # a coroutine that computes
        self.assertFalse(lock.held)
        self.assertEqual(lost, [])
        await until(lambda: lost == [lock])
        self.daemon.thaw()

    async def test_a_lease_that_lies_unread_is_read_before_a_loss(self):
        lock = await self.client.acquire("db")
        until, link = lock.safe_until, self.client._link
        daemon_said = {"jsonrpc": "2.0", "method": "lease", "params": {"safe_until": until}}
        with unittest.mock.patch.object(link, "_read", lambda: link.core._take(daemon_said)):
            lock.safe_until = _core.now()
            lock.check()
        self.assertEqual(lock.safe_until, until)

    async def test_a_cancellation_from_outside_stays_one_though_the_lock_is_lost(self):
        inside = asyncio.Event()

        async def work():
            async with self.client.acquire("db", on_lost=lambda lock: task.cancel()):
                inside.set()
                await asyncio.Event().wait()
        task = asyncio.create_task(work())
        await inside.wait()
        self.daemon.kill()
        with self.assertRaises(asyncio.CancelledError):
            await task

    async def test_an_exception_of_the_block_matters_more_than_the_loss(self):
        with self.assertRaises(ZeroDivisionError) as caught:
            async with self.client.acquire("db"):
                self.daemon.kill()
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    raise ZeroDivisionError from None
        self.assertEqual(caught.exception.__notes__, ["lockbroker: db: the daemon closed the connection"])
        self.assertEqual(asyncio.current_task().cancelling(), 0)

    async def test_close_releases_and_ends_waits(self):
        await self.full()
        task = asyncio.ensure_future(self.client.acquire("db"))
        await self.wait_counts(waiting=1)
        await self.client.close()
        await self.client.close()
        with self.assertRaises(lockbroker.Closed):
            await task
        await self.wait_counts(holds=0, waiting=0)

    async def test_output_that_the_daemon_does_not_read_waits_for_its_turn(self):
        self.daemon.freeze()
        tasks = [asyncio.create_task(self.client.call("ping", padding="x" * 60000)) for _ in range(30)]
        await until(lambda: self.client._link.core.output)
        self.assertTrue(self.client._link._writing)
        self.daemon.thaw()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        self.assertEqual({type(answer) for answer in answers}, {lockbroker.InvalidParams})
        self.assertFalse(self.client._link._writing)


if __name__ == "__main__":
    tap.main()
