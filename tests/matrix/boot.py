"""Systemd as the first process of a root folder, in namespaces of its own: a host to install packages on.

	with boot.Host(root, folder, log) as host:
	    host.run("systemctl is-active dbus")

The root is the lower layer of an overlay: nothing changes it. The network is that of this machine, or with
network=False a loopback interface alone. Needs root.
"""
import os
import select
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from wait import wait_until  # noqa: E402


class HostError(Exception):
    pass


# Below the root of the unified hierarchy. In the namespace this group is the root.
CGROUP = """
mount -t cgroup2 none /sys/fs/cgroup && mkdir "/sys/fs/cgroup/$1" && echo $$ >"/sys/fs/cgroup/$1/cgroup.procs" || exit
exec unshare --mount --pid --cgroup --uts --ipc $5 --fork --kill-child sh -c "$2" sh "$3" "$4"
"""
# LoadCredential= of a unit needs shared mounts, which systemd does not make by itself in a container.
START = """
cd "$1" && mount -t overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" overlay root && cd root || exit
mount -t proc proc proc && mount -t sysfs -o ro sysfs sys && mount -t cgroup2 cgroup2 sys/fs/cgroup &&
	mount -t tmpfs -o mode=755 tmpfs dev && mount -t tmpfs -o mode=755 tmpfs run && mount -t tmpfs tmpfs tmp || exit
for node in null zero full random urandom tty; do
	touch dev/$node && mount --bind /dev/$node dev/$node || exit
done
mkdir dev/pts dev/shm && mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts && ln -s pts/ptmx dev/ptmx &&
	ln -s /proc/self/fd dev/fd && ln -s fd/0 dev/stdin &&
	mkdir -p mnt && pivot_root . mnt && umount -l /mnt && mount --make-rshared / || exit
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=null
"""


# Only when the namespace is gone.
CLEAN = """
mount -t cgroup2 none /sys/fs/cgroup && find "/sys/fs/cgroup/$1" -depth -type d -exec rmdir {} +
"""
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}


class Host:
    """Below the folder are the changes; the log has the commands and their output."""

    def __init__(self, root, folder, log, network=True):
        self.root, self.folder, self.log, self.network = root, folder, log, network

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="lockbroker-host-", dir=self.folder)
        for name in ("root", "upper", "work"):
            os.mkdir(os.path.join(self.dir, name))
        self.group = os.path.basename(self.dir)
        self.process = subprocess.Popen(["unshare", "--mount", "sh", "-c", CGROUP, "sh", self.group, START, self.dir, self.root,
                                         "" if self.network else "--net"], stdin=subprocess.DEVNULL)
        try:
            wait_until(self.booted, 60, "systemd did not start")
        except BaseException:
            self.__exit__()
            raise
        return self

    def first(self):
        """The process id of the host's systemd out here, or None."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            children = file.read().split()
        return children[0] if children else None

    def booted(self):
        if self.process.poll() is not None:
            raise HostError("the host's namespaces could not be made")
        return self.first() and self.try_run("systemctl is-system-running --wait")[1].strip() in ("running", "degraded")

    def __exit__(self, *_):
        # The first process ends with unshare, the namespaces with the first process.
        first = self.process.poll() is None and self.first()
        ended = os.pidfd_open(int(first)) if first else None
        self.process.kill()
        self.process.wait()
        if ended is not None:
            select.select([ended], [], [], 30)
            os.close(ended)
        subprocess.run(["unshare", "--mount", "sh", "-c", CLEAN, "sh", self.group], check=False)
        shutil.rmtree(self.dir)

    def path(self, inside):
        """A file of the host, out here."""
        return f"/proc/{self.first()}/root{inside}"

    def try_run(self, command):
        """Exit status and output of a shell command on the host."""
        done = subprocess.run(["nsenter", "--all", "--target", self.first(), "sh", "-ec", command], env=ENVIRONMENT,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout

    def run(self, command):
        """The output of a shell command that must succeed."""
        status, output = self.try_run(command)
        print(f"# {command}\n{output}", file=self.log, flush=True)
        if status != 0:
            raise HostError(f"{command}: exit status {status}\n{output}")
        return output
