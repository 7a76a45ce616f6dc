/*
 * lockbroker-web: the panel of the locks in a browser. Options, and the loop.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/exit_status.h"
#include "client/tool/signals.h"
#include "client/tool/watch.h"
#include "client/web/feed.h"
#include "client/web/http.h"
#include "client/web/listener.h"
#include "client/web/note.h"
#include "client/web/stream.h"
#include "config.h"
#include "daemon/base/notify.h"

struct web_options {
	const char *listen; /* NULL: the default port */
	const char *socket; /* the daemon's; NULL: the default of lb_connect() */
	struct http_settings http;
};

static const char help[] =
    "Usage: lockbroker-web [OPTION...]\n"
    "Shows the locks of all hosts in a browser, and lets administrators change them.\n"
    "\n"
    "  --listen 127.0.0.1:PORT  For browsers on this host (default: port 8390; 0: any).\n"
    "                           It prints a link with a token.\n"
    "  --listen unix:PATH       For a proxy with TLS and login. It needs --user-header.\n"
    "  --user-header NAME       The header in which the proxy names the visitor.\n"
    "  --host NAME              A name of the server, for a Unix socket; can be repeated\n"
    "                           (default: the host name, localhost).\n"
    "  --admin                  Every visitor can change locks.\n"
    "  --admin-users LIST       These visitors can. Commas separate them.\n"
    "  --socket PATH            Socket of lockbrokerd (default: $LOCKBROKER_SOCKET, or\n"
    "                           " LB_DEFAULT_SOCKET ").\n"
    "  --help                   Prints this text.\n"
    "  --version                Prints the version.\n";

enum { GOING_ON = -1 };

/* Returns an exit status, or GOING_ON. */
static int
parse_options(struct web_options *options, int argc, char *argv[])
{
	static const struct option table[] = {{"listen", required_argument, NULL, 'l'},
	    {"socket", required_argument, NULL, 's'}, {"user-header", required_argument, NULL, 'u'},
	    {"host", required_argument, NULL, 'n'}, {"admin", no_argument, NULL, 'a'},
	    {"admin-users", required_argument, NULL, 'A'}, {"help", no_argument, NULL, 'h'},
	    {"version", no_argument, NULL, 'v'}, {0}};
	struct visitor_settings *visitors = &options->http.visitors;
	int option;

	while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
		switch (option) {
		case 'l':
			options->listen = optarg;
			break;
		case 's':
			options->socket = optarg;
			break;
		case 'u':
			visitors->user_header = optarg;
			break;
		case 'n':
			if (options->http.hosts_count == HTTP_HOSTS_MOST) {
				note("--host: more than %d names", HTTP_HOSTS_MOST);
				return EXIT_STATUS_USAGE;
			}
			options->http.hosts[options->http.hosts_count++] = optarg;
			break;
		case 'a':
			visitors->admin = true;
			break;
		case 'A':
			visitors->admin_users = optarg;
			break;
		case 'h':
			fputs(help, stdout);
			return EXIT_STATUS_OK;
		case 'v':
			puts("lockbroker-web " PACKAGE_VERSION);
			return EXIT_STATUS_OK;
		default:
			return EXIT_STATUS_USAGE;
		}
	}
	if (optind < argc) {
		note("unexpected argument: %s", argv[optind]);
		return EXIT_STATUS_USAGE;
	}
	return GOING_ON;
}

/* The two ways in, and no mixture of them. False: it has said why. */
static bool
check_way(const struct web_options *options, const struct http_listener *listener)
{
	const struct visitor_settings *visitors = &options->http.visitors;
	const char *wrong = NULL;

	if (listener->is_unix && visitors->user_header == NULL)
		wrong = "a Unix socket needs --user-header: the proxy must name the visitor";
	else if (!listener->is_unix && visitors->user_header != NULL)
		wrong = "--user-header needs a Unix socket: each user of this host can send the "
			"header to a port";
	else if (!listener->is_unix && visitors->admin_users != NULL)
		wrong = "--admin-users needs --user-header: the token names nobody";
	else if (!listener->is_unix && options->http.hosts_count > 0)
		wrong = "--host needs a Unix socket";
	if (wrong != NULL)
		note("%s", wrong);
	return wrong == NULL;
}

/* names: room for the texts of the names. */
static void
fill_hosts(struct http_settings *http, const struct http_listener *listener, char names[2][256])
{
	if (http->hosts_count > 0)
		return;
	if (listener->is_unix) {
		snprintf(names[0], sizeof(names[0]), "localhost");
		if (gethostname(names[1], sizeof(names[1]) - 1) != 0)
			names[1][0] = '\0';
	} else {
		snprintf(names[0], sizeof(names[0]), "127.0.0.1:%u", listener->port);
		snprintf(names[1], sizeof(names[1]), "localhost:%u", listener->port);
	}
	http->hosts[http->hosts_count++] = names[0];
	if (*names[1] != '\0')
		http->hosts[http->hosts_count++] = names[1];
}

/* Returns when a signal asks to end. */
static void
loop(struct web_feed *feed, struct streams *streams, struct http *http,
    const struct signals *signals)
{
	struct watch watch = {.signals = signals, .input = http_fd(http)};
	bool terminal;
	int signo;

	for (;;) {
		int64_t now = watch_now(), next = feed_turn(feed, now), due;

		due = streams_turn(streams, now);
		next = due < next ? due : next;
		due = http_turn(http, now);
		next = due < next ? due : next;
		watch.lb = feed_handle(feed);
		watch_sleep(&watch, next);
		while ((signo = signals_next(signals, &terminal)) != 0)
			if (signal_ends(signo))
				return;
	}
}

static int
serve(const struct web_options *options, const struct http_listener *listener,
    const struct signals *signals)
{
	struct web_feed *feed = feed_new(options->socket);
	struct streams *streams = streams_new(feed);
	struct http *http = http_new(listener->fd, &options->http, feed, streams);

	if (http == NULL) {
		note("the server cannot begin");
		streams_free(streams);
		feed_free(feed);
		return EXIT_STATUS_INTERNAL;
	}
	if (!listener->is_unix) {
		printf("http://127.0.0.1:%u/?token=%s\n", listener->port,
		    options->http.visitors.token);
		fflush(stdout);
	}
	notify_ready();
	loop(feed, streams, http, signals);
	notify_stopping();
	/* Each part first ends what the next one refers to. */
	streams_end(streams);
	feed_end(feed);
	http_free(http);
	streams_free(streams);
	feed_free(feed);
	return EXIT_STATUS_OK;
}

int
main(int argc, char *argv[])
{
	struct web_options options = {.listen = NULL};
	struct http_listener listener = {.fd = -1};
	int status = parse_options(&options, argc, argv);
	char names[2][256] = {"", ""};
	struct signals signals;

	if (status != GOING_ON)
		return status;
	if (!signals_hold(&signals)) {
		note("signals: %m");
		return EXIT_STATUS_INTERNAL;
	}
	if (!listener_open(&listener, options.listen))
		return EXIT_STATUS_USAGE;
	if (!check_way(&options, &listener)) {
		status = EXIT_STATUS_USAGE;
	} else if (!visitor_token_make(&options.http.visitors, listener.port)) {
		note("no random token: %m");
		status = EXIT_STATUS_INTERNAL;
	} else {
		fill_hosts(&options.http, &listener, names);
		status = serve(&options, &listener, &signals);
	}
	listener_remove(&listener);
	return status;
}
