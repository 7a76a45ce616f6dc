"""The checker finds each kind of violation that is planted, and nothing in the same record without it."""

import io
import os
import random
import tempfile
import time
import unittest

import tap
from check import Check, report
from history import History, read
from timing import at_most

START = """
1 c1 started daemon=1
1 c2 started daemon=2
1 c3 started daemon=2
2 world size s 2
"""
SECOND = 1_000_000_000


def check(text):
    return Check(read((START + text).strip().split("\n")))


def hold(actor, ident, start, end, name="s", slot=1, lease="-", fence=""):
    """A whole hold. It is asked for, and its release is answered, 2 ns before and after. end: None: no release."""
    record = f"{start - 2} {actor} acquire {ident} {name} semaphore 0\n{start} {actor} held {ident} {slot} {lease} {fence}\n"
    if end is not None:
        record += f"{end} {actor} releasing {ident}\n{end + 2} {actor} released {ident} ok\n"
    return record


class Checks(unittest.TestCase):
    def clean(self, text):
        checked = check(text)
        self.assertEqual([str(violation) for violation in checked.violations], [])
        return checked

    def found(self, text, *kinds):
        checked = check(text)
        self.assertEqual([violation.kind for violation in checked.violations], list(kinds),
                         [str(violation) for violation in checked.violations])
        lines = (START + text).strip().split("\n")
        self.assertIn(f"violations: {len(kinds)}", list(report(checked, lines)))
        return checked.violations[0]

    # ---- overlaps ----

    def test_overlap(self):
        self.clean(hold("c1", 1, 10, 20) + hold("c2", 1, 20, 30) + hold("c3", 1, 12, 18, slot=2))
        violation = self.found(hold("c1", 1, 10, 20) + hold("c2", 1, 19, 30), "overlap")
        self.assertEqual(violation.lines, [6, 7, 10, 11])

    def test_a_short_belief_inside_a_long_one(self):
        self.clean(hold("c1", 1, 10, 90) + hold("c2", 1, 90, 92) + hold("c3", 1, 92, 94))
        self.found(hold("c1", 1, 10, 90) + hold("c2", 1, 20, 22) + hold("c3", 1, 80, 82), "overlap")

    def test_the_order_of_lines_is_no_matter(self):
        lines = (START + hold("c1", 1, 10, 20) + hold("c2", 1, 19, 30)).strip().split("\n")
        self.assertEqual(len(Check(read(reversed(lines))).violations), 1)

    def test_a_hold_without_a_slot_excludes_nobody(self):
        self.clean(hold("c1", 1, 10, 20, slot=0) + hold("c2", 1, 12, 30, slot=0))

    def test_slots_without_numbers_are_counted(self):
        two = hold("c1", 1, 10, 20, slot="-") + hold("c2", 1, 12, 30, slot="-")
        self.clean(two + hold("c3", 1, 20, 40, slot="-"))
        self.found(two + hold("c3", 1, 19, 40, slot="-"), "overlap")

    def test_belief_ends_with_each_of_its_ends(self):
        later = hold("c2", 1, 30, 40)
        for end in ("25 c1 lost 1 lost\n", "25 c1 ended\n", "25 c1 killed\n"):
            self.clean(hold("c1", 1, 10, None) + end + later)
            self.found(hold("c1", 1, 10, None) + end.replace("25", "31") + later, "overlap")
        self.clean(hold("c1", 1, 10, 35, lease=25) + later)
        self.found(hold("c1", 1, 10, 35, lease=31) + later, "overlap")
        self.found(hold("c1", 1, 10, 35, lease=15) + "14 c1 lease 1 33\n" + later, "overlap")

    # ---- exceptions ----

    def test_an_overlap_is_explained_by_a_fault(self):
        two = hold("c1", 1, 10, 2 * SECOND) + hold("c2", 1, SECOND, 3 * SECOND)
        begin, end = "50 nemesis begin 7 close d 1.5 1.5 {}\n", "60 nemesis end 7\n"
        for target in ("daemon=1", "client=c1", "name=s", "slot=s/1", "all"):
            checked = self.clean(two + begin.format(target))
            self.assertEqual(checked.exceptions, {("d", "close", ""): [(SECOND, 10)]})
        for why, fault in {
                "it touched another": begin.format("daemon=3"),
                "its overlaps are shorter": begin.replace("d 1.5", "d 0.9").format("all"),
                "it came later": begin.replace("50", str(SECOND + 1)).format("all"),
                "it was over": begin.replace("50", "1").replace("1.5 1.5", "- -").format("all") + end.replace("60", "9"),
                "its overlaps end earlier": begin.format("all") + end.replace("60", str(SECOND // 3)),
                "it causes none": begin.replace(" d ", " - ").format("all")}.items():
            with self.subTest(why):
                self.found(two + fault, "overlap")

    def test_overlaps_and_holds_are_counted_for_each_way(self):
        fault = "50 nemesis begin 7 close d - - all\n60 nemesis end 7\n"
        text = "2 world way s consumer\n2 world way t exclusive-queue\n2 world size t 1\n" + fault
        for ident, (name, slot) in enumerate((("s", 1), ("s", 2), ("t", 1))):
            text += hold("c1", ident, 10, 2 * SECOND, name, slot) + hold("c2", ident, SECOND, 3 * SECOND, name, slot)
        checked = self.clean(text)
        self.assertEqual({key: len(overlaps) for key, overlaps in checked.exceptions.items()},
                         {("d", "close", "consumer"): 2, ("d", "close", "exclusive-queue"): 1})
        self.assertEqual((checked.counts["held", "consumer"], checked.counts["held", "exclusive-queue"]), (4, 2))

    def test_another_fault_makes_an_overlap_longer(self):
        two = hold("c1", 1, 10, 3 * SECOND) + hold("c2", 1, SECOND, 4 * SECOND)
        closed = "50 nemesis begin 1 close d 1 1 daemon=1\n60 nemesis end 1\n"
        frozen = "{} nemesis begin 2 stop-daemon + {} 3 {}\n{} nemesis end 2\n"
        self.found(two + closed, "overlap")
        self.found(two + frozen.format(40, 3, "daemon=1", 70), "overlap")
        self.assertEqual(self.clean(two + closed + frozen.format(40, 3, "daemon=1", 70)).exceptions,
                         {("d", "close", ""): [(2 * SECOND, 10)]})
        self.clean(two + closed + frozen.format(2 * SECOND, 3, "daemon=1", 3 * SECOND))
        for longest, target, end in (1.9, "daemon=1", 70), (3, "daemon=2", 70), (3, "daemon=1", 49):
            self.found(two + closed + frozen.format(40, longest, target, end), "overlap")

    def test_a_daemon_hands_off_a_slot_that_it_has_lost(self):
        two = hold("c2", 1, SECOND, 4 * SECOND) + hold("c1", 1, 2 * SECOND, 3 * SECOND)
        closed = f"{SECOND // 2} nemesis begin 1 close d 3 3 daemon=1\n{SECOND // 2 + 1} nemesis end 1\n"
        self.assertEqual(self.clean(two + closed).exceptions, {("d", "close", ""): [(SECOND, 10)]})
        self.found(two + closed.replace("d 3 3", "d 1 1"), "overlap")
        self.found(two + closed.replace("d 3 3", "g - -"), "overlap")
        self.found(two + closed.replace("daemon=1", "daemon=3"), "overlap")

    def test_a_belief_that_several_others_overlap_is_wrong_from_the_first_one_on(self):
        three = hold("c1", 1, 10, 3 * SECOND) + hold("c2", 1, SECOND, SECOND + 9) + hold("c3", 1, 2 * SECOND, 3 * SECOND)
        fault = "50 nemesis begin 7 close d {} - all\n60 nemesis end 7\n"
        self.assertEqual(self.clean(three + fault.format(2)).exceptions, {("d", "close", ""): [(2 * SECOND, 14)]})
        self.found(three + fault.format(1.9), "overlap")

    def test_a_holder_queue_that_is_deleted_twice(self):
        """By queue the holder has the slot again in between."""
        three = hold("c1", 1, 10, 90) + hold("c2", 1, 20, 22) + hold("c3", 1, 80, 82)
        deleted = "{} nemesis begin {} delete c 0.000000003 - slot=s/1\n{} nemesis end {}\n"
        twice = deleted.format(15, 1, 16, 1) + deleted.format(75, 2, 76, 2)
        for way in "exclusive-queue", "either":
            checked = self.clean(f"2 world way s {way}\n" + three + twice)
            self.assertEqual(checked.exceptions, {("c", "delete", way): [(2, 11), (2, 15)]})
            self.found(f"2 world way s {way}\n" + three + deleted.format(15, 1, 16, 1), "overlap")
            self.found(f"2 world way s {way}\n" + three + twice.replace("75", "21"), "overlap")
            self.found(f"2 world way s {way}\n" + three + twice.replace("2 delete c", "2 harm d"), "overlap")
        self.found("2 world way s consumer\n" + three + twice, "overlap")

    def test_a_client_that_is_paused_believes_until_it_runs_again(self):
        two = hold("c1", 1, 10, 80, lease=30) + hold("c2", 1, 40, 90)
        self.assertEqual(self.clean(two).exceptions, {})
        pause = "20 nemesis begin 1 stop-client a - 0.000000003 client=c1\n{} nemesis end 1\n"
        self.assertEqual(self.clean(two + pause.format(55)).exceptions, {("a", "stop-client", ""): [(15, 10)]})
        self.assertEqual(self.clean(two + pause.format(29)).exceptions, {})
        self.assertEqual(self.clean(two + pause.format(39)).exceptions, {})
        self.assertEqual(self.clean(two + pause.replace("a -", "d -").format(55)).exceptions, {})
        other = hold("c2", 1, 40, 90) + pause.format(55)
        self.assertEqual(self.clean(hold("c1", 1, 10, 58) + other).exceptions, {("a", "stop-client", ""): [(18, 10)]})
        self.found(hold("c1", 1, 10, 59) + other, "overlap")  # it ran again, and did not stop

    def test_a_client_is_paused_before_it_hears_of_a_loss(self):
        two = hold("c1", 1, 10, 50) + hold("c2", 1, 30, 90)
        deleted = "20 nemesis begin 1 delete c {} - slot=s/1\n25 nemesis end 1\n"
        pause = "{} nemesis begin 2 stop-client a - {} client={}\n{} nemesis end 2\n"
        short, brief = "0.000000005", "0.000000003"
        self.found(two + deleted.format(short), "overlap")
        self.assertEqual(self.clean(two + deleted.format(short) + pause.format(35, brief, "c1", 47)).exceptions,
                         {("c", "delete", ""): [(20, 10)]})
        for why, changed in {
                "it was paused too late": deleted.format(short) + pause.format(36, brief, "c1", 47),
                "it ran again long before": deleted.format(short) + pause.format(35, brief, "c1", 46),
                "another client was paused": deleted.format(short) + pause.format(35, brief, "c3", 47),
                "nothing explains the beginning": pause.format(35, brief, "c1", 47)}.items():
            with self.subTest(why):
                self.found(two + changed, "overlap")

    def test_a_fault_without_overlaps_explains_none(self):
        two = hold("c1", 1, 10, 3 * SECOND) + hold("c2", 1, SECOND, 4 * SECOND)
        parted = "50 nemesis begin 1 partition g {0} {0} name=s\n"
        delayed = "40 nemesis begin 2 stop-daemon + 5 5 daemon=1\n"
        self.clean(two + parted.format(2))
        self.found(two + parted.format(0), "overlap")
        self.found(two + parted.format(0) + delayed, "overlap")

    # ---- by quorum ----

    BY_QUORUM = "2 world way s quorum\n"

    def test_by_quorum_few_faults_explain_an_overlap(self):
        two = hold("c1", 1, 10, 2 * SECOND, fence=5) + hold("c2", 1, SECOND, 3 * SECOND, fence=6)
        for case in "defgh":
            fault = f"50 nemesis begin 1 harm {case} - - all\n60 nemesis end 1\n"
            self.clean(two + fault)
            self.found(self.BY_QUORUM + two + fault, "overlap")
        for case in "ac":
            self.clean(self.BY_QUORUM + two + f"50 nemesis begin 1 harm {case} - - all\n60 nemesis end 1\n")

    def test_by_quorum_a_pause_explains_nothing_that_was_before_it(self):
        two = self.BY_QUORUM + hold("c1", 1, 10, 80, lease=30, fence=5) + hold("c2", 1, 40, 90, fence=6)
        pause = "{} nemesis begin 1 stop-client a - 0.000000003 client=c1\n55 nemesis end 1\n"
        self.assertEqual(self.clean(two + pause.format(20)).exceptions, {("a", "stop-client", "quorum"): [(15, 11)]})
        self.found(two.replace(" 30 5", " 60 5") + pause.format(45), "overlap")

    def test_each_grant_has_a_larger_fence(self):
        def two(first, second, **more):
            return hold("c1", 1, 10, 20, fence=first) + hold("c2", 1, 30, 40, fence=second, **more)
        self.clean(self.BY_QUORUM + two(5, 6))
        for smaller in 5, 4:
            self.found(two(5, smaller), "fence")
            self.found(self.BY_QUORUM + two(5, smaller), "fence")
            self.clean(two(5, smaller, slot=2))
            self.clean(two(5, smaller, name="t"))
        violation = self.found(two(5, 4) + hold("c3", 1, 50, 60, fence=5), "fence", "fence")  # the largest one counts
        self.assertEqual(violation.lines, [6, 10])
        self.clean(two("-", "-"))
        self.found(self.BY_QUORUM + two(5, "-"), "fence")
        self.clean(self.BY_QUORUM + two(5, "-", slot=0))

    def test_a_grant_that_is_read_after_its_lease(self):
        late = hold("c1", 1, 10, 20, fence=5) + hold("c2", 1, 30, 40, lease={}, fence=4)
        self.clean(late.replace("{}", "25"))
        self.found(late.replace("{}", "31"), "fence")

    # ---- the store ----

    def test_lost_updates(self):
        """c1 is the older holder."""
        two = "2 world way s consumer\n" + hold("c1", 1, 10, 20) + hold("c2", 1, 30, 40)
        c1, c2 = "{} store took c1 1 s 1 -\n", "{} store took c2 1 s 1 -\n"
        for lost, writes in ((0, (c1, c2)), (0, (c1, c1, c2, c2)), (1, (c2, c1)), (1, (c2, c1, c1)), (2, (c2, c1, c2, c1)), (0, (c1,)),
                             (0, (c2, c1.replace("s 1", "s 2"))), (0, (c2, c1.replace("s 1", "s -"))),
                             (0, (c2, c1.replace("s 1", "t 1")))):
            checked = self.clean(two + "".join(line.format(50 + number) for number, line in enumerate(writes)))
            self.assertEqual(len(checked.lost_updates["consumer"]), lost, writes)
        self.assertEqual(self.clean(two + c2.format(50) + c1.format(51)).lost_updates, {"consumer": [(20, 15)]})

    def test_with_fences_no_update_is_lost(self):
        two = hold("c1", 1, 10, 20, fence=5) + hold("c2", 1, 30, 40, fence=6)
        c1, c2, late = "51 store took c1 1 s 1 5\n", "50 store took c2 1 s 1 6\n", "52 store denied c1 1 s 1 5\n"
        checked = self.clean(two + c1.replace("51", "12") + c2 + late)
        self.assertEqual((checked.counts["taken by the store", ""], checked.counts["denied by the store", ""]), (2, 1))
        self.found(two + c2 + c1, "lost-update")
        self.found(two + c2 + c1.replace("c1 1", "c3 1") + "1 c3 started\n", "lost-update")  # its grant was not read
        # Fences that fall: the store cannot know who is late.
        fallen = hold("c1", 1, 10, 20, fence=7) + hold("c2", 1, 30, 40, fence=6)
        self.found(fallen + c2 + c1.replace("1 5", "1 7"), "fence", "lost-update")

    def test_from_a_loss_until_the_next_holder(self):
        lost = hold("c1", 1, 10, None) + "20 c1 lost 1 lost\n"
        self.assertEqual(self.clean(lost + hold("c2", 1, 50, 60) + hold("c3", 1, 70, 80)).gaps, {"": [(30, 9)]})
        self.assertEqual(self.clean(lost + hold("c2", 1, 50, 60, slot=2)).gaps, {})
        self.assertEqual(self.clean(hold("c1", 1, 10, 20) + hold("c2", 1, 50, 60)).gaps, {})

    def test_a_write_is_answered(self):
        self.clean(hold("c1", 1, 10, 20) + "11 c1 write 1 5\n12 c1 writing 1\n13 c1 wrote 1 ok\n25 c1 wrote 1 late\n")
        self.found(hold("c1", 1, 10, 20) + "12 c1 wrote 2 ok\n", "unasked")

    # ---- sizes ----

    def test_a_slot_above_the_size(self):
        self.clean("5 world sizing s 3\n6 world size s 3\n" + hold("c1", 1, 10, 20, slot=3))
        self.clean("9 world sizing s 1\n9 world size s 1\n" + hold("c1", 1, 10, 20, slot=2))  # it was asked before
        self.found("5 world sizing s 1\n6 world size s 1\n" + hold("c1", 1, 10, 20, slot=2), "removed-slot")
        self.clean("5 world sizing s 1\n" + hold("c1", 1, 10, 20, slot=2))  # not known to be removed
        self.found("5 world size s 0\n" + hold("c1", 1, 10, 20, slot="-"), "removed-slot")
        self.clean("5 world size s unlimited\n" + hold("c1", 1, 10, 20, slot=0))

    def test_a_hold_is_revoked_though_its_slot_exists(self):
        revoked = hold("c1", 1, 10, 20) + "15 c1 revoked 1\n"
        self.found(revoked, "revoked")
        for size in 0, "unlimited", "missing":
            self.clean(revoked + f"12 world sizing s {size}\n")
            self.clean(revoked + f"5 world sizing s {size}\n6 world size s {size}\n9 world size s 2\n")
            self.found(revoked + f"5 world sizing s {size}\n6 world size s 2\n", "revoked")
        self.found(revoked + "12 world sizing s 1\n", "revoked")

    def test_a_semaphore_is_missing_though_it_exists(self):
        asked = "10 c1 acquire 1 s semaphore 0\n20 c1 refused 1 no-such-lock\n"
        self.found(asked, "missing")
        self.clean(asked + "15 world sizing s missing\n")
        self.found(asked + "15 world sizing s 0\n", "missing")
        self.found(asked + "3 world size s missing\n4 world size s 0\n", "missing")

    def test_a_partition_undoes_a_change(self):
        resized = "20 nemesis begin 1 reset g - - name=s\n{}30 world sizing s 1\n31 world size s 1\n40 nemesis end 1\n"
        asked = "45 c1 acquire 1 s semaphore 0\n46 c1 held 1 2 -\n47 c1 verify 1\n48 c1 verified 1 yes\n60 c1 ended\n"
        self.found(resized.format("") + asked, "removed-slot", "verify")
        undone = resized.format("20 nemesis undoes 1\n")
        self.clean(undone + asked)
        self.found(undone + "50 world size s 1\n" + asked.replace("4", "5"), "removed-slot", "verify")
        self.found(undone + asked.replace("held 1 2", "held 1 3"), "removed-slot", "verify")
        emptied = "32 world emptied s 1\n"
        self.clean(resized.format("20 nemesis undoes 1\n" ) + emptied + asked)

    def test_in_a_partition_a_node_answers_from_old_metadata(self):
        asked = "10 c1 acquire 1 s semaphore 0\n20 c1 refused 1 no-such-lock\n"
        fault = "5 nemesis begin 1 partition g 0 0 name=s\n15 nemesis end 1\n"
        checked = self.clean(asked + fault)
        self.assertEqual(checked.counts["refused", "no-such-lock"], 0)
        self.assertEqual(checked.counts["refused", "no-such-lock in a partition"], 1)
        for changed in fault.replace(" g ", " d "), fault.replace("name=s", "name=t"), fault.replace("15", "9"), \
                fault.replace("5 nem", "21 nem", 1).replace("15", "25"):
            self.found(asked + changed, "missing")

    def test_an_administrator_was_told_that_no_holder_is_left(self):
        smaller = "11 world sizing s 1\n12 world size s 1\n{} world emptied s 1\n"
        holder = hold("c1", 1, 10, 20, slot=2)
        self.clean(smaller.format(20) + holder + hold("c2", 1, 10, 90, slot=1))
        self.found(smaller.format(15) + holder, "overlap")
        late = hold("c1", 1, 13, 20, slot=2).replace("11 c1", "9 c1")
        self.found(smaller.format(12) + late, "overlap")
        self.clean(smaller.format(12) + "13 world sizing s 2\n14 world size s 2\n" + hold("c1", 1, 18, 20, slot=2))
        self.found(smaller.format(12) + "5 nemesis begin 1 x f - - all\n" + late, "overlap")

    def test_verify_of_a_removed_slot(self):
        text = hold("c1", 1, 10, 50, slot=2) + "20 world sizing s 1\n21 world size s 1\n{} c1 verify 1\n30 c1 verified 1 {}\n"
        self.clean(text.format(22, "revoked"))
        self.clean(text.format(20, "yes"))
        self.found(text.format(22, "yes"), "verify")
        # A hold without a slot depends on nothing.
        self.clean(hold("c1", 1, 10, 50, slot=0) + "20 world size s missing\n22 c1 verify 1\n30 c1 verified 1 yes\n")

    # ---- each thing ends once ----

    def test_an_acquire_ends_once(self):
        asked = "10 c1 acquire 1 s semaphore 0\n"
        self.found(asked, "no-end")
        self.clean(asked + "11 c1 refused 1 timeout\n")
        self.clean(asked + "11 c1 ended\n")
        self.found(asked + "11 c1 refused 1 timeout\n12 c1 refused 1 timeout\n", "twice")
        self.found(asked + "11 c1 refused 1 timeout\n12 c1 held 1 1 -\n", "twice")
        self.found("11 c1 refused 1 timeout\n", "unasked")
        self.found(asked + "11 c1 refused 1 timeout\n" + asked.replace("10", "12"), "twice")

    def test_a_hold_ends_once(self):
        self.found(hold("c1", 1, 10, None), "no-end")
        for end in ("25 c1 lost 1 lost\n", "25 c1 releasing 1\n", "25 c1 released 1 ok\n", "25 c1 revoked 1\n"):
            self.found(hold("c1", 1, 10, 20) + end, "twice")
        self.found(hold("c1", 1, 10, 20) + "25 c1 ended\n26 c1 refused 1 timeout\n", "twice")
        self.clean(hold("c1", 1, 10, 20) + "21 c1 lost 1 lost\n")  # its release was on its way
        self.clean(hold("c1", 1, 10, 20) + "15 c1 killed\n")

    def test_a_client_is_asked_before_its_end_is_read(self):
        self.clean("10 c1 ended\n11 c1 acquire 1 s semaphore 0\n")

    def test_a_lease_never_moves_back(self):
        self.clean(hold("c1", 1, 10, 20, lease=50) + "15 c1 lease 1 51\n")
        self.found(hold("c1", 1, 10, 20, lease=50) + "15 c1 lease 1 49\n", "lease")

    def test_an_eviction_ends_a_hold_at_its_deadline(self):
        evicted = hold("c1", 1, 10, None, lease=50) + "15 c1 evicted 1 30\n{} c1 lost 1 evicted\n"
        self.clean(evicted.format(30) + hold("c2", 1, 30, 40))
        self.found(evicted.format(29), "evicted")
        self.found(evicted.format(40) + hold("c2", 1, 29, 40), "overlap")
        self.clean(evicted.replace("evicted 1 30", "evicted 1 60").format(50))  # the lease ends before
        self.clean(hold("c1", 1, 10, None, lease=50) + "20 c1 lost 1 evicted\n")  # it was not told of the deadline

    def test_each_request_is_answered_in_time(self):
        text = "3 world prompt 2\n10 c1 acquire 1 s semaphore 1000\n{} c1 refused 1 timeout\n"
        self.assertEqual(self.clean(text.format(3 * SECOND + 10)).worst["acquire, beyond its timeout"], (2 * SECOND, 7))
        self.found(text.format(3 * SECOND + 11), "late")
        stopped = f"{SECOND} nemesis begin 1 stop-daemon + 9 9 {{}}\n{SECOND + 5} nemesis end 1\n"
        self.clean(text.format(3 * SECOND + 15) + stopped.format("daemon=1"))
        self.found(text.format(3 * SECOND + 16) + stopped.format("daemon=1"), "late")
        self.found(text.format(3 * SECOND + 15) + stopped.format("daemon=2"), "late")
        text = hold("c1", 1, 10, 20).replace("22 c1", f"{SECOND * 2 + 21} c1")
        self.clean("3 world prompt 3\n" + text)
        self.found("3 world prompt 2\n" + text, "late")

    # ---- the end of a run ----

    def test_takeover_in_time(self):
        text = hold("c1", 1, 10, 20) + hold("c2", 1, 30, 40)
        checked = self.clean(text + "25 world expect s 1 0.000000005\n")
        self.assertEqual(checked.worst["takeover"], (5, 13))
        self.clean(text + "15 world expect s 1 0\n")
        self.found(text + "25 world expect s 1 0.000000004\n", "takeover")
        self.found(text + "25 world expect s 2 1\n", "takeover")

    def test_the_world_finds_something_wrong(self):
        self.found("10 world wrong the queue s-1-B is left\n", "wrong")

    # ---- the record ----

    def test_a_record_is_read_again(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "record")
            record = History(path)
            record.note("c1", "started", "daemon=1")
            record.note("c1", "acquire", 1, "s", "semaphore", 0)
            record.heard("c1", f"{time.monotonic_ns()} held 1 1 -\n")
            record.note("c1", "killed")
            record.close()
            with open(path, encoding="utf-8") as file:
                checked = Check(read(file))
            self.assertEqual(checked.violations, [])
            self.assertEqual(checked.counts["held", ""], 1)

    def test_200000_holds(self):
        dice, now, text = random.Random(1), 10, io.StringIO(START)
        text.seek(0, io.SEEK_END)
        for ident in range(200_000):
            took = dice.randint(3, 900)
            text.write(hold(f"c{dice.randint(1, 3)}", ident, now, now + took))
            now += took
        began = time.process_time()
        checked = Check(read(text.getvalue().strip().split("\n")))
        at_most(self, "seconds of processor", time.process_time() - began, 20)
        self.assertEqual(checked.violations, [])
        self.assertEqual(checked.counts["held", ""], 200_000)


if __name__ == "__main__":
    tap.main()
