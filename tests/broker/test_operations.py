"""The examples and commands of the operations guide that need a RabbitMQ."""

import os
import re
import shlex
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

import guide
import tap
from daemon import Daemon
from guide import EXAMPLES
from rabbit import Certificates, Rabbit, free_ports
from wire import Wire, wait_until

PASSWORD = "geheim"
# /etc/rabbitmq and /etc/lockbroker.
ETC = tempfile.TemporaryDirectory(prefix="test_operations.")
TLS_PORT, NOBODY = free_ports(2)
HOLDS = 50


def example(name, optional=False, **hosts):
    """Its text, with files that are here. optional: with the settings that are comments."""
    text = re.sub("/etc/(rabbitmq|lockbroker)", ETC.name, (EXAMPLES / name).read_text(encoding="utf-8"))
    for host, address in hosts.items():
        text = text.replace(f"{host}.example.org", address)
    return re.sub(r"(?m)^#(?=[a-z0-9._-]+ = (?!none))", "", text) if optional else text


def node():
    """With the example of TLS, certificates, and the vhost and user of the guide."""
    certificates = Certificates(ETC.name)
    certificates.make_ca()
    certificates.make("server", "mq1", "DNS:localhost")
    certificates.make("client", "lockbroker")
    listener = "listeners.ssl.default = 5671"
    text = example("rabbitmq-tls.conf", optional=True)
    assert listener in text
    return Rabbit(config=text.replace(listener, f"listeners.ssl.1 = 127.0.0.1:{TLS_PORT}"),
                  plugins=["rabbitmq_auth_mechanism_ssl"])


RABBIT = node()


def rabbitmqctl(commands):
    for line in commands.replace("\\\n", " ").splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert program == "rabbitmqctl", line
        RABBIT.ctl(*arguments)


def setUpModule():
    unittest.addModuleCleanup(ETC.cleanup)
    unittest.addModuleCleanup(RABBIT.close)
    RABBIT.start()
    rabbitmqctl(guide.commands("set_permissions").replace("PASSWORD", PASSWORD))
    write("broker-password", PASSWORD)


def write(name, password):
    with open(os.open(Path(ETC.name, name), os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        file.write(password + "\n")


class Operations(unittest.TestCase):
    # Each rabbitmqctl takes a second of processor time, which can be half a minute on a busy machine.
    deadline = 300

    def daemon(self, config, **more):
        daemon = Daemon(self, broker=None, config=config, env={"CREDENTIALS_DIRECTORY": ETC.name}, **more)
        daemon.wait_broker()
        peer = Wire(daemon)
        peer.call("release", lock=peer.call("acquire", name="m", kind="mutex", timeout=5)["lock"])
        return daemon

    def test_tls(self):
        daemon = self.daemon(example("lockbrokerd-tls.conf", mq1=f"localhost:{TLS_PORT}"))
        daemon.wait_log(f"lock connection up: localhost:{TLS_PORT}, RabbitMQ ")
        # It cannot be handed over to a successor, and this lock ends with it.
        daemon.expect("is not replaced: the connection to the broker uses TLS")
        peer = Wire(daemon)
        lock = peer.call("acquire", name="kept", kind="mutex")["lock"]
        daemon.signal(signal.SIGUSR2)
        daemon.wait_log("is not replaced: the connection to the broker uses TLS")
        daemon.wait_log("reloaded")
        self.assertFalse(peer.call("info")["broker"]["handover"])
        peer.call("verify", lock=lock)

    def test_an_upgrade_over_tls(self):
        """No connection is handed over. The successor proves the holds by quorum again, before their leases end."""
        daemon = Daemon(self, "--quorum-servers", "untested", broker=None,
                        config=example("lockbrokerd-tls.conf", mq1=f"localhost:{TLS_PORT}"),
                        env={"CREDENTIALS_DIRECTORY": ETC.name}, expect=["connection"])
        daemon.wait_broker()
        holder, other = Wire(daemon), Wire(daemon)
        holder.call("create", name="many", slots=HOLDS, claim="quorum")
        asked = [holder.request("acquire", name="many", timeout=60) for _ in range(HOLDS)]
        grants = [holder.answer(one) for one in asked]
        pid = daemon.pid
        for takeovers in 1, 2:
            daemon.signal(signal.SIGUSR2)
            wait_until(lambda: other.call("info")["takeovers"] == takeovers, what="the daemon is replaced")  # noqa: B023
            daemon.wait_broker()
            for grant in grants:
                verified = holder.call("verify", lock=grant["lock"])
                self.assertGreater(verified["safe_until"], grant["safe_until"])
                self.assertGreaterEqual(verified["fence"], grant["fence"])
                grant.update(safe_until=verified["safe_until"], fence=verified["fence"])
        self.assertEqual(daemon.pid, pid)
        self.assertEqual(other.call("info")["counts"]["lost"], 0)
        self.assertFalse(holder.notifications and [one for one in holder.notifications if one["method"] == "lost"])
        for grant in grants:
            holder.call("release", lock=grant["lock"])
        # Each slot is clean.
        asked = [other.request("acquire", name="many", timeout=10) for _ in range(HOLDS)]
        for one in asked:
            self.assertGreater(other.answer(one)["fence"], 0)

    def test_tls_with_a_client_certificate(self):
        """The login is that of the certificate: the password is wrong."""
        write("broker-password", "wrong")
        self.addCleanup(write, "broker-password", PASSWORD)
        self.daemon(example("lockbrokerd-tls.conf", optional=True, mq1=f"localhost:{TLS_PORT}"))

    def test_tls_of_another_host(self):
        """The failure that the guide explains."""
        daemon = Daemon(self, broker=None, config=example("lockbrokerd-tls.conf", mq1=f"127.0.0.1:{TLS_PORT}"),
                        env={"CREDENTIALS_DIRECTORY": ETC.name}, expect=["lock connection"])
        daemon.wait_log("lock connection down: .*TLS: the certificate of 127.0.0.1 is rejected: IP address mismatch")

    def test_a_cluster(self):
        rabbitmqctl(guide.commands("set_cluster_name"))
        daemon = self.daemon(example("lockbrokerd-cluster.conf", mq1=f"127.0.0.1:{NOBODY}", mq2=f"127.0.0.1:{RABBIT.port}"),
                             expect=["lock connection down"])
        daemon.wait_log("lock connection up: .*, cluster locks, ")
        self.assertEqual(Wire(daemon).call("info")["claim"], "consumer")

    def test_the_password_is_changed(self):
        """No lock ends."""
        change, install, reload = guide.commands("change_password").splitlines()
        install = install.replace("/etc/lockbroker", ETC.name).replace(" -o lockbroker", "")
        self.sh(install, PASSWORD)
        daemon = self.daemon(f"broker = amqp://lockbroker@127.0.0.1:{RABBIT.port}/locks\npassword-file = {ETC.name}/password\n")
        holder = Wire(daemon)
        lock = holder.call("acquire", name="kept", kind="mutex")["lock"]

        rabbitmqctl(change)
        self.addCleanup(RABBIT.perform, "change_password", "lockbroker", PASSWORD)
        self.sh(install, "NEW")
        self.assertRegex(reload, "^systemctl reload lockbrokerd")
        daemon.reload()
        daemon.wait_log("reload: the next connection to the broker uses the new password")
        holder.call("verify", lock=lock)
        daemon.expect("lock connection down", "lost kept")
        RABBIT.perform("close_all_connections", "-p", "locks", "with the old password")
        daemon.wait_log("lock connection up", count=2)

    def test_rabbitmqctl(self):
        """The commands that the guide names for failures."""
        named = re.findall(r"`rabbitmqctl ((?:list_|cluster_)[^`]+)`", guide.TEXT)
        self.assertGreater(len(named), 3)
        for arguments in named:
            RABBIT.ctl(*arguments.split())

    def sh(self, line, text=""):
        subprocess.run(["sh", "-c", line], input=text + "\n", text=True, check=True, timeout=60)


if __name__ == "__main__":
    tap.main()
