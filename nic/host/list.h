/* SPDX-License-Identifier: BSD-3-Clause */
/* list.h - doubly linked lists whose links lie inside the listed objects. */
#ifndef NIC_LIST_H
#define NIC_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct nic_list {
    struct nic_list *next, *prev; /* a head's first and last; NULL in an object that is on no list */
} __attribute__((may_alias));     /* links of requests lie in the caller's opaque words */

#define nic_entry(at, type, member) ((type *)(void *)((char *)(at) - offsetof(type, member)))

static inline void nic_list_init(struct nic_list *head)
{
    head->next = head->prev = head;
}

static inline bool nic_list_empty(const struct nic_list *head)
{
    return head->next == head;
}

static inline void nic_list_add(struct nic_list *head, struct nic_list *at)
{
    at->prev = head->prev;
    at->next = head;
    head->prev->next = at;
    head->prev = at;
}

/* Harmless for an object that is on no list. */
static inline void nic_list_del(struct nic_list *at)
{
    if (!at->next)
        return;
    at->prev->next = at->next;
    at->next->prev = at->prev;
    at->next = at->prev = NULL;
}

static inline bool nic_listed(const struct nic_list *at)
{
    return at->next != NULL;
}

#endif
