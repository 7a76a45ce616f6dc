"""Checks messages against protocol/openrpc.json, the description that the daemon serves.

It is stricter than a client should be: a member without a description is a mismatch.
"""

import functools
import json
import os

from schema import Mismatch, Schema

SOURCE = os.environ.get("top_srcdir") or os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Errors that may answer any request, and bytes that are no request.
EVERYWHERE = {"ParseError", "InvalidRequest", "MethodNotFound"}
WITHOUT_ID = {"parse-error", "invalid-request", "too-many-requests"}


class OpenRPC:
    def __init__(self, document):
        self.schema = Schema(document, closed=True)
        self.methods = {method["name"]: method for method in document["methods"]}
        self.notifications = {one["name"]: one for one in document["x-notifications"]}
        parts = document["components"]["errors"]
        self.errors = {part["message"]: part for part in parts.values()}
        self.everywhere = {parts[name]["message"] for name in EVERYWHERE}

    def is_request(self, method, params):
        """Whether the daemon may take it; otherwise it must refuse it."""
        if method not in self.methods:
            return False
        described = {param["name"]: param for param in self.methods[method]["params"]}
        return (isinstance(params, dict)
                and params.keys() <= described.keys()
                and all(name in params for name, param in described.items() if param["required"])
                and self.is_one_of(self.methods[method].get("x-one-of"), params)
                and all(self.schema.accepts(value, described[name]["schema"], name)
                        for name, value in params.items()))

    def is_one_of(self, names, params):
        """names: of these params exactly one is to be given; None: there are none such."""
        return names is None or len(params.keys() & set(names)) == 1

    def check_reply(self, method, message):
        """method: of the request. None: the request was invalid, or is unknown here."""
        if message.keys() not in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"}):
            raise Mismatch(f"neither result nor error: {message}")
        if "error" in message:
            self.check_error(method, message)
        elif method in self.methods:
            self.schema.check(message["result"], self.methods[method]["result"]["schema"], method)

    def check_error(self, method, message):
        error = message["error"]
        reason = error["data"]["reason"]
        part = self.errors.get(reason)
        if part is None or part["code"] != error["code"] or error.keys() != {"code", "message", "data"}:
            raise Mismatch(f"no error that is described: {error}")
        if not isinstance(error["message"], str) or not error["message"]:
            raise Mismatch(f"an error without words: {error}")
        self.schema.check(error["data"], part["x-data"], reason)
        if message["id"] is None and reason not in WITHOUT_ID:
            raise Mismatch(f"an error without id: {message}")
        if method in self.methods:
            possible = {self.schema.resolve(ref)["message"] for ref in self.methods[method]["errors"]}
            if reason not in possible | self.everywhere:
                raise Mismatch(f"{method} is not described as failing with {reason}: {error}")

    def check_notification(self, message):
        described = self.notifications.get(message["method"])
        if described is None or message.keys() - {"params"} != {"jsonrpc", "method"}:
            raise Mismatch(f"no notification that is described: {message}")
        self.schema.check(message.get("params", {}), described["params"], message["method"])


@functools.cache
def load():
    with open(os.path.join(SOURCE, "protocol", "openrpc.json"), encoding="utf-8") as file:
        return OpenRPC(json.load(file))
