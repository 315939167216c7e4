/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * outbox.c - write pages of entries and credits, and move these to their rings.
 *
 * Simulated time passes in *windows* (windows.h). All workers take part in every window, and number
 * the windows in the same way. In window n a worker writes page n % 2 of its outboxes, and reads
 * page (n - 1) % 2 of the other workers' outboxes. The pages that it reads are written again in
 * window n + 1, after all workers have met. This meeting (V5 in windows.c) orders O1, the writes,
 * and O2, the reads.
 */
#include "emu/dev/outbox.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "emu/dev/dev.h"
#include "emu/util/alloc.h"

struct outbox_item {
    union {
        struct emu_entry *data;
        struct emu_credit *back;
    } slot;
    uint32_t index; /* index of the receiving device */
    uint8_t port;
    uint8_t event; /* enum emu_event: DATA for an entry, CREDIT for a credit */
    union {
        struct emu_entry entry;
        struct emu_credit credit;
    };
};
static_assert(sizeof(struct outbox_item) == EMU_OUTBOX_ITEM, "EMU_OUTBOX_ITEM is its size");

struct outbox_page {
    uint32_t count;
    struct outbox_item item[];
};

/* The outbox of one worker for the items that it sends to one other worker. */
struct emu_outbox {
    /* Written while workers are stopped. */
    const struct emu_worker *to;
    struct emu_outbox *next;     /* next outbox for the same receiver */
    struct outbox_page *page[2]; /* by window % 2 */
    /* maximum number of items of a page; 0: the pages are not allocated */
    uint32_t most;
    uint32_t wanted; /* maximum number of items of all cables that were joined so far */

    /* Owned by the receiver: number of items on each page when it last read the page. */
    alignas(EMU_LINE) uint32_t took[2];

    /* Owned by the sender, by window % 2: next in its list of outboxes written in that window. */
    alignas(EMU_LINE) struct emu_outbox *written[2];
};

/* Return an empty page, or NULL. Its unused parts are never touched, so they take no memory. */
static struct outbox_page *page_create(uint32_t most)
{
    size_t bytes = sizeof(struct outbox_page) + most * sizeof(struct outbox_item);
    struct outbox_page *page =
        aligned_alloc(EMU_LINE, (bytes + EMU_LINE - 1) / EMU_LINE * EMU_LINE);

    if (page)
        page->count = 0;
    return page;
}

/* Return the array element for worker number @to, after enlarging the array if needed, or NULL. */
static struct emu_outbox **outbox_place(struct emu_worker *from, uint32_t to)
{
    struct emu_outbox **grown;

    if (to < from->outboxes)
        return &from->outbox[to];
    grown = emu_zeros((to + 1) * sizeof(struct emu_outbox *));
    if (!grown)
        return NULL;
    for (uint32_t i = 0; i < from->outboxes; i++)
        grown[i] = from->outbox[i];
    free(from->outbox);
    from->outbox = grown;
    from->outboxes = to + 1;
    return &from->outbox[to];
}

static int outbox_join(struct emu_worker *from, struct emu_worker *to)
{
    struct emu_outbox **place = outbox_place(from, to->index), *box;

    if (!place)
        return -ENOMEM;
    if (!*place) {
        box = emu_zeros(sizeof *box);
        if (!box)
            return -ENOMEM;
        *box = (struct emu_outbox){.to = to, .next = to->inbox};
        *place = to->inbox = box;
    }
    assert((*place)->to == to);
    (*place)->wanted += EMU_OUTBOX_CABLE;
    return 0;
}

int emu_outbox_join(struct emu_worker *a, struct emu_worker *b)
{
    int err;

    if (a->index == b->index || a->index > UINT16_MAX || b->index > UINT16_MAX ||
        a->clock.mode != EMU_CLOCK_VIRTUAL || b->clock.mode != EMU_CLOCK_VIRTUAL)
        return -ENOTSUP;
    err = outbox_join(a, b);
    return err ? err : outbox_join(b, a);
}

int emu_outbox_open(struct emu_worker *worker)
{
    for (uint32_t i = 0; i < worker->outboxes; i++) {
        struct emu_outbox *box = worker->outbox[i];

        if (!box || box->most)
            continue;
        box->page[0] = page_create(box->wanted);
        box->page[1] = page_create(box->wanted);
        if (!box->page[0] || !box->page[1])
            return -ENOMEM;
        box->most = box->wanted;
    }
    return 0;
}

void emu_outbox_free(struct emu_worker *worker)
{
    for (uint32_t i = 0; i < worker->outboxes; i++) {
        struct emu_outbox *box = worker->outbox[i];

        if (!box)
            continue;
        free(box->page[0]);
        free(box->page[1]);
        free(box);
    }
    free(worker->outbox);
}

/* --- sending ------------------------------------------------------------------------ */

/*
 * Add an item for @to, which the caller fills in. Return NULL if the page is full or no window is
 * in progress. The caller then writes to the ring.
 */
static inline struct outbox_item *outbox_item(struct emu_worker *from, const struct emu_peer *to,
                                              enum emu_event event)
{
    struct emu_outbox *box = from->outbox[to->number];
    uint32_t parity = from->window % 2;
    struct outbox_page *page = box->page[parity];
    struct outbox_item *item;

    if (!from->in_window || !box->most || page->count == box->most)
        return NULL;
    if (!page->count) {
        box->written[parity] = from->written[parity];
        from->written[parity] = box;
    }
    item = &page->item[page->count++]; /* O1 */
    item->index = to->index;
    item->port = to->port;
    item->event = (uint8_t)event;
    return item;
}

bool emu_outbox_entry(struct emu_worker *from, const struct emu_peer *to, struct emu_entry *slot,
                      const struct emu_entry *entry)
{
    struct outbox_item *item = outbox_item(from, to, EMU_EVENT_DATA);

    if (!item)
        return false;
    item->slot.data = slot;
    item->entry = *entry;
    return true;
}

bool emu_outbox_credit(struct emu_worker *from, const struct emu_peer *to, struct emu_credit *slot,
                       const struct emu_credit *credit)
{
    struct outbox_item *item = outbox_item(from, to, EMU_EVENT_CREDIT);

    if (!item)
        return false;
    item->slot.back = slot;
    item->credit = *credit;
    return true;
}

/* --- receiving ---------------------------------------------------------------------- */

/*
 * Copy an entry or credit to its ring and signal the device, as if a device of this worker had sent
 * it in the window before.
 */
static inline void item_take(struct emu_worker *worker, const struct outbox_item *item,
                             const struct emu_signals *signals)
{
    const struct emu_credit *credit = &item->credit;
    uint64_t step = 1;

    if (item->event == EMU_EVENT_DATA) {
        emu_ring_fill(item->slot.data, &item->entry, item->entry.time_ps);
    } else {
        emu_credit_fill(item->slot.back, credit->count, credit->channel, credit->time_ps);
        step = emu_worker_wants(worker, item->index, item->port);
    }
    emu_signals_add(signals, item->index, (enum emu_event)item->event, emu_port_signal(item->port),
                    step);
}

/* Copy all items on page @parity of each outbox for @worker to their rings. */
static void pages_take(struct emu_worker *worker, uint32_t parity,
                       const struct emu_signals *signals)
{
    /* The counts are not in the cache yet, so prefetch as many items as last time. */
    for (const struct emu_outbox *box = worker->inbox; box; box = box->next)
        if (box->most)
            emu_fetch_lines(box->page[parity], &box->page[parity]->item[box->took[parity]]);
    for (struct emu_outbox *box = worker->inbox; box; box = box->next) {
        const struct outbox_page *page = box->page[parity]; /* O2 */

        box->took[parity] = box->most ? page->count : 0;
        for (uint32_t i = 0; i < box->took[parity]; i++)
            item_take(worker, &page->item[i], signals);
    }
}

/* Empty a page. Prefetch its lines for writing, because the receiver has read them. */
static void page_empty(struct outbox_page *page)
{
    const uint8_t *end = (const uint8_t *)&page->item[page->count];

    for (const uint8_t *line = (const uint8_t *)page; line < end; line += EMU_LINE)
        emu_prefetch_to_write(line);
    page->count = 0;
}

void emu_outbox_begin(struct emu_worker *worker)
{
    uint32_t parity = ++worker->window % 2;

    for (struct emu_outbox *box = worker->written[parity]; box; box = box->written[parity])
        page_empty(box->page[parity]);
    worker->written[parity] = NULL;
    worker->in_window = true;
    pages_take(worker, !parity, &worker->taken);
}

void emu_outbox_settle(struct emu_worker *worker)
{
    uint32_t parity = worker->window % 2;

    pages_take(worker, parity, &worker->signalled);
    for (struct emu_outbox *box = worker->inbox; box; box = box->next)
        if (box->took[parity])
            box->page[parity]->count = 0;
    worker->in_window = false;
}
