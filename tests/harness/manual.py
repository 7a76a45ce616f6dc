"""The literal blocks of the manuals: recipes that tests execute."""

import os
import re

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "man")


def source(page):
    with open(os.path.join(FOLDER, f"{page}.in"), encoding="utf-8") as file:
        return file.read()


def blocks(page):
    """All literal blocks of a manual, as a reader sees them."""
    found = re.findall(r"(?ms)^\.Bd -literal.*?\n(.*?)^\.Ed$", source(page))
    return [text.replace("\\&", "").replace("\\e", "\\") for text in found]


def block(page, words):
    """The only one that has these words."""
    found = [text for text in blocks(page) if words in text]
    if len(found) != 1:
        raise AssertionError(f"{page}: {len(found)} literal blocks have {words}")
    return found[0]
