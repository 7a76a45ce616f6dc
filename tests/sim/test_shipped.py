"""The simulation runs what is shipped: its program has the daemon's functions, and no second ones."""

import glob
import os
import re
import subprocess
import unittest

import tap

BUILD = os.path.abspath(os.environ.get("top_builddir", "build"))
SIMULATION = "tests/sim/test_sim"
DAEMON = "lockbrokerd"

# One function of each part of the broker's rooms, which has to be there.
PARTS = (
    "broker_new", "amqp_content_take", "broker_wait_queue_count", "amqp_decoder_take",
    "broker_directory_enter", "broker_wait_queue_wake", "amqp_reconnector_start", "amqp_channels_frame",
    "broker_ask", "broker_wait_queue_join", "amqp_link_take", "broker_probe",
    "amqp_request_send", "amqp_raw_channel_open", "amqp_consumers_consume", "broker_watch",
)
SOCKETS = re.compile(r"lib(event|ssl|crypto|resolv)")


def output(*command):
    return subprocess.run(command, cwd=BUILD, check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def functions(*files):
    """The functions that these files define, without the compiler's own."""
    return set(re.findall(r"^[0-9a-f]+ [Tt] ([A-Za-z]\w*)$", output("nm", *files), re.MULTILINE))


def objects(pattern):
    return [os.path.relpath(path, BUILD) for path in glob.glob(os.path.join(BUILD, pattern))]


class Simulation(unittest.TestCase):
    def test_has_each_part_of_the_amqp_code(self):
        self.assertEqual(set(PARTS) - functions(SIMULATION), set())
        self.assertEqual(set(PARTS) - functions(DAEMON), set())

    def test_has_no_second_implementation_of_anything(self):
        own = functions(*objects("tests/sim/[a-z]*.o"), *objects("tests/memory/[a-z]*.o"))
        others = functions(SIMULATION) - own - functions(DAEMON)
        # The start files of the C library add these.
        self.assertEqual({name for name in others if not name.endswith("_tm_clones")}, set())
        self.assertIn("truth_performed", own)
        self.assertNotIn("memory_world_new", own)

    def test_has_no_sockets(self):
        needed = re.findall(r"NEEDED\s+(\S+)", output("objdump", "-p", SIMULATION))
        self.assertTrue(needed)
        self.assertEqual([name for name in needed if SOCKETS.match(name)], [])


if __name__ == "__main__":
    tap.main()
