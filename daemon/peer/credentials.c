#include "daemon/peer/credentials.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "daemon/base/mem.h"

/* More groups than Linux lets a process have (NGROUPS_MAX). */
#define GROUPS_MAX 65536

/* The kernel answers ERANGE with the size it needs; the groups of a socket do not change. */
static bool
groups_read(int fd, struct access_subject *subject)
{
	socklen_t size = 32 * sizeof(gid_t);
	gid_t *groups = mem_grow(NULL, 32, sizeof(gid_t));

	while (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) != 0) {
		if (errno != ERANGE || size > GROUPS_MAX * sizeof(gid_t)) {
			free(groups);
			return false;
		}
		groups = mem_grow(groups, size, 1);
	}
	subject->groups = groups;
	subject->group_count = size / sizeof(gid_t);
	return true;
}

bool
credentials_read(int fd, struct access_subject *ret)
{
	struct access_subject subject = {0};
	struct ucred cred;
	socklen_t size = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) != 0)
		return false;
	subject.uid = cred.uid;
	subject.gid = cred.gid;
	subject.pid = cred.pid;
	if (!groups_read(fd, &subject))
		return false;
	*ret = subject;
	return true;
}

void
credentials_done(struct access_subject *subject)
{
	free(subject->groups);
	*subject = (struct access_subject){0};
}
