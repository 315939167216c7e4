/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * table.c - the entries of an address vector.
 *
 * A hash table of (kind, node, queue) maps a message's source to its fi_addr_t. Only endpoints with
 * FI_SOURCE need the hash table, so an insertion does not update it. Instead, each search first
 * adds the new entries to it. Each process has its own hash table, because a process trusts no
 * index in shared memory.
 */
#include "nic/ofi/table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BUCKETS_FIRST 64u

/* A1 pairs with A2: a thread that sees the count also sees the entries below it. */
static uint32_t table_count(const struct ofi_table *table)
{
    uint32_t count = atomic_load_explicit(&table->count, memory_order_acquire); /* A1 */

    return count < OFI_TABLE_PEERS ? count : OFI_TABLE_PEERS;
}

uint32_t ofi_entries_count(const struct ofi_entries *entries)
{
    return table_count(entries->table);
}

int ofi_entries_get(const struct ofi_entries *entries, fi_addr_t addr, struct ofi_peer *ret)
{
    if (addr >= table_count(entries->table))
        return -FI_EINVAL;
    const struct ofi_peer *peer = &entries->table->peer[addr];

    /* A5 pairs with A6: a thread that sees the node also sees the rest of the entry */
    ret->node = __atomic_load_n(&peer->node, __ATOMIC_ACQUIRE); /* A5 */
    for (unsigned kind = 0; kind < OFI_KINDS; kind++)
        ret->queue[kind] = __atomic_load_n(&peer->queue[kind], __ATOMIC_RELAXED);
    ret->incarnation = __atomic_load_n(&peer->incarnation, __ATOMIC_RELAXED);
    if (ret->node == OFI_NODE_SELF)
        ret->incarnation = 0;
    return ret->node == FABEMU_ANY_NODE ? -FI_EINVAL : 0;
}

/* --- find --------------------------------------------------------------------------- */

static uint32_t *bucket_of(const struct ofi_entries *entries, enum ofi_kind kind,
                           const struct ofi_peer *peer)
{
    uint64_t key = (uint64_t)peer->node << 17 | (uint64_t)kind << 16 | peer->queue[kind];
    uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15) >> 32;

    return &entries->bucket[hash & (entries->buckets - 1)];
}

static void index_add(struct ofi_entries *entries, uint32_t index)
{
    const struct ofi_peer peer = entries->table->peer[index];

    for (unsigned kind = 0; kind < OFI_KINDS; kind++) {
        uint32_t *bucket = bucket_of(entries, kind, &peer), link = OFI_KINDS * index + kind;

        entries->link[link] = *bucket;
        *bucket = link + 1;
    }
}

/* Replace the hash table by an empty one with room for @count entries. */
static bool index_rebuild(struct ofi_entries *entries, uint32_t count)
{
    uint32_t buckets = entries->buckets ? entries->buckets : BUCKETS_FIRST;
    uint32_t *bucket;

    while (buckets < OFI_KINDS * count)
        buckets *= 2;
    bucket = calloc(2 * (size_t)buckets, sizeof *bucket);
    if (!bucket)
        return false;
    free(entries->bucket);
    entries->bucket = bucket;
    entries->link = bucket + buckets;
    entries->buckets = buckets;
    entries->indexed = 0;
    return true;
}

/* Enter all entries into the hash table. Returns false if there is no memory. Lock: held. */
static bool index_update(struct ofi_entries *entries)
{
    /* A3 pairs with A4: a thread that sees the new value of `reused` also sees the new entries */
    uint32_t reused = atomic_load_explicit(&entries->table->reused, memory_order_acquire); /* A3 */
    uint32_t count = table_count(entries->table);

    if (OFI_KINDS * count > entries->buckets || reused != entries->reused_seen)
        if (!index_rebuild(entries, count))
            return false;
    entries->reused_seen = reused;
    for (; entries->indexed < count; entries->indexed++)
        index_add(entries, entries->indexed);
    return true;
}

/*
 * Find the lowest entry with the address and incarnation of @from or, if there is none, the lowest
 * entry with this address and no incarnation. Lock: held.
 */
static fi_addr_t index_find(const struct ofi_entries *entries, enum ofi_kind kind,
                            const struct ofi_peer *from)
{
    fi_addr_t exact = FI_ADDR_NOTAVAIL, any = FI_ADDR_NOTAVAIL;

    for (uint32_t at = *bucket_of(entries, kind, from); at; at = entries->link[at - 1]) {
        uint32_t index = (at - 1) / OFI_KINDS;
        const struct ofi_peer peer = entries->table->peer[index];

        if (peer.node != from->node || peer.queue[kind] != from->queue[kind])
            continue;
        if (peer.incarnation == from->incarnation && index < exact)
            exact = index;
        else if (!peer.incarnation && index < any)
            any = index;
    }
    return exact != FI_ADDR_NOTAVAIL ? exact : any;
}

fi_addr_t ofi_entries_find(struct ofi_entries *entries, enum ofi_kind kind,
                           const struct ofi_peer *from)
{
    fi_addr_t found = FI_ADDR_NOTAVAIL;

    pthread_mutex_lock(&entries->lock);
    if (index_update(entries) && entries->indexed)
        found = index_find(entries, kind, from);
    pthread_mutex_unlock(&entries->lock);
    return found;
}

/* --- insert and remove -------------------------------------------------------------- */

static int entries_lock(struct ofi_entries *entries)
{
    int err;

    if (entries->read_only)
        return -FI_EACCES;
    pthread_mutex_lock(&entries->lock);
    err = ofi_shared_lock(&entries->shared);
    if (err)
        pthread_mutex_unlock(&entries->lock);
    return err;
}

static void entries_unlock(struct ofi_entries *entries)
{
    ofi_shared_unlock(&entries->shared);
    pthread_mutex_unlock(&entries->lock);
}

/*
 * Write a new entry, or a removed one that is used again. The node is stored last, because an entry
 * without a node is not valid. A thread may still read the entry while another one removes it, so
 * all fields are stored atomically.
 */
static void entry_write(struct ofi_table *table, uint32_t index, const struct ofi_peer *peer)
{
    struct ofi_peer *entry = &table->peer[index];

    for (unsigned kind = 0; kind < OFI_KINDS; kind++)
        __atomic_store_n(&entry->queue[kind], peer->queue[kind], __ATOMIC_RELAXED);
    __atomic_store_n(&entry->incarnation, peer->incarnation, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->node, peer->node, __ATOMIC_RELEASE); /* A6 */
}

/* Use the lowest removed entry again. Returns false if there is none. Lock: held. */
static bool entry_reuse(struct ofi_table *table, const struct ofi_peer *peer, fi_addr_t *ret)
{
    uint32_t count = table_count(table);
    uint32_t index = table->lowest;

    if (!table->removed)
        return false;
    while (index < count && table->peer[index].node != FABEMU_ANY_NODE)
        index++;
    if (index >= count) { /* `removed` is wrong: a process died before it had updated it */
        table->removed = 0;
        return false;
    }
    entry_write(table, index, peer);
    table->removed--;
    table->lowest = index + 1;
    atomic_fetch_add_explicit(&table->reused, 1, memory_order_release); /* A4 */
    *ret = index;
    return true;
}

static int entry_append(struct ofi_entries *entries, const struct ofi_peer *peer, fi_addr_t *ret)
{
    struct ofi_table *table = entries->table;
    uint32_t index = table_count(table);

    if (index == OFI_TABLE_PEERS)
        return -FI_ENOMEM;
    if (index % OFI_TABLE_CHUNK == 0 && ofi_shared_reserve(&entries->shared, index))
        return -FI_ENOMEM;
    entry_write(table, index, peer);
    table->addr[index] = index;
    atomic_store_explicit(&table->count, index + 1, memory_order_release); /* A2 */
    *ret = index;
    return 0;
}

int ofi_entries_add(struct ofi_entries *entries, const struct ofi_peer *peer, fi_addr_t *ret)
{
    int err = entries_lock(entries);

    if (err)
        return err;
    if (!entry_reuse(entries->table, peer, ret))
        err = entry_append(entries, peer, ret);
    entries_unlock(entries);
    return err;
}

void ofi_entries_resolve(struct ofi_entries *entries, fi_addr_t addr, const struct ofi_peer *peer)
{
    struct ofi_table *table = entries->table;

    if (entries_lock(entries))
        return;
    if (table->peer[addr].node == OFI_NODE_SELF) {
        __atomic_store_n(&table->peer[addr].incarnation, peer->incarnation, __ATOMIC_RELAXED);
        __atomic_store_n(&table->peer[addr].node, peer->node, __ATOMIC_RELEASE); /* A6 */
        atomic_fetch_add_explicit(&table->reused, 1, memory_order_release);      /* A4 */
    }
    entries_unlock(entries);
}

int ofi_entries_remove(struct ofi_entries *entries, fi_addr_t addr)
{
    struct ofi_table *table = entries->table;
    struct ofi_peer peer;
    int err = entries_lock(entries);

    if (err)
        return err;
    err = ofi_entries_get(entries, addr, &peer);
    if (!err) {
        __atomic_store_n(&table->peer[addr].node, FABEMU_ANY_NODE, __ATOMIC_RELEASE); /* A6 */
        table->removed++;
        if (addr < table->lowest)
            table->lowest = (uint32_t)addr;
    }
    entries_unlock(entries);
    return err;
}

/* --- open and close ----------------------------------------------------------------- */

static int table_create(struct ofi_table **ret)
{
    void *memory = mmap(NULL, sizeof **ret, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        return -FI_ENOMEM;
    *ret = memory;
    return 0;
}

int ofi_entries_open(struct ofi_entries *entries, const char *name, bool read_only,
                     const struct fabemu_info *info)
{
    int err;

    *entries = (struct ofi_entries){.shared.fd = -1, .read_only = read_only};
    err = name ? ofi_shared_open(&entries->shared, name, ofi_addr_hash(info), read_only,
                                 &entries->table)
               : table_create(&entries->table);
    if (!err)
        pthread_mutex_init(&entries->lock, NULL);
    return err;
}

void ofi_entries_close(struct ofi_entries *entries)
{
    ofi_shared_close(&entries->shared, entries->table);
    free(entries->bucket);
    pthread_mutex_destroy(&entries->lock);
}
