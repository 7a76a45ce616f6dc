/*
 * The access rules: they allow or deny methods to users. Rules are read from top to bottom, and the
 * first one that matches decides. If none matches, the defaults apply. Each user who may open the
 * socket may then acquire, verify, release and read. A method that changes semaphores needs root,
 * the daemon's uid, or the admin group.
 *
 *	rule = allow|deny  WHO  METHODS  NAMES
 *	WHO	any, user:NAME, uid:N, group:NAME, gid:N
 *	METHODS	*, or methods separated by commas
 *	NAMES	a pattern of fnmatch(3), in which * also matches slashes
 *
 * - A rule about `create` also decides on an `acquire` with `create`.
 * - `fsck` needs the privilege with and without a repair. It takes the administration mutex, so
 *   administrators wait for it.
 * - A rule about `grant` or `deny` is matched with the name of the lock that the waiter waits for.
 * - A method without a lock name matches each pattern of an allow rule, unless it needs the admin
 *   privilege. Otherwise it matches only the pattern *. So a rule about some names never forbids
 *   `info`, and it never allows a method that concerns all names.
 */
#ifndef CONFIG_ACCESS_H
#define CONFIG_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The user and process of a client, according to the kernel (SO_PEERCRED, SO_PEERGROUPS). */
struct access_subject {
	uid_t uid;
	gid_t gid;
	pid_t pid;
	gid_t *groups; /* supplementary */
	size_t group_count;
};

/* The privilege that a method needs if no rule decides. A column of the dispatch table. */
enum access_privilege {
	ACCESS_ANYONE, /* each user who may open the socket */
	ACCESS_ADMIN   /* root, the daemon's uid, and the admin group */
};

struct access_rules;

/* Enough for a text with a group's name. */
#define ACCESS_WHY_MAX 192

struct access_rules *access_rules_new(void);
void access_rules_free(struct access_rules *rules);
/*
 * Appends a rule. Returns NULL, or why the text is not a rule: an unknown user, group or method is
 * an error. The words are valid until the next call. Users and groups are looked up only here.
 */
const char *access_rules_add(struct access_rules *rules, const char *text)
    __attribute__((warn_unused_result));
/* Sets the group of administrators. A group that does not exist has no members. */
void access_rules_set_admin_group(struct access_rules *rules, const char *group);
/* The text of the i-th rule, for --print-config. NULL after the last. */
const char *access_rules_get(const struct access_rules *rules, size_t i);
/* Whether the subject may call the method. name: of the lock; NULL if the method has none. */
bool access_allowed(const struct access_rules *rules, const struct access_subject *subject,
    const char *method, enum access_privilege privilege, const char *name);
/*
 * Whether the subject is root, the daemon's uid, or in the admin group. Rules do not change this.
 */
bool access_is_admin(const struct access_rules *rules, const struct access_subject *subject);
/* Why a method is not allowed, and which users may call it. Returns buf. */
const char *access_explain(char buf[ACCESS_WHY_MAX], const struct access_rules *rules,
    const struct access_subject *subject, const char *method, enum access_privilege privilege,
    const char *name);

#endif
