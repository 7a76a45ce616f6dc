"""Runs suites of the C tests of the AMQP side over a RabbitMQ; they say TAP. test_amqp_links.py and test_amqp_tls.py run
the other suites at the same time.

Two TLS servers that a client must refuse run beside it. One has a certificate for another host. The other one
speaks nothing newer than TLS 1.1.
"""
import os
import socket
import ssl
import subprocess
import sys
import threading
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))

import rabbit  # noqa: E402

PROGRAM = os.path.join(os.environ.get("top_builddir", "."), "tests", "broker", "test_amqp")


def serve(context):
    """Shakes hands with each client until this process ends. Returns the port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept():
        while True:
            client, _ = listener.accept()
            client.settimeout(5)
            try:
                with context.wrap_socket(client, server_side=True) as session:
                    session.recv(1)
            except OSError:
                client.close()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


def server_context(cert, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


def main(*suites):
    with rabbit.Rabbit.lease(tls=True) as node:
        certificates = node.certificates
        elsewhere = server_context(*certificates.make("elsewhere", "localhost",
                                                      "DNS:elsewhere.example,IP:192.0.2.1"))
        old = server_context(certificates.path("server.pem"), certificates.path("server.key"))
        old.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            old.minimum_version = ssl.TLSVersion.TLSv1
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        env = dict(os.environ, **node.variables(),
                   LOCKBROKER_TLS_ELSEWHERE_PORT=str(serve(elsewhere)),
                   LOCKBROKER_TLS_OLD_PORT=str(serve(old)))
        # The status is in the TAP that the program says; another one would be counted twice.
        status = subprocess.run([PROGRAM, *suites], env=env, check=False)
        if status.returncode < 0:
            print(f"Bail out! {PROGRAM} was ended by signal {-status.returncode}")


if __name__ == "__main__":
    main("versions", "costs", "watches")
