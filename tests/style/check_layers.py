"""Who may include whom (docs/ARCHITECTURE.md, "Levels"), read off the #include lines."""

import os
import re
import unittest

import tap
from tree import ROOT, sources, text

# What each room may include besides itself, most special first: "daemon/config/" before "daemon/".
BELOW_PEER = ("protocol/", "daemon/base/", "daemon/config/", "daemon/broker/", "daemon/lock/",
              "daemon/view/")
ROOMS = {
    "protocol/": (),
    "daemon/base/": (),
    "daemon/config/": ("protocol/", "daemon/base/"),
    "daemon/broker/": ("protocol/", "daemon/base/"),
    "daemon/memory/": ("protocol/", "daemon/base/", "daemon/broker/"),
    "daemon/lock/": ("protocol/", "daemon/base/", "daemon/config/", "daemon/broker/"),
    "daemon/view/": ("protocol/", "daemon/base/", "daemon/broker/", "daemon/lock/"),
    "daemon/peer/": BELOW_PEER,
    "daemon/server": BELOW_PEER + ("daemon/memory/", "daemon/peer/"),
    "daemon/main.c": BELOW_PEER + ("daemon/peer/", "daemon/server"),
    "client/": ("protocol/",),
}
# Libraries, and the only places that may know them.
LIBRARIES = {
    r"(cjson/)?cJSON\.h": ("protocol/json.c",),
    r"(rabbitmq-c/)?amqp\w*\.h": ("daemon/broker/", "daemon/config/url.c"),
    r"event2/.*": ("daemon/broker/amqp", "daemon/peer/", "daemon/server"),
    r"openssl/.*": ("daemon/broker/amqp",),
    r"ini\.h": ("daemon/config/",),
    r"ncurses\.h|term\.h": ("client/top",),
    r"systemd/.*": ("daemon/base/", "daemon/peer/listener", "daemon/server"),
}
# The one header of the daemon that the command, but not the library, includes: both must speak to the
# service manager without ever waiting for it.
SHARED_WITH_COMMAND = "daemon/base/notify.h"
# A header that includes more of our own headers than this wants to be everybody's.
HEADER_INCLUDES_MAX = 7

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+([<"])([^>"]+)[>"]', re.MULTILINE)


def includes(path):
    """[(is ours, what)] in order."""
    return [(quote == '"', what) for quote, what in INCLUDE.findall(text(path))]


def room_of(path):
    return next(room for room in ROOMS if path.startswith(room))


def command_files():
    """The files of client/ that make the command; the others are the library's."""
    listed = re.search(r"^lockbroker_SOURCES = (.*?[^\\])$", text("Makefile.am"),
                       re.MULTILINE | re.DOTALL).group(1)
    return {word for word in listed.split() if word.startswith("client/")}


class Layers(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.product = sources(".c", ".h", rooms=("protocol", "daemon", "client"))
        self.assertTrue(self.product, f"no sources below {ROOT}")

    def none(self, wrong):
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_every_file_has_a_room(self):
        self.none([path for path in self.product
                   if not any(path.startswith(room) for room in ROOMS)])

    def test_rooms_include_only_lower_rooms(self):
        self.none([f"{path} includes {what}" for path in self.product
                   for ours, what in includes(path)
                   if ours and what != "config.h"
                   and not what.startswith((room_of(path),) + ROOMS[room_of(path)])
                   and not (what == SHARED_WITH_COMMAND and path in command_files())])

    def test_our_includes_are_whole_paths_that_exist(self):
        self.none([f"{path} includes {what}" for path in sources(".c", ".h")
                   for ours, what in includes(path)
                   if ours and what != "config.h"
                   and not os.path.exists(os.path.join(ROOT, what))])

    def test_libraries_stay_where_they_belong(self):
        self.none([f"{path} includes {what}" for path in self.product
                   for ours, what in includes(path) if not ours
                   for library, places in LIBRARIES.items()
                   if re.fullmatch(library, what) and not path.startswith(places)])

    def test_the_public_header_stands_alone(self):
        public = "client/lockbroker.h"
        self.none([what for ours, what in includes(public) if ours])

    def test_the_command_is_made_of_the_public_library(self):
        files = command_files()
        self.assertIn("client/main.c", files)
        # Durations are read as the daemon reads them.
        known = files | {"client/lockbroker.h", "protocol/duration.h", SHARED_WITH_COMMAND}
        self.none([f"{path} includes {what}" for path in files
                   for ours, what in includes(path)
                   if ours and what != "config.h" and what not in known])

    def test_every_file_is_explained(self):
        """docs/ARCHITECTURE.md names each module, and none that is not there."""
        section = text("docs/ARCHITECTURE.md").partition("\n## Files\n")[2].partition("\n## ")[0]
        first_cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
        named = {os.path.splitext(word)[0] for cell in first_cells
                 for word in re.findall(r"`([^`]+)`", cell)}
        there = {os.path.splitext(os.path.basename(path))[0] for path in self.product
                 if "/examples/" not in path}
        self.assertEqual(there - named, set(), "not in docs/ARCHITECTURE.md")
        self.assertEqual(named - there - {"openrpc", "PROTOCOL"}, set(), "no such file")

    def test_own_header_comes_first(self):
        wrong = []
        for path in sources(".c"):
            own = path[:-2] + ".h"
            if os.path.exists(os.path.join(ROOT, own)):
                first = includes(path)[:1]
                if first != [(True, own)]:
                    wrong.append(f"{path} starts with {first}")
        self.none(wrong)

    def test_no_header_includes_everything(self):
        self.none([f"{path} includes {count} headers of ours" for path in sources(".h")
                   if (count := sum(ours for ours, _ in includes(path))) > HEADER_INCLUDES_MAX])

    def test_headers_start_by_saying_what_they_are(self):
        self.none([path for path in sources(".h") if not text(path).startswith("/*")])

    def test_no_circle_between_headers(self):
        graph = {path: [what for ours, what in includes(path) if ours] for path in sources(".h")}
        done, wrong = set(), []

        def walk(path, trail):
            if path in trail:
                wrong.append(" -> ".join(trail[trail.index(path):] + [path]))
            elif path in graph and path not in done:
                for what in graph[path]:
                    walk(what, trail + [path])
                done.add(path)

        for path in graph:
            walk(path, [])
        self.none(wrong)


if __name__ == "__main__":
    tap.main()
