"""The files that the house rules speak of. The tree may be a checkout or an unpacked tarball."""

import os

ROOT = os.environ.get("top_srcdir") or os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROOMS = ("protocol", "daemon", "client", "tests")


def sources(*endings, rooms=ROOMS):
    """Paths below ROOT of the files with one of the endings, sorted."""
    found = []
    for room in rooms:
        for folder, _, names in os.walk(os.path.join(ROOT, room)):
            found += [os.path.relpath(os.path.join(folder, name), ROOT)
                      for name in names if name.endswith(endings)]
    return sorted(found)


def text(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()
