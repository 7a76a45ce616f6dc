#!/usr/bin/env python3
"""The sentences of the tree's texts, and the rules of plain English that a program can check.

    plain.py TREE FILE...    prints what breaks a rule in these files of the tree

A reader of a file format yields (line, words) for text and (line, None) between two paragraphs.
"""

import ast
import bisect
import os
import re
import sys

WORDS_MAX = 25
# Words after which a clause begins, and prepositions.
CLAUSE = (r"(?:(?:^|[,;:(] )(?:(?:and|or|but|so|then) )?"
          r"|\b(?:that|if|when|while|because|as|unless|until|though|where) )")
AFTER = (r"\b(?:to|of|for|from|by|with|in|on|at|than|but|behind|before|after"
         r"|those|all|any|one|some|others|\w+body|anyone) ")
RULES = (
    ("a clause begins with who", re.compile(rf"(?:{CLAUSE}|{AFTER})\W?who\b(?![,.:;)\"'])|\bwhoever\b", re.I)),
    ("a clause begins with what", re.compile(rf"{CLAUSE}\W?what\b(?! to\b|[,.:;)\"'])", re.I)),
    ("he", re.compile(r"\b(?:he|his|him|himself)\b", re.I)),
    ("a phrase to avoid", re.compile(r"\b(?:of which|but for|at the most|none the wiser)\b", re.I)),
)
INDENTED = ("\t", "    ")
CODE = re.compile(r"`[^`]+`|[\w./]*\w_\w+(?:\.[ch]|\.py)?")
# Up to a full stop that is no abbreviation's and no ellipsis's.
SENTENCE = re.compile(r"\S.*?(?:(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\.\.)[.!?][\"')\]]*(?=\s|$)|$)")


def broken(sentence):
    """The names of the rules that a sentence breaks. A piece of code is one word, and so is a list of them."""
    plain = re.sub(r"\bcode(?:[,;:]? code\b)+", "code", CODE.sub("code", sentence))
    words = sum(1 for word in plain.split() if re.search(r"\w", word))
    if words > WORDS_MAX:
        yield f"{words} words"
    yield from (name for name, pattern in RULES if pattern.search(plain))


def sentences(pieces):
    """(line, sentence) of the paragraphs that a reader yields."""
    paragraph = []
    for number, words in [*pieces, (0, None)]:
        if words is not None:
            paragraph.append((number, " ".join(words.split())))
            continue
        starts = [sum(len(w) + 1 for _, w in paragraph[:i]) for i in range(len(paragraph))]
        whole = CODE.sub(lambda m: m[0].replace(" ", "_"), " ".join(w for _, w in paragraph))
        for match in SENTENCE.finditer(whole):
            yield paragraph[bisect.bisect(starts, match.start()) - 1][0], match[0]
        paragraph = []


def markdown(source):
    """A cell of a table, a heading and an item are texts of their own; code is none."""
    fenced, code = False, True
    for number, line in enumerate(source.split("\n"), 1):
        item = re.match(r"\s*(?:[-*]|\d+\.|#+)\s+", line)
        if line.lstrip().startswith("```"):
            fenced = not fenced
            yield number, None
        elif fenced or code and line.startswith("    ") and not item:
            yield number, None
        elif line.lstrip().startswith("|"):
            for cell in re.split(r"(?<!\\)\|", line):
                yield from [(number, None), (number, cell)]
            yield number, None
        else:
            if item or not line.strip():
                yield number, None
            text = line[item.end():] if item else line
            yield number, re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("**", "")
            if line.startswith("#"):
                yield number, None
        code = not line.strip() or code and line.startswith("    ")


MDOC_CODE = ("Ar", "Cm", "Dv", "Er", "Ev", "Fa", "Fl", "Fn", "Ft", "Ic", "In", "Li", "Pa", "Ql", "Va", "Vt")
MDOC_WORDS = ("Em", "Nd", "Nm", "No", "Op", "Oo", "Oc", "Pq", "Po", "Pc", "Sx", "Sy", "Xr")


def mdoc_words(line):
    """A line of mdoc(7) that begins with a macro, as text, with code in backquotes."""
    said, code, flag, space = "", False, False, True
    for word in re.findall(r'"[^"]*"|\S+', re.sub(r"\b(Xr \S+) (\d)", r"\1(\2)", line[1:])):
        if word == "Ns":
            space = False
        elif word in MDOC_CODE or word in MDOC_WORDS:
            code, flag = word in MDOC_CODE, word == "Fl"
            said += " lockbroker" if word == "Nm" else ""
        else:
            mark = re.fullmatch(r"[.,;:?!)\]]|", word)
            word = ("-" if flag and not mark else "") + re.sub(r"\\&|\\\(..|\"", "", word)
            said += (" " if space and not mark else "") + (f"`{word}`" if code and not mark else word)
            space = True
    return said.replace("` `", " ").replace("``", "")


def mdoc(source):
    hidden = False
    for number, line in enumerate(source.split("\n"), 1):
        macro = line[1:3] if line.startswith(".") else ""
        if macro == "Sh":
            hidden = "SYNOPSIS" in line
        elif macro in ("Bd", "Ed"):
            hidden = macro == "Bd"
        if not hidden and macro in MDOC_CODE + MDOC_WORDS:
            yield number, mdoc_words(line)
        elif line.startswith((".", "@")) or hidden:
            yield number, None
        else:
            yield number, re.sub(r"\\&|\\\(..|\\e", "", line)


C_TOKEN = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|' r"'(?:\\.|[^'\\])+'|`(?:\\.|[^`\\])*`|\bSTART_TEST\((\w+)\)", re.DOTALL)


def c_comments(source):
    """Comments, without their indented lines, which are code; and the names of tests."""
    for match in C_TOKEN.finditer(source):
        number = source.count("\n", 0, match.start()) + 1
        if match[1]:
            yield number, match[1].replace("_", " ")
        elif match[0].startswith("/*"):
            for line in match[0][2:-2].split("\n"):
                words = re.sub(r"^\s*\*", "", line).replace("----", "")
                if not words.strip() or words.startswith(INDENTED) or re.match(r" (?:[-*]|\d+\.) ", words):
                    yield number, None
                if not words.startswith(INDENTED):
                    yield number, words
                number += 1
        yield number, None


def c_strings(source):
    """Strings of three words and more; those with nothing but a macro in between are one."""
    end, run = 0, []
    for match in [*C_TOKEN.finditer(source), None]:
        string = match is not None and match[0].startswith('"')
        if not string or re.search(r"[^\s\w]|\w\s+\w", source[end:match.start()]):
            words = " ".join(words or "" for _, words in run).split()
            if sum(1 for word in words if re.match(r"\W*[A-Za-z]{2,}", word) and word[0] != "%") > 2:
                yield from [*run, (0, None)]
            run = []
        if not string:
            continue
        number, end = source.count("\n", 0, match.start()) + 1, match.end()
        for i, words in enumerate(re.split(r"\\n(?=\\n|\s)", match[0][1:-1])):
            run += ([(number, None)] if i else []) + [(number, re.sub(r"\\[nt]", " ", words).replace("\\", ""))]


def hash_comments(source):
    for number, line in enumerate(source.split("\n"), 1):
        comment = re.search(r"(?:^|\s)#+(?:\s(.*)|$)", line)
        whole = comment and not line[:comment.start()].strip()
        code = not comment or not comment[1] or comment[1].startswith(INDENTED)
        if code or not whole:
            yield number, None
        if not code:
            yield number, comment[1]


SHELL_MESSAGE = re.compile(r"""^[ \t]*(?:[^#\n]*[ \t;&|({])?(?:echo|printf|fail|until_true)[ \t]+("(?:\\.|[^"\\])*"|'[^']*')""",
                           re.MULTILINE)
SHELL_HERE = re.compile(r"<<-?(\w+)\n(.*?)\n\s*\1$", re.MULTILINE | re.DOTALL)


def shell_strings(source):
    """Messages of a shell script: quoted words after the commands that say them, and here-documents."""
    for match in SHELL_MESSAGE.finditer(source):
        number = source.count("\n", 0, match.start(1)) + 1
        yield from [(number, re.sub(r"\$(?:\([^)]*\)|\{[^}]*\}|\w+)|\\.", "%", match[1][1:-1])), (number, None)]
    for match in SHELL_HERE.finditer(source):
        for i, line in enumerate(match[2].split("\n"), source.count("\n", 0, match.start(2)) + 1):
            words = line.lstrip("\t")
            yield i, None if words.startswith("    ") else words
        yield i, None


def python_text(node):
    """The text of an expression, with % for what is filled in; "": it is no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(python_text(value) or "%" for value in node.values)
    return ""


def python_strings(source):
    """Messages: the texts that a program prints, raises, waits for or fails with."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise):
            node = node.exc
        elif not (isinstance(node, ast.Call) and re.search(
                r"(?:^|\.)(?:print|exit|fail|skipTest|wait_until)$", ast.unparse(node.func))):
            continue
        for argument in getattr(node, "args", []):
            for line in python_text(argument).split("\n"):
                yield from [(node.lineno, line), (node.lineno, None)]


def python(source):
    """Comments, documentation, and the names of tests."""
    yield from [*hash_comments(source), (0, None)]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            number = node.body[0].lineno
            for i, line in enumerate(ast.get_docstring(node).split("\n")):
                yield number + i, None if not line.strip() or line.startswith(INDENTED) else line
            yield number, None
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield from [(node.lineno, node.name[5:].replace("_", " ")), (node.lineno, None)]


def openrpc(source):
    for number, line in enumerate(source.split("\n"), 1):
        for text in re.findall(r'"(?:description|summary|title)":\s*"((?:\\.|[^"\\])*)"', line):
            yield from [(number, text), (number, None)]


def html(source):
    """The texts between tags, and comments."""
    for match in re.finditer(r"<!--(.*?)-->|<[^>]*>|([^<]+)", source, re.DOTALL):
        yield from [(source.count("\n", 0, match.start()) + 1, match[1] or match[2]), (0, None)]


def findings(path, source):
    """(line, rule, sentence). The strings of a test in C are no messages."""
    ending = os.path.splitext(path)[1]
    known = {".md": [markdown], ".in": [mdoc], ".json": [openrpc], ".py": [python, python_strings],
             ".c": [c_comments, c_strings], ".h": [c_comments, c_strings],
             ".js": [c_comments], ".css": [c_comments], ".html": [html]}
    readers = known.get(ending, [hash_comments, shell_strings])
    if path.startswith("tests/") and ending in (".c", ".h"):
        readers = [c_comments]
    elif path.startswith("systemd/"):
        readers = [hash_comments]
    return [(number, rule, sentence) for reader in readers
            for number, sentence in sentences(reader(source)) for rule in broken(sentence)]


def main(tree, *paths):
    found = 0
    for path in paths:
        with open(os.path.join(tree, path), encoding="utf-8") as file:
            for number, rule, sentence in findings(os.path.normpath(path), file.read()):
                print(f"{path}:{number}: {rule}: {sentence}")
                found += 1
    print(found)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
