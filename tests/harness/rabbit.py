#!/usr/bin/env python3
"""A private RabbitMQ node for tests and quickstart, from Debian's rabbitmq-server package.

All its files are below one folder: database, logs, configuration, Erlang cookie, certificates. The node listens on
127.0.0.1 alone and has its own epmd. It runs as root or as an ordinary user.

    with Rabbit() as rabbit:            # a temporary folder, removed at the end
        connect(rabbit.url)

    rabbit.py run [OPTIONS] -- COMMAND  # COMMAND with LOCKBROKER_AMQP_URL set; its exit status
    rabbit.py pool N -- COMMAND         # COMMAND, whose tests lease at most N nodes (pool.py)
    rabbit.py start [OPTIONS] DIR       # a node below DIR; prints its URL when it is up
    rabbit.py stop|kill|freeze|thaw DIR # ends it in order | by SIGKILL | SIGSTOP | SIGCONT
    rabbit.py ctl DIR ARGUMENT...       # as rabbitmqctl of that node

RABBITMQ_ROOT=DIR uses RabbitMQ and Erlang from the root folder of another system, such as tests/matrix/root.py makes.
That needs root, or permission to create user namespaces. RABBITMQ_KHEPRI=1 stores a node's metadata in Khepri. Khepri
is an experiment on RabbitMQ 4.0, and the only store from 4.3 on. RABBITMQ_QUEUE_TYPE=quorum makes durable queues of that type
whose declaration names no type.

A node that was stopped or killed can be started again with the same ports and data. COMMAND of `run` gets
LOCKBROKER_AMQP_URL, LOCKBROKER_AMQPS_URL (with --tls), LOCKBROKER_RABBIT_DIR, LOCKBROKER_RABBIT_NODE and
LOCKBROKER_RABBIT_PY (for the shell: Python and this file) in its environment.
"""
import argparse
import ctypes
import glob
import itertools
import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from typing import NamedTuple

# The wrappers in /usr/sbin insist on the user rabbitmq.
BIN = "/usr/lib/rabbitmq/bin"

# A program of another root sees that root's /usr and library cache, and otherwise the files of this system. Its mounts
# are in a namespace of its own. Both systems must have a merged /usr.
IN_ROOT = """
mount --bind "$0/usr" /usr && mount --bind "$0/etc/ld.so.cache" /etc/ld.so.cache && exec "$@"
"""
UP_TIMEOUT = 180
DOWN_TIMEOUT = 60
# More descriptors than this only cost memory: the Erlang VM sizes a table by the limit.
FILES_MAX = 65536
CALLS = itertools.count(1)  # of erl_call
# A variable: the path of the socket of a pool.
POOL = "LOCKBROKER_RABBIT_POOL"
LEASE_TIMEOUT = 1800
# Commands of rabbitmqctl, by the functions that it calls in the node. {0} is the first operand, and {vhost} that of -p
# or --vhost.
IN_NODE = {
    "add_user": 'ok = rabbit_auth_backend_internal:add_user({0}, {1}, <<"test">>).',
    "add_vhost": 'ok = rabbit_vhost:add({0}, <<"test">>).',
    "change_password": 'ok = rabbit_auth_backend_internal:change_password({0}, {1}, <<"test">>).',
    "clear_user_limits": 'ok = rabbit_auth_backend_internal:clear_user_limits({0}, {1}, <<"test">>).',
    "clear_vhost_limits": 'ok = rabbit_vhost_limit:clear({vhost}, <<"test">>).',
    "close_connection": "ok = rabbit_networking:close_connection(rabbit_misc:string_to_pid(binary_to_list({0})), {1}).",
    "clear_permissions": 'ok = rabbit_auth_backend_internal:clear_permissions({0}, {vhost}, <<"test">>).',
    "close_all_connections": """
        [catch rabbit_networking:close_connection(Pid, {0})
         || Pid <- rabbit_networking:connections(), [{{vhost, {vhost}}}] =:= (catch rabbit_reader:info(Pid, [vhost]))],
        ok.""",
    "delete_user": 'ok = rabbit_auth_backend_internal:delete_user({0}, <<"test">>).',
    "delete_vhost": 'ok = rabbit_vhost:delete({0}, <<"test">>).',
    "set_permissions": 'ok = rabbit_auth_backend_internal:set_permissions({0}, {vhost}, {1}, {2}, {3}, <<"test">>).',
    "set_disk_free_limit": 'ok = rabbit_disk_monitor:set_disk_free_limit("{words[0]}").',
    "set_user_limits": 'ok = rabbit_auth_backend_internal:set_user_limits({0}, {1}, <<"test">>).',
    "set_vhost_limits": 'ok = rabbit_vhost_limit:parse_set({vhost}, {0}, <<"test">>).',
    "set_vm_memory_high_watermark": "ok = vm_memory_monitor:set_vm_memory_high_watermark({words[0]}).",
}
# The parameters of RabbitMQ at the node's start, for the reset of a node of a pool.
REMEMBER = """
    persistent_term:get(lockbroker_env, none) =:= none andalso
        persistent_term:put(lockbroker_env, application:get_all_env(rabbit))."""
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"


class RabbitError(Exception):
    pass


def binary(text):
    """An Erlang binary."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'<<"{escaped}"/utf8>>'


def missing():
    """Why no node can be started here; None when one can."""
    root = os.environ.get("RABBITMQ_ROOT", "")
    if not os.access(f"{root}{BIN}/rabbitmq-server", os.X_OK):
        return f"no {root}{BIN}/rabbitmq-server (Debian: rabbitmq-server)"
    if not os.access(f"{root}/usr/bin/epmd", os.X_OK):
        return f"no {root}/usr/bin/epmd (Debian: erlang-base)"
    return None


def version():
    """The version of the RabbitMQ that nodes are made of, as text."""
    folder = f"{os.environ.get('RABBITMQ_ROOT', '')}/usr/lib/rabbitmq/lib"
    return next(name.partition("-")[2] for name in os.listdir(folder) if name.startswith("rabbitmq_server-"))


def in_root(root, argv):
    """The command that runs argv with the programs of root; root may be None."""
    if not root:
        return argv
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", "--mount", *user, "sh", "-c", IN_ROOT, root, *argv]


def free_ports(count):
    """Unused ports below the range for outgoing connections. From that range the kernel could give the port of a node
    that is down to a client that tries to connect. The client would connect to itself, and the node could not
    start again."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        low = int(f.read().split()[0])
    held = []
    try:
        while len(held) < count:
            s = socket.socket()
            try:
                s.bind(("127.0.0.1", random.randrange(max(1024, low // 2), low)))
            except OSError:
                s.close()
                continue
            held.append(s)
        return [s.getsockname()[1] for s in held]
    finally:
        for s in held:
            s.close()


def process_born(pid):
    """The start time of a living process, which tells it from a later one of the same number."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            fields = f.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def wait_until(what, seconds, predicate):
    deadline = time.monotonic() + seconds
    while not predicate():
        if time.monotonic() > deadline:
            raise RabbitError(f"{what}: not within {seconds} s")
        time.sleep(0.05)


def write_file(path, text, mode=0o600):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as f:
        f.write(text)


def ask_pool(path, words):
    """The connection to the pool, and its answer (pool.py)."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(LEASE_TIMEOUT)
        connection.connect(path)
        connection.sendall(json.dumps(words).encode() + b"\n")
        with connection.makefile(encoding="utf-8") as file:
            answer = json.loads(file.readline())
        if "error" in answer:
            raise RabbitError(answer["error"])
    except BaseException as e:
        connection.close()
        if isinstance(e, (OSError, ValueError)):
            raise RabbitError(f"the pool of RabbitMQ nodes: {e}") from e
        raise
    return connection, answer


class Certificates:
    """A CA, certificates it signed, and files of them below a folder."""

    def __init__(self, directory):
        self.directory = directory
        self.ca = os.path.join(directory, "ca.pem")
        os.makedirs(directory, exist_ok=True)

    def path(self, name):
        return os.path.join(self.directory, name)

    def _openssl(self, *args):
        done = subprocess.run(["openssl", *args], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            raise RabbitError(f"openssl {' '.join(args)}: {done.stderr}")

    def make_ca(self):
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                      "-nodes", "-days", "30", "-subj", "/CN=lockbroker test CA",
                      "-addext", "keyUsage=critical,keyCertSign,cRLSign",
                      "-keyout", self.path("ca.key"), "-out", self.ca)
        return self.ca

    def make(self, name, cn, san=""):
        """A certificate for cn and the subject alternative names ("DNS:a,IP:b"): (cert, key)."""
        cert, key = self.path(name + ".pem"), self.path(name + ".key")
        request, extensions = self.path(name + ".csr"), self.path(name + ".ext")
        write_file(extensions, "basicConstraints=CA:FALSE\n"
                   "extendedKeyUsage=serverAuth,clientAuth\n"
                   + (f"subjectAltName={san}\n" if san else ""))
        self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                      "-subj", f"/CN={cn}", "-keyout", key, "-out", request)
        self._openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.path("ca.key"),
                      "-CAcreateserial", "-days", "30", "-extfile", extensions, "-out", cert)
        return cert, key


class Host(NamedTuple):
    """Where a node lives. enter: the words in front of a command that runs there."""
    name: str
    address: str
    enter: tuple = ()


LOCALHOST = Host("localhost", "127.0.0.1")


class Queue(NamedTuple):
    durable: bool
    consumers: int


class Rabbit:
    """One node.

    directory: of the node. It is made if it is missing, and kept. None: a temporary one, which close() removes.
    config: more lines of rabbitmq.conf. plugins: to enable. env: more of the node's environment. host: of the node.
    tls: listen for TLS too, with a certificate for the names in san. erl_args: more arguments of the Erlang VM.
    join: a running node whose cluster this one joins at its first start. On the same host it must end after this one.
    """

    shared = False  # by several tests (pool.py)
    login, vhost = "guest:guest", "/"

    @staticmethod
    def lease(**needs):
        """A node of the pool, if there is one: pool.Lease. Otherwise it is a node of its own."""
        from pool import Lease  # pylint: disable=import-outside-toplevel,cyclic-import
        return Lease(**needs)

    def __init__(self, directory=None, config="", plugins=(), tls=False,
                 san="DNS:localhost,IP:127.0.0.1", env=None, join=None, host=LOCALHOST, erl_args=""):
        self.temporary = directory is None
        self.directory = os.path.abspath(directory) if directory else tempfile.mkdtemp(
            prefix="lockbroker-rabbit-")
        self._children = []
        # With one epmd for all nodes of the cluster on this host, the first one's.
        self.clustered = join is not None and join.host == host
        path = self._path("node.json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                self.state = json.load(f)
            return
        ports = free_ports(4 if tls else 3)
        self.state = {
            "node": f"lockbroker{ports[0]}@{host.name}", "port": ports[0], "dist_port": ports[1],
            "epmd_port": ports[2], "tls_port": ports[3] if tls else None, "plugins": list(plugins),
            "env": env or {}, "epmd": None, "beam": None, "root": os.environ.get("RABBITMQ_ROOT"),
            "khepri": os.environ.get("RABBITMQ_KHEPRI", "0") != "0",
            "host": host, "erl_args": erl_args, "pool": None,
        }
        if join is not None:
            config += "\n" + self._prepare_to_join(join)
        try:
            self._write_files(config, san)
        except BaseException:
            self.close()
            raise

    # ---- what tests ask for ----

    @property
    def port(self):
        return self.state["port"]

    @property
    def node(self):
        return self.state["node"]

    @property
    def host(self):
        name, address, enter = self.state["host"]
        return Host(name, address, tuple(enter))

    @property
    def url(self):
        return self.url_at(self.port)

    def url_at(self, port, login=None):
        """Its URL for a proxy, or for another login."""
        return f"amqp://{login or self.login}@{self.host.address}:{port}" + self._url_path()

    def _url_path(self):
        return "" if self.vhost == "/" else f"/{self.vhost}"

    @property
    def tls_port(self):
        return self.state["tls_port"]

    @property
    def tls_url(self):
        return f"amqps://{self.login}@localhost:{self.tls_port}" + self._url_path()

    def variables(self):
        """The variables that `run` adds to the environment."""
        env = {"LOCKBROKER_AMQP_URL": self.url}
        if not self.shared:
            env.update({"LOCKBROKER_RABBIT_DIR": self.directory, "LOCKBROKER_RABBIT_NODE": self.node,
                        "LOCKBROKER_RABBIT_PY": f"'{sys.executable}' '{os.path.abspath(__file__)}'"})
        if self.tls_port:
            env["LOCKBROKER_AMQPS_URL"] = self.tls_url
        return env

    @property
    def certificates(self):
        """With tls: ca, and the files server.pem, client.pem (CN=client), each with its .key."""
        return Certificates(self._path("tls"))

    @property
    def pid(self):
        """The process id of the node (beam); None when it does not run."""
        return self._living("beam")

    @property
    def log(self):
        with open(self._path("log/node.log"), encoding="utf-8", errors="replace") as f:
            return f.read()

    # ---- its life ----

    def serve_module(self):
        """The setUpModule of a test: it runs until the tests of the module are over."""
        unittest.addModuleCleanup(self.close)
        self.start()

    def start(self):
        self.launch()
        return self.wait_up()

    def launch(self):
        """Starts it and does not wait."""
        if self.pid is not None:
            return self
        if self.state.get("pool") and not self.temporary:
            # It ends with the pool, and not with this process.
            ask_pool(self.state["pool"], {"launch": self.directory})[0].close()
            return self
        reason = missing()
        if reason is not None:
            raise RabbitError(reason)
        if not self._listens(self.state["epmd_port"]):
            self._spawn("epmd", ["epmd", "-port", str(self.state["epmd_port"]),
                                 "-address", self.host.address])
            wait_until("epmd", 60, lambda: self._listens(self.state["epmd_port"]))
        self._shorten_code_path()
        self._spawn("beam", [f"{BIN}/rabbitmq-server"])
        return self

    def wait_up(self):
        try:
            wait_until("RabbitMQ", UP_TIMEOUT, self._is_up)
        except RabbitError as e:
            out = self._tail("log/console") + self._tail("log/node.log")
            self._end("beam", signal.SIGKILL)
            raise RabbitError(f"{e}\n{out}") from e
        if self.state["khepri"]:
            self.ctl("enable_feature_flag", "--experimental", "khepri_db")
            self.state["khepri"] = False  # it stays so
            self.save()
        if self.state.get("pool"):
            self._evaluate(REMEMBER)
        return self

    def alone(self, what):
        """Refuses an act that others would notice."""
        if self.shared:
            raise RabbitError(f"{what}: other tests share this node, so it is refused: lease one with shared=False")

    def stop(self):
        """Stops it in order: its clients get a connection.close (320)."""
        self.alone("stop")
        self._end("beam", signal.SIGTERM)
        if not self.clustered:
            self._end_epmd()

    def kill(self):
        """SIGKILL: no goodbye to anybody."""
        self.alone("kill")
        self._end("beam", signal.SIGKILL)
        if not self.clustered:
            self._end_epmd()

    def freeze(self):
        """Returns when every thread has stopped: until then the node may still answer."""
        self.alone("freeze")
        os.kill(self.pid, signal.SIGSTOP)
        deadline = time.monotonic() + 60
        while not self._is_stopped():
            if time.monotonic() > deadline:
                raise RabbitError("the node does not stop")
            time.sleep(0.002)

    def _is_stopped(self):
        states = set()
        for task in os.listdir(f"/proc/{self.pid}/task"):
            try:
                with open(f"/proc/{self.pid}/task/{task}/stat", encoding="ascii") as file:
                    states.add(file.read().rpartition(")")[2].split()[0])
            except (FileNotFoundError, ProcessLookupError):
                continue
        return states <= {"T"}

    def thaw(self):
        self.alone("thaw")
        os.kill(self.pid, signal.SIGCONT)

    def close(self):
        self._end("beam", signal.SIGKILL)
        if self.state["epmd"] is not None or not self.clustered:
            self._end_epmd()
        if self.temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def ctl(self, *args, check=True, timeout=300, program="rabbitmqctl"):
        """rabbitmqctl, or another of its programs; its output."""
        if not args[0].startswith("list_"):
            self.alone(f"rabbitmqctl {args[0]}")
        if self.pid is None:
            raise RabbitError(f"rabbitmqctl {' '.join(args)}: the node does not run")
        done = subprocess.run(self._argv(f"{BIN}/{program}", "-q", "-n", self.node, *args),
                              env=self._environment(), stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout,
                              check=False)
        if check and done.returncode != 0:
            raise RabbitError(f"rabbitmqctl {' '.join(args)}: {done.stdout}{done.stderr}")
        return done.stdout

    def perform(self, command, *args):
        """Does what rabbitmqctl does, in some milliseconds if it is an `eval` or in IN_NODE. rabbitmqctl takes a
        second."""
        if command == "eval":
            return self.eval(*args)
        if command not in IN_NODE:
            return self.ctl(command, *args)
        vhost = "/"
        if args[0] in ("-p", "--vhost"):
            _, vhost, *args = args
        return self.eval(IN_NODE[command].format(*map(binary, args), words=args, vhost=binary(vhost)))

    def eval(self, expressions, check=True):
        """The output of Erlang expressions in the node, with the value of the last one at its end. They end with a dot.
        erl_call(1) takes some milliseconds, and rabbitmqctl a second. A node refuses two calls of the same name
        at once. So each has a name of its own, by -h."""
        self.alone("eval")
        return self._evaluate(expressions, check)

    def _evaluate(self, expressions, check=True):
        with open(self._path("home/.erlang.cookie"), encoding="ascii") as file:
            cookie = file.read().strip()
        done = subprocess.run(self._argv("erl_call", "-address", f"{self.host.address}:{self.state['dist_port']}",
                                         "-h", f"c{os.getpid()}x{next(CALLS)}", "-c", cookie, "-timeout", "60", "-e",
                                         "-fetch_stdout"),
                              env=self._environment(), input=expressions + "\n", text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)
        printed, mark, value = done.stdout.rpartition("{ok, ")
        if mark:
            return printed + value.rpartition("}")[0]
        if check:
            raise RabbitError(f"{expressions}: {done.stdout}{done.stderr}")
        return ""

    def connections(self, *items):
        """The rows of `rabbitmqctl list_connections` with these items: lists of text. Compound values are Erlang terms."""
        return self._rows("rabbit_networking:connection_info_all", items)

    def channels(self, *items):
        """The same of list_channels."""
        return self._rows("rabbit_channel:info_all", items)

    def _rows(self, function, items):
        rows = self._evaluate("""
            Text = fun(Value) when is_pid(Value) -> rabbit_misc:pid_to_string(Value);
                      (Value) when is_binary(Value) -> Value;
                      (Value) -> io_lib:format("~0tp", [Value]) end,
            [io:format("~ts~n", [lists:join("\t", [Text(Value) || {_, Value} <- Row])]) || Row <- %s([%s])],
            done.""" % (function, ", ".join(items))).splitlines()[:-1]
        return [row.split("\t") for row in rows]

    def queues(self, vhost=None):
        """{name: Queue} of all queues whose nodes are up."""
        rows = self._evaluate("""
            [io:format("~ts\t~s\t~b~n", [element(4, Name), Durable, if is_integer(Consumers) -> Consumers; true -> 0 end])
             || [{name, Name}, {durable, Durable}, {consumers, Consumers}]
                <- rabbit_amqqueue:info_all(<<"%s">>, [name, durable, consumers])],
            done.""" % (vhost or self.vhost)).splitlines()[:-1]
        return {name: Queue(durable == "true", int(consumers)) for name, durable, consumers in
                (row.split("\t") for row in rows)}

    def holders(self, vhost=None):
        """The queues that a connection has declared as exclusive ones or consumes from, each with the process id of
        that connection at the broker. They include the holder queues of all slots that are held, in either way."""
        rows = self._evaluate("""
            Connection = fun(Channel) -> [{_, Pid}] = rabbit_channel:info(Channel, [connection]), Pid end,
            Holders = fun(Queue) -> case amqqueue:get_exclusive_owner(Queue) of
                none -> try [catch Connection(element(1, One)) || One <- rabbit_amqqueue:consumers(Queue)]
                        catch _:_ -> [] end;
                Owner -> [Owner] end end,
            [io:format("~ts\t~s~n", [element(4, amqqueue:get_name(Queue)), rabbit_misc:pid_to_string(Pid)])
             || Queue <- rabbit_amqqueue:list(<<"%s">>), Pid <- Holders(Queue), is_pid(Pid)],
            done.""" % (vhost or self.vhost)).splitlines()[:-1]
        return dict(row.split("\t") for row in rows)

    def slots_held(self):
        """The queues of slots and mutexes that are held. By quorum also of those that are claimed, or wait for a grace."""
        return [queue for queue in self.holders() if queue.endswith(("-B", "-M")) or queue.startswith("lockbroker=q=")]

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *exc):
        self.close()

    # ---- inside ----

    def _path(self, name):
        return os.path.join(self.directory, name)

    def _tail(self, name):
        try:
            with open(self._path(name), encoding="utf-8", errors="replace") as f:
                return f.read()[-4000:]
        except OSError:
            return ""

    def _prepare_to_join(self, other):
        """One epmd on each host, at one port, and one cookie for all nodes of a cluster; returns lines
        for rabbitmq.conf."""
        other.clustered = other.clustered or self.clustered
        self.state["epmd_port"] = other.state["epmd_port"]
        os.makedirs(self._path("home"), exist_ok=True)
        shutil.copy2(other._path("home/.erlang.cookie"), self._path("home/.erlang.cookie"))
        return f"cluster_formation.classic_config.nodes.1 = {other.node}"

    def _write_files(self, config, san):
        for name in ("log", "home", "mnesia"):
            os.makedirs(self._path(name), exist_ok=True)
        lines = [
            f"listeners.tcp.1 = {self.host.address}:{self.port}",
            "log.console = false",
            "log.file.level = info",
            # The alarms are for tests that raise them, not for a disk that is nearly full.
            "disk_free_limit.absolute = 1MB",
        ]
        if "RABBITMQ_QUEUE_TYPE" in os.environ:
            lines.append(f"default_queue_type = {os.environ['RABBITMQ_QUEUE_TYPE']}")
        if self.tls_port:
            certs = self.certificates
            certs.make_ca()
            server_cert, server_key = certs.make("server", "localhost", san)
            certs.make("client", "client")
            lines += [
                f"listeners.ssl.1 = {self.host.address}:{self.tls_port}",
                f"ssl_options.cacertfile = {certs.ca}",
                f"ssl_options.certfile = {server_cert}",
                f"ssl_options.keyfile = {server_key}",
                "ssl_options.verify = verify_peer",
                "ssl_options.fail_if_no_peer_cert = false",
                "ssl_cert_login_from = common_name",
            ]
        if "rabbitmq_auth_mechanism_ssl" in self.state["plugins"]:
            lines += ["auth_mechanisms.1 = PLAIN", "auth_mechanisms.2 = EXTERNAL"]
        write_file(self._path("rabbitmq.conf"), "\n".join(lines) + "\n" + config + "\n")
        write_file(self._path("enabled_plugins"), f"[{','.join(self.state['plugins'])}].\n")
        self.save()

    def _shorten_code_path(self):
        """A node looks for each of its 800 modules in the folder of each plugin that it finds, and in the last one first.
        So it finds only the plugins that it needs, and all modules in the last one. A start of RabbitMQ 3.10 takes a
        third of the processor time then."""
        root = self.state["root"] or ""
        needed = {"rabbitmq_prelaunch", *self.state["plugins"]}
        apps = {}
        for path in sorted(glob.glob(f"{root}/usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins/*-*")):
            name = os.path.basename(path)
            if not name.startswith("rabbitmq_") or name.partition("-")[0] in needed:
                apps[name] = path
        home = self._path("rabbitmq")
        shutil.rmtree(home, ignore_errors=True)
        os.makedirs(f"{home}/plugins")
        write_file(self._path("env.conf"), f"RABBITMQ_HOME='{home}'\n" if apps else "")
        if not apps:
            return
        links = {}
        for path in [*reversed(apps.values()), *glob.glob(f"{root}/usr/lib/erlang/lib/*")]:
            for module in glob.glob(f"{path}/ebin/*.beam"):
                links.setdefault(f"ebin/{os.path.basename(module)}", module)
        last, path = apps.popitem()
        links.update((entry, f"{path}/{entry}") for entry in os.listdir(path) if entry != "ebin")
        links.update((f"ebin/{os.path.basename(app)}", app) for app in glob.glob(f"{path}/ebin/*.app"))
        os.makedirs(f"{home}/plugins/{last}/ebin")
        for link, path in [*apps.items(), *((f"{last}/{entry}", path) for entry, path in links.items())]:
            os.symlink(path[len(root):], f"{home}/plugins/{link}")

    def save(self):
        new = self._path(f"node.json.{os.getpid()}")
        write_file(new, json.dumps(self.state))
        os.rename(new, self._path("node.json"))

    def _reload(self):
        """The node may have been ended and started again by another process (`kill DIR`)."""
        try:
            with open(self._path("node.json"), encoding="utf-8") as f:
                self.state = json.load(f)
        except OSError:
            pass

    def _environment(self):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("RABBITMQ_", "ERL_")) and k not in ("NOTIFY_SOCKET",)}
        env.update({
            "HOME": self._path("home"),
            "LANG": "C.UTF-8",
            "ERL_EPMD_PORT": str(self.state["epmd_port"]),
            "ERL_EPMD_ADDRESS": self.host.address,
            "ERL_CRASH_DUMP_BYTES": "0",
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_NODE_IP_ADDRESS": self.host.address,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self.state["dist_port"]),
            "RABBITMQ_MNESIA_BASE": self._path("mnesia"),
            "RABBITMQ_LOG_BASE": self._path("log"),
            "RABBITMQ_LOGS": self._path("log/node.log"),
            "RABBITMQ_PID_FILE": self._path("beam.pid"),
            "RABBITMQ_CONFIG_FILE": self._path("rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": self._path("env.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": self._path("enabled_plugins"),
            "RABBITMQ_GENERATED_CONFIG_DIR": self._path("mnesia/config"),
            # Idle schedulers sleep at once: tests share few cores.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS":
                "+sbwt none +sbwtdcpu none +sbwtdio none "
                f"-kernel inet_dist_use_interface {{{self.host.address.replace('.', ',')}}} "
                + self.state["erl_args"],
            # One scheduler of rabbitmqctl is enough. With several that spin it takes 14 s beside busy programs, not 3 s.
            "RABBITMQ_CTL_ERL_ARGS": "+S 1 +sbwt none +sbwtdcpu none +sbwtdio none",
            # The script becomes the VM: the child's process id is the node's.
            "RUNNING_UNDER_SYSTEMD": "true",
        })
        env.update(self.state["env"])
        return env

    def _argv(self, *argv):
        return [*self.host.enter, *in_root(self.state["root"], list(argv))]

    def _spawn(self, what, argv):
        def before_exec():
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            want = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
            if soft == resource.RLIM_INFINITY or soft != want:
                resource.setrlimit(resource.RLIMIT_NOFILE, (want, hard))
            # The node ends when this process is killed, as no other one would end it. It is the starting thread's
            # end that counts: start a temporary node from one that lives as long.
            if self.temporary:
                ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG

        with open(self._path("log/console"), "ab") as console:
            child = subprocess.Popen(self._argv(*argv), env=self._environment(), cwd=self.directory,
                                     stdin=subprocess.DEVNULL, stdout=console, stderr=console,
                                     start_new_session=True, preexec_fn=before_exec)
        self._children.append(child)
        self.state[what] = [child.pid, process_born(child.pid)]
        self.save()

    def _living(self, what):
        self._reload()
        if self.state[what] is None:
            return None
        pid, born = self.state[what]
        for child in self._children:
            if child.pid == pid:
                child.poll()
        return pid if process_born(pid) == born else None

    def _end(self, what, how):
        pid = self._living(what)
        if pid is None:
            return
        os.kill(pid, how)
        if how != signal.SIGKILL:  # which works on a frozen node, and must not thaw it
            os.kill(pid, signal.SIGCONT)
        try:
            wait_until(f"end of {what}", DOWN_TIMEOUT, lambda: self._living(what) is None)
        except RabbitError:
            os.kill(pid, signal.SIGKILL)
            wait_until(f"end of {what}", DOWN_TIMEOUT, lambda: self._living(what) is None)

    def _end_epmd(self):
        self._end("epmd", signal.SIGKILL)
        # rabbitmqctl starts another one when it finds none, for a node that died under its hands.
        if self._listens(self.state["epmd_port"]):
            subprocess.run(self._argv("epmd", "-port", str(self.state["epmd_port"]), "-kill"),
                           env=self._environment(), stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)

    def _listens(self, port):
        with socket.socket() as s:
            return s.connect_ex((self.host.address, port)) == 0

    def _is_up(self):
        """Whether it answers the protocol header: its listeners open last."""
        if self.pid is None:
            raise RabbitError("RabbitMQ ended while it started")
        for port in filter(None, (self.tls_port, self.port)):
            if not self._listens(port):
                return False
        with socket.socket() as s:
            s.settimeout(10)
            try:
                s.connect((self.host.address, self.port))
                s.sendall(PROTOCOL_HEADER)
                return s.recv(1) == b"\x01"
            except OSError:
                return False


def make_node(options, directory):
    return Rabbit(directory, config="\n".join(options.config), plugins=options.plugin,
                  tls=options.tls, san=options.san)


def run(options):
    def interrupted(signum, _frame):
        raise SystemExit(128 + signum)

    for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, interrupted)
    with make_node(options, None) as rabbit:
        child = subprocess.Popen(options.command, env=dict(os.environ, **rabbit.variables()))
        try:
            status = child.wait()
        except BaseException:
            child.terminate()
            child.wait()
            raise
        return status if status >= 0 else 128 - status


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("run", "start"):
        sub = verbs.add_parser(verb)
        sub.add_argument("--tls", action="store_true", help="listen for TLS too")
        sub.add_argument("--san", default="DNS:localhost,IP:127.0.0.1",
                         help="names in the server's certificate")
        sub.add_argument("--config", action="append", default=[], metavar="LINE",
                         help="one more line of rabbitmq.conf")
        sub.add_argument("--plugin", action="append", default=[])
        if verb == "run":
            sub.add_argument("command", nargs=argparse.REMAINDER)
        else:
            sub.add_argument("directory")
    sub = verbs.add_parser("pool")
    sub.add_argument("size", type=int, metavar="N")
    sub.add_argument("command", nargs=argparse.REMAINDER)
    for verb in ("stop", "kill", "freeze", "thaw", "ctl"):
        sub = verbs.add_parser(verb)
        sub.add_argument("directory")
        if verb == "ctl":
            sub.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.verb in ("run", "pool"):
        options.command = options.command[options.command[:1] == ["--"]:]
        if not options.command:
            parser.error("no COMMAND")
        if options.verb == "run":
            return run(options)
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pool.py")
        os.execv(sys.executable, [sys.executable, program, str(options.size), *options.command])
    if options.verb == "start":
        os.makedirs(options.directory, exist_ok=True)
        print(make_node(options, options.directory).start().url)
        return 0
    if not os.path.exists(os.path.join(options.directory, "node.json")):
        raise RabbitError(f"{options.directory}: no node lives there")
    rabbit = Rabbit(options.directory)
    if options.verb == "ctl":
        sys.stdout.write(rabbit.perform(*options.arguments))
    else:
        getattr(rabbit, options.verb)()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RabbitError as e:
        sys.exit(f"rabbit.py: {e}")
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
