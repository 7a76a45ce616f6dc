#include "daemon/config/password.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/mem.h"

/* As a part of a broker URL. */
#define PASSWORD_MAX 255

static const char nothing[] = "holds no password";

static const char *
check(const char *text, size_t len)
{
	if (len == 0)
		return nothing;
	if (memchr(text, '\n', len) != NULL)
		return "holds more than one line";
	if (len > PASSWORD_MAX)
		return "holds more than 255 bytes";
	if (memchr(text, '\0', len) != NULL)
		return "holds a NUL byte";
	return NULL;
}

char *
password_read(const char *path, const char **ret_what)
{
	char buf[PASSWORD_MAX + 3]; /* a line end, and one byte to see that there is more */
	char *password = NULL;
	struct stat st;
	ssize_t n = -1;
	size_t len;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0 && fstat(fd, &st) == 0)
		n = read(fd, buf, sizeof(buf));
	if (n < 0) {
		*ret_what = strerror(errno);
	} else {
		len = (size_t)n;
		if (len > 0 && buf[len - 1] == '\n')
			len--;
		if (len > 0 && buf[len - 1] == '\r')
			len--;
		*ret_what = check(buf, len);
		if (*ret_what == NULL) {
			password = mem_alloc(len + 1);
			memcpy(password, buf, len);
			if ((st.st_mode & S_IROTH) != 0)
				log_warning("%s: everybody may read this password", path);
		}
	}
	explicit_bzero(buf, sizeof(buf));
	if (fd >= 0)
		close(fd);
	return password;
}

char *
password_credential(const char **ret_what)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY");
	char *path, *password = NULL;

	*ret_what = NULL;
	if (dir == NULL || *dir == '\0')
		return NULL;
	path = mem_printf("%s/broker-password", dir);
	if (access(path, F_OK) == 0) {
		password = password_read(path, ret_what);
		if (password == NULL && *ret_what == nothing)
			*ret_what = NULL;
	}
	free(path);
	return password;
}
