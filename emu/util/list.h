/* SPDX-License-Identifier: BSD-3-Clause */
/* list.h - doubly linked lists. The links are inside the listed objects. */
#ifndef EMU_LIST_H
#define EMU_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct emu_list {
    struct emu_list *next, *prev; /* in a head: first and last object; NULL: on no list */
} __attribute__((may_alias));     /* because libfabemu keeps links in words of a user's struct */

#define emu_list_entry(at, type, member) ((type *)(void *)((char *)(at)-offsetof(type, member)))

static inline void emu_list_init(struct emu_list *head)
{
    head->next = head->prev = head;
}

static inline bool emu_list_empty(const struct emu_list *head)
{
    return head->next == head;
}

static inline void emu_list_add(struct emu_list *head, struct emu_list *at)
{
    at->prev = head->prev;
    at->next = head;
    head->prev->next = at;
    head->prev = at;
}

/* Add @at as the first object; emu_list_add() adds it as the last. */
static inline void emu_list_push(struct emu_list *head, struct emu_list *at)
{
    emu_list_add(head->next, at);
}

/* Remove @at from its list, if it is on one. */
static inline void emu_list_del(struct emu_list *at)
{
    if (!at->next)
        return;
    at->prev->next = at->next;
    at->next->prev = at->prev;
    at->next = at->prev = NULL;
}

/**
 * emu_each_listed - loop over each @at (declared here, a type *) on the list @head, in order. The
 * body may add objects behind @at, but not remove @at.
 */
#define emu_each_listed(type, at, head, member)                                        \
    for (type *at = emu_list_entry((head)->next, type, member); &at->member != (head); \
         at = emu_list_entry(at->member.next, type, member))

static inline bool emu_listed(const struct emu_list *at)
{
    return at->next != NULL;
}

#endif
