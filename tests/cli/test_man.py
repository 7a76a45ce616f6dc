"""The manuals: in good mdoc, with every key, subcommand, option, exit status, function and code."""

import os
import re
import subprocess
import unittest
from pathlib import Path

import tap
from daemon import clean_environment, program

SOURCE = Path(os.environ["top_srcdir"])
BUILT = Path(os.environ["top_builddir"])


def pages():
    found = {}
    for folder in SOURCE / "man", BUILT / "man":
        for page in folder.glob("*.[1-8]"):
            found[page.name] = page
    return found


def keys():
    """The names in the table, read from its source."""
    text = (SOURCE / "daemon/config/keys.c").read_text()
    return re.findall(r'^\t\{"([a-z-]+)", KEY_', text, re.M)


def rendered(page):
    done = subprocess.run(["mandoc", "-T", "utf8", "-O", "width=100", str(page)],
                          stdout=subprocess.PIPE, text=True, check=True)
    return re.sub(".\b", "", done.stdout)


def help_of(*subcommand):
    done = subprocess.run([program("lockbroker"), *subcommand, "--help"], stdout=subprocess.PIPE,
                          env=clean_environment(), text=True, check=True)
    return done.stdout


def subcommands():
    return re.findall(r"(?m)^  (\w+) +[A-Z]", help_of())


def events():
    """The kinds of events of the log, and their ids."""
    text = (SOURCE / "daemon/base/log.c").read_text()
    return re.findall(r'\[LOG_\w+\] = \{"([a-z-]+)", "([0-9a-f]{32})"\}', text)


def options(text, indent):
    """The long options that a list has."""
    return set(re.findall(rf"(?m)^{indent}(?:-\w, +|   +)?--([\w-]+)", text))


def section(page, title):
    """A section's or subsection's source."""
    text = pages()[page].read_text()
    start = re.search(rf"(?m)^\.S[hs] {title}$", text)
    if start is None:
        raise AssertionError(f"{page} has no section {title}")
    return re.split(r"(?m)^\.S[hs] ", text[start.end():])[0]


def options_of_subcommands():
    """(long option, "subcommand, subcommand") as lockbroker(1) has them."""
    return re.findall(r"(?m)^\.It (?:Fl \w , )?Fl -([\w-]+).*\n([^:]+): ", section("lockbroker.1", "OPTIONS"))


def header():
    """The library's header without its comments."""
    return re.sub(r"/\*.*?\*/", " ", (SOURCE / "client/lockbroker.h").read_text(), flags=re.S)


def one_space(text):
    return re.sub(r"\s+", " ", text).strip()


def prototypes():
    """Name -> (type, arguments) of the functions in the header."""
    found = {}
    for kind, name, rest in re.findall(r"LB_PUBLIC ([\w ]+?[ *]+)(lb_\w+)\((.*?)\)(?: LB_CHECK)?;",
                                       header(), re.S):
        found[name] = (one_space(kind), one_space(rest))
    return found


class Manuals(unittest.TestCase):
    def test_each_event_of_the_log_has_its_id(self):
        text = section("lockbrokerd.8", "LOG")
        self.assertEqual(len(set(id for _, id in events())), len(events()))
        self.assertEqual(re.findall(r"(?m)^\.It ([a-z-]+)\n.*\n\.br\n\.Li (\w+)$", text), events())

    def test_there_are_some(self):
        self.assertLessEqual({"lockbroker.1", "lockbroker.3", "lockbroker-web.8", "lockbrokerd.8", "lockbrokerd.conf.5"},
                             set(pages()))

    def test_lint(self):
        for name, page in pages().items():
            done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", str(page)],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            with self.subTest(page=name):
                self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_every_key(self):
        self.assertGreater(len(keys()), 20)
        conf = rendered(pages()["lockbrokerd.conf.5"])
        daemon = rendered(pages()["lockbrokerd.8"])
        for key in keys():
            self.assertRegex(conf, rf"(?m)^\s+{key} = \S+$")
            self.assertRegex(daemon, rf"(?m)^\s+--{key} \S+")

    def test_nothing_is_left_to_substitute(self):
        for name, page in pages().items():
            self.assertNotRegex(page.read_text(), r"@[A-Z]+(:\w+)?@", name)

    def test_the_example_is_the_best_of_files(self):
        """Each key of the example exists."""
        text = (SOURCE / "man/lockbrokerd.conf.5.in").read_text()
        example = text.split(".Sh EXAMPLES")[1].split(".Ed")[0]
        used = re.findall(r"(?m)^([a-z-]+) = ", example)
        self.assertLessEqual(set(used) - {"rule"}, set(keys()))
        self.assertIn("rule", used)


class Command(unittest.TestCase):
    """lockbroker(1)."""

    def test_every_subcommand(self):
        self.assertGreater(len(subcommands()), 8)
        described = re.findall(r"(?m)^\.It Cm (\w+)", section("lockbroker.1", "SUBCOMMANDS"))
        self.assertEqual(described, subcommands())
        synopsis = re.findall(r"(?m)^\.Cm (.*)$", section("lockbroker.1", "SYNOPSIS"))
        self.assertEqual({word for line in synopsis for word in line.split(" | ")}, set(subcommands()))

    def test_every_option(self):
        """Each subcommand's --help lists the options that the manual has for it, and no others."""
        self.assertGreater(len(options_of_subcommands()), 30)
        for name in subcommands():
            told = {option for option, users in options_of_subcommands()
                    if users.startswith("all") != (name in re.findall(r"\w+", users))}
            with self.subTest(name):
                self.assertEqual(options(help_of(name), "  "), told)

    def test_every_exit_status(self):
        statuses = re.findall(r"(?m)^\tEXIT_STATUS_\w+ = (\d+)",
                              (SOURCE / "client/exit_status.h").read_text())
        self.assertGreater(len(statuses), 10)
        told = re.findall(r"(?m)^\.It (\d+)", section("lockbroker.1", "EXIT STATUS"))
        self.assertEqual(told, statuses)

    def test_every_variable_of_the_child(self):
        told = section("lockbroker.1", "ENVIRONMENT")
        for name in re.findall(r'setenv\("(\w+)"', (SOURCE / "client/cmd_run.c").read_text()):
            self.assertIn(f".It Ev {name}\n", told)


class Library(unittest.TestCase):
    """lockbroker(3)."""

    def test_every_function_as_it_is(self):
        told = {}
        synopsis = section("lockbroker.3", "SYNOPSIS")
        for kind, how, rest in re.findall(r"(?m)^\.Ft (.*)\n\.F([no]) ((?:.*\n)(?:\.Fa .*\n)*)",
                                          synopsis):
            if how == "n":
                name, _, arguments = rest.strip().partition(" ")
                arguments = re.findall(r'"([^"]*)"', arguments) or arguments.split()
            else:
                name = rest.split("\n")[0]
                arguments = re.findall(r'\.Fa "(.*)"', rest)
                arguments += re.findall(r"(?m)^\.Fa (\w.*)$", rest)
            told[name] = (kind, ", ".join(arguments))
        self.assertGreater(len(told), 30)
        self.assertEqual(told, prototypes())

    def test_every_code_event_and_state(self):
        text = pages()["lockbroker.3"].read_text()
        names = re.findall(r"\b(LB_[A-Z_]+) = ", header().replace("\n", " "))
        names = [re.sub(r"\s+", "", name) for name in names]
        self.assertGreater(len(names), 45)
        for name in names:
            with self.subTest(name):
                found = re.search(rf"(?m)^\.(?:It )?Dv (?:LB_\w+ , )*{name}\b", text)
                self.assertIsNotNone(found, name)

    def test_every_member_of_the_option_structs(self):
        for struct, title, one in (("lb_options", "Acquiring and holding", "priority"),
                                   ("lb_change", "Administration", "overshoot")):
            members = re.search(rf"struct {struct} \{{(.*?)\}}", header(), re.S).group(1)
            names = re.findall(r"(\w+)\s*[;,]", members)
            self.assertIn(one, names)
            told = re.findall(r"(?m)^\.It Fa (.*)$", section("lockbroker.3", title))
            self.assertEqual(set(names) - {"size"}, {name for line in told for name in line.split(" , ")})

    def test_the_example_is_the_compiled_one(self):
        code = (SOURCE / "client/examples/hold.c").read_text().split(" */\n", 1)[1]
        self.assertIn(code, section("lockbroker.3", "EXAMPLES").replace("\\e", "\\"))


if __name__ == "__main__":
    tap.main()
