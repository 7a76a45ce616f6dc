/*
 * Planted faults. Each is a mistake that the shipped code must not make, and that a test must find.
 * FAULTS lists the mistakes that the simulation must find (make sim-faults), and UNIT_FAULTS those
 * that a test in C must find (make unit-faults). At most one is active.
 *
 *	FAULT(NAME, statements);
 *	FAULT_IF(NAME, condition, statements);
 *	FAULT_ELSE(NAME, mistake, truth)
 *
 * The statements run if that fault is active. In all other builds the first two are empty. The third
 * is an expression: the mistake if that fault is active, else the truth. So no variable exists only
 * for a fault.
 */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#ifdef LOCKBROKER_FAULTS

#include <stdbool.h>

/* Each row is a name, and the mistake in words. */
#define FAULTS(X)                                                                                  \
	X(RESTORED_HOLD_FORGOTTEN, "a hold forgotten by the successor")                            \
	X(RESTORED_UNRESERVED, "a reservation forgotten by the successor")                         \
	X(RESTORED_UNCHARGED, "a hold that the successor does not count for its user")             \
	X(RESTORED_UNREVOKED, "a revoked hold that the successor takes for a held one")            \
	X(RESTORED_UNWATCHED, "a slot that the successor does not watch")                          \
	X(RESTORED_LEASE_IS_NEW, "a lease that begins anew at the successor")                      \
	X(RESTORED_COUNTS_ANEW, "counts of grants and releases that begin anew at the successor")  \
	X(DROP_IS_RELEASE, "the drop of a claim counted as a release")                             \
	X(DROP_IS_LOSS, "a drop that ends with the link counted as a loss")                        \
	X(LOSS_IS_RELEASE, "a loss counted as a release")                                          \
	X(RESTORED_WITHOUT_KEEPALIVE, "a successor that does not extend the leases")               \
	X(RESTORED_NUMBER_UNUSED, "a channel's number that the successor uses again")              \
	X(RESTORED_NUMBERS_ANEW, "a successor that begins its numbers anew")                       \
	X(RESTORED_WAITER_FORGOTTEN, "a waiter forgotten by the successor")                        \
	X(RESTORED_ORDER_LOST, "the order of the waiters lost by the successor")                   \
	X(RESTORED_DEADLINE_IS_NEW, "a deadline that begins anew at the successor")                \
	X(RESTORED_HOLDER_WAIT_FORGOTTEN, "a wait for holders forgotten by the successor")         \
	X(RESTORED_COUNT_FORGOTTEN, "the count of a bead forgotten by the successor")              \
	X(RESTORED_GRACE_IS_OVER, "a grace that is over at the successor")                         \
	X(STILL_WHILE_CLAIMING, "a claim in flight repeated by the successor")                     \
	X(CHANGE_REPEATED, "a change by a number of slots repeated in full by the successor")      \
	X(FROZEN_TAKES_HINTS, "a frozen engine that takes hints from other daemons")               \
	X(FROZEN_ASKS_NOTHING, "a frozen engine that lets its leases end")                         \
	X(NO_RESERVATION, "no local reservation before the declare is answered")                   \
	X(RESERVATION_ENDS_EARLY, "reservation ended at the release request")                      \
	X(NO_A_CHECK, "no check of A after the claim")                                             \
	X(ANY_SLOT_WILL_DO, "a persistent mutex granted another slot than its own")                \
	X(LOCKED_IS_OURS, "a claim refused 405 taken as ours")                                     \
	X(UNKNOWN_IS_SEEN, "an answer lost with its link taken as yes")                            \
	X(CLAIM_FORGOTTEN, "a declare in flight forgotten at its deadline")                        \
	X(PROBE_UNKNOWN_IS_ABSENT, "a nack or silence taken as absent in a scan")                  \
	X(COUNT_UNKNOWN_IS_ABSENT, "a nack or silence taken as absent in a full scan")             \
	X(RELEASED_EARLY, "\"released\" said before delete-ok")                                    \
	X(QUIET_EARLY, "a daemon that stops before its deletes are answered")                      \
	X(DROP_UNKNOWN_IS_DONE, "\"released\" said when the link died before delete-ok")           \
	X(DROP_ON_NEW_LINK, "a drop re-sent on a new link")                                        \
	X(DROP_NOT_RESENT, "a drop not re-sent when its channel died before its turn")             \
	X(CHANNEL_PUT_EARLY, "a channel reused while its delete is open")                          \
	X(CHANNEL_LEAKED, "a channel not given back at the end of a hold")                         \
	X(CHANNEL_DEATH_IS_LOSS, "a channel's death taken as loss")                                \
	X(HOLD_OUTLIVES_LINK, "a hold kept after the loss of its link")                            \
	X(LINK_FORGETS_WAITER, "an acquire in flight forgotten when its link dies")                \
	X(NOT_TOLD, "a slot handed off before its old holder is told")                             \
	X(VERIFY_A_ONLY, "verify of A only")                                                       \
	X(VERIFY_B_ONLY, "verify of B only")                                                       \
	X(REVOKED_ENDS, "a revoked hold held again when A comes back")                             \
	X(VERIFY_JOINS_FLIGHT, "a verify answered by what was asked before it")                    \
	X(VERIFY_UNREVOKES, "a verify in flight that undoes revoked")                              \
	X(NO_RECHECK, "no second check of B on a server that deletes by name")                     \
	X(CANCEL_IS_REVOKED, "basic.cancel taken as revoked")                                      \
	X(HINT_NOT_LOOKED_INTO, "no check of A when its watch ends")                               \
	X(WATCH_NOT_PLACED_AGAIN, "a watch not placed again after a hint")                         \
	X(WATCH_LEAKED, "a watch that outlives its hold")                                          \
	X(REVOKED_TWICE, "revoked told twice")                                                     \
	X(GRANT_BY_TIMER, "lease enforced by the timer alone: granted after it")                   \
	X(VERIFY_BY_TIMER, "lease enforced by the timer alone: verified after it")                 \
	X(LEASE_FROM_ANSWER, "lease computed from the answer's time instead of the request's")     \
	X(LEASE_OF_OLDER_ANSWER, "a lease computed from an older answer")                          \
	X(LEASE_FROM_SKIPPED, "lease computed from a request that was not performed")              \
	X(LEASE_WITHOUT_MARGIN, "the lease's margin forgotten")                                    \
	X(LEASE_END_NOT_TOLD, "lost at the lease's end not told")                                  \
	X(LEASE_END_KEEPS_LINK, "the link not made anew when the lease runs out")                  \
	X(SUSPECT_UNKNOWN, "a client told `restored` before it was told `suspect`")                \
	X(KEEPALIVE_OF_ONE, "a keepalive that asks about one B only")                              \
	X(LEASE_OF_LINK_FOR_ALL, "the connection's lease used for a queue on a silent node")       \
	X(SUSPECT_HOLDS_UP_OTHERS, "no other hold's lease told while one is suspect")              \
	X(SUSPECT_UNTOLD_IS_LEFT_OUT, "a lease told beyond that of a hold not told suspect")       \
	X(HOLD_LEASE_END_NOT_TOLD, "the end of one hold's lease not told")                         \
	X(SERVER_CANCEL_IGNORED, "the server's cancel ignored")                                    \
	X(CONSUMER_ON_NEW_CHANNEL, "a consumer's hold moved to a new channel")                     \
	X(EXCLUSIVE_USE_IS_REFUSED, "a 403 \"in exclusive use\" taken as refused")                 \
	X(EXCLUSIVE_USE_IS_LOST, "a 403 \"in exclusive use\" taken as a lost connection")          \
	X(PERMISSION_IS_LOCKED, "a 403 for a missing permission taken as busy")                    \
	X(UNREACHABLE_IS_ABSENT, "a 404 of an unreachable node taken for a missing queue")         \
	X(OWN_CANCEL_IS_LOSS, "our own cancel taken as a loss")                                    \
	X(FREED_BEFORE_CANCEL, "a hint, and \"released\", before cancel-ok")                       \
	X(CONSUMER_CHANNEL_PUT_EARLY, "a channel reused while its cancel is open")                 \
	X(CONSUMER_IS_DELETED, "a durable holder queue deleted by the release of its slot")        \
	X(MUTEX_MADE_BY_RACE, "a true mutex made durable by a lost race")                          \
	X(HOLDER_NOT_ASKED_FOR, "a holder queue deleted without having been asked")                \
	X(HOLDER_IN_USE_DELETED, "a holder queue deleted without if-unused")                       \
	X(HOLDER_FORCED, "a holder queue deleted without if-empty")                                \
	X(OTHERS_HOLDER_DELETED, "another's durable queue deleted in place of an exclusive one")   \
	X(OTHERS_CONSUMER_IGNORED, "another's consumer of a queue that was exclusive ignored")     \
	X(HOLDER_LEFT_BEHIND, "the holder queue of a removed slot left behind by its last holder") \
	X(REMOVED_UNGUARDED, "the holder queue of a removed slot deleted without the mutex")       \
	X(STUCK_CHANNEL_IGNORED, "a request that is never answered on a link that lives")          \
	X(CLAIM_WITHOUT_TIMEOUT, "a claim without a timeout")                                      \
	X(MUTEX_UNSEEN_AGAIN, "a mutex claimed again and again without a rest")                    \
	X(CLAIMED_IN_VAIN_AGAIN, "an absent slot claimed again and again")                         \
	X(RECHECK_405_IGNORED, "a hold kept although B belongs to another connection")             \
	X(NO_DEADLINE, "a request without a deadline")                                             \
	X(WAIT_WITHOUT_END, "an acquire without its deadline")                                     \
	X(DEADLINE_ENDS_A_TRY, "a wait that ends while its scan or claim is on its way")           \
	X(RELEASE_BY_ANYBODY, "a lock released by a client that does not hold it")                 \
	X(VERIFY_FOR_ANYBODY, "a lock verified for another user than its holder's")                \
	X(DRAIN_LETS_WAIT, "a draining daemon whose new acquires wait")                            \
	X(DRAIN_LETS_IN, "a draining daemon that grants")                                          \
	X(ADMIN_WITHOUT_MUTEX, "As changed without the administration mutex")                      \
	X(ADMINS_TOGETHER, "two administrators of one daemon change one semaphore at once")        \
	X(DESTROY_ASCENDING, "a semaphore destroyed from its first slot up")                       \
	X(DECLARED_DESCENDING, "slots added from the last down")                                   \
	X(GATE_OPENED_FIRST, "from zero, the gate deleted before the slots are there")             \
	X(GATE_AFTER_SLOTS, "to zero, the slots deleted before the gate is there")                 \
	X(GATE_UNHEEDED, "a gate taken for an absent lock")                                        \
	X(GATE_IS_UNLIMITED, "a hold without a slot given at a gate")                              \
	X(LATECOMER_IS_UNLIMITED,                                                                  \
	    "a waiter granted as unlimited by a scan that began before it came")                   \
	X(SLOTLESS_HAS_LINK, "a hold without a slot lost with the link")                           \
	X(REVOKED_IS_FREE, "a slot granted while its revoked holder still has it")                 \
	X(UNCOUNTED_LEFT, "no scan for uncounted slots above the new size")                        \
	X(FIRST_SLOT_FIRST, "a create that makes the first slot before the others")                \
	X(SLOT_BEFORE_HOLDER, "a slot queue declared before its holder queue")                     \
	X(STALE_COUNT, "a relative target computed from a size seen before the mutex")             \
	X(MUTEX_DROPPED_EARLY, "the administration mutex dropped before the last delete")          \
	X(MUTEX_WHILE_WAITING, "the administration mutex kept while holders are waited for")       \
	X(MUTEX_TAKES_ADMIN, "a true mutex that takes a semaphore's administration mutex")         \
	X(GONE_PEER_WAITS, "a wait for holders that outlives its client")                          \
	X(LATE_MUTEX_ENDS_WAIT, "no wait for holders where the mutex is dropped too late")         \
	X(ABSENT_ONCE_IS_GONE, "a holder counted as gone after one absent answer")                 \
	X(HOLDERS_BY_A, "a wait for holders that asks for the slot queues")                        \
	X(NOT_LISTED, "a semaphore created and not entered into the directory")                    \
	X(LEFT_TOO_EARLY, "a semaphore taken out of the directory before it is gone")              \
	X(DIRECTORY_OUTLIVES_MUTEX,                                                                \
	    "the directory changed after the administration mutex was lost")                       \
	X(FSCK_FILLS_GAP, "fsck that repairs a gap by adding slots")                               \
	X(HINT_TRUSTED, "a hint trusted without a claim")                                          \
	X(HINT_EARLY, "a hint sent before delete-ok")                                              \
	X(NOBODY_TOLD, "no hint for a freed slot")                                                 \
	X(ADDED_UNTOLD, "no hints for added slots")                                                \
	X(HINT_NOT_PASSED_ON, "a hint dropped by a daemon that has no use for it")                 \
	X(HINT_LAPSES,                                                                             \
	    "a hint dropped by a daemon that leaves the wait queue, as it passed one on")          \
	X(NEWCOMER_FIRST, "a slot claimed by a newcomer before the waiter that got the hint")      \
	X(JOINED_WITHOUT_SCAN, "no scan after joining the wait queue: an earlier hint is lost")    \
	X(WAIT_QUEUE_NOT_JOINED_AGAIN,                                                             \
	    "a wait queue not joined again after a reconnect or a freeze")                         \
	X(PLACE_KEPT, "a place in a wait queue kept when nobody waits any more")                   \
	X(LINK_DROPS_WAITER, "waiters dropped when the lock connection dies")                      \
	X(CANCELLED_IS_GRANTED, "an acquire granted after it was cancelled")                       \
	X(LAST_COME_FIRST_SERVED, "the last waiter served first")                                  \
	X(PRIORITY_IGNORED, "priorities ignored")                                                  \
	X(NO_RESCAN, "no rescan while somebody waits")                                             \
	X(POLLING, "a rescan ten times as often as allowed")                                       \
	X(PASSED_UNSEEN, "a slot handed off whose A is neither watched nor checked")               \
	X(RECLAIMED_IS_SEEN,                                                                       \
	    "a slot handed off whose A was not checked since B was claimed again")                 \
	X(PASSED_LATE, "a slot handed off whose lease is nearly over")                             \
	X(PASSED_STALE, "a slot handed off whose link has not answered for more than a second")    \
	X(REVOKED_IS_PASSED, "a revoked slot handed off")                                          \
	X(PASSED_FOR_EVER, "a slot handed off without end while other daemons wait")               \
	X(NEVER_FOR_POLLERS, "a slot never released to clients that poll")                         \
	X(POLLERS_OVERHEARD, "a hint for a slot that is withheld for clients that poll")           \
	X(POLLERS_BEATEN, "a slot withheld for clients that poll, and claimed here at once")       \
	X(PASSED_UNDER_OLD_NUMBER, "a slot handed off under its lock's old number")                \
	X(PASSED_TO_NOBODY, "\"released\" said of a slot that was neither dropped nor handed off") \
	X(GRANTED_TAKES_SLOT, "a waiter that an administrator granted holds a slot")               \
	X(CHANNELS_OF_ONE, "one user takes the channels that are reserved for others")             \
	X(PASSED_UNCOUNTED, "a slot handed off that still counts for its old user")                \
	X(DROPPED_UNCOUNTED, "a channel not counted for its user while B is being deleted")        \
	X(STARVED_IS_REFUSED, "a waiter refused when no channel is free")                          \
	X(STARVED_NOT_WOKEN, "a waiter without a channel not served when one becomes free")        \
	X(STARVED_KEEPS_HINT, "a hint kept although no channel is free")                           \
	X(FLIGHT_UNCOUNTED, "an answer to a claim after which the user's next one is not sent")    \
	X(UNSENT_IS_LOST, "a slot that stays reserved for a claim that was never sent")            \
	X(CONFIRMS_OFF_BY_ONE, "confirms matched to the publish before")                           \
	X(MULTIPLE_IS_SINGLE, "an ack of many publishes taken for one's")                          \
	X(NACK_IS_ACK, "a nack taken as an ack")                                                   \
	X(RETURN_OF_ANOTHER, "a returned publish taken for the last one that was sent")            \
	X(ALARM_UNHEEDED, "a publish on a connection that an alarm blocks")                        \
	X(HINT_NOT_ACKED, "a delivered hint that is not acknowledged")                             \
	X(FIRST_IS_ACKED, "the first hint acknowledged in place of the one that came")             \
	X(NEW_CONSUMER_CANCELLED, "a new consumer of a wait queue cancelled with the old one")     \
	X(NUMBER_REUSED_EARLY, "a channel's number used again before close-ok")                    \
	X(LAST_IS_ANSWERED, "an answer taken for that of the last request of its channel")         \
	X(SKIPPED_IS_DONE, "requests behind the one that closed their channel taken as done")      \
	X(LOST_UNANSWERED, "requests that get no answer when their link dies")                     \
	X(CANCEL_OF_ANOTHER, "a basic.cancel taken for another consumer's")                        \
	X(WATCHES_THOUGHT_PLACED,                                                                  \
	    "watches not placed again when the auxiliary connection is back")                      \
	X(CANCELLED_TOO_EARLY, "a consumer cancelled before its consume-ok")                       \
	X(BODY_WRITTEN_OVER, "only the last frame of a body kept")                                 \
	X(FIRST_NAME_LEAVES, "other names than the one that leaves taken out of the directory")    \
	X(AUXILIARY_NOT_MADE_ANEW,                                                                 \
	    "an auxiliary connection not made anew for daemons in the wait queue")                 \
	X(REPLY_TO_LAST, "a reply from a daemon matched to another question")                      \
	X(BEADS_GRANTED_ON_DELIVERY, "a slot granted on the delivery of its beads alone")          \
	X(BEADS_RENEWED_BY_HEAD, "a hold renewed by its first bead")                               \
	X(BEADS_LEASE_FROM_ANSWER, "a lease by quorum computed from the answer's time")            \
	X(BEADS_GRACE_FROM_ATTACH, "a grace that begins before its claimant has the beads")        \
	X(BEADS_ABANDONED_FLIPS, "a claim without a waiter that makes the order clean at once")    \
	X(BEADS_GRACE_ABANDONED, "a claim in a grace that ends with its waiter")                   \
	X(BEADS_NO_GRACE, "a slot granted without a grace after an unclean end")                   \
	X(FENCE_KEPT, "a hand-off that keeps the fencing number")                                  \
	X(REMOVAL_UNHEARD, "a holder of a removed slot by quorum that is not told")                \
	X(REMOVAL_REMOVED, "a removal that is acknowledged like a foreign message")                \
	X(FLOOR_IGNORED, "a fence from a clock that was set back")                                 \
	X(BEADS_PUBLISHED_CLEAN, "a set of beads published in clean order")                        \
	X(BEADS_BEFORE_MARK_IGNORED, "a set published beside another one")                         \
	X(BEADS_WITHOUT_PAUSE, "a set made clean while an earlier holder believes in its hold")    \
	X(CONSUME_OK_TRUSTED, "a slot made as soon as the consume is answered")                    \
	X(BEADS_TWO_IN_FLIGHT, "a renewal while another one is not answered")                      \
	X(BEADS_FLIPPED_UNSTOPPED, "a clean end of a hold whose client goes on")                   \
	X(RECLAIM_ANY_SUM, "a reclaim of a slot that another one has held since")                  \
	X(RECLAIM_OF_CLEAN, "a reclaim that takes a slot in clean order")                          \
	X(RECLAIM_BEFORE_STOP, "a reclaim while the client of the hold goes on")                   \
	X(A_DELETED_UNCLAIMED, "a held slot with an A that makes way for slots by quorum")         \
	X(BEADS_DELETED_UNCLAIMED, "a held slot by quorum that makes way for slots with As")

/*
 * Each row is a name, the program in tests/unit that finds it, perhaps with one of its test cases,
 * and the mistake in words.
 */
#define UNIT_FAULTS(X)                                                                             \
	X(NO_CONSUMER_IGNORED, "test_lock/consumer",                                               \
	    "a holder queue without a consumer taken as held")                                     \
	X(FLOOD_IS_LOGGED, "test_peer/log", "a flood of one user that is logged in full")          \
	X(LOSS_IS_LEFT_OUT, "test_peer/log", "a loss left out of the log")                         \
	X(REFUSED_IS_CONVERTED, "test_lock/convert", "a busy slot taken as converted")             \
	X(SKIPPED_IS_CONVERTED, "test_lock/convert",                                               \
	    "a slot taken as converted whose request was not performed")                           \
	X(GATE_AFTER_AS, "test_lock/convert_quorum",                                               \
	    "a converted semaphore that looks free until its gate is there")                       \
	X(RECORD_BEFORE_AS, "test_lock/convert_quorum_cut",                                        \
	    "the record removed before the slots that it counts are declared")                     \
	X(CONVERSION_OUTLIVES_CLIENT, "test_lock/convert",                                         \
	    "a conversion that waits on for a client that is gone")                                \
	X(SHARED_QUEUE_IGNORED, "test_memory/exclusion",                                           \
	    "a broker used that gives an exclusive queue to two connections")                      \
	X(BEADS_NO_BARRIER, "test_beads", "a rotation without its barrier")                        \
	X(BEADS_ORDER_UNCHECKED, "test_lock/ends",                                                 \
	    "an order believed that lost deliveries came in")                                      \
	X(BEADS_DISTURBANCE_IGNORED, "test_lock/ends",                                             \
	    "an order believed before which another message came")                                 \
	X(BEADS_CYCLIC_SINCE_43, "test_beads",                                                     \
	    "beads in the order of a delayed retry read by the cyclic rule")                       \
	X(RESTORED_HAND_OFFS_ANEW, "test_lock/quorum_successor",                                   \
	    "a fence that falls at the successor")                                                 \
	X(RESTORED_RECLAIM_STOPPED, "test_lock/quorum_successor",                                  \
	    "a lost holder that has stopped for the successor")                                    \
	X(LOST_PEER_HAS_STOPPED, "test_lock/ends",                                                 \
	    "a reclaim when the client of a lost hold hangs up")                                   \
	X(EVICTED_EARLY, "test_lock/evict", "an evicted hold freed before its deadline")           \
	X(EVICTION_PUT_OFF, "test_lock/evict", "a second eviction that puts the deadline off")     \
	X(EVICTS_NEXT_HOLDER, "test_lock/evict", "an eviction that reaches the next holder")       \
	X(EVICTION_NOT_SAVED, "test_lock/evict", "an eviction that the successor forgets")         \
	X(REGAIN_OF_CLEAN, "test_beads", "a hold that goes on with beads in clean order")          \
	X(REGAIN_ANY_SUM, "test_lock/ends", "a hold that goes on after a rival had its beads")     \
	X(REGAIN_LATE, "test_beads", "a hold that goes on by a proof after its lease")             \
	X(BEADS_COUNT_NOT_COMPARED, "test_beads",                                                  \
	    "an answer to a reject believed without its count")                                    \
	X(REPAIR_WITHOUT_WAIT, "test_lock/fsck_quorum",                                            \
	    "a set published while an earlier holder believes in its hold")                        \
	X(MADE_AGAIN_AT_ONCE, "test_lock/fsck_quorum",                                             \
	    "a set published again at once after an answer that did not come")                     \
	X(MUTEX_OUTRUNS_FLOOR, "test_lock/quorum_mutex",                                           \
	    "a mutex whose fences pass the floor, and that is gone after that")                    \
	X(POST_EXPIRES, "test_lock/quorum_mutex", "a post that ends while its mutex is held")      \
	X(POST_UNKNOWN, "test_lock/quorum_mutex", "a post that is taken for a mutex by consumer")  \
	X(POST_AFTER_BEADS, "test_lock/quorum_mutex", "a mutex by quorum beside one by queue")     \
	X(EMPTY_MUTEX_MADE_AT_ONCE, "test_lock/quorum_mutex",                                      \
	    "a set for a mutex whose beads were purged after an unclean end, without a wait")      \
	X(MISSING_SLOT_FORGOTTEN, "test_lock/fsck_quorum",                                         \
	    "a slot made anew while a holder believes in it that no record counts")                \
	X(REPAIR_EPOCH_KEPT, "test_lock/fsck_quorum",                                              \
	    "a set published again with the epoch of the lost one")                                \
	X(REPAIR_BESIDE_SET, "test_lock/fsck_quorum", "a set published beside one that is whole")  \
	X(REPAIR_OF_HELD, "test_lock/fsck_quorum", "a slot repaired while it is held")             \
	X(RECORD_ACKED_EARLY, "test_memory/records",                                               \
	    "an old record removed before the new one is delivered")                               \
	X(MARK_NOT_AWAITED, "test_memory/records",                                                 \
	    "the lock of the records believed without the mark")                                   \
	X(RETURNED_MARK_TRUSTED, "test_memory/records",                                            \
	    "records read while another session had a part of them")                               \
	X(CONFIRM_IS_PROOF, "test_memory/records",                                                 \
	    "a record written without the lock, because the broker took it")                       \
	X(UNSEEN_QUEUE_IGNORED, "test_memory/exclusion",                                           \
	    "a broker used whose connections see different queues")                                \
	X(READY_BEFORE_VERDICT, "test_memory/exclusion",                                           \
	    "a lock connection used before its exclusive queues are tested")                       \
	X(ANY_PRODUCT, "test_memory/exclusion", "a broker used that is not RabbitMQ")              \
	X(FSCK_MAKES_HOLDERS, "test_lock/fsck",                                                    \
	    "an fsck that makes a durable holder queue of a slot held by queue")                   \
	X(FSCK_GUESSES, "test_lock/fsck", "an fsck that takes nack or silence as absent")          \
	X(REPAIRED_NOT_LISTED, "test_lock/fsck", "a repair that leaves the directory as it is")    \
	X(GATE_LEFT, "test_lock/fsck", "a repair that leaves a gate beside slots")                 \
	X(BUSY_SLOT_RENEWED, "test_lock/fsck",                                                     \
	    "a repair that deletes a transient slot while it is busy")                             \
	X(HOLDER_NOT_REMADE, "test_lock/convert",                                                  \
	    "a wrong holder queue deleted and not declared again")                                 \
	X(RESCAN_FROM_FIRST, "test_lock/rescan",                                                   \
	    "a rescan of a large semaphore that always begins at slot 1")                          \
	X(FROZEN_OWES_HINTS, "test_lock/wait", "a late hint that is not sent before a freeze")     \
	X(RELEASED_MUTEX_UNCOUNTED, "test_lock/used_mutexes",                                      \
	    "a mutex that is not counted while its queue still exists")                            \
	X(PASSED_MUTEX_UNLIMITED, "test_lock/used_mutexes",                                        \
	    "a mutex handed off to a user that has too many")                                      \
	X(RESTORED_REJECT_FORGOTTEN, "test_lock/quorum_successor",                                 \
	    "a renewal in flight forgotten by the successor")                                      \
	X(RESTORED_PROOF_IS_NEW, "test_lock/quorum_successor",                                     \
	    "a lease by quorum that begins anew at the successor")                                 \
	X(RESTORED_REJECT_SENT_AGAIN, "test_lock/quorum_successor",                                \
	    "a renewal in flight sent again by the successor")                                     \
	X(RESTORED_PROOF_UNHEARD, "test_lock/quorum_successor",                                    \
	    "an answer to the earlier program that the successor does not hear")                   \
	X(LOST_NOT_SAVED, "test_lock/quorum_successor", "a lost hold forgotten by the successor")  \
	X(RESTORED_UNSUSPECT, "test_lock/successor",                                               \
	    "a suspect hold that the successor takes for a safe one")                              \
	X(SILENCE_UNSEEN, "test_lock/suspect", "a ping that says nothing of a silent broker")      \
	X(EXTRA_UNCOUNTED, "test_lock/list", "a holder of a removed slot that no list counts")     \
	X(RESTORED_COUNTS_BELIEVED, "test_lock/successor",                                         \
	    "counts of a daemon of version 0.1.0 taken over as they are")                          \
	X(CONSUMER_GONE_IGNORED, "test_lock/consumer",                                             \
	    "a hold kept although the broker says that its consumer is gone")                      \
	X(NOBODY_WAITED_FOR, "test_view",                                                          \
	    "an answer for all hosts before all known daemons have answered")                      \
	X(ANSWERED_TWICE, "test_view", "an answer of a daemon counted twice")                      \
	X(KILLED_IS_SILENT, "test_view", "a daemon that was replaced named as silent")             \
	X(COUNTED_ONCE, "test_view", "a slot with an unknown holder that was released meanwhile")  \
	X(ROW_OF_ANOTHER, "test_view",                                                             \
	    "a row believed that a daemon sends in the name of another")                           \
	X(GRANTED_BY_ANYBODY, "test_view",                                                         \
	    "a waiter of another daemon granted without the privilege")                            \
	X(UNVOUCHED_IS_OBEYED, "test_view", "a grant obeyed whose user the broker did not check")  \
	X(OTHERS_WAITER_IS_MEANT, "test_view",                                                     \
	    "a grant performed by a daemon at which the waiter does not wait")                     \
	X(SILENT_IS_GONE, "test_view",                                                             \
	    "the rows of a daemon gone after one round without its answer")                        \
	X(BEHIND_GOES_ON, "test_view", "a watch that missed changes and is not told so")           \
	X(HALF_CLOSED_GOES_ON, "test_conn", "a client that sends no more and keeps its locks")     \
	X(UNREAD_IS_FREE, "test_conn", "unread output that is not charged to its user")            \
	X(REPEATED_WAIT_IS_NEW, "test_peer_successor",                                             \
	    "the wait of a repeated request that begins anew at the successor")                    \
	X(REQUEST_NOT_REPEATED, "test_peer_successor",                                             \
	    "a request that was not answered forgotten by the successor")                          \
	X(LEAVER_NOT_SAVED, "test_peer_successor",                                                 \
	    "a client forgotten by the successor that hung up just before")                        \
	X(HUNG_UP_HOLDS_ON, "test_peer_successor",                                                 \
	    "a hold that outlives a client that hung up in the takeover")                          \
	X(RESTORED_CLIENTS_ANEW, "test_peer_successor",                                            \
	    "a number of a client that the successor uses again")                                  \
	X(PARKED_NOT_SAVED, "test_peer_successor", "a parked scan forgotten by the successor")     \
	X(HALF_LINE_NOT_SAVED, "test_peer_successor",                                              \
	    "the beginning of a line forgotten by the successor")                                  \
	X(OUTPUT_NOT_SAVED, "test_peer_successor", "unread output forgotten by the successor")     \
	X(CUT_OFF_IS_WHOLE, "test_successor",                                                      \
	    "descriptors taken as whole though the kernel cut them off")                           \
	X(STATE_UNSEALED, "test_successor",                                                        \
	    "a state that can be changed on its way to the successor")                             \
	X(SIGNALS_NOT_HELD, "test_successor",                                                      \
	    "a signal that ends the daemon while it is replaced")                                  \
	X(REHEARSAL_HEARS_SIGNALS, "test_successor",                                               \
	    "a rehearsal that a signal for the daemon ends")                                       \
	X(SOCKETS_NOT_INHERITED, "test_successor", "sockets that the successor does not inherit")  \
	X(SOCKETS_LEFT_INHERITED, "test_successor",                                                \
	    "sockets that other programs inherit after a failed takeover")                         \
	X(CLIENT_LEASE_MOVES_BACK, "test_client_lease",                                            \
	    "a lease of the library that an older message shortens")                               \
	X(CLIENT_TRUSTS_OTHER_CLOCK, "test_client_lease",                                          \
	    "a lease of the library that ends by the clock of another time namespace")             \
	X(CLIENT_RENEWS_SUSPECT, "test_client_lease",                                              \
	    "a suspect lock extended with the others by the library")                              \
	X(CLIENT_RELEASE_LAPSES, "test_client_lease",                                              \
	    "a lock reported lost while it is being released")                                     \
	X(CLIENT_SLEEPS_OVER_LEASE, "test_client_lease",                                           \
	    "a wait of the library beyond the end of a lease")                                     \
	X(CLIENT_LAPSE_UNTOLD, "test_client_lease",                                                \
	    "the end of a lease not reported by the library")                                      \
	X(CLIENT_LEASE_BEYOND_EVICTION, "test_client_lease",                                       \
	    "a lease that the library extends beyond the deadline of an eviction")                 \
	X(CLIENT_EVICTED_LATER, "test_client_lease",                                               \
	    "a second eviction that moves the deadline of the library to a later time")            \
	X(CLIENT_LAPSES_UNREAD, "test_client_lease",                                               \
	    "a lock reported lost although its extension is unread")

enum fault {
#define FAULT_ENUMERATOR(name, ...) FAULT_##name,
	FAULTS(FAULT_ENUMERATOR)
	/* Behind those of the simulation, which counts up to it. */
	FAULT_NONE,
	UNIT_FAULTS(FAULT_ENUMERATOR)
#undef FAULT_ENUMERATOR
};

extern enum fault fault_active;
#define FAULT(name, ...) FAULT_IF(name, true, __VA_ARGS__)
#define FAULT_IF(name, condition, ...)                                                             \
	if (fault_active == FAULT_##name && (condition)) {                                         \
		__VA_ARGS__;                                                                       \
	} else                                                                                     \
		(void)0
#define FAULT_ELSE(name, mistake, truth) (fault_active == FAULT_##name ? (mistake) : (truth))

#else
#define FAULT(name, ...) (void)0
#define FAULT_IF(name, condition, ...) (void)0
#define FAULT_ELSE(name, mistake, truth) (truth)
#endif

#endif
