/*
 * A RabbitMQ, started by test_over_rabbitmq.py, and real time.
 */
#include "tests/conformance/server.h"

static void
alarm_rabbitmq(bool on)
{
	rig_rabbit("ctl set_vm_memory_high_watermark %s", on ? "0" : "0.4");
}

static void
close_connections(const char *words)
{
	rig_rabbit("ctl close_all_connections '%s'", words);
}

static void
restart(void)
{
	/* In order: a killed node may lose messages that it has just paged out. */
	rig_rabbit("stop");
	rig_rabbit("start");
}

static void
permit(bool all)
{
	rig_rabbit(
	    "ctl set_permissions guest '%s' '.*' '%s'", all ? ".*" : "^$", all ? ".*" : "^$");
}

const struct server server_rabbitmq = {
    .name = "RabbitMQ",
    .ground = &rig_ground_real,
    .alarm = alarm_rabbitmq,
    .close_connections = close_connections,
    .restart = restart,
    .permit = permit,
};
