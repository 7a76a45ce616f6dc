"""The literal blocks of the manuals: recipes that tests execute."""

import os
import re

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "man")


def source(page):
    with open(os.path.join(FOLDER, f"{page}.in"), encoding="utf-8") as file:
        return file.read()


def block(page, words):
    """The only literal block of a manual that has these words, as a reader sees it."""
    blocks = [found for found in re.findall(r"(?ms)^\.Bd -literal.*?\n(.*?)^\.Ed$", source(page)) if words in found]
    if len(blocks) != 1:
        raise AssertionError(f"{page}: {len(blocks)} literal blocks have {words}")
    return blocks[0].replace("\\&", "").replace("\\e", "\\")
