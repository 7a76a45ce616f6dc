#include "daemon/broker/auxiliary.h"

#include "daemon/broker/internal.h"
#include "daemon/broker/reconnector.h"

void
amqp_auxiliary_use(struct broker *broker)
{
	broker->auxiliary_used = broker_now(broker);
}

void
amqp_auxiliary_need(struct broker *broker)
{
	if (broker->stopped)
		return;
	amqp_auxiliary_use(broker);
	if (amqp_reconnector_state(broker->locks) == BROKER_UP) {
		timers_cancel(broker->timers, &broker->auxiliary_wait);
		amqp_reconnector_need(broker->auxiliary, amqp_reconnector_host(broker->locks));
	} else if (amqp_reconnector_is_idle(broker->auxiliary) &&
		   !timer_is_set(&broker->auxiliary_wait)) {
		timers_set(broker->timers, &broker->auxiliary_wait,
		    broker->auxiliary_used + broker->settings.connect_timeout);
	}
}
