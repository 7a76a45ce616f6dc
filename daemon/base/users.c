#include "daemon/base/users.h"

#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include <uthash.h>

#include "daemon/base/mem.h"

/* A larger file is read up to here. */
#define USERS_MOST 65536

struct user {
	uid_t uid;
	char *name; /* owned */
	UT_hash_handle hh;
};

static struct {
	const char *path;   /* borrowed; NULL: /etc/passwd */
	struct user *users; /* owned; of the file as it was */
	struct stat seen;
	time_t checked; /* CLOCK_MONOTONIC_COARSE; 0: never */
} names;

static void
forget(void)
{
	struct user *user, *next;

	HASH_ITER (hh, names.users, user, next) {
		HASH_DELETE(hh, names.users, user);
		free(user->name);
		free(user);
	}
}

static struct user *
find(uid_t uid)
{
	struct user *user;

	HASH_FIND(hh, names.users, &uid, sizeof(uid), user);
	return user;
}

/* False: it cannot be read now, perhaps for want of a descriptor. The old names stay. */
static bool
read_all(const char *path)
{
	FILE *file = fopen(path, "re");
	const struct passwd *entry;
	struct user *user;

	if (file == NULL)
		return false;
	forget();
	while (HASH_COUNT(names.users) < USERS_MOST && (entry = fgetpwent(file)) != NULL) {
		if (find(entry->pw_uid) != NULL)
			continue; /* the first name of a uid counts (getpwuid(3)) */
		user = mem_alloc(sizeof(*user));
		user->uid = entry->pw_uid;
		user->name = mem_strdup(entry->pw_name);
		HASH_ADD(hh, names.users, uid, sizeof(user->uid), user);
	}
	fclose(file);
	return true;
}

static bool
is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

const char *
user_name(uid_t uid)
{
	const char *path = names.path != NULL ? names.path : "/etc/passwd";
	const struct user *user;
	struct timespec now = {0};
	struct stat status;

	/* A log line must cost little: the file is looked at once a second at most. */
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	if (names.checked == 0 || now.tv_sec != names.checked) {
		names.checked = now.tv_sec;
		if (stat(path, &status) == 0 && !is_same(&status, &names.seen) && read_all(path))
			names.seen = status;
	}
	user = find(uid);
	return user == NULL ? NULL : user->name;
}

void
user_names_set_file(const char *path)
{
	names.path = path;
	names.checked = 0;
}
