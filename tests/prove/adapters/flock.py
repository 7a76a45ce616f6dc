#!/usr/bin/python3
"""The adapter of flock(2), on one host: a mutex is a file.

	flock.py FOLDER [no-verify] [ignores-loss]
"""

import fcntl
import os

from adapter import Hold, Service, main


class Flock(Service):
    def __init__(self, folder, _options):
        self.folder = folder

    def acquire(self, name, kind, ident):
        fd = os.open(os.path.join(self.folder, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return Hold(name, token=fd)

    def verify(self, hold):
        """The locked file still has its name."""
        try:
            return os.path.samestat(os.fstat(hold.token), os.stat(os.path.join(self.folder, hold.name)))
        except FileNotFoundError:
            return False

    def release(self, hold):
        os.close(hold.token)


if __name__ == "__main__":
    main(Flock)
