"""Rooms use only lower rooms (docs/ARCHITECTURE.md, "Levels"), by #include lines and by symbols of the build."""

import os
import re
import subprocess
import tempfile
import unittest

import tap
from objects import circles, object_file, uses
from tree import ROOT, sources, text

BUILD = os.environ.get("top_builddir") or os.path.join(ROOT, "build-check")

# The rooms that each room may use besides itself, most special first: "client/lib/" before "client/".
BELOW_LOCK = ("protocol/", "daemon/base/", "daemon/state/", "daemon/config/", "daemon/broker/")
BELOW_PEER = BELOW_LOCK + ("daemon/amqp/", "daemon/lock/", "daemon/view/")
# Of the library and below it the command uses these alone. It reads durations as the daemon does, and neither
# may ever wait for a service manager, so they share that, too. Both ask "did you mean". The panel checks JSON as the daemon
# does. The tools write texts into JSON as the library does.
ON_THE_LIBRARY = ("client/lockbroker.h", "client/exit_status.h", "protocol/duration", "daemon/base/notify",
                  "daemon/base/nearest")
ROOMS = {
    "protocol/": (),
    "daemon/base/": (),
    "daemon/state/": ("protocol/", "daemon/base/"),
    "daemon/config/": ("protocol/", "daemon/base/"),
    "daemon/amqp/": ("protocol/", "daemon/base/", "daemon/state/"),
    "daemon/broker/": ("protocol/", "daemon/base/", "daemon/state/", "daemon/amqp/"),
    "daemon/memory/": ("protocol/", "daemon/base/", "daemon/state/", "daemon/amqp/", "daemon/broker/"),
    "daemon/lock/": BELOW_LOCK,
    "daemon/view/": ("protocol/", "daemon/base/", "daemon/broker/", "daemon/lock/"),
    "daemon/peer/": BELOW_PEER,
    "daemon/successor": ("daemon/base/", "daemon/state/"),
    "daemon/server": BELOW_PEER + ("daemon/memory/", "daemon/peer/", "daemon/successor"),
    "daemon/main.c": BELOW_PEER + ("daemon/peer/", "daemon/server"),
    "client/lib/": ("protocol/", "client/lockbroker.h", "daemon/base/fault.h"),
    "client/tool/": ON_THE_LIBRARY + ("protocol/json",),
    "client/top/": ON_THE_LIBRARY + ("client/tool/",),
    "client/web/": ON_THE_LIBRARY + ("client/tool/", "protocol/json"),
    "client/": ON_THE_LIBRARY + ("client/tool/", "client/top/"),
}
# Rooms whose files use only files above them in the table of docs/ARCHITECTURE.md, "Files". All of their files may
# include these headers for the types.
ORDERED = {"daemon/lock/": ("daemon/lock/lock.h",)}
# Libraries, and the only places that may know them.
LIBRARIES = {
    r"(cjson/)?cJSON\.h": ("protocol/json.c",),
    r"(rabbitmq-c/)?amqp\w*\.h": ("daemon/amqp/", "daemon/broker/", "daemon/memory/"),
    r"event2/.*": ("daemon/amqp/", "daemon/peer/", "daemon/server", "daemon/successor"),
    r"openssl/.*": ("daemon/amqp/",),
    r"ini\.h": ("daemon/config/",),
    r"ncurses\.h|term\.h": ("client/top/",),
    r"microhttpd\.h": ("client/web/",),
    r"systemd/.*": ("daemon/base/", "daemon/peer/listener", "daemon/successor", "client/web/listener"),
}
# A header that includes more of our own headers than this wants to be everybody's.
HEADER_INCLUDES_MAX = 8

STRUCT = re.compile(r"^(?:static )?(?:const )?(?:struct|union) (\w+) \{", re.MULTILINE)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+([<"])([^>"]+)[>"]', re.MULTILINE)


def includes(path):
    """[(is ours, what)] in order."""
    return [(quote == '"', what) for quote, what in INCLUDE.findall(text(path))]


def room_of(path):
    return next(room for room in ROOMS if path.startswith(room))


def may_use(path, other):
    room = room_of(path)
    return other.startswith(ROOMS[room]) or room_of(other) == room


def file_table(room):
    """The files of a room without their endings, in the order of its table in docs/ARCHITECTURE.md."""
    table = text("docs/ARCHITECTURE.md").partition("\n## Files\n")[2].partition(f"\n`{room}` ")[2]
    rows = re.findall(r"^\| (`.*?) \|", table.partition("\n|")[2].partition("\n\n")[0], re.MULTILINE)
    return [room + name for row in rows for name in re.findall(r"`(\w+)`", row)]


def stands_above(levels, path, other):
    """Whether the file may use the other one by the order of its room. Files of other rooms have rules of their own."""
    name, other = os.path.splitext(path)[0], os.path.splitext(other)[0]
    return other not in levels or levels.index(other) <= levels.index(name)


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
                   if ours and what != "config.h" and not may_use(path, what)])

    def test_ordered_rooms_include_only_files_above(self):
        """docs/ARCHITECTURE.md has their files in the order of their levels."""
        for room, types in ORDERED.items():
            levels = file_table(room)
            self.none([f"{path} includes {what}" for path in self.product if path.startswith(room)
                       for ours, what in includes(path)
                       if ours and what not in types and not stands_above(levels, path, what)])

    def test_ways_are_not_compared(self):
        """Others ask for a fact of a way (daemon/broker/way.h), and not which way it is."""
        way = r"(BROKER_BY|LOCK_CLAIM_BY|METHOD_CLAIM_BY)_\w+"
        self.none([f"{path}: {match[0]}" for path in self.product
                   if path.startswith("daemon/") and not path.startswith("daemon/broker/way")
                   for match in re.finditer(rf"[!=]=\s*{way}|case\s+{way}|{way}\s*[!=]=", text(path))])

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

    def test_every_file_is_explained(self):
        """docs/ARCHITECTURE.md names each module, and none that is not there."""
        section = text("docs/ARCHITECTURE.md").partition("\n## Files\n")[2].partition("\n## ")[0]
        first_cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
        named = {os.path.splitext(word)[0] for cell in first_cells
                 for word in re.findall(r"`([^`]+)`", cell)}
        there = {os.path.splitext(os.path.basename(path))[0] for path in [*self.product, *sources(".py", rooms=("client",))]
                 if "/examples/" not in path and not path.endswith("__init__.py")}
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

    def test_a_struct_has_a_name_of_its_own(self):
        places = {}
        for path in sources(".c", ".h", rooms=("protocol", "daemon", "client")):
            for name in STRUCT.findall(text(path)):
                places.setdefault(name, []).append(path)
        self.assertGreater(len(places), 100)
        self.assertEqual({name: paths for name, paths in places.items() if len(paths) > 1}, {})

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


def wrong_uses(graph, allowed):
    """graph: {name: {name of another: symbols}}."""
    return [f"{name} uses {symbol} of {other}" for name, others in graph.items()
            for other, used in others.items() for symbol in used if not allowed(name, other, symbol)]


def may_use_symbol(path, other, symbol):
    """The command's rooms use the library's files, too, by what the public header declares."""
    return may_use(path, other) or (
        other.startswith("client/lib/") and path.startswith("client/")
        and re.search(rf"\b{symbol}\(", text("client/lockbroker.h")) is not None)


class Symbols(unittest.TestCase):
    """Uses that the includes cannot show: a declaration by hand, and files of one room that use each other."""

    maxDiff = None

    def setUp(self):
        product = [path for path in sources(".c", rooms=("protocol", "daemon", "client"))
                   if "/examples/" not in path]
        self.objects = {path: object_file(BUILD, path) for path in product}
        missing = [path for path, found in self.objects.items() if found is None]
        self.assertFalse(missing, f"not built in {BUILD}: make comes first")
        self.graph = uses(self.objects)

    def test_objects_use_only_lower_rooms(self):
        wrong = wrong_uses(self.graph, may_use_symbol)
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_objects_of_ordered_rooms_use_only_files_above(self):
        for room in ORDERED:
            levels = file_table(room)
            here = {name: others for name, others in self.graph.items() if name.startswith(room)}
            self.assertTrue(here, f"no objects of {room}")
            wrong = wrong_uses(here, lambda name, other, _: stands_above(levels, name, other))
            self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_no_circle_between_objects(self):
        found = [" ".join(names) for names in circles(self.graph)]
        self.assertFalse(found, "files that use each other:\n" + "\n".join(found))


class Checker(unittest.TestCase):
    """The checks above find what is planted."""

    def compiled(self, files):
        """{name: text of a C file}; their uses."""
        objects = {}
        for name, code in files.items():
            source = os.path.join(self.folder, name)
            with open(source, "w", encoding="utf-8") as file:
                file.write(code)
            objects[name] = source + ".o"
            subprocess.run(["cc", "-c", source, "-o", objects[name]], check=True)
        return uses(objects)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_a_planted_circle_is_found(self):
        graph = self.compiled({
            "a.c": "void b(void); void a(void); void a(void) { b(); }",
            "b.c": "void c(void); void b(void); void b(void) { c(); }",
            "c.c": "void a(void); void c(void); void c(void) { a(); }",
            "d.c": "void a(void); void d(void); void d(void) { a(); }",
        })
        self.assertEqual(circles(graph), [["a.c", "b.c", "c.c"]])
        del graph["c.c"]["a.c"]
        self.assertEqual(circles(graph), [])

    def test_a_planted_use_of_a_higher_room_is_found(self):
        graph = self.compiled({"low.c": "extern int high; int low(void); int low(void) { return high; }",
                               "high.c": "int high;"})
        self.assertEqual(wrong_uses(graph, lambda name, other, symbol: name == "high.c"), ["low.c uses high of high.c"])
        self.assertEqual(wrong_uses(graph, lambda *use: True), [])

    def test_a_planted_use_of_a_file_below_is_found(self):
        graph = self.compiled({"first.c": "extern int second; int first(void); int first(void) { return second; }",
                               "second.c": "int second;"})

        def wrong(*levels):
            return wrong_uses(graph, lambda name, other, _: stands_above(levels, name, other))

        self.assertEqual(wrong("first", "second"), ["first.c uses second of second.c"])
        self.assertEqual(wrong("second", "first"), [])


if __name__ == "__main__":
    tap.main()
