#!/usr/bin/env python3
"""Builds the Debian packages of a release on Debian 12 and 13, and installs, upgrades, removes and purges them there.

    deb_check.py [--folder DIR] TARBALL [SUITE...]      # bookworm, trixie

Each step has a root (root.py) as the lower layer of an overlay, which ends with the step. SUITE.build has the tools that
build packages, SUITE.systemd has systemd, and SUITE.clean has only Debian's essential packages. The packages of each
suite stay in DIR/SUITE.deb. On Debian 13 the commands of Containerfile run, too. Needs root and the network.
"""
import argparse
import contextlib
import ctypes
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import traceback

import root as roots
from boot import Host

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import guide  # noqa: E402
from wait import wait_until  # noqa: E402

SUITES = ("bookworm", "trixie")
BUILDERS = ("build-essential", "debhelper", "dh-python", "lintian")
SYSTEMD = ("systemd-sysv", "dbus", "needrestart")
APT = "apt-get -q -y --no-install-recommends"
# The service manager starts the panel for this request, and the panel asks the daemon.
PANEL_ASKED = r"""
import socket
panel = socket.socket(socket.AF_UNIX)
panel.connect("/run/lockbroker-web/web.sock")
panel.sendall(b"GET /v1/locks HTTP/1.1\r\nHost: localhost\r\nX-Remote-User: alice\r\n\r\n")
print(panel.makefile().readline().strip())
"""
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000


def private_mounts():
    """All mounts of this program end with it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0 or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        raise roots.RootError(f"no namespace for mounts: {os.strerror(ctypes.get_errno())}")


@contextlib.contextmanager
def overlay(folder, lower):
    """A root that can be changed, and leaves the one below as it is."""
    with tempfile.TemporaryDirectory(prefix="lockbroker-overlay-", dir=folder) as top:
        paths = [os.path.join(top, name) for name in ("root", "upper", "work")]
        for path in paths:
            os.mkdir(path)
        target, upper, work = paths
        roots.run("mount", "-t", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", "overlay", target)
        try:
            yield target
        finally:
            roots.run("umount", target)


def shell(root, command, log, folders=()):
    """A shell command inside, which must succeed; its output goes to the log."""
    print(f"# {command}", file=log, flush=True)
    if roots.enter(root, ["sh", "-ec", command], folders, stdin=subprocess.DEVNULL, stdout=log, stderr=log) != 0:
        raise AssertionError(f"failed: {command}")


def unpack(tarball, to):
    roots.run("tar", "-xf", tarball, "-C", to)
    return os.path.join(to, os.path.basename(tarball).removesuffix(".tar.xz"))


def build(tarball, folder, suite, log):
    """Builds without the unit tests, and compiles the library's example as the package has it."""
    debs = os.path.join(folder, f"{suite}.deb")
    shutil.rmtree(debs, ignore_errors=True)
    os.mkdir(debs)
    base = roots.make(folder, suite, name=f"{suite}.build", first=BUILDERS)
    with overlay(folder, base) as root, tempfile.TemporaryDirectory(dir=folder) as tree:
        release = unpack(tarball, tree)
        shutil.copy(tarball, tree)
        folders = [(tree, "/mnt/tree"), (debs, "/mnt/debs")]
        name = os.path.basename(release)
        shell(root, f"apt-get -q update; {APT} build-dep /mnt/tree/{name}; "
              f"DEB_BUILD_OPTIONS=nocheck /mnt/tree/{name}/build-aux/deb.sh /mnt/tree/{name}.tar.xz /mnt/debs", log, folders)
        shell(root, f"{APT} install /mnt/debs/liblockbroker*_*.deb pkgconf; cd /tmp; "
              "cc -Wall -Werror -o hold /usr/share/doc/liblockbroker-dev/examples/hold.c $(pkg-config --cflags --libs lockbroker); "
              "! ./hold nightly", log, folders)


def later(debs, to):
    """Copies of the packages with a later version."""
    for deb in sorted(glob.glob(f"{debs}/*lockbroker*_*.deb")):
        if "-dbgsym_" not in deb:
            with tempfile.TemporaryDirectory() as tree:
                roots.run("dpkg-deb", "-R", deb, tree)
                control = os.path.join(tree, "DEBIAN/control")
                with open(control, encoding="utf-8") as file:
                    text = file.read()
                with open(control, "w", encoding="utf-8") as file:
                    file.write(re.sub(r"(?m)^(Version: .*|Depends: liblockbroker0 \(= [^)]*)", r"\1+later", text))
                roots.run("dpkg-deb", "--root-owner-group", "-b", tree, to, stdout=subprocess.DEVNULL)


def same(host, command, wanted):
    said = host.run(command).split("\n")[:-1]
    if said != wanted:
        raise AssertionError(f"{command}: {said}, not {wanted}")


def put(host, debs, folder):
    """Copies packages to a folder of the host, and says what apt-get installs from there."""
    inside = host.path(folder)
    os.mkdir(inside)
    for deb in glob.glob(f"{debs}/*lockbroker*_*.deb"):
        if "-dbgsym_" not in deb:
            shutil.copy(deb, inside)
    return f"{APT} install {folder}/*.deb"


def follow(host, words, *changes):
    """Executes commands of the operations guide. The password that it asks for is empty."""
    commands = guide.commands(words)
    for old, new in changes:
        assert old in commands, old
        commands = commands.replace(old, new)
    return host.run(commands)


def lifecycle(debs, folder, suite, log):
    """Installed, configured, upgraded, removed, installed again and purged, on a host with systemd."""
    base = roots.make(folder, suite, name=f"{suite}.systemd", first=SYSTEMD)
    with Host(base, folder, log) as host, tempfile.TemporaryDirectory() as new:
        later(debs, new)
        host.run("rm /usr/sbin/policy-rc.d; apt-get -q update")
        install, upgrade = put(host, debs, "/debs"), put(host, new, "/later")
        host.run(install)
        units = "lockbrokerd.service lockbrokerd.socket lockbroker-web.socket"
        same(host, f"systemctl is-active {units}; systemctl is-enabled {units}", ["active"] * 3 + ["enabled"] * 3)
        same(host, "stat -c '%U %G %a' /run/lockbroker-web/web.sock", ["root lockbroker-web 660"])
        same(host, "stat -c '%U %G %a' /run/lockbroker/lockbroker.sock /etc/lockbroker /etc/lockbroker/lockbrokerd.conf",
             ["root lockbroker 660", "root root 755", "root root 644"])
        follow(host, "apt install ./deb/lockbroker_", ("apt install ./deb/", f"{APT} install /debs/"),
              ("amqp://lockbroker@mq1.example.org/locks", "memory:"))
        host.run("useradd alice; useradd olga")
        users = guide.commands("usermod -aG").splitlines()
        host.run(users[0].replace("USER", "alice"))
        host.run(users[1].replace("USER", "olga"))
        host.run("runuser -u olga -- lockbroker create nightly; ! runuser -u alice -- lockbroker destroy nightly")
        same(host, f"python3 -c '{PANEL_ASKED}'", ["HTTP/1.1 200 OK"])
        host.run("cd / && python3 -c 'import lockbroker'")
        # As both shells load it; the functions of bash need no package.
        host.run("cd /usr/share && bash -c '. bash-completion/completions/lockbroker && complete -p lockbroker' && "
                 "test -e zsh/vendor-completions/../../bash-completion/completions/lockbroker && "
                 "test -f zsh/vendor-completions/_lockbroker")
        host.run("systemd-run -q --unit=job -p User=alice lockbroker run nightly sleep infinity")
        wait_until(lambda: "\tsleep\t" in host.run("systemctl is-active job; lockbroker show nightly"), 30, "no holder")
        running = "systemctl show -P MainPID lockbrokerd job; lockbroker size nightly"
        before = host.run(running).split("\n")[:-1]

        host.run(upgrade)
        same(host, "dpkg-query -W -f '${Version}\n' lockbroker | grep -c later; tail -n 1 /etc/lockbroker/lockbrokerd.conf",
             ["1", "broker = memory:"])
        same(host, running, before)
        host.run(f"{APT} install --reinstall $(dpkg-query -W -f '${{Package}}\n' 'libevent-core*')")
        host.run("needrestart -b -r l | grep lockbrokerd.service")
        host.run("needrestart -r a")
        same(host, running, before)

        host.run(f"{APT} remove lockbroker")
        same(host, f"systemctl is-active {units} job || true; ls /etc/lockbroker",
             ["inactive"] * 3 + ["failed", "broker-password", "lockbrokerd.conf"])
        host.run(upgrade)
        same(host, "lockbroker info >/dev/null; tail -n 1 /etc/lockbroker/lockbrokerd.conf", ["broker = memory:"])
        host.run(f"{APT} purge '*lockbroker*'; rm -r /debs /later")
        same(host, "find / /run -xdev -name '*lockbroker*'", [])


# As a container has them: nothing below but the image, and /tmp and /run are part of it.
CONTAINER = """
mount --bind "$0" "$0" && mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" sh -ec "$1"
"""


def in_image(root, command, log):
    print(f"# {command}", file=log, flush=True)
    if subprocess.run([*roots.NAMESPACE, "sh", "-c", CONTAINER, root, command], check=False, stdin=subprocess.DEVNULL,
                      stdout=log, stderr=log, env={"PATH": "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"}).returncode != 0:
        raise AssertionError(f"failed: {command}")


def container(tarball, folder, suite, log):
    """The steps of Containerfile, in the suite that it names. Then its programs run as its user."""
    base = roots.make(folder, suite, name=f"{suite}.clean", first=())
    with contextlib.ExitStack() as stack:
        release = unpack(tarball, stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
        with open(os.path.join(release, "Containerfile"), encoding="utf-8") as file:
            steps = re.sub(r"(?m)^#.*\n|\\\n", "", file.read()).split("\n")
        images, last = {}, {}
        for word, _, rest in (step.partition(" ") for step in steps if step):
            words = shlex.split(rest)
            if word == "FROM":
                if not words[0].endswith(f":{suite}-slim"):
                    raise AssertionError(f"Containerfile is not for {suite}: {rest}")
                root, folder_inside = stack.enter_context(overlay(folder, base)), "/"
                images[words[-1]] = root
            elif word == "WORKDIR":
                folder_inside = rest
                os.makedirs(root + rest, exist_ok=True)
            elif word == "COPY":
                source = images[words.pop(0).partition("=")[2]] + words[0] if words[0].startswith("--from=") else \
                    os.path.join(release, words[0])
                os.makedirs(os.path.dirname(root + words[-1]), exist_ok=True)
                for path in [source] if os.path.isdir(source) else glob.glob(source):
                    roots.run("cp", "-a", path, root + words[-1])
            elif word == "RUN":
                in_image(root, f"cd {folder_inside}; {rest}", log)
            else:
                last[word] = rest
        command = shlex.join(json.loads(last["CMD"]))
        in_image(root, f"runuser -u {last['USER']} -- sh -ec '{command} --broker memory: & for i in $(seq 100); do "
                 "lockbroker ping && break; done; lockbroker create nightly; lockbroker run nightly true; kill $!; wait $!'", log)


def run(name, step, folder, *arguments):
    """Prints one line of the result. The output of the step is in its log."""
    path = os.path.join(folder, f"{name.replace(' ', '-')}.log")
    with open(path, "w", encoding="utf-8") as log:
        try:
            step(*arguments, log)
        except Exception:
            traceback.print_exc(file=log)
            print(f"FAILED  {name}: {path}")
            return False
    print(f"ok      {name}", flush=True)
    return True


def check(options, suite):
    """The results of one suite."""
    folder, tarball = options.folder, options.tarball
    built = run(f"build {suite}", build, folder, tarball, folder, suite)
    yield built
    yield built and run(f"packages {suite}", lifecycle, folder, os.path.join(folder, f"{suite}.deb"), folder, suite)
    if suite == SUITES[-1]:
        yield run(f"Containerfile {suite}", container, folder, tarball, folder, suite)


def main(description, check_suite, *flags):
    """check_suite(options, suite): the results of one suite. Returns the exit status."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default=roots.FOLDER)
    for flag in flags:
        parser.add_argument(flag, action="store_true")
    parser.add_argument("tarball")
    parser.add_argument("suites", nargs="*", metavar="SUITE", default=list(SUITES))
    options = parser.parse_args()
    if os.geteuid() != 0:
        print(f"******* SKIPPED: {parser.prog} needs root, for debootstrap, mounts and namespaces *******")
        return 0
    options.folder, options.tarball = os.path.abspath(options.folder), os.path.abspath(options.tarball)
    roots.hear_term()
    try:
        private_mounts()
        os.makedirs(options.folder, exist_ok=True)
        results = [result for suite in options.suites for result in check_suite(options, suite)]
    except roots.RootError as e:
        return f"{parser.prog}: {e}"
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(__doc__, check))
