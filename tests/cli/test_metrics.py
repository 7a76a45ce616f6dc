"""lockbroker metrics: text that Prometheus reads, counts that are true, and files that are whole. Alert rules and
dashboard use metrics that a daemon has."""

import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
import unittest

import tap
from cli import command
from daemon import Daemon
from fake import Fake
from openrpc import SOURCE
from wait import wait_until
from wire import Wire, WireError

EXAMPLES = os.path.join(SOURCE, "docs", "examples")
SAMPLE = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$')
NAMES = 100


def samples(text):
    """{(metric, frozenset of (label, value)): number}"""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            metric, labels, value = SAMPLE.match(line).groups()
            key = metric, frozenset(re.findall(r'(\w+)="([^"]*)"', labels or ""))
            assert key not in found, line
            found[key] = float(value)
    return found


def promtool(*argv, text=None):
    return subprocess.run(["promtool", *argv], input=text, stdin=None if text else subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)


needs_promtool = unittest.skipUnless(shutil.which("promtool"),
                                     "PROMTOOL IS MISSING (Debian: prometheus): its format is not checked")


class Metrics(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.daemon = Daemon(self)

    def text(self, *argv):
        return command(self, self.daemon, "metrics", *argv).out

    def value(self, metric, **labels):
        return samples(self.text()).get((metric, frozenset(labels.items())))

    def wait_value(self, wanted, metric, **labels):
        wait_until(lambda: self.value(metric, **labels) == wanted, what=f"{metric} {labels} is {wanted}")

    def use(self):
        """A daemon whose metrics have all members."""
        admin, holder = Wire(self.daemon), Wire(self.daemon)
        admin.call("create", name="db", slots=2)
        holder.call("acquire", name="db")
        lock = holder.call("acquire", name="db")["lock"]
        with self.assertRaises(WireError):
            admin.call("acquire", name="db", timeout=0)
        with self.assertRaises(WireError):
            admin.call("acquire", name="missing")
        holder.call("release", lock=lock)
        return admin, holder

    def test_counts(self):
        admin, holder = self.use()
        self.assertEqual(self.value("lockbroker_grants_total", name="db"), 2)
        self.assertEqual(self.value("lockbroker_wait_seconds_count", name="db"), 2)
        self.assertEqual(self.value("lockbroker_hold_seconds_count", name="db"), 1)
        self.assertEqual(self.value("lockbroker_refusals_total", name="db", reason="would-block"), 1)
        self.assertEqual(self.value("lockbroker_refusals_total", name="(other)", reason="no-such-lock"), 1)
        self.assertEqual(self.value("lockbroker_holds", name="db"), 1)
        self.assertGreater(self.value("lockbroker_oldest_hold_seconds", name="db"), 0)
        holder.call("acquire", name="db")
        waiting = admin.request("acquire", name="db")
        self.wait_value(1, "lockbroker_waiters", name="db")
        self.assertGreater(self.value("lockbroker_longest_wait_seconds", name="db"), 0)
        admin.send_line({"id": "cancel", "method": "cancel", "params": {"id": waiting}})
        self.wait_value(0, "lockbroker_waiters", name="db")
        self.assertEqual(self.value("lockbroker_refusals_total", name="db", reason="cancelled"), 1)
        Wire(self.daemon).call("resize", name="db", slots=0)
        self.wait_value(2, "lockbroker_revocations_total", name="db")
        holder.hang_up()
        self.wait_value(0, "lockbroker_holds", name="db")
        self.assertEqual(self.value("lockbroker_losses_total", name="db"), 0)
        self.assertEqual(self.value("lockbroker_hold_seconds_count", name="db"), 3)

    def test_the_broker(self):
        self.use()
        found = samples(self.text())
        for state, is_so in ("up", 1), ("down", 0), ("refused", 0):
            self.assertEqual(found["lockbroker_broker_connection_state",
                                   frozenset({("connection", "lock"), ("state", state)})], is_so)
        for connection in "lock", "auxiliary":
            labels = frozenset({("connection", connection)})
            self.assertGreater(found["lockbroker_broker_round_trip_seconds_count", labels], 2)
            self.assertEqual(found["lockbroker_broker_reconnects_total", labels], 0)

    def test_histograms_are_cumulative(self):
        self.use()
        buckets, counts = {}, {}
        for (metric, labels), value in samples(self.text()).items():
            if metric.endswith("_bucket"):
                bound = dict(labels)["le"]
                buckets.setdefault((metric[:-7], labels - {("le", bound)}), []).append((float(bound), value))
            elif metric.endswith("_count"):
                counts[metric[:-6], labels] = value
        self.assertEqual(set(buckets), set(counts))
        for key, of_one in buckets.items():
            self.assertEqual(of_one, sorted(of_one), key)
            self.assertEqual([count for _, count in of_one], sorted(count for _, count in of_one), key)
            self.assertEqual(of_one[-1], (float("inf"), counts[key]))

    @needs_promtool
    def test_promtool_accepts_the_default_format(self):
        self.use()
        text = self.text()
        done = promtool("check", "metrics", text=text)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertTrue(text.endswith("\n# EOF\n"))
        # It would see a mistake.
        self.assertIn("no help text", promtool("check", "metrics", text=text.replace("# HELP", "#")).stdout)

    def test_a_strict_parser_accepts_openmetrics(self):
        try:
            from prometheus_client.openmetrics.parser import text_string_to_metric_families
        except ImportError:
            self.skipTest("PYTHON3-PROMETHEUS-CLIENT IS MISSING: OpenMetrics is not checked")
        self.use()
        text = self.text("--format=openmetrics")
        families = list(text_string_to_metric_families(text))
        named = {family.name: family for family in families}
        self.assertEqual(named["lockbroker_grants"].type, "counter")
        self.assertEqual(named["lockbroker_wait_seconds"].unit, "seconds")
        self.assertEqual({family.type for family in families}, {"counter", "gauge", "histogram"})
        # The default format is not OpenMetrics, so the option does something.
        with self.assertRaises(ValueError):
            list(text_string_to_metric_families(self.text()))

    def test_names_are_bounded(self):
        peer = Wire(self.daemon)
        for number in range(NAMES + 5):
            name = f"lock{number}"
            peer.call("release", lock=peer.call("acquire", name=name, kind="mutex")["lock"])
        held = peer.call("acquire", name="late", kind="mutex")
        found = samples(self.text())
        named = {dict(labels)["name"] for metric, labels in found if metric == "lockbroker_grants_total"}
        self.assertEqual(named, {f"lock{number}" for number in range(NAMES)} | {"(other)"})
        self.assertEqual(self.value("lockbroker_grants_total", name="(other)"), 6)
        self.assertEqual(self.value("lockbroker_holds", name="(other)"), 1)
        peer.call("release", lock=held["lock"])

    def test_a_refusal_takes_no_place(self):
        peer = Wire(self.daemon)
        for number in range(3):
            with self.assertRaises(WireError):
                peer.call("acquire", name=f"missing{number}")
        self.assertNotIn("missing", self.text())

    def test_names_that_the_rules_hide_are_summed(self):
        self.daemon = Daemon(self, config=f"[access]\nrule = deny uid:{os.getuid()} metrics secret*\n")
        peer = Wire(self.daemon)
        for name in "open", "secret1", "secret2":
            peer.call("acquire", name=name, kind="mutex")
        text = self.text()
        self.assertNotIn("secret", text)
        found = samples(text)
        for metric, others in ("lockbroker_grants_total", 2), ("lockbroker_holds", 2), ("lockbroker_wait_seconds_count", 2):
            self.assertEqual(found[metric, frozenset({("name", "(other)")})], others, metric)
            self.assertEqual(found[metric, frozenset({("name", "open")})], 1, metric)

    def test_the_rules_can_forbid_it(self):
        self.daemon = Daemon(self, config=f"[access]\nrule = deny uid:{os.getuid()} metrics *\n")
        self.assertIn("may not metrics", command(self, self.daemon, "metrics", status=77).err)

    def test_refusals_of_the_rules_count(self):
        self.daemon = Daemon(self, config=f"[access]\nrule = deny uid:{os.getuid()} acquire db\n")
        with self.assertRaises(WireError):
            Wire(self.daemon).call("acquire", name="db")
        self.assertEqual(self.value("lockbroker_refusals_total", name="(other)", reason="permission-denied"), 1)

    # ---- the command ----

    def test_output_replaces_the_file(self):
        folder = os.path.dirname(self.daemon.socket)
        path = os.path.join(folder, "lockbroker.prom")
        with open(path, "w", encoding="ascii") as file:
            file.write("old\n")
            file.flush()
            before = os.fstat(file.fileno()).st_ino
        # umask: the reader is another user.
        command(self, self.daemon, "metrics", f"--output={path}", umask=0o077)
        self.assertNotEqual(os.stat(path).st_ino, before, "it was written in place")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o644)
        with open(path, encoding="ascii") as file:
            self.assertTrue(file.read().endswith("# EOF\n"))
        self.assertEqual([name for name in os.listdir(folder) if "prom." in name], [])

    def test_a_failure_leaves_the_old_file(self):
        folder = os.path.dirname(self.daemon.socket)
        path = os.path.join(folder, "a.prom")
        with open(path, "w", encoding="ascii") as file:
            file.write("old\n")
        command(self, os.path.join(folder, "nobody"), "metrics", f"--output={path}", status=69)
        with open(path, encoding="ascii") as file:
            self.assertEqual(file.read(), "old\n")
        missing = os.path.join(folder, "no", "a.prom")
        job = command(self, self.daemon, "metrics", f"--output={missing}", status=74)
        self.assertEqual(job.err, f"lockbroker: {missing}: No such file or directory\n")
        os.mkdir(os.path.join(folder, "b.prom"))
        command(self, self.daemon, "metrics", "--output", os.path.join(folder, "b.prom"), status=74)
        self.assertEqual([name for name in os.listdir(folder) if "prom." in name], [])

    def test_its_words(self):
        fake = Fake(self, metrics={"text": "x 1\n# EOF\n"})
        self.assertEqual(command(self, fake, "metrics").out, "x 1\n# EOF\n")
        self.assertEqual(command(self, fake, "metrics", "--json").json(), {"text": "x 1\n# EOF\n"})
        self.assertIn("expected prometheus or openmetrics",
                      command(self, fake, "metrics", "--format=json", status=64).err)

    # ---- the examples ----

    def live(self):
        """All names in a scrape, with those of the samples of histograms."""
        self.use()
        return {metric for metric, _ in samples(self.text())}

    def used(self, text):
        found = set(re.findall(r"\blockbroker_\w+", text))
        self.assertGreater(len(found), 8)
        return found

    @needs_promtool
    def test_rules(self):
        path = os.path.join(EXAMPLES, "lockbroker.rules.yml")
        done = promtool("check", "rules", path)
        self.assertEqual(done.returncode, 0, done.stdout)
        with open(path, encoding="utf-8") as file:
            rules = file.read()
        self.assertEqual(self.used(rules) - self.live(), set())

    @needs_promtool
    def test_each_alert_fires(self):
        """Two hosts: of bad, the values rise the alert within the hours, and of good they do not."""
        path = os.path.join(EXAMPLES, "lockbroker.rules.yml")
        with open(path, encoding="utf-8") as file:
            alerts = re.findall(r"- alert: (\w+)", file.read())
        state = 'lockbroker_broker_connection_state{connection="lock", state="%s"'
        # alert: (series without its end, bad values, good values), a value a minute.
        series = {
            "LockbrokerMetricsOld": [("lockbroker_time_seconds{", "0+0x20", "0+60x20")],
            "LockbrokerBrokerDown": [(state % "up", "1x10 0x10", "1x20")],
            "LockbrokerBrokerRefused": [(state % "refused", "0x10 1x10", "0x20")],
            "LockbrokerBrokerBlocked": [("lockbroker_broker_blocked{", "0x10 1x10", "0x20")],
            "LockbrokerBrokerSlow": [
                (f'lockbroker_broker_round_trip_seconds_bucket{{connection="lock", le="{bound}"', bad, "0+60x20")
                for bound, bad in (("0.5", "0x20"), ("1.0", "0x20"), ("5.0", "0+60x20"), ("+Inf", "0+60x20"))],
            "LockbrokerReconnects": [('lockbroker_broker_reconnects_total{connection="lock"', "0x10 1 2 3 4x7", "1x20")],
            "LockbrokerHoldsLost": [('lockbroker_losses_total{name="db"', "0x15 1x4", "1x20")],
            "LockbrokerHolderQueuesLost": [("lockbroker_holder_queues_lost_total{", "0x15 1x4", "1x20")],
            "LockbrokerRefusals": [
                ('lockbroker_refusals_total{name="(other)", reason="broker-unavailable"', "0+1x20", "1x20"),
                ('lockbroker_refusals_total{name="db", reason="would-block"', "0+1x20", "0+1x20")],
            "LockbrokerChannelsShort": [("lockbroker_broker_channels{", "1900x20", "0x20"),
                                        ("lockbroker_broker_channels_limit{", "2047x20", "0x20")],
            "LockbrokerLongWait": [('lockbroker_longest_wait_seconds{name="db"', "4000x20", "5x20")],
            "LockbrokerLongHold": [('lockbroker_oldest_hold_seconds{name="db"', "90000x20", "5x20")],
            "LockbrokerRestarted": [("lockbroker_start_time_seconds{", "1x15 2x4", "1x20")],
        }
        self.assertEqual(sorted(alerts), sorted(series))
        tests = []
        for alert, given in series.items():
            tests.append({
                "interval": "1m",
                "input_series": [{"series": f'{start}{"" if start.endswith("{") else ", "}instance="{host}"}}',
                                  "values": values}
                                 for start, *both in given for host, values in zip(("bad", "good"), both)],
                "promql_expr_test": [{
                    "expr": f'max by (instance) (ALERTS{{alertname="{alert}", alertstate="firing"}})', "eval_time": "18m",
                    "exp_samples": [{"labels": '{instance="bad"}', "value": 1}]}]})
        with tempfile.NamedTemporaryFile("w", suffix=".yml", encoding="utf-8") as file:
            json.dump({"rule_files": [path], "evaluation_interval": "1m", "tests": tests}, file)
            file.flush()
            done = promtool("test", "rules", file.name)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_dashboard(self):
        with open(os.path.join(EXAMPLES, "lockbroker-dashboard.json"), encoding="utf-8") as file:
            dashboard = json.load(file)
        expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        expressions += [variable["query"] for variable in dashboard["templating"]["list"]]
        self.assertEqual(self.used("\n".join(expressions)) - self.live(), set())

    def test_the_manual_has_every_metric(self):
        with open(os.path.join(SOURCE, "man", "lockbroker.1.in"), encoding="utf-8") as file:
            manual = file.read()
        families = re.findall(r"^# TYPE (\w+) ", self.text(), re.MULTILINE)
        self.assertGreater(len(families), 20)
        self.assertEqual([name for name in families if name not in manual], [])

    def test_the_timer_runs_the_service(self):
        with open(os.path.join(EXAMPLES, "lockbroker-metrics.service"), encoding="utf-8") as file:
            line = re.search(r"^ExecStart=lockbroker (.*)$", file.read(), re.MULTILINE)[1]
        path = os.path.join(os.path.dirname(self.daemon.socket), "lockbroker.prom")
        command(self, self.daemon, *line.replace("/var/lib/prometheus/node-exporter/lockbroker.prom", path).split())
        self.assertTrue(os.path.exists(path))
        for unit in "service", "timer":
            done = subprocess.run(["systemd-analyze", "verify", "--man=no",
                                   os.path.join(EXAMPLES, f"lockbroker-metrics.{unit}")],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertNotRegex(done.stderr, r"Unknown|Failed to parse", unit)


if __name__ == "__main__":
    tap.main()
