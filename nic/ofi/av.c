/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * av.c - address vectors: an fi_addr_t is an index into a table of peers.
 *
 * The entries of the table are in chunks that never move, so that senders can read them without a
 * lock while other threads insert. A hash table of (kind, node, queue) maps a message's source to
 * its fi_addr_t. Only endpoints with FI_SOURCE use it. Successive processes of a node may use the
 * same queues: their entries differ by incarnation. An entry without an incarnation (from a name
 * given as text) matches every process. FI_AV_MAP and FI_AV_TABLE are treated alike.
 */
#include "nic/ofi/unsupported.h"

#include <stdlib.h>
#include <string.h>

#define AV_CHUNK_PEERS 1024u
#define AV_CHUNKS      1024u
#define AV_SLOTS_FIRST 64u
#define AV_NONE        UINT32_MAX

/* A slot of the hash table (open addressing, linear probing). */
struct av_slot {
    uint64_t key;
    uint32_t state; /* 0: free; AV_TOMB: its entry was removed; otherwise the entry's index + 1 */
};
#define AV_TOMB UINT32_MAX

struct ofi_av {
    struct fid_av av_fid;
    struct ofi_domain *domain;
    _Atomic uint32_t refs;             /* endpoints bound */
    _Atomic uint32_t count;            /* entries ever used; senders read it without the lock */
    struct ofi_peer *chunk[AV_CHUNKS]; /* each is written before count reaches its entries */

    /* taken to insert, to remove, and to find a source in the hash table; protects the fields
       below, and writes to the fields above */
    pthread_mutex_t lock;
    uint32_t *spare; /* indices of removed entries, to be reused */
    uint32_t spares;
    struct av_slot *slot;
    uint32_t slots;      /* a power of two */
    uint32_t slots_used; /* slots that are not free; at most half of slots */
};

struct ofi_av *ofi_av_of(struct fid *fid)
{
    return container_of(fid, struct ofi_av, av_fid.fid);
}

void ofi_av_hold(struct ofi_av *av)
{
    ofi_hold(&av->refs);
}

void ofi_av_release(struct ofi_av *av)
{
    ofi_release(&av->refs);
}

static struct ofi_peer *av_at(const struct ofi_av *av, uint32_t index)
{
    return &av->chunk[index / AV_CHUNK_PEERS][index % AV_CHUNK_PEERS];
}

/* A1 pairs with A2: a thread that sees the count also sees the chunks and entries below it. */
int ofi_av_peer(struct ofi_av *av, fi_addr_t addr, struct ofi_peer *ret)
{
    if (addr >= atomic_load_explicit(&av->count, memory_order_acquire)) /* A1 */
        return -FI_EINVAL;
    *ret = *av_at(av, (uint32_t)addr);
    return ret->node == FABEMU_ANY_NODE ? -FI_EINVAL : 0;
}

static uint64_t av_key(enum ofi_kind kind, uint32_t node, uint16_t queue)
{
    return (uint64_t)node << 17 | (uint64_t)kind << 16 | queue;
}

static uint32_t av_hash(const struct ofi_av *av, uint64_t key)
{
    return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (av->slots - 1);
}

static void av_slot_add(struct ofi_av *av, uint64_t key, uint32_t index)
{
    uint32_t at = av_hash(av, key);

    while (av->slot[at].state)
        at = (at + 1) & (av->slots - 1);
    av->slot[at] = (struct av_slot){.key = key, .state = index + 1};
    av->slots_used++;
}

/* Make a new hash table with at least four slots per key, and without AV_TOMB. */
static int av_slots_renew(struct ofi_av *av)
{
    struct av_slot *old = av->slot;
    uint32_t old_slots = av->slots;
    uint32_t live = OFI_KINDS *
                    (atomic_load_explicit(&av->count, memory_order_relaxed) - av->spares);
    uint32_t slots = AV_SLOTS_FIRST;
    struct av_slot *slot;

    while (slots < 4 * (live + OFI_KINDS))
        slots *= 2;
    slot = calloc(slots, sizeof *slot);
    if (!slot)
        return -FI_ENOMEM;
    av->slot = slot;
    av->slots = slots;
    av->slots_used = 0;
    for (uint32_t i = 0; i < old_slots; i++)
        if (old[i].state && old[i].state != AV_TOMB)
            av_slot_add(av, old[i].key, old[i].state - 1);
    free(old);
    return 0;
}

static void av_slot_remove(struct ofi_av *av, uint64_t key, uint32_t index)
{
    uint32_t at = av_hash(av, key);

    for (; av->slot[at].state; at = (at + 1) & (av->slots - 1))
        if (av->slot[at].key == key && av->slot[at].state == index + 1) {
            av->slot[at].state = AV_TOMB;
            return;
        }
}

fi_addr_t ofi_av_find(struct ofi_av *av, enum ofi_kind kind, const struct ofi_peer *from)
{
    uint64_t key = av_key(kind, from->node, from->queue[kind]);
    fi_addr_t found = FI_ADDR_NOTAVAIL;
    bool exact = false;

    pthread_mutex_lock(&av->lock);
    for (uint32_t at = av->slots ? av_hash(av, key) : 0; av->slots && !exact && av->slot[at].state;
         at = (at + 1) & (av->slots - 1)) {
        uint64_t incarnation;

        if (av->slot[at].key != key || av->slot[at].state == AV_TOMB)
            continue;
        incarnation = av_at(av, av->slot[at].state - 1)->incarnation;
        exact = incarnation == from->incarnation;
        if (exact || (!incarnation && found == FI_ADDR_NOTAVAIL))
            found = av->slot[at].state - 1;
    }
    pthread_mutex_unlock(&av->lock);
    return found;
}

/* Return the index of a removed entry, or else of the next unused one; AV_NONE if there is none. */
static uint32_t av_entry_get(struct ofi_av *av)
{
    uint32_t count = atomic_load_explicit(&av->count, memory_order_relaxed);
    uint32_t chunk = count / AV_CHUNK_PEERS;

    if (av->spares)
        return av->spare[--av->spares];
    if (chunk == AV_CHUNKS)
        return AV_NONE;
    if (!av->chunk[chunk])
        av->chunk[chunk] = calloc(AV_CHUNK_PEERS, sizeof *av->chunk[chunk]);
    return av->chunk[chunk] ? count : AV_NONE;
}

static int av_insert_one(struct ofi_av *av, const struct ofi_addr *addr, fi_addr_t *ret)
{
    struct ofi_peer peer = {.node = addr->node, .incarnation = addr->incarnation};

    if (addr->node == FABEMU_ANY_NODE || addr->queue[OFI_UNTAGGED] == OFI_QUEUE_NONE)
        return -FI_EINVAL;
    if (addr->fabric && addr->fabric != av->domain->fabric_hash) {
        FI_WARN(&ofi_prov, FI_LOG_AV, "the address belongs to another fabric (node %u)\n",
                addr->node);
        return -FI_EHOSTUNREACH;
    }
    memcpy(peer.queue, addr->queue, sizeof peer.queue);
    if (2 * (av->slots_used + OFI_KINDS) > av->slots && av_slots_renew(av))
        return -FI_ENOMEM;
    uint32_t index = av_entry_get(av);

    if (index == AV_NONE)
        return -FI_ENOMEM;
    *av_at(av, index) = peer;
    for (unsigned kind = 0; kind < OFI_KINDS; kind++)
        av_slot_add(av, av_key(kind, peer.node, peer.queue[kind]), index);
    if (index == atomic_load_explicit(&av->count, memory_order_relaxed))
        atomic_store_explicit(&av->count, index + 1, memory_order_release); /* A2 */
    *ret = index;
    return 0;
}

/*
 * Insert @count addresses. Returns the number inserted. With FI_SYNC_ERR, @context is an array that
 * receives an error for each.
 */
static int av_insert(struct fid_av *fid, const void *addrs, size_t count, fi_addr_t *fi_addr,
                     uint64_t flags, void *context)
{
    struct ofi_av *av = ofi_av_of(&fid->fid);
    struct ofi_addr addr;
    int inserted = 0;

    if (flags & ~(uint64_t)(FI_MORE | FI_SYNC_ERR))
        return -FI_EBADFLAGS;
    pthread_mutex_lock(&av->lock);
    for (size_t i = 0; i < count; i++) {
        fi_addr_t index = FI_ADDR_NOTAVAIL;

        memcpy(&addr, (const char *)addrs + i * sizeof addr, sizeof addr);
        int err = av_insert_one(av, &addr, &index);

        if (fi_addr)
            fi_addr[i] = index;
        if (flags & FI_SYNC_ERR && context)
            ((int *)context)[i] = -err;
        inserted += !err;
    }
    pthread_mutex_unlock(&av->lock);
    return inserted;
}

static int av_insertsvc(struct fid_av *fid, const char *node, const char *service,
                        fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    struct ofi_addr addr;

    if (!node || !service || ofi_addr_parse(node, service, &addr))
        return -FI_EINVAL;
    return av_insert(fid, &addr, 1, fi_addr, flags, context);
}

static int av_remove_one(struct ofi_av *av, fi_addr_t fi_addr)
{
    uint32_t *spare = reallocarray(av->spare, av->spares + 1, sizeof *spare);
    struct ofi_peer peer;

    if (!spare)
        return -FI_ENOMEM;
    av->spare = spare;
    if (ofi_av_peer(av, fi_addr, &peer))
        return -FI_EINVAL;
    for (unsigned kind = 0; kind < OFI_KINDS; kind++)
        av_slot_remove(av, av_key(kind, peer.node, peer.queue[kind]), (uint32_t)fi_addr);
    av_at(av, (uint32_t)fi_addr)->node = FABEMU_ANY_NODE;
    av->spare[av->spares++] = (uint32_t)fi_addr;
    return 0;
}

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
    struct ofi_av *av = ofi_av_of(&fid->fid);
    int err = 0;

    (void)flags;
    pthread_mutex_lock(&av->lock);
    for (size_t i = 0; i < count && !err; i++)
        err = av_remove_one(av, fi_addr[i]);
    pthread_mutex_unlock(&av->lock);
    return err;
}

static int av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *to, size_t *bytes)
{
    struct ofi_av *av = ofi_av_of(&fid->fid);
    struct ofi_addr addr = {.fabric = av->domain->fabric_hash};
    struct ofi_peer peer;
    int err = ofi_av_peer(av, fi_addr, &peer);

    if (err)
        return err;
    addr.node = peer.node;
    addr.incarnation = peer.incarnation;
    memcpy(addr.queue, peer.queue, sizeof addr.queue);
    size_t room = *bytes;

    err = ofi_addr_copy(&addr, to, bytes);
    /* *bytes tells the caller the full size */
    return room < sizeof addr && err == -FI_ETOOSMALL ? 0 : err;
}

static const char *av_straddr(struct fid_av *fid, const void *from, char *text, size_t *bytes)
{
    struct ofi_addr addr;

    (void)fid;
    memcpy(&addr, from, sizeof addr);
    return ofi_addr_text(&addr, text, bytes);
}

static int av_close(struct fid *fid)
{
    struct ofi_av *av = ofi_av_of(fid);

    if (ofi_held(&av->refs))
        return -FI_EBUSY;
    for (uint32_t i = 0; i < AV_CHUNKS; i++)
        free(av->chunk[i]);
    free(av->spare);
    free(av->slot);
    pthread_mutex_destroy(&av->lock);
    ofi_release(&av->domain->refs);
    free(av);
    return 0;
}

static struct fi_ops av_fid_ops = OFI_FID_OPS(av_close);

static struct fi_ops_av av_ops = {
    .size = sizeof(struct fi_ops_av),
    .insert = av_insert,
    .insertsvc = av_insertsvc,
    .insertsym = ofi_no_insertsym,
    .remove = av_remove,
    .lookup = av_lookup,
    .straddr = av_straddr,
};

int ofi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **ret,
                void *context)
{
    struct ofi_av *av;

    /* not supported: shared tables, which have a name, and asynchronous tables (FI_EVENT) */
    if (attr->name || attr->flags & FI_EVENT)
        return -FI_ENOSYS;
    av = calloc(1, sizeof *av);
    if (!av)
        return -FI_ENOMEM;
    pthread_mutex_init(&av->lock, NULL);
    av->domain = ofi_domain_of(domain);
    if (attr->type == FI_AV_UNSPEC)
        attr->type = FI_AV_TABLE;
    ofi_fid_init(&av->av_fid.fid, FI_CLASS_AV, context, &av_fid_ops);
    av->av_fid.ops = &av_ops;
    ofi_hold(&av->domain->refs);
    *ret = &av->av_fid;
    return 0;
}
