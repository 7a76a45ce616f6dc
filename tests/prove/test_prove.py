"""A short run of the prover on one node: each fault once, and no violation."""

import os
import random
import tempfile
import unittest

os.environ.setdefault("PROVE_LATE", "3")  # other tests run at the same time

import tap
from check import report
from prove import prove, run
from world import ALL_WAYS, FAKETIME

SEED = int(os.environ.get("PROVE_SEED", "0")) or random.randrange(1 << 32)
KINDS = set("""
    kill-node stop-node restart-node memory-alarm disk-alarm kill-daemon stop-daemon restart-daemon close-connection cut
    blackhole mute-to-daemon mute-to-broker end-at-daemon end-at-broker delay one-byte-writes noise-to-daemon
    noise-to-broker kill-client stop-client step-clock delete-holder-queue resize gate unlimited grant destroy fsck convert
    delete-slot-queue evict eviction close-node-connections suspend-host suspend-host-daemon stop-clients""".split())
# If the dice choose a slot by quorum.
SOMETIMES = {"delete-slot-by-quorum"}
HOLDS = 500
HOLDS_OF_WAY = 20


class Prove(unittest.TestCase):
    deadline = 400  # on a busy machine

    def test_each_fault_of_one_node(self):
        print(f"PROVE_SEED={SEED}")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "record")
            efficiency = run(path, SEED)
            check, lines = prove(path)
        print("\n".join([*efficiency, *report(check, lines)]))
        self.assertEqual([str(violation) for violation in check.violations], [])
        self.assertEqual({fault.kind for fault in check.faults.values()} - SOMETIMES,
                         KINDS - (set() if FAKETIME else {"step-clock"}))
        self.assertGreater(check.counts["released", "ok"], HOLDS)
        for way in ALL_WAYS:
            self.assertGreater(check.counts["taken by the store", way], HOLDS_OF_WAY)


if __name__ == "__main__":
    tap.main()
