"""Runs the examples of protocol/PROTOCOL.md: each block against a daemon of its own."""

import json
import os
import re
import subprocess
import unittest

import tap
from daemon import Daemon, clean_environment
from openrpc import SOURCE
from wire import Wire

DOCUMENT = os.path.join(SOURCE, "protocol", "PROTOCOL.md")
BLOCK = re.compile(r"^```(wire|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STEP = re.compile(r"(?:([A-Z]) )?(-->|<--|--x)(?: (.*))?")
# A number to be filled in stands bare, which JSON does not know; a string stands in quotes.
NUMBER = re.compile(r"(?<=:)<([a-z ]+)>")
OF_EVERY_METHOD = {"permission-denied", "too-many-requests", "invalid-params", "internal"}
PLACE = re.compile(r"(#?)<([a-z ]+)>")


def blocks(kind):
    """[(heading, lines)] of one kind, in order."""
    with open(DOCUMENT, encoding="utf-8") as file:
        text = file.read()
    found = []
    for match in BLOCK.finditer(text):
        heading = re.findall(r"^#+ (.*)$", text[:match.start()], re.MULTILINE)[-1]
        if match[1] == kind:
            found.append((heading, match[2].splitlines()))
    return found


class Example:
    """Compares messages with their templates and remembers what the placeholders stood for."""

    def __init__(self, test):
        self.test = test
        self.known = {}

    def template(self, text):
        return json.loads(NUMBER.sub(r'"#<\1>"', text))

    def fill(self, text):
        return re.sub(r"<([a-z ]+)>", lambda match: str(self.known[match[1]]), text)

    def match(self, wanted, got, where="message"):
        place = PLACE.fullmatch(wanted) if isinstance(wanted, str) else None
        if place:
            kinds = (int, float) if place[1] else str
            self.test.assertIsInstance(got, kinds, where)
            self.test.assertEqual(self.known.setdefault(place[2], got), got, where)
        elif isinstance(wanted, dict):
            self.test.assertIsInstance(got, dict, where)
            self.test.assertEqual(list(wanted), list(got), where)
            for name, value in wanted.items():
                self.match(value, got[name], f"{where}.{name}")
        elif isinstance(wanted, list):
            self.test.assertIsInstance(got, list, where)
            self.test.assertEqual(len(wanted), len(got), where)
            for at, pair in enumerate(zip(wanted, got)):
                self.match(*pair, f"{where}[{at}]")
        else:
            self.test.assertEqual((type(wanted), wanted), (type(got), got), where)


class Examples(unittest.TestCase):
    maxDiff = None

    def run_step(self, example, daemon, peers, line):
        step = STEP.fullmatch(line)
        self.assertIsNotNone(step, line)
        name, arrow, text = step.groups()
        peer = peers.get(name) or peers.setdefault(name, Wire(daemon))
        if arrow == "-->":
            peer.send_line(example.fill(text))
        elif arrow == "--x":
            peer.hang_up()
        else:
            wanted = example.template(text)
            if "method" in wanted:
                got = {"jsonrpc": "2.0", "method": wanted["method"],
                       "params": peer.notification(wanted["method"])}
            else:
                got = peer.reply(wanted["id"])
            example.match(wanted, got, line)

    def test_wire(self):
        found = blocks("wire")
        self.assertGreater(len(found), 7)
        for heading, lines in found:
            with self.subTest(heading):
                daemon, peers, example = Daemon(self), {}, Example(self)
                for line in lines:
                    self.run_step(example, daemon, peers, line)
                for peer in peers.values():
                    self.assertFalse(peer.replies or peer.notifications,
                                     "there is more than the example says")
                    peer.hang_up()

    def test_console(self):
        found = blocks("console")
        self.assertTrue(found)
        for heading, lines in found:
            with self.subTest(heading):
                daemon, example = Daemon(self), Example(self)
                out = []
                for line in lines:
                    if line.startswith("$ "):
                        self.assertFalse(out, "printed more than the example says")
                        out = self.shell(line[2:], daemon)
                    else:
                        self.assertTrue(out, f"did not print {line}")
                        example.match(example.template(line), json.loads(out.pop(0)), line)
                self.assertFalse(out, "printed more than the example says")

    def shell(self, command, daemon):
        done = subprocess.run(["/bin/bash", "-c", command], stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=60, check=False,
                              env=clean_environment(LOCKBROKER_SOCKET=daemon.socket))
        self.assertEqual((done.returncode, done.stderr), (0, ""), command)
        self.assertTrue(done.stdout, command)
        return done.stdout.splitlines()

    def test_every_method_reason_and_notification_is_told(self):
        with open(DOCUMENT, encoding="utf-8") as file:
            text = file.read()
        with open(os.path.join(SOURCE, "protocol", "openrpc.json"), encoding="utf-8") as file:
            described = json.load(file)
        for method in described["methods"]:
            self.assertRegex(text, rf"(?m)^### {re.escape(method['name'])}$")
            section = re.split(r"(?m)^##", text.split(f"### {method['name']}\n")[1])[0]
            reasons = {described["components"]["errors"][error["$ref"].split("/")[-1]]["message"]
                       for error in method["errors"]}
            for name in [*(param["name"] for param in method["params"]), *(reasons - OF_EVERY_METHOD),
                         *method["result"]["schema"].get("properties", {})]:
                with self.subTest(method=method["name"]):
                    self.assertIn(f"`{name}`", section)
        for part in described["components"]["errors"].values():
            retry = "yes" if part["x-data"]["properties"]["retry"]["const"] else "no"
            self.assertIn(f"| {part['code']} | `{part['message']}` | {retry} |", text)
        for note in described["x-notifications"]:
            params = ", ".join(f"`{name}`" for name in note["params"]["properties"])
            self.assertIn(f"| `{note['name']}` | {params} |", text)


if __name__ == "__main__":
    tap.main()
