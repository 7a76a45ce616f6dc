"""The texts are in plain English (plain.py). Each term of the glossary is used, and no term that terms.txt has
replaced is left."""

import fnmatch
import re
import unittest

import plain
import tap
from tree import sources, text

FILES = ("README.md", "NEWS.md", "Makefile.am", "configure.ac", "check", "quickstart", ".ci/run",
         "build-aux/packages.sh")
ROOMS = ("client", "daemon", "docs", "man", "protocol", "systemd", "tests")
ENDINGS = (".c", ".h", ".py", ".md", ".in", ".json", ".conf", ".am", ".js", ".css", ".html")
TERMS = "tests/style/terms.txt"


def paths():
    return [*FILES, *sources(*ENDINGS, rooms=ROOMS)]


def terms(listed):
    """(pattern, new term, patterns of paths where the old one is allowed) of each row: old, new, where."""
    for line in listed.splitlines():
        if line.strip() and not line.startswith("#"):
            old, new, where = (line.split("\t") + ["", ""])[:3]
            words = r"[\s_*#/-]+".join(map(re.escape, old.split()))
            yield re.compile(rf"(?<![a-z]){words}(?:e?s)?(?![a-z])", re.I), new, where.split()


def old_terms(path, source, known):
    for pattern, new, where in known:
        if not any(fnmatch.fnmatch(path, allowed) for allowed in where):
            for match in pattern.finditer(f"{path}\n{source}"):
                number = source.count("\n", 0, max(0, match.start() - len(path) - 1)) + 1
                yield f"{path}:{number}: {' '.join(match[0].split())}: the term is {new}"


class Sentences(unittest.TestCase):
    def test_none_breaks_a_rule(self):
        wrong = [f"{path}:{number}: {rule}: {sentence}" for path in paths()
                 for number, rule, sentence in plain.findings(path, text(path))]
        if wrong:
            self.fail("\n" + "\n".join(wrong))

    def rules(self, sentence):
        return [re.sub(r"\d+ ", "", rule) for rule in plain.broken(sentence)]

    def test_planted_sentences_are_found(self):
        for rule, planted in {
                "a clause begins with who": [
                    "Who holds a slot is told.", "And who waits is told.", "It is free, and who waits gets it.",
                    "It is left to who asks.", "A holder, who may be gone, is told.", "Those who wait are told.", "It goes to whoever asks."],
                "a clause begins with what": [
                    "What is cut is completed.", "It ends: what it held is free.", "If what it has is gone, end."],
                "he": ["A waiter ends when he is told.", "It is his.", "It ends him."],
                "a phrase to avoid": ["Two slots, of which one is free.", "All but for one.", "Ten at the most."],
                "words": ["word " * 26]}.items():
            for sentence in planted:
                self.assertEqual(self.rules(sentence), [rule], sentence)

    def test_innocent_sentences_are_not(self):
        for sentence in ("The client that holds a slot is told.", "It says what failed.",
                         "It shows who holds a lock.", "The user who started it may stop it.",
                         "The columns are state, who, why and command.", "Run `what is who, he` again.",
                         "word " * 25, "one_b, two_b, `x` " * 20, "It says where it failed, and what to do."):
            self.assertEqual(self.rules(sentence), [], sentence)

    def assert_read(self, reader, source, *expected):
        self.assertEqual(list(plain.sentences(reader(source))), list(expected))

    def test_each_format_is_read(self):
        self.assert_read(plain.markdown, "# T\nOne, e.g. `a. b`\nends. Two\n\n    code\n- [3](x)\n| a | b. |\n",
                         (1, "T"), (2, "One, e.g. `a._b` ends."), (3, "Two"), (6, "3"), (7, "a"), (7, "b."))
        self.assert_read(plain.mdoc, ".Sh SYNOPSIS\nno\n.Sh NOTES\nThe\n.Nm\n.Fl -x ,\n.Xr a 1 .\n.Pp\nEnd.\n",
                         (4, "The lockbroker `--x`, a(1)."), (9, "End."))
        self.assert_read(plain.c_comments, "/*\n * One\n * ends. Two\n *\tcode\n */\nSTART_TEST(who_is)\n/* x */",
                         (2, "One ends."), (3, "Two"), (6, "who is"), (7, "x"))
        self.assert_read(plain.c_strings, '"a" x("Who holds "\n "it goes") f("two %s") g("%" PRI " is not\\nmany")',
                         (1, "Who holds it goes"), (2, "% is not many"))
        self.assert_read(plain.python, '"""One\nends."""\n# Two\n# ends\nx = 1  # three\ndef test_who_is(): pass\n',
                         (3, "Two ends"), (5, "three"), (1, "One ends."), (6, "who is"))
        self.assert_read(plain.shell_strings, "# echo 'no'\nx && echo \"It is $x, ${y}.\" >&2\ncat <<-END\n"
                         "\tTwo\n\tlines\n\t    code\n\tEND\nrun 'none'\nfail 'Why'\n",
                         (2, "It is %, %."), (9, "Why"), (4, "Two lines"))
        self.assert_read(plain.python_strings, "print(f'One {x}', y)\nraise E('two\\nthree')\nx.fail('four')\nz('no')",
                         (2, "two"), (2, "three"), (1, "One %"), (3, "four"))
        self.assert_read(plain.c_comments, "x = `it's ${a}`; /* One. */ y = 'b';", (1, "One."))
        self.assert_read(plain.html, '<p title="no">One\n<b>two</b></p>\n<!-- Three. -->', (1, "One"), (2, "two"), (3, "Three."))
        self.assert_read(plain.openrpc, '{"description": "One. Two"}', (1, "One."), (1, "Two"))


def glossary(document):
    """The terms of the table of ARCHITECTURE.md: "lock connection", ..."""
    table = document.partition("\n## Terms\n")[2].partition("\n## ")[0]
    for cell in re.findall(r"(?m)^\| ([a-z][^|]*) \|", table)[1:]:  # the first one is the head
        yield from (re.sub(r" \(.*\)", "", term) for term in cell.split(", "))


class Terms(unittest.TestCase):
    deadline = 120  # all files, word by word

    def test_each_of_the_glossary_is_used(self):
        """In code or a text, apart from the glossary itself. Code has _ for a space."""
        known = list(glossary(text("docs/ARCHITECTURE.md")))
        self.assertGreater(len(known), 40)
        everything = "\n".join(text(path) for path in paths() if path != "docs/ARCHITECTURE.md").lower()
        unused = [term for term in known
                  if not re.search(r"(?<![a-z])" + re.sub(r"[ -]", r"[\\s_*#/-]+", term), everything)]
        self.assertEqual(unused, [])

    def test_no_old_one_is_left(self):
        known = list(terms(text(TERMS)))
        self.assertGreater(len(known), 40)
        wrong = [found for path in paths() for found in old_terms(path, text(path), known)]
        if wrong:
            self.fail("\n" + "\n".join(wrong))

    def test_planted_ones_are_found(self):
        known = list(terms("# old, new, where\ngadget\ttool\ttests/interop/*\nfast gadget\tquick tool\n"))
        source = "struct gadget x; GADGETS_MAX;\ngadget_open(ungadget, gadgetfoo); /* the fast\n * gadget */"
        self.assertEqual(list(old_terms("a.c", source, known)),
                         ["a.c:1: gadget: the term is tool", "a.c:1: GADGETS: the term is tool",
                          "a.c:2: gadget: the term is tool", "a.c:3: gadget: the term is tool",
                          "a.c:2: fast * gadget: the term is quick tool"])
        self.assertEqual(len(list(old_terms("daemon/gadget.c", "", known))), 1)
        self.assertEqual(list(old_terms("tests/interop/a.c", "gadget", known)), [])


if __name__ == "__main__":
    tap.main()
