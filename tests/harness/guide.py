"""The commands of the operations guide and the examples beside it, for tests that execute them."""

import re
import textwrap
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
EXAMPLES = SOURCE / "docs/examples"
TEXT = (SOURCE / "docs/OPERATIONS.md").read_text(encoding="utf-8")
# The three patterns of set_permissions, on one line or several.
PERMISSIONS = re.compile(r"'(.+?)'[ \\\n]+'(.+?)'[ \\\n]+'(.+?)'")


def commands(words):
    """The only indented lines that have these words."""
    blocks = [found for found in re.findall(r"(?m)(?<=\n\n)(?:^ {4}.*\n)+(?=\n)", TEXT) if words in found]
    if len(blocks) != 1:
        raise AssertionError(f"OPERATIONS.md: {len(blocks)} blocks have {words}")
    return textwrap.dedent(blocks[0])
