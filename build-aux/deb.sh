#!/bin/sh
# Builds the Debian packages of a release in a folder, and runs lintian on them.
#
#	deb.sh TARBALL FOLDER
set -eu
release=$(basename "$1" .tar.xz)

tar -xf "$1" -C "$2"
cd "$2"
# make's own variables are not for the makefiles in there.
(cd "$release" && env -u MAKEFLAGS -u MAKELEVEL dpkg-buildpackage -us -uc)
rm -rf "$release"
# The suppressed tag is about bugs in Debian's archive.
lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs ./*.changes
