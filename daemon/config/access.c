#include "daemon/config/access.h"

#include <fnmatch.h>
#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/mem.h"
#include "protocol/methods.h"

enum access_who { ACCESS_WHO_ANY, ACCESS_WHO_UID, ACCESS_WHO_GID };

struct access_rule {
	char *text;  /* owned: as it was given */
	char *words; /* owned: a copy of text, cut into words */
	bool allow;
	enum access_who who;
	uint32_t id;         /* uid or gid */
	const char *methods; /* in words: "*", or names separated by commas */
	const char *pattern; /* in words */
};

struct access_rules {
	struct access_rule *list; /* owned */
	size_t count;
	char *admin_name; /* owned; NULL or "" = no admin group */
	bool has_admin_group;
	gid_t admin_group;
	char *error; /* owned; of the last rule that was not taken */
};

struct access_rules *
access_rules_new(void)
{
	return mem_alloc(sizeof(struct access_rules));
}

static void
rule_done(struct access_rule *rule)
{
	free(rule->text);
	free(rule->words);
}

void
access_rules_free(struct access_rules *rules)
{
	if (rules == NULL)
		return;
	for (size_t i = 0; i < rules->count; i++)
		rule_done(&rules->list[i]);
	free(rules->list);
	free(rules->admin_name);
	free(rules->error);
	free(rules);
}

/* (uid_t)-1 means "no change" to the kernel, and is not an id. */
static bool
parse_id(const char *text, uint32_t *ret)
{
	uint64_t id = 0;

	if (*text == '\0')
		return false;
	for (; *text != '\0'; text++) {
		if (*text < '0' || *text > '9')
			return false;
		id = id * 10 + (uint64_t)(*text - '0');
		if (id >= UINT32_MAX)
			return false;
	}
	*ret = (uint32_t)id;
	return true;
}

/* NULL, or the error (malloc'ed). */
static char *
parse_who(const char *text, struct access_rule *rule)
{
	if (strcmp(text, "any") == 0) {
		rule->who = ACCESS_WHO_ANY;
		return NULL;
	}
	rule->who = ACCESS_WHO_UID;
	if (strncmp(text, "uid:", 4) == 0)
		return parse_id(text + 4, &rule->id)
			   ? NULL
			   : mem_printf("%s: expected a number after uid:", text);
	if (strncmp(text, "user:", 5) == 0) {
		const struct passwd *user = getpwnam(text + 5);

		if (user == NULL)
			return mem_printf("user %s does not exist", text + 5);
		rule->id = user->pw_uid;
		return NULL;
	}
	rule->who = ACCESS_WHO_GID;
	if (strncmp(text, "gid:", 4) == 0)
		return parse_id(text + 4, &rule->id)
			   ? NULL
			   : mem_printf("%s: expected a number after gid:", text);
	if (strncmp(text, "group:", 6) == 0) {
		const struct group *group = getgrnam(text + 6);

		if (group == NULL)
			return mem_printf("group %s does not exist", text + 6);
		rule->id = group->gr_gid;
		return NULL;
	}
	return mem_printf(
	    "%s: the second word must be any, user:NAME, uid:N, group:NAME or gid:N", text);
}

/*
 * Each method must exist: a misspelt one in a deny rule would deny nothing. NULL, or the error
 * (malloc'ed).
 */
static char *
check_methods(const char *text)
{
	char *copy, *rest, *method, *error = NULL;

	if (strcmp(text, "*") == 0)
		return NULL;
	copy = rest = mem_strdup(text);
	while (error == NULL && (method = strsep(&rest, ",")) != NULL) {
		if (method_find(method) == NULL)
			error = mem_printf("'%s' is not a method; the third word must be * or "
					   "method names separated by commas",
			    method);
	}
	free(copy);
	return error;
}

/* NULL, or the error (malloc'ed). */
static char *
rule_parse(const char *text, struct access_rule *rule)
{
	static const char four[] = "a rule has four words: allow|deny WHO METHODS NAMES";
	char *words[4], *save = NULL, *word, *error;
	size_t count = 0;

	rule->text = mem_strdup(text);
	rule->words = mem_strdup(text);
	for (word = strtok_r(rule->words, " \t", &save); word != NULL;
	     word = strtok_r(NULL, " \t", &save)) {
		if (count == 4)
			return mem_strdup(four);
		words[count++] = word;
	}
	if (count != 4)
		return mem_strdup(four);
	if (strcmp(words[0], "allow") != 0 && strcmp(words[0], "deny") != 0)
		return mem_strdup("a rule must start with allow or deny");
	rule->allow = words[0][0] == 'a';
	if ((error = parse_who(words[1], rule)) != NULL)
		return error;
	rule->methods = words[2];
	rule->pattern = words[3];
	return check_methods(rule->methods);
}

const char *
access_rules_add(struct access_rules *rules, const char *text)
{
	struct access_rule rule = {0};

	free(rules->error);
	rules->error = rule_parse(text, &rule);
	if (rules->error != NULL) {
		rule_done(&rule);
		return rules->error;
	}
	rules->list = mem_grow(rules->list, rules->count + 1, sizeof(*rules->list));
	rules->list[rules->count++] = rule;
	return NULL;
}

void
access_rules_set_admin_group(struct access_rules *rules, const char *name)
{
	const struct group *group = *name == '\0' ? NULL : getgrnam(name);

	free(rules->admin_name);
	rules->admin_name = mem_strdup(name);
	rules->has_admin_group = group != NULL;
	if (group != NULL)
		rules->admin_group = group->gr_gid;
}

const char *
access_rules_get(const struct access_rules *rules, size_t i)
{
	return i < rules->count ? rules->list[i].text : NULL;
}

static bool
has_group(const struct access_subject *subject, gid_t gid)
{
	if (subject->gid == gid)
		return true;
	for (size_t i = 0; i < subject->group_count; i++) {
		if (subject->groups[i] == gid)
			return true;
	}
	return false;
}

static bool
who_matches(const struct access_rule *rule, const struct access_subject *subject)
{
	switch (rule->who) {
	case ACCESS_WHO_ANY:
		return true;
	case ACCESS_WHO_UID:
		return subject->uid == rule->id;
	case ACCESS_WHO_GID:
		return has_group(subject, rule->id);
	}
	return false;
}

static bool
method_matches(const char *methods, const char *method)
{
	size_t len = strlen(method);

	if (strcmp(methods, "*") == 0)
		return true;
	for (const char *at = methods; at != NULL; at = strchr(at, ',')) {
		at += *at == ',';
		if (strncmp(at, method, len) == 0 && (at[len] == ',' || at[len] == '\0'))
			return true;
	}
	return false;
}

static bool
name_matches(const struct access_rule *rule, enum access_privilege privilege, const char *name)
{
	if (name != NULL)
		return fnmatch(rule->pattern, name, 0) == 0;
	if (rule->allow && privilege == ACCESS_ANYONE)
		return true;
	return strcmp(rule->pattern, "*") == 0;
}

/* Returns the first rule that matches; NULL: the defaults decide. */
static const struct access_rule *
rule_for(const struct access_rules *rules, const struct access_subject *subject, const char *method,
    enum access_privilege privilege, const char *name)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct access_rule *rule = &rules->list[i];

		if (who_matches(rule, subject) && method_matches(rule->methods, method) &&
		    name_matches(rule, privilege, name))
			return rule;
	}
	return NULL;
}

bool
access_is_admin(const struct access_rules *rules, const struct access_subject *subject)
{
	return subject->uid == 0 || subject->uid == geteuid() ||
	       (rules->has_admin_group && has_group(subject, rules->admin_group));
}

bool
access_allowed(const struct access_rules *rules, const struct access_subject *subject,
    const char *method, enum access_privilege privilege, const char *name)
{
	const struct access_rule *rule = rule_for(rules, subject, method, privilege, name);

	if (rule != NULL)
		return rule->allow;
	switch (privilege) {
	case ACCESS_ANYONE:
		return true;
	case ACCESS_ADMIN:
		return access_is_admin(rules, subject);
	}
	return false;
}

const char *
access_explain(char buf[ACCESS_WHY_MAX], const struct access_rules *rules,
    const struct access_subject *subject, const char *method, enum access_privilege privilege,
    const char *name)
{
	const char *group = rules->admin_name != NULL ? rules->admin_name : "";

	if (rule_for(rules, subject, method, privilege, name) != NULL)
		snprintf(buf, ACCESS_WHY_MAX, "an access rule denies it");
	else if (rules->has_admin_group)
		snprintf(
		    buf, ACCESS_WHY_MAX, "only root, the daemon's user and group %s may", group);
	else if (*group != '\0')
		snprintf(buf, ACCESS_WHY_MAX,
		    "only root and the daemon's user may; group %s (admin-group) did not exist "
		    "when the configuration was read",
		    group);
	else
		snprintf(buf, ACCESS_WHY_MAX, "only root and the daemon's user may");
	return buf;
}
