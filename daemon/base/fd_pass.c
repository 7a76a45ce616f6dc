#include "daemon/base/fd_pass.h"
#include "daemon/base/fault.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
	struct cmsghdr header; /* for its alignment */
	char bytes[CMSG_SPACE(FD_PASS_MAX * sizeof(int))];
};

bool
fd_pass_send(int socket, const char *text, const int *fds, size_t count, int patience)
{
	union control control = {0};
	struct iovec part = {.iov_base = (char *)text, .iov_len = strlen(text)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	struct pollfd room = {.fd = socket, .events = POLLOUT};
	struct cmsghdr *header;

	if (count > 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(header), fds, count * sizeof(int));
	}
	/* poll(2) sees room in a quarter of the buffer alone (unix_writable() of Linux). */
	return (patience == 0 || poll(&room, 1, patience) == 1) &&
	       sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}

bool
fd_pass_receive(int socket, int *fds, size_t *ret_count)
{
	union control control = {0};
	char byte;
	struct iovec part = {.iov_base = &byte, .iov_len = sizeof(byte)};
	struct msghdr message = {.msg_iov = &part,
	    .msg_iovlen = 1,
	    .msg_control = control.bytes,
	    .msg_controllen = sizeof(control.bytes)};
	const struct cmsghdr *header;

	*ret_count = 0;
	if (recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != sizeof(byte))
		return false;
	header = CMSG_FIRSTHDR(&message);
	if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
		*ret_count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(fds, CMSG_DATA(header), *ret_count * sizeof(int));
	}
	FAULT(CUT_OFF_IS_WHOLE, return true);
	if ((message.msg_flags & MSG_CTRUNC) == 0)
		return true;
	while (*ret_count > 0)
		close(fds[--*ret_count]);
	return false;
}
