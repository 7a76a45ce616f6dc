/*
 * lockbroker top: the loop between keyboard and daemon, and the actions of the keys.
 */
#ifndef CLIENT_TOP_TOP_H
#define CLIENT_TOP_TOP_H

/*
 * Shows the screen until the user, a signal or the end of the terminal ends it. stdin and stdout
 * are the terminal. path is that of the daemon's socket; NULL: the default of lb_connect(). Returns
 * the exit status.
 */
int top_perform(const char *path);

#endif
