"""The lockbroker command on a terminal whose screen a test can read (python3-pyte).

	screen = Screen(self, daemon, "top")		# 80x24, with colours and UTF-8
	screen.wait_row("db  .* 1 +0 +0")		# until a line of the screen matches
	screen.type("+")
	screen.resize(60, 20)
"""

import fcntl
import re
import struct
import termios

import pyte

from cli import Terminal
from wait import PATIENCE, wait_until


class Screen(Terminal):
    """The terminal is a console's: pyte lacks what others have more (xterm's REP)."""

    def __init__(self, test, daemon, *argv, columns=80, lines=24, term="linux", locale="C.UTF-8", **more):
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        # All bytes: tests search them for the sequences that restore the screen, as pyte has no second screen.
        self.raw = b""
        super().__init__(test, daemon, *argv, columns=columns, lines=lines,
                         env={"TERM": term, "LC_ALL": locale, "LANG": locale}, **more)

    def take(self, data):
        super().take(data)
        self.raw += data
        self.stream.feed(data)

    def rows(self):
        """The screen now, line by line, without the blanks at the ends."""
        self.read()
        return [row.rstrip() for row in self.screen.display]

    def find(self, pattern):
        """The first line that matches from anywhere, or None."""
        return next((row for row in self.rows() if re.search(pattern, row)), None)

    def wait_row(self, pattern, within=PATIENCE):
        try:
            return wait_until(lambda: self.find(pattern), within)
        except AssertionError:
            raise AssertionError(f"no line is like {pattern!r} within {within} s:\n{self}") from None

    def wait_no_row(self, pattern, within=PATIENCE):
        try:
            wait_until(lambda: self.find(pattern) is None, within)
        except AssertionError:
            raise AssertionError(f"a line stays like {pattern!r}:\n{self}") from None

    def __str__(self):
        return "\n".join(f"|{row}" for row in self.rows())

    def resize(self, columns, lines):
        self.read()
        self.screen.resize(lines, columns)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
