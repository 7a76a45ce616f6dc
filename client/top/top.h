/* lockbroker top: the loop between keyboard and daemon, and what the keys do. */
#ifndef CLIENT_TOP_TOP_H
#define CLIENT_TOP_TOP_H

/*
 * Shows the screen until the user, a signal or the end of the terminal ends it; stdin and stdout are one. path is
 * that of the daemon's socket, NULL as for lb_connect(). The exit status.
 */
int top_perform(const char *path);

#endif
