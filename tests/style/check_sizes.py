"""The limits of files, functions and lines."""

import unittest

import tap
from tree import sources, text

FILE_MAX = 1200
# Above the first one a function needs a reason. No function is above the second one.
FUNCTION_LONG, FUNCTION_MAX = 60, 100
# Of comments, which clang-format leaves as they are; and of the page.
LINE_MAX, PAGE_LINE_MAX = 116, 125
PAGE = (".js", ".css", ".html")


def functions(path):
    """(first line, number of lines) of each function body: KNF has its braces in the first column."""
    began = None
    for number, line in enumerate(text(path).split("\n"), 1):
        if line == "{":
            began = number
        elif line == "}" and began is not None:
            yield began, number - began + 1
            began = None


class Sizes(unittest.TestCase):
    def test_files(self):
        wrong = [f"{path}: {lines} lines" for path in sources(".c", ".h", *PAGE)
                 if (lines := text(path).count("\n")) > FILE_MAX]
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_functions(self):
        wrong = []
        for path in sources(".c", rooms=("protocol", "daemon", "client")):
            for began, lines in functions(path):
                if lines > FUNCTION_LONG:
                    print(f"{path}:{began}: a function of {lines} lines")
                if lines > FUNCTION_MAX:
                    wrong.append(f"{path}:{began}: {lines} lines")
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_lines(self):
        wrong = [f"{path}:{number}: {width} columns" for path in sources(".c", ".h", *PAGE)
                 for number, line in enumerate(text(path).split("\n"), 1)
                 if (width := len(line.expandtabs(8))) > (PAGE_LINE_MAX if path.endswith(PAGE) else LINE_MAX)]
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_main_is_small(self):
        self.assertLess(text("daemon/main.c").count("\n"), 80)


if __name__ == "__main__":
    tap.main()
