"""Rows as `show` and `watch` tell of them, made up; and a daemon that has some (a Fake)."""

from fake import Fake, error, notification, reply

NOBODY = {"waiter": None, "lock": None, "state": "busy", "name": "db", "kind": "semaphore", "slot": None,
          "position": None, "priority": None, "who": None, "why": None, "command": None, "host": None,
          "uid": None, "pid": None, "since": None, "age": None, "revoked": False, "unknown": False, "evicted": False}


def row(state, waiter, **more):
    """One of a process on some host."""
    lock = f"l-{waiter}" if state in ("busy", "granted") else None
    return {**NOBODY, "state": state, "waiter": waiter, "lock": lock, "host": "north", "uid": 1000, "pid": 4711,
            "since": "2026-11-20T09:00:00Z", "age": 75.5,
            "priority": 0 if state == "waiting" else None, **more}


def unknown(slot, name="db"):
    return {**NOBODY, "name": name, "slot": slot, "unknown": True}


class Semaphores(Fake):
    """Semaphores with slots and rows, which administration changes as a daemon would."""

    def __init__(self, test, **script):
        self.semaphores = {}  # name: {"slots", "rows"}
        self.extra = 0  # holders beyond the slots, of each
        self.refusal = None  # the answer to each change, if not None
        super().__init__(test, **{"list": self.on_list, "show": self.on_show, "resize": self.on_resize,
                                  "grant": self.on_grant, "deny": self.on_deny, "evict": self.on_evict,
                                  **script})

    def add(self, name, slots, *rows):
        self.semaphores[name] = {"slots": slots, "rows": [{**one, "name": name} for one in rows]}

    def _numbers(self, name):
        one = self.semaphores[name]
        return {"name": name, "slots": one["slots"],
                "busy": sum(row["state"] == "busy" for row in one["rows"]),
                "waiting": sum(row["state"] == "waiting" for row in one["rows"]),
                **({"extra": self.extra} if self.extra else {})}

    def _is_mutex(self, name):
        return any(row["kind"] == "mutex" for row in self.semaphores[name]["rows"])

    def on_list(self, _request, _connection):
        names = list(self.semaphores)
        rows = [{**self._numbers(name), "exists": True} for name in names if not self._is_mutex(name)]
        mutexes = [{**self._numbers(name), "kind": "mutex"} for name in names if self._is_mutex(name)]
        for one in mutexes:
            del one["slots"]
        return {"semaphores": rows, "mutexes": mutexes, "more": 0, "silent_hosts": []}

    def on_watch(self, request, connection):
        rows = [("row", {"row": found}) for one in self.semaphores.values() for found in one["rows"]]
        self.send(connection, watched(request, *rows, ("synced", {"more": 0, "silent_hosts": []})))

    def on_show(self, request, connection):
        name = request["params"]["name"]
        if name not in self.semaphores:
            return self.refuse(request, connection, error(5, "no-such-lock", "the lock does not exist"))
        rows = self.semaphores[name]["rows"]
        return {**self._numbers(name), "holders": [one for one in rows if one["state"] != "waiting"],
                "waiters": [one for one in rows if one["state"] == "waiting"], "more": 0, "silent_hosts": []}

    def refuse(self, request, connection, what):
        self.send(connection, reply(request, error=what))

    def on_resize(self, request, connection):
        if self.refusal is not None:
            return self.refuse(request, connection, self.refusal)
        params = request["params"]
        one = self.semaphores[params["name"]]
        if "slots" in params:
            one["slots"] = params["slots"]
        elif one["slots"] == "unlimited":
            return self.refuse(request, connection, error(-32602, "invalid-params", "it is unlimited; give a number"))
        else:
            one["slots"] = max(0, one["slots"] + params.get("add", 0) - params.get("remove", 0))
        return {"name": params["name"], "slots": one["slots"], "target": one["slots"]}

    def _find(self, waiter):
        for one in self.semaphores.values():
            for found in one["rows"]:
                if found["waiter"] == waiter and found["state"] == "waiting":
                    return one, found
        return None, None

    def on_grant(self, request, connection):
        if self.refusal is not None:
            return self.refuse(request, connection, self.refusal)
        _, found = self._find(request["params"]["waiter"])
        if found is None:
            return self.refuse(request, connection, error(7, "not-held", "no waiter has that id"))
        found.update(state="granted", position=None, age=0)
        return {"waiter": found["waiter"], "name": found["name"], "host": found["host"]}

    def on_deny(self, request, connection):
        if self.refusal is not None:
            return self.refuse(request, connection, self.refusal)
        params = request["params"]
        if "name" in params:
            one = self.semaphores[params["name"]]
            waiting = [found for found in one["rows"] if found["state"] == "waiting"]
            one["rows"] = [found for found in one["rows"] if found["state"] != "waiting"]
            return {"denied": len(waiting), "silent_hosts": []}
        one, found = self._find(params["waiter"])
        if found is None:
            return self.refuse(request, connection, error(7, "not-held", "no waiter has that id"))
        one["rows"].remove(found)
        return {"denied": 1, "silent_hosts": []}

    def on_evict(self, request, connection):
        if self.refusal is not None:
            return self.refuse(request, connection, self.refusal)
        params = request["params"]
        held = [found for one in self.semaphores.values() for found in one["rows"] if found["state"] in ("busy", "granted")
                and params.get("name", found["name"]) == found["name"] and params.get("holder", found["waiter"]) == found["waiter"]]
        if not held and "holder" in params:
            return self.refuse(request, connection, error(7, "not-held", "no holder has that id"))
        for found in held:
            found["evicted"] = True
        return {"evicted": len(held), "silent_hosts": []}


def watched(request, *told):
    """The notifications of a watch as bytes. told: (method, params)."""
    return b"".join(notification(method, {"id": request["id"], **params}) for method, params in told)
