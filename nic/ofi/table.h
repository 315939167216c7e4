/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * table.h - the entries of an address vector, in the memory of one process or shared by several
 * processes of a host.
 *
 * Entries never move, so senders read them without a lock while others insert. Other processes may
 * write anything to a shared table, so a reader limits `count` at each use, and no entry contains
 * an index or a pointer.
 */
#ifndef NIC_OFI_TABLE_H
#define NIC_OFI_TABLE_H

#include <stdalign.h>

#include "nic/ofi/addr.h"

#define OFI_TABLE_PEERS (UINT32_C(1) << 20) /* entries of a table */
#define OFI_TABLE_CHUNK UINT32_C(1024)      /* entries whose memory is reserved at the same time */
#define OFI_TABLE_MAGIC UINT64_C(0x3156416d65626166) /* "fabemAV1"; changes with the layout */
#define OFI_TABLE_PAGE  4096

/*
 * A table. Its memory is anonymous, or a file (shared.c). Only chunks with entries in use take
 * memory.
 */
struct ofi_table {
    uint64_t magic;          /* OFI_TABLE_MAGIC, if the table is shared */
    uint64_t fabric;         /* ofi_addr_hash() of the fabric, if the table is shared */
    _Atomic uint32_t count;  /* how many entries were ever used; each of them is valid or removed */
    _Atomic uint32_t reused; /* how often a removed or unresolved entry was written again */
    /* protected by the lock of struct ofi_entries */
    uint32_t removed; /* how many entries are removed now */
    uint32_t lowest;  /* no entry below this one is removed */
    /* element I contains I; map_addr of a shared vector points here */
    alignas(OFI_TABLE_PAGE) fi_addr_t addr[OFI_TABLE_PEERS];
    alignas(OFI_TABLE_PAGE) struct ofi_peer peer[OFI_TABLE_PEERS];
};

/* The file of a shared table; see shared.c. */
struct ofi_shared {
    int fd; /* -1: the table is not shared */
    char path[512];
};

/* The entries of an address vector, as one process uses them. */
struct ofi_entries {
    struct ofi_table *table;
    struct ofi_shared shared;
    bool read_only; /* the memory of the table is read-only */

    pthread_mutex_t lock; /* taken to insert, to remove, and to find a source */
    /* A hash table with chains. Entry I has the links OFI_KINDS * I + kind. Buckets and links
       contain the number of the next link plus 1; 0 ends a chain. A chain may contain entries that
       were removed later, so a search compares each entry. */
    uint32_t *bucket;
    uint32_t *link;       /* points into the memory of bucket */
    uint32_t buckets;     /* a power of two; there are as many links */
    uint32_t indexed;     /* the hash table contains the entries below this one */
    uint32_t reused_seen; /* value of `reused` when the hash table was made */
};

/**
 * ofi_entries_open - open an empty table or, with a @name, the shared one of that name.
 * @read_only: the shared table must exist, and this process does not change it.
 * Errors: -FI_ENOMEM; those of ofi_shared_open().
 */
int ofi_entries_open(struct ofi_entries *entries, const char *name, bool read_only,
                     const struct fabemu_info *info);
void ofi_entries_close(struct ofi_entries *entries);

/** ofi_entries_count - return how many entries were ever used. */
uint32_t ofi_entries_count(const struct ofi_entries *entries);
/** ofi_entries_get - copy an entry. Lock-free. Errors: -FI_EINVAL, there is no such entry. */
int ofi_entries_get(const struct ofi_entries *entries, fi_addr_t addr, struct ofi_peer *ret);
/** ofi_entries_add - enter a peer at the lowest free index. Errors: -FI_ENOMEM, -FI_EACCES. */
int ofi_entries_add(struct ofi_entries *entries, const struct ofi_peer *peer, fi_addr_t *ret);
/**
 * ofi_entries_resolve - set node and incarnation of an entry whose node is OFI_NODE_SELF. Does
 * nothing if the table is read-only, or if another thread was faster.
 */
void ofi_entries_resolve(struct ofi_entries *entries, fi_addr_t addr, const struct ofi_peer *peer);
/** ofi_entries_remove - free an entry. Errors: -FI_EINVAL, there is no such entry; -FI_EACCES. */
int ofi_entries_remove(struct ofi_entries *entries, fi_addr_t addr);
fi_addr_t ofi_entries_find(struct ofi_entries *entries, enum ofi_kind kind,
                           const struct ofi_peer *from);

/**
 * ofi_shared_open - map the shared table @name. Unless @read_only, create it if it does not exist.
 * Errors: -FI_EINVAL, the name is empty or too long, or the file holds no table; -FI_ENOENT, no
 * process uses such a table; -FI_EACCES, another user owns the file or may write to it; -FI_EBUSY,
 * the table belongs to another run of the fabric, or its file stays locked; and those of open(),
 * ftruncate(), posix_fallocate() and mmap(). FI_LOG_LEVEL=warn prints the reason.
 */
int ofi_shared_open(struct ofi_shared *shared, const char *name, uint64_t fabric, bool read_only,
                    struct ofi_table **ret);
/** ofi_shared_close - unmap the table, and remove it if no other process uses it. */
void ofi_shared_close(struct ofi_shared *shared, struct ofi_table *table);
/**
 * ofi_shared_lock, ofi_shared_unlock - exclude other processes, if the table is shared. Errors:
 * those of fcntl().
 */
int ofi_shared_lock(const struct ofi_shared *shared);
void ofi_shared_unlock(const struct ofi_shared *shared);
/** ofi_shared_reserve - allocate the memory of the chunk from @first. Errors: -FI_ENOMEM. */
int ofi_shared_reserve(const struct ofi_shared *shared, uint32_t first);

#endif
