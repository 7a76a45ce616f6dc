#!/usr/bin/python3
"""The adapter of etcd by its JSON gateway: a mutex is a key that exists as long as the lease of its client.

	etcd.py HOST:PORT [no-verify] [ignores-loss]
"""

import base64
import http.client
import json
import time

from adapter import SECOND, Hold, Service, main

TTL = 5  # seconds


def text(name):
    return base64.b64encode(name.encode()).decode()


class Etcd(Service):
    ENDED = (OSError, http.client.HTTPException)

    def __init__(self, address, _options):
        self.http = http.client.HTTPConnection(address, timeout=TTL)
        asked = time.monotonic_ns()
        self.lease_id = self.ask("lease/grant", TTL=TTL)["ID"]
        self.asked, self.safe_until = asked, asked + TTL * SECOND

    def ask(self, method, **words):
        self.http.request("POST", f"/v3/{method}", json.dumps(words))
        answer = self.http.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise ConnectionError(f"etcd: {body.decode()}")
        return json.loads(body)

    def transaction(self, name, revision, action, **words):
        """The revision after action, if that of name is the given one; None: it is not."""
        answer = self.ask("kv/txn", success=[{action: {"key": text(name), **words}}],
                          compare=[{"key": text(name), "target": "CREATE", "create_revision": revision}])
        return answer["header"]["revision"] if answer.get("succeeded") else None

    def acquire(self, name, kind, ident):
        revision = self.transaction(name, "0", "request_put", value=text("held"), lease=self.lease_id)
        return Hold(name, safe_until=self.safe_until, token=revision, fence=revision) if revision else None

    def verify(self, hold):
        return self.transaction(hold.name, hold.token, "request_range") is not None

    def release(self, hold):
        self.transaction(hold.name, hold.token, "request_delete_range")

    def lease(self):
        now = time.monotonic_ns()
        if now - self.asked > TTL * SECOND // 3:
            if int(self.ask("lease/keepalive", ID=self.lease_id)["result"].get("TTL", 0)) == 0:
                raise ConnectionError("etcd: the lease is over")
            self.asked, self.safe_until = now, now + TTL * SECOND
        return self.safe_until


if __name__ == "__main__":
    main(Etcd)
