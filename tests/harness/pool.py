"""A pool of RabbitMQ nodes for many tests at once: `rabbit.py pool N -- COMMAND`.

Each test in COMMAND leases a node with Rabbit.lease(). One node is shared: each of its lessees has a vhost and a user of
its own. Each of the others has one lessee at a time, which may do what it likes with it. A node starts when it is first
used.

A lessee does all that takes long: it waits until its node is up, and leaves it clean at its end. If it dies before that,
the pool removes its vhost, or ends its node. Nobody uses that node again.

LOCKBROKER_RABBIT_POOL is the path of the pool's Unix socket. Each connection is one lease, and the lease ends with it.
Lines of JSON go both ways:

    {"lease": "shared"|"exclusive"}   answered with {"directory": DIR, "name": NAME} when there is a node
    {"launch": DIR}                   starts that node, if it does not run; answered with {} or {"error": TEXT}
    {"clean": true}                   the last line of a lessee that leaves nothing behind; not answered
"""
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

from rabbit import POOL, Rabbit, RabbitError, ask_pool, version

# Of the nodes of a pool, so that tests of TLS can lease them, too.
MECHANISM = "rabbitmq_auth_mechanism_ssl"
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
PASSWORD = "secret"  # of the user of a shared lease
ADMIT = """
    Name = <<"%s">>, All = <<".*">>, By = <<"tests">>,
    ok = rabbit_vhost:add(Name, By),
    ok = rabbit_auth_backend_internal:add_user(Name, <<"%s">>, By),
    ok = rabbit_auth_backend_internal:set_permissions(Name, Name, All, All, All, By)."""
# The lessee may have died before it was admitted.
FORGET = """
    Name = <<"%s">>, By = <<"tests">>,
    catch rabbit_auth_backend_internal:delete_user(Name, By),
    [catch rabbit_networking:close_connection(Pid, <<"the lease has ended">>)
     || Pid <- rabbit_networking:connections(), [{vhost, Name}] =:= (catch rabbit_reader:info(Pid, [vhost]))],
    catch rabbit_vhost:delete(Name, By),
    false = rabbit_vhost:exists(Name)."""
# A restart of the broker in the Erlang VM takes a second, and one of the VM takes five. rabbit.REMEMBER has the parameters.
# While rabbit_boot is there, the last start is not over, and another one has no effect.
RESET = """
    Env = persistent_term:get(lockbroker_env),
    Booted = fun Again() -> whereis(rabbit_boot) =:= undefined orelse begin timer:sleep(20), Again() end end,
    Booted(),
    ok = rabbit:stop(),
    ok = rabbit_mnesia:reset(),
    [application:unset_env(rabbit, Key) || {Key, _} <- application:get_all_env(rabbit), not lists:keymember(Key, 1, Env)],
    [application:set_env(rabbit, Key, Value) || {Key, Value} <- Env],
    ok = rabbit:start(),
    true = rabbit:is_running()."""


class Lease(Rabbit):
    """A node of the pool. Without a pool it is a node of its own, with the same rules.

    shared: among others, and each has a vhost and a user. Acts that the others would notice are refused. A test that
    keeps the node busy leases one alone. tls: the node listens for TLS, too, and takes certificates as logins.
    """

    def __init__(self, shared=False, tls=False):  # pylint: disable=super-init-not-called
        self.shared, self.tls = shared, tls
        self.is_leased, self.connection, self.log_began = False, None, 0

    def start(self):
        """Begins the lease, or starts the node again."""
        if self.is_leased:
            self.alone("start")
            return super().start()
        try:
            self._begin()
        except BaseException:
            self.close()
            raise
        return self

    def _begin(self):
        directory = name = None
        if POOL in os.environ:
            self.connection, granted = ask_pool(os.environ[POOL], {"lease": "shared" if self.shared else "exclusive"})
            directory, name = granted["directory"], granted["name"]
        super().__init__(directory, tls=self.tls, plugins=[MECHANISM] if self.tls else ())
        self.is_leased = True
        if self.shared:
            self.vhost = name or "lease"
            self.login = f"{self.vhost}:{PASSWORD}"
        super().start()
        self.log_began = len(super().log)
        if self.shared:
            self._evaluate(ADMIT % (self.vhost, PASSWORD))

    def set_env(self, **values):
        """Sets parameters of RabbitMQ's application, such as heartbeat=3. The end of the lease or of the node undoes it."""
        self.eval("".join(f"ok = application:set_env(rabbit, {name}, {value}), " for name, value in values.items()) + "ok.")

    @property
    def log(self):
        """Since the lease began."""
        self.alone("log")
        return super().log[self.log_began:]

    def close(self):
        leased, self.is_leased = self.is_leased, False
        if self.connection is None:
            if leased:
                super().close()
            return
        with self.connection:
            if leased and self._leave():
                self.connection.sendall(b'{"clean": true}\n')
        self.connection = None

    def _leave(self):
        """Whether the next lessee finds nothing of this one. Otherwise the pool sees to that."""
        try:
            if self.shared:
                forget(self, self.vhost)
            else:
                self.reset()
        except RabbitError as e:
            print(f"the pool cleans up: {e}")
            return False
        return True

    def reset(self):
        """Makes the node as it was at its start."""
        if not version().startswith("3.") or self.pid is None:
            raise RabbitError("it cannot be reset")
        self.thaw()
        self._evaluate(RESET)


def forget(node, name):
    """Removes the vhost and the user of a shared lease, and ends their connections."""
    node._evaluate(FORGET % name)  # pylint: disable=protected-access


class Lessee:
    """A connection."""

    def __init__(self, connection):
        self.connection, self.unread, self.kind, self.node, self.name, self.is_clean = connection, b"", None, None, None, False

    def answer(self, **words):
        try:
            self.connection.sendall(json.dumps(words).encode() + b"\n")
        except OSError:
            pass  # it has died, and is heard of next


class Pool:
    def __init__(self, size):
        if size < 2:
            raise RabbitError("a pool has at least two nodes: one is shared, and another one is not")
        self.directory = tempfile.mkdtemp(prefix="lockbroker-pool-")
        self.path = os.path.join(self.directory, "socket")
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path)
        self.listener.listen(64)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ, self._accept)
        self.most = size - 1  # exclusive ones
        self.nodes = {}  # by their folders
        self.common = None  # the shared one
        self.exclusive = 0  # number of the others
        self.idle = []  # those of them that have no lessee
        self.waiting = []  # lessees, for an exclusive one
        self.leases = self.starts = 0

    def serve(self, child):
        """Until this process ends. Returns its exit status."""
        ended = os.pidfd_open(child.pid)
        self.selector.register(ended, selectors.EVENT_READ)
        while True:
            for key, _ in self.selector.select():
                if key.fileobj == ended:
                    return child.wait()
                key.data()

    def _accept(self):
        lessee = Lessee(self.listener.accept()[0])
        self.selector.register(lessee.connection, selectors.EVENT_READ, lambda: self._hear(lessee))

    def _hear(self, lessee):
        try:
            heard = lessee.connection.recv(4096)
        except OSError:
            heard = b""
        *lines, lessee.unread = (lessee.unread + heard).split(b"\n")
        for line in lines:
            self._obey(lessee, json.loads(line))
        if not heard:
            self._leave(lessee)

    def _obey(self, lessee, words):
        try:
            if "lease" in words:
                lessee.kind = words["lease"]
                self.waiting.append(lessee)
                self._serve_waiting()
            elif "launch" in words:
                self._launch(self.nodes[words["launch"]])
                lessee.answer()
            elif "clean" in words:
                lessee.is_clean = True
        except RabbitError as e:
            lessee.answer(error=str(e))

    def _launch(self, node):
        self.starts += node.pid is None
        node.launch()

    def _serve_waiting(self):
        """In the order of their arrival. A lessee of the shared node does not wait."""
        for lessee in list(self.waiting):
            node = self._shared() if lessee.kind == "shared" else self._exclusive()
            if node is not None:
                self.waiting.remove(lessee)
                self.leases += 1
                lessee.node, lessee.name = node, f"lease{self.leases}"
                lessee.answer(directory=node.directory, name=lessee.name)

    def _shared(self):
        self.common = self.common or self._make()
        return self.common

    def _exclusive(self):
        if self.idle:
            return self.idle.pop()
        if self.exclusive == self.most:
            return None
        node = self._make()
        self.exclusive += 1
        return node

    def _make(self):
        node = Rabbit(tls=True, plugins=[MECHANISM])
        node.state["pool"] = self.path
        node.save()
        self.nodes[node.directory] = node
        return node

    def _leave(self, lessee):
        self.selector.unregister(lessee.connection)
        lessee.connection.close()
        if lessee in self.waiting:
            self.waiting.remove(lessee)
        elif lessee.kind == "shared":
            self._leave_shared(lessee)
        elif lessee.node is not None and lessee.is_clean:
            self.idle.append(lessee.node)
        elif lessee.node is not None:
            self.exclusive -= 1
            self._drop(lessee.node)
        self._serve_waiting()

    def _leave_shared(self, lessee):
        """If nothing helps, the next lessees get another node. The present ones keep this one."""
        try:
            if not lessee.is_clean and lessee.node.pid is not None:
                forget(lessee.node, lessee.name)
        except RabbitError as e:
            print(f"rabbit.py pool: {e}", file=sys.stderr)
            self.common = None if self.common is lessee.node else self.common

    def _drop(self, node):
        del self.nodes[node.directory]
        node.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for signum in SIGNALS:
            signal.signal(signum, signal.SIG_IGN)
        for node in list(self.nodes.values()):
            self._drop(node)
        self.listener.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def main(size, *command):
    def interrupted(signum, _frame):
        raise SystemExit(128 + signum)

    for signum in SIGNALS:
        signal.signal(signum, interrupted)
    with Pool(int(size)) as pool:
        # make hands file descriptors to its children.
        child = subprocess.Popen(command, env={**os.environ, POOL: pool.path}, close_fds=False)
        try:
            status = pool.serve(child)
        except BaseException:
            child.terminate()
            child.wait()
            raise
    print(f"rabbit.py pool: {pool.leases} leases, {pool.starts} starts of nodes", file=sys.stderr)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except RabbitError as e:
        sys.exit(f"rabbit.py pool: {e}")
