#!/usr/bin/env python3
"""Makes a root folder of a Debian suite with that suite's RabbitMQ in it, and runs commands inside.

    root.py make SUITE [PACKAGE...]     # bookworm, trixie, sid ...; prints the root's path
    root.py run SUITE COMMAND...        # makes it when it is missing; COMMAND's exit status

A root is made once, by debootstrap, and takes several minutes; PACKAGEs are added to one that is there.
Both verbs need root and the network. The mirror, its keys and its proxy are those of the host's apt.

Roots live below --folder DIR; default: $LOCKBROKER_ROOTS, or /var/cache/lockbroker/roots.
RABBITMQ_ROOT=DIR/SUITE makes tests/harness/rabbit.py take RabbitMQ from there, for any one test.
"""
import argparse
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys

FOLDER = os.environ.get("LOCKBROKER_ROOTS") or "/var/cache/lockbroker/roots"
# Mounts end with the namespace, and processes with its first one, which ends with unshare.
NAMESPACE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
# The root is mounted on itself, so that "/" is a mount point inside: tests that make namespaces change its propagation.
ENTER = """
mount --bind "$0" "$0" && cd "$0" && mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && mount --rbind /sys "$0/sys" &&
	mount -t tmpfs -o mode=1777 tmpfs "$0/tmp" && mount -t tmpfs -o mode=755 tmpfs "$0/run" || exit
while [ "$1" != -- ]; do
	mkdir -p "$0$2" && mount --bind "$1" "$0$2" || exit
	shift 2
done
shift
exec chroot "$0" "$@"
"""


class RootError(Exception):
    pass


def run(*command, **options):
    if shutil.which(command[0]) is None:
        raise RootError(f"no {command[0]} here: apt-get install {command[0]}")
    done = subprocess.run(command, check=False, text=True, **options)
    if done.returncode != 0:
        raise RootError(f"{' '.join(command)}: exit status {done.returncode}")
    return done.stdout


def stanzas():
    """The lines of apt's sources, in either format: {field in lower case: value}."""
    names = ["/etc/apt/sources.list"]
    if os.path.isdir("/etc/apt/sources.list.d"):
        names += [f"/etc/apt/sources.list.d/{name}" for name in sorted(os.listdir("/etc/apt/sources.list.d"))]
    for name in filter(os.path.exists, names):
        with open(name, encoding="utf-8") as f:
            text = re.sub(r"(?m)^[ \t]*#.*\n", "", f.read())
        if name.endswith(".sources"):
            for part in re.split(r"\n[ \t]*\n", text):
                yield {key.lower(): value.strip()
                       for key, value in re.findall(r"(?m)^([\w-]+):((?:.*\n?)(?:[ \t].*\n?)*)", part)}
        elif name.endswith(".list"):
            for options, uri in re.findall(r"(?m)^deb\s+(?:\[(.*?)\]\s+)?(\S+)", text):
                yield {"uris": uri} | dict(word.split("=", 1) for word in options.split())


def mirror():
    """Of the host's apt: the address of its Debian, its keyring and whether it is trusted without."""
    found = run("apt-get", "indextargets", "--format", "$(ORIGIN) $(COMPONENT) $(CODENAME) $(RELEASE) $(REPO_URI)",
                "Identifier: Packages", stdout=subprocess.PIPE)
    for line in found.splitlines():
        words = line.split()
        # bookworm, and neither bookworm-updates nor bookworm-security
        if words[:2] == ["Debian", "main"] and words[2] == words[3]:
            break
    else:
        raise RootError("apt knows no Debian: run apt-get update, or see /etc/apt/sources.list.d")
    uri = words[4].rstrip("/")
    for stanza in stanzas():
        if uri in [one.rstrip("/") for one in stanza.get("uris", "").split()]:
            return uri, stanza.get("signed-by"), stanza.get("trusted") == "yes"
    return uri, None, False


def hear_term():
    """SIGTERM ends this program as an exception does, so that subprocess.run() kills the namespace first."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def enter(root, command, folders=(), **options):
    """Runs a command inside; folders: pairs of one out here and where it is inside. Its exit status."""
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
           "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run([*NAMESPACE, "sh", "-c", ENTER, root, *sum(folders, ()), "--", *command], env=env, check=False,
                          **options).returncode


def install(root, packages):
    for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        if enter(root, ["apt-get", "-q", *command], stdin=subprocess.DEVNULL, stdout=sys.stderr) != 0:
            raise RootError(f"apt-get {' '.join(command)} failed in {root}")


def write(path, text, mode=0o644):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path, mode)


def debootstrap(suite, root):
    if shutil.which("debootstrap") is None:  # run() sees only the command that calls it
        raise RootError("no debootstrap here: apt-get install debootstrap")
    uri, keyring, trusted = mirror()
    # A key may stand in the sources themselves instead of its file's name.
    if keyring and not keyring.startswith("/"):
        write(f"{root}.asc", re.sub(r"(?m)^ \.?", "", keyring) + "\n")
        run("gpg", "--batch", "--yes", "-o", f"{root}.gpg", "--dearmor", f"{root}.asc")
        keyring = f"{root}.gpg"
    how = ["--no-check-gpg"] if trusted else [f"--keyring={keyring}"] if keyring else []
    run(*NAMESPACE, "debootstrap", "--variant=minbase", *how, suite, root, uri, stdout=sys.stderr)
    options = "[trusted=yes] " if trusted else ""
    if keyring:
        shutil.copy(keyring, f"{root}/etc/apt/trusted.gpg.d/")
    write(f"{root}/etc/apt/sources.list", f"deb {options}{uri} {suite} main\n")
    fetch = re.findall(r"(?m)^Acquire::(?:https?::|Check-Valid-Until).*\n",
                       run("apt-config", "dump", stdout=subprocess.PIPE))
    write(f"{root}/etc/apt/apt.conf.d/90host", "".join(fetch))
    # Debian's own switch against starting services while installing (invoke-rc.d).
    write(f"{root}/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n", 0o755)
    write(f"{root}/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n")


def make(folder, suite, packages=(), name=None, first=("rabbitmq-server",)):
    """The path of the suite's root, or of one with another name, which is there then. first: packages of a new one."""
    if os.geteuid() != 0:
        raise RootError("this needs root, for debootstrap, mount and chroot, and the network")
    root = os.path.join(os.path.abspath(folder), name or suite)
    os.makedirs(folder, exist_ok=True)
    with open(f"{root}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(root):
            shutil.rmtree(f"{root}.new", ignore_errors=True)
            debootstrap(suite, f"{root}.new")
            install(f"{root}.new", first)
            os.rename(f"{root}.new", root)
        if packages:
            install(root, packages)
    return root


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("make", "run"))
    parser.add_argument("--folder", default=FOLDER)
    parser.add_argument("suite")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="PACKAGE... | COMMAND...")
    options = parser.parse_args()
    hear_term()
    if options.verb == "run":
        return enter(make(options.folder, options.suite), options.words or ["bash"])
    print(make(options.folder, options.suite, options.words))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RootError as e:
        sys.exit(f"root.py: {e}")
