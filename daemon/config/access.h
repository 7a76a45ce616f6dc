/*
 * Who may do what: rules read top to bottom, the first that matches decides. Without any rule that
 * matches, the built-in ones: whoever may open the socket may acquire, verify, release, look; what
 * changes semaphores for others needs root, the daemon's own uid, or the admin group.
 *
 *	rule = allow|deny  WHO  METHODS  NAMES
 *	WHO	any, user:NAME, uid:N, group:NAME, gid:N
 *	METHODS	*, or methods separated by commas
 *	NAMES	a pattern of fnmatch(3), in which * matches slashes too
 *
 * A rule about `create` decides on `acquire` with `create`, too. `fsck` needs the privilege in both of
 * its forms: it takes the administration mutex, which keeps administrators waiting.
 *
 * One about `grant` or `deny` goes by the name of the lock that is waited for.
 *
 * A method that names no lock meets any pattern of a rule that allows, but only * of one that denies,
 * and only * when it needs the admin privilege: a rule about some names neither shuts a peer out of
 * `info` nor hands it what concerns every name.
 */
#ifndef CONFIG_ACCESS_H
#define CONFIG_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Who a peer is, by the kernel's word (SO_PEERCRED, SO_PEERGROUPS). */
struct access_subject {
	uid_t uid;
	gid_t gid;
	pid_t pid;
	gid_t *groups; /* supplementary */
	size_t group_count;
};

/* What a method needs when no rule says. A column of the dispatch table. */
enum access_privilege {
	ACCESS_ANYONE, /* whoever may open the socket */
	ACCESS_ADMIN   /* root, the daemon's own uid, the admin group */
};

struct access_rules;

/* Has room for a group's name. */
#define ACCESS_WHY_MAX 192

struct access_rules *access_rules_new(void);
void access_rules_free(struct access_rules *rules);
/*
 * Appends a rule. NULL, or why the text is no rule (static); unknown users, groups and methods are
 * errors. Users and groups are looked up here and never again.
 */
const char *access_rules_add(struct access_rules *rules, const char *text)
    __attribute__((warn_unused_result));
/* The group whose members are admins; one that does not exist admits nobody. */
void access_rules_set_admin_group(struct access_rules *rules, const char *group);
/* The rules as they were given, for --print-config: the i-th, or NULL past the end. */
const char *access_rules_get(const struct access_rules *rules, size_t i);
/* name: the lock's name, NULL for methods that name none. */
bool access_allowed(const struct access_rules *rules, const struct access_subject *subject,
    const char *method, enum access_privilege privilege, const char *name);
/* Root, the daemon's own uid, or a member of the admin group, whatever the rules say. */
bool access_is_admin(const struct access_rules *rules, const struct access_subject *subject);
/* Of what is not allowed: why, and who may. */
const char *access_explain(char buf[ACCESS_WHY_MAX], const struct access_rules *rules,
    const struct access_subject *subject, const char *method, enum access_privilege privilege,
    const char *name);

#endif
