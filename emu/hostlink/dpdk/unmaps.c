/* SPDX-License-Identifier: BSD-3-Clause */
/* unmaps.c - before DPDK's thread for interrupts unmaps rings: see unmap.c, a folder higher. */
#include <pthread.h>
#include <time.h>

#include <rte_interrupts.h>

#include "emu/hostlink/dpdk/dpdk.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dpdk_port *watched;

void dpdk_port_watch(struct dpdk_port *port)
{
    pthread_mutex_lock(&lock);
    port->next = watched;
    watched = port;
    pthread_mutex_unlock(&lock);
}

void dpdk_port_unwatch(struct dpdk_port *port)
{
    pthread_mutex_lock(&lock);
    for (struct dpdk_port **at = &watched; *at; at = &(*at)->next) {
        if (*at == port) {
            *at = port->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
}

/*
 * H6: the driver's flags say that it is not connected; who is amid a burst may have read them
 * before, and who begins one sees them. A burst takes microseconds, if its thread has a core.
 */
__attribute__((visibility("default"))) void emu_hostport_dpdk_unmaps(void);
void emu_hostport_dpdk_unmaps(void)
{
    static const struct timespec moment = {.tv_nsec = 20000};

    if (!rte_thread_is_intr())
        return;
    pthread_mutex_lock(&lock);
    atomic_thread_fence(memory_order_seq_cst); /* H6 */
    for (struct dpdk_port *port = watched; port; port = port->next)
        while (atomic_load_explicit(&port->amid, memory_order_acquire)) /* H6 */
            nanosleep(&moment, NULL);
    pthread_mutex_unlock(&lock);
}
