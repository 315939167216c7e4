/* SPDX-License-Identifier: BSD-3-Clause */
/* edges.c - see edges.h. */
#include "tests/world/edges.h"

#include <sched.h>
#include <time.h>
#include <string.h>
#include <unistd.h>

#include "tests/test.h"

void edges_attach_at(struct fabric *fabric, uint32_t node, struct emu_hostif_nic *nic)
{
    struct fabric_seat seat;

    CU_ASSERT_EQUAL_FATAL(fabric_attach(fabric, node, &seat), 0);
    CU_ASSERT_EQUAL_FATAL(seat.node, node);
    CU_ASSERT_EQUAL_FATAL(emu_hostif_nic_open(nic, &seat.fds), 0);
    seat.fds.bell = -1;
    fabric_seat_close(&seat);
}

void edges_attach(struct edges *e, uint32_t node)
{
    edges_attach_at(e->fabric, node, &e->nic[node]);
}

static void edge_close(struct edges *e, uint32_t node)
{
    if (e->nic[node].shared)
        emu_hostif_nic_close(&e->nic[node]);
    e->nic[node].shared = NULL;
}

void edges_detach(struct edges *e, uint32_t node)
{
    edge_close(e, node);
    fabric_detach(e->fabric, node);
}

void edges_open(struct edges *e, const char *topo, const struct fabric_config *config)
{
    memset(e, 0, sizeof *e);
    e->fabric = world_fabric_start(&e->graph, topo, EDGES_MAX, config);
    e->nodes = e->graph->nodes;
    for (uint32_t n = 0; n < e->nodes; n++)
        edges_attach(e, n);
}

void edges_close(struct edges *e)
{
    for (uint32_t n = 0; n < e->nodes; n++)
        edge_close(e, n);
    world_fabric_stop(e->fabric, e->graph);
}

uint64_t edges_now(const struct edges *e, uint32_t node)
{
    bool timed = e->fabric->config.clock != EMU_CLOCK_RAW;

    return timed ? emu_host_ps(e->nic[node].shared->origin_ns) : 0;
}

bool edges_post(struct edges *e, uint32_t node, const struct emu_hdr *hdr, const void *payload)
{
    struct emu_seg *seg = emu_hostif_nic_claim(&e->nic[node], edges_now(e, node));

    if (!seg)
        return false;
    seg->hdr = *hdr;
    if (payload && hdr->len <= EMU_PAYLOAD_BYTES)
        memcpy(seg->payload, payload, hdr->len);
    emu_hostif_nic_publish(&e->nic[node]);
    return true;
}

bool edges_take_by(struct edges *e, uint32_t node, uint64_t now_ps, struct emu_seg *ret)
{
    const struct emu_seg *seg = emu_hostif_nic_peek(&e->nic[node], now_ps);

    if (!seg)
        return false;
    *ret = *seg;
    emu_hostif_nic_pop(&e->nic[node]);
    emu_hostif_nic_consumed(&e->nic[node]);
    return true;
}

bool edges_take(struct edges *e, uint32_t node, struct emu_seg *ret)
{
    return edges_take_by(e, node, edges_now(e, node), ret);
}

void edges_pause(uint32_t looks)
{
    static const struct timespec nap = {.tv_nsec = 30000};

    if (looks % 16 == 15)
        nanosleep(&nap, NULL);
    else
        sched_yield();
}

bool edges_await(struct edges *e, uint32_t node, struct emu_seg *ret)
{
    for (uint32_t i = 0; i < EDGES_GIVE_UP; i++) {
        if (edges_take(e, node, ret))
            return true;
        edges_pause(i);
    }
    return false;
}
