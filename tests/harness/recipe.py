"""The commands of the documents, as a reader sees them, for tests that execute them."""

import re
import textwrap
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
EXAMPLES = SOURCE / "docs/examples"
GUIDE = SOURCE / "docs/OPERATIONS.md"


def only(blocks, words):
    """The only block that has these words."""
    found = [block for block in blocks if words in block]
    assert len(found) == 1, (words, found)
    return found[0]


def manual(words):
    """A literal block of lockbroker(1)."""
    text = (SOURCE / "man/lockbroker.1.in").read_text(encoding="utf-8")
    blocks = re.findall(r"(?ms)^\.Bd -literal.*?\n(.*?)^\.Ed$", text)
    return only(blocks, words).replace("\\&", "").replace("\\e", "\\")


def guide(words):
    """Indented lines of the operations guide."""
    blocks = re.findall(r"(?m)(?<=\n\n)(?:^ {4}.*\n)+(?=\n)", GUIDE.read_text(encoding="utf-8"))
    return textwrap.dedent(only(blocks, words))
