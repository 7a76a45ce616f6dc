"""The documents that name tests name tests that there are: `file: test, test`, and faults in brackets. The operations
guide quotes messages of the programs, and names all alerts. The format of the state is that of the records. The
architecture names functions that there are, and the contents of a file are those of the file."""

import ast
import os
import re
import unittest

import manual
import tap
from tree import ROOT, sources, text

DOCUMENTS = ("docs/PROOF.md", "docs/SAFETY.md", "docs/SEEDS.md")
NAMED = re.compile(r"\b((?:test|fuzz|bench)_\w+\.(?:c|py))\b(?::((?: \w+,?)+))?")

GUIDE = "docs/OPERATIONS.md"
# A message that is not ours has the name of its program behind it.
QUOTED = re.compile(r"`([^`]+)`(?! \((?:RabbitMQ|systemd)\))")


def tests():
    """{file name: its text}, of all tests."""
    found = {}
    for folder, _, files in os.walk(os.path.join(ROOT, "tests")):
        for name in files:
            if name.endswith((".c", ".py")):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    found[name] = file.read()
    return found


def literals():
    """The strings of the programs."""
    for path in sources(".c", rooms=("client", "daemon", "protocol")):
        for string in re.findall(r'"((?:\\.|[^"\\\n])*)"', re.sub(r'"\s*\n\s*"', "", text(path))):
            yield string.replace('\\"', '"')


def is_said(message, strings):
    """Whether its pieces between ... are in strings, or it is a format of three words or more, filled in."""
    everything = "\0".join(strings)
    if all(piece.strip(' :;,()"') in everything for piece in message.split("...")):
        return True
    formats = (string for string in strings if len(re.findall(r"(?<!%)\b[a-z]{2,}", string)) > 2)
    return any(re.fullmatch(re.sub(r"%[-\d.*]*[a-z]+", ".*", re.escape(string).replace("\\%", "%")), message)
               for string in formats)


def written_records():
    """{name: members in order}, of the state that the code writes."""
    tables, records = {}, {"lockbrokerd": "header_fields", "end": "footer_fields"}
    for path in sources(".c", rooms=("daemon",)):
        code = text(path)
        # A macro of fields that several tables have.
        common = re.findall(r'"(\w+)", STATE_\w+, offsetof\(struct type', code)
        for table, body in re.findall(r"struct state_field (\w+)\[\] = \{(.*?)\{0\}\};", code.replace(",\n};", "};"), re.DOTALL):
            members = re.findall(r"(?:STATE_FIELD|STATE_RANGE)\(\s*\w+,\s*(\w+)|LINK_\w+\((\w+)|(WHO_FIELDS)", body)
            tables[path, table] = [name for found in members for name in (common if found[2] else [found[0] or found[1]])]
        records.update({name: (path, table) for name, table in re.findall(r'state_put\(\s*[\w>-]+,\s*"([\w-]+)",\s*(\w+)', code)})
    return {name: tables[table if isinstance(table, tuple) else ("daemon/state/state.c", table)]
            for name, table in records.items()}


def documented_records():
    """The same, of docs/STATE.md."""
    records = {}
    for name, section in re.findall(r"^## ([\w-]+)(?: \*)?\n(.*?)(?=^## |\Z)", text("docs/STATE.md"), re.DOTALL | re.MULTILINE):
        rows = re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE)
        records[name] = re.findall(r"`(\w+)`", " ".join(rows))
    return records


FOLDERS = ("daemon/lock", "daemon/broker", "daemon/view", "daemon/peer")
# The includes, after a comment about a file without a header, and then the contents.
CONTENTS = re.compile(r"(?:/\*(?:(?!\*/).)*\*/\n)?(?:#include [^\n]*\n|\n)+/\*\n \* Contents:\n(.*?) \*/\n",
                      re.DOTALL)
HEADING, NUMBERED = r"(?m)^/\* ---- (.*) ---- \*/$", r"(?m)^/\* (\d+)\. "
CALL = re.compile(r"([\w*]+)\(\)")


def defines(code, name):
    """Whether it has that function. `x_*` begins with x_, and `_x` ends so."""
    pattern = (r"\w+" if name.startswith("_") else "") + name.replace("*", r"\w*")
    return re.search(rf"(?m)^(?:ENGINE_FIND\(|#define )?{pattern}[(,]", code) is not None


def wrong_contents(code, titled):
    """The faults of the contents of a file. titled: each entry is a heading of the file, and each heading an
    entry. Else the numbered entries are the numbered sections."""
    head = CONTENTS.match(code)
    if head is None:
        return ["no contents after the includes"]
    entries = [re.sub(r"\n \*\t   ", " ", entry) for entry in re.split(r"(?m)^ \*\t(?! )", head[1])[1:]]
    body = code[head.end():]
    sections = list(re.finditer(HEADING if titled else NUMBERED, body))
    titles = re.findall(HEADING, body)
    if len(titles) > len(set(titles)):
        return ["two headings of one text"]
    if titled:
        keys = [title[0].lower() + title[1:] for title in (entry.partition(":")[0] for entry in entries)]
    else:
        entries = [entry for entry in entries if re.match(r"\d+\.", entry)]
        keys = [entry.partition(".")[0] for entry in entries]
    if keys != [section[1] for section in sections]:
        return [f"entries {keys}, sections {[section[1] for section in sections]}"]
    ends = [section.start() for section in sections[1:]] + [len(body)]
    return [f"{name}() is not in the section {key}" for key, entry, section, end in zip(keys, entries, sections, ends)
            for name in CALL.findall(entry) if not defines(body[section.start():end], name)] + [
                f"no {name}()" for name in CALL.findall(head[1]) if not defines(body, name)]


class Functions(unittest.TestCase):
    maxDiff = None

    def test_contents_are_those_of_the_file(self):
        paths = sources(".c", rooms=FOLDERS)
        self.assertGreater(len(paths), 50)
        wrong = [f"{path}: {what}" for path in paths
                 for what in wrong_contents(text(path), not path.startswith("daemon/lock/"))]
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_planted_contents_are_found(self):
        code = ('#include "x.h"\n\n/*\n * Contents:\n *\tOne: a().\n *\tTwo: b_*(),\n *\t   _c().\n */\n\n'
                "/* ---- one ---- */\n\nint\na(void)\n\n/* ---- two ---- */\n\nint\nb_c(void)\n")
        self.assertEqual(wrong_contents(code, True), [])
        for old, new, wrong in (("int\na(", "int\nd(", 2), ("---- two", "---- three", 1),
                                ("#include", "\nint i;\n#include", 1), ("One: a()", "One: b_c()", 1),
                                ("_c().", "_d().", 2)):
            self.assertEqual(len(wrong_contents(code.replace(old, new), True)), wrong, new)
        numbered = code.replace("One:", "1. One:").replace("Two:", "2. Two:").replace("---- one ----", "1. One.").replace(
            "---- two ----", "2. Two.")
        self.assertEqual(wrong_contents(numbered, False), [])
        self.assertEqual(len(wrong_contents(numbered.replace("2. Two.", "3. Two."), False)), 1)
        self.assertEqual(len(wrong_contents(code + "/* ---- two ---- */\n", True)), 1)

    def test_the_architecture_names_existing_functions(self):
        code = "\n".join(text(path) for path in sources(".c", ".h", rooms=("client", "daemon", "protocol")))
        names = re.findall(r"`(\w+)\(\)`(?! of `\w+\.py`)", text("docs/ARCHITECTURE.md"))
        self.assertGreater(len(names), 30)
        self.assertEqual([name for name in names if not defines(code, name)], [])
        self.assertFalse(defines(code, "go_on"))


class Documents(unittest.TestCase):
    def test_the_state_is_documented(self):
        written, documented = written_records(), documented_records()
        self.assertEqual(sorted(written), sorted(documented))
        for name, members in written.items():
            self.assertEqual(sorted(members), sorted(documented[name]), name)

    def test_name_existing_tests(self):
        sources, wrong = tests(), []
        for document in DOCUMENTS:
            for line in text(document).split("\n"):
                for file, names in NAMED.findall(line):
                    wanted = [name for name in re.findall(r"\w+", names) if "_" in name]
                    wrong += [f"{document}: {file}: {name}" for name in [None, *wanted]
                              if file not in sources
                              or name and not re.search(rf"\b{name}\b", sources[file])]
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_name_existing_faults(self):
        faults = set(re.findall(r"X\(([A-Z_0-9]+),", text("daemon/base/fault.h")))
        wrong = [f"{document}: {name}" for document in DOCUMENTS
                 for listed in re.findall(r"\b(?:[Ss]im|unit) \(([^)]*)\)", text(document))
                 for name in re.findall(r"\b[A-Z][A-Z_0-9]{3,}\b", listed) if name not in faults]
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_quoted_messages_are_said(self):
        strings = list(literals())
        failures = text(GUIDE).partition("\n## Failures\n")[2]
        cells = re.findall(r"(?m)^\| ([^|]*) \|", failures)
        quoted = [message for cell in cells for message in QUOTED.findall(cell)]
        self.assertGreater(len(quoted), 60)
        self.assertEqual([message for message in quoted if not is_said(message, strings)], [])
        for planted in "the broker accepts no massages: ...", "dock connection down: ...":
            self.assertFalse(is_said(planted, strings), planted)

    def test_each_recipe_of_the_manuals_has_a_test(self):
        """The test takes the literal block from the manual by words of it."""
        calls = [call for source in tests().values() if "manual" in source for call in ast.walk(ast.parse(source))
                 if isinstance(call, ast.Call) and getattr(call.func, "id", getattr(call.func, "attr", "")) in ("block", "recipe")]
        words = [call.args[-1].value for call in calls if isinstance(call.args[-1], ast.Constant)]
        self.assertGreater(len(words), 15)
        for page in "lockbroker.1", "lockbrokerd.8":
            self.assertEqual([block for block in manual.blocks(page) if not any(word in block for word in words)], [], page)

    def test_the_guide_names_each_alert(self):
        alerts = re.findall(r"- alert: (\w+)", text("docs/examples/lockbroker.rules.yml"))
        self.assertEqual(sorted(re.findall(r"\bLockbroker[A-Z]\w+", text(GUIDE))), sorted(alerts))


if __name__ == "__main__":
    tap.main()
