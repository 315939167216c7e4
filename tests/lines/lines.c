/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lines.c - counts the cache lines that cross from one thread to another: scripts/lines.
 *
 * The compiler calls a function before each access to memory if it is told that ThreadSanitizer
 * wants that (-fsanitize=thread). Linked with this library in the place of that runtime, a program
 * is told which threads have which line, as if each had a core with a cache without end: a line is
 * read across when another thread has written it since this one had it, and taken when this one
 * writes what others have. So what is counted does not depend on how many cores there are, on what
 * they share, or on what else the host does. Prefetches are no accesses.
 *
 * $FABEMU_LINES names the file for the result: "READ TAKEN" and then for each place in the program
 * "ADDRESS READ TAKEN", the most first.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LINE_BITS  6
#define LINES_BITS 26 /* as many lines are told apart: 4 GB */
#define LINES      (UINT64_C(1) << LINES_BITS)
#define OWNER      56 /* who wrote it last, above; below, who has it: a bit a thread */
#define THREADS    55
#define PLACES     65536u /* in the program */
#define PLACES_OUT 40

struct place {
    _Atomic uintptr_t at; /* 0: none yet */
    _Atomic uint64_t read, taken;
};

static _Atomic uint64_t *lines, *names; /* by line: who has it; which it is */
static struct place place[PLACES];
static _Atomic uint32_t threads;
static _Atomic bool counts;
static _Thread_local uint32_t self; /* from 1 */

static void *mapped(void)
{
    void *at = mmap(NULL, LINES * sizeof(uint64_t), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return at == MAP_FAILED ? NULL : at;
}

static __attribute__((constructor)) void begin(void)
{
    lines = mapped();
    names = mapped();
    counts = lines && names;
}

static struct place *place_at(uintptr_t at)
{
    uint32_t i = (uint32_t)(at * UINT64_C(0x9e3779b97f4a7c15) >> 48) % PLACES;

    for (uintptr_t none = 0; !atomic_compare_exchange_strong(&place[i].at, &none, at) && none != at;
         none = 0)
        i = (i + 1) % PLACES;
    return &place[i];
}

/* Two threads may do so at once: then one of them may be missed. */
static void touch(uintptr_t address, bool write, uintptr_t at)
{
    uint64_t name = address >> LINE_BITS, has, mine;
    _Atomic uint64_t *line;

    if (!counts)
        return;
    if (!self)
        self = 1 + threads++;
    mine = UINT64_C(1) << self % THREADS;
    line = &lines[name % LINES];
    if (names[name % LINES] != name) {
        names[name % LINES] = name;
        *line = 0;
    }
    has = *line;
    if (write) {
        if (has & ((UINT64_C(1) << OWNER) - 1) & ~mine)
            place_at(at)->taken++;
        *line = (uint64_t)(self % THREADS + 1) << OWNER | mine;
    } else if (!(has & mine)) {
        if (has >> OWNER)
            place_at(at)->read++;
        *line = has | mine;
    }
}

static int more_first(const void *a, const void *b)
{
    const struct place *p = a, *q = b;
    uint64_t of_p = p->read + p->taken, of_q = q->read + q->taken;

    return (of_p < of_q) - (of_p > of_q);
}

static __attribute__((destructor)) void end(void)
{
    const char *path = getenv("FABEMU_LINES");
    FILE *file = path ? fopen(path, "w") : NULL;
    uint64_t read = 0, taken = 0;

    counts = false;
    if (!file)
        return;
    qsort(place, PLACES, sizeof place[0], more_first);
    for (uint32_t i = 0; i < PLACES; i++) {
        read += place[i].read;
        taken += place[i].taken;
    }
    fprintf(file, "%llu %llu\n", (unsigned long long)read, (unsigned long long)taken);
    for (uint32_t i = 0; i < PLACES_OUT && place[i].at; i++) {
        uintptr_t at = place[i].at;
        Dl_info in;

        if (dladdr((void *)at, &in))
            at -= (uintptr_t)in.dli_fbase;
        fprintf(file, "%llx %llu %llu\n", (unsigned long long)at - 1,
                (unsigned long long)place[i].read, (unsigned long long)place[i].taken);
    }
    fclose(file);
}

/* --- what the compiler calls -------------------------------------------------------- */

#define HERE ((uintptr_t)__builtin_return_address(0))

/* Declared nowhere else. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define TOUCHES(NAME, WRITES)               \
    void __tsan_##NAME(void *at)            \
    {                                       \
        touch((uintptr_t)at, WRITES, HERE); \
    }
#define BYTES(N)                      \
    TOUCHES(read##N, false)           \
    TOUCHES(write##N, true)           \
    TOUCHES(volatile_read##N, false)  \
    TOUCHES(volatile_write##N, true)  \
    TOUCHES(unaligned_read##N, false) \
    TOUCHES(unaligned_write##N, true)
BYTES(1);
BYTES(2);
BYTES(4);
BYTES(8);
BYTES(16);

static void touch_range(void *from, unsigned long bytes, bool write, uintptr_t at)
{
    uintptr_t first = (uintptr_t)from >> LINE_BITS, end = (uintptr_t)from + bytes;

    for (uintptr_t line = first; bytes && line << LINE_BITS < end; line++)
        touch(line << LINE_BITS, write, at);
}

/* Calls of these are accesses, too, and no function is called before them. */
void *memcpy(void *to, const void *from, size_t bytes)
{
    touch_range((void *)from, bytes, false, HERE);
    touch_range(to, bytes, true, HERE);
    for (size_t i = 0; i < bytes; i++)
        ((char *)to)[i] = ((const char *)from)[i];
    return to;
}

void *memmove(void *to, const void *from, size_t bytes)
{
    if (to <= from)
        return memcpy(to, from, bytes);
    touch_range((void *)from, bytes, false, HERE);
    touch_range(to, bytes, true, HERE);
    while (bytes--)
        ((char *)to)[bytes] = ((const char *)from)[bytes];
    return to;
}

void *memset(void *to, int with, size_t bytes)
{
    touch_range(to, bytes, true, HERE);
    for (size_t i = 0; i < bytes; i++)
        ((char *)to)[i] = (char)with;
    return to;
}

void __tsan_read_range(void *at, unsigned long bytes)
{
    touch_range(at, bytes, false, HERE);
}

void __tsan_write_range(void *at, unsigned long bytes)
{
    touch_range(at, bytes, true, HERE);
}

#define ATOMIC_RMW(BITS, WHAT)                                                                  \
    uint##BITS##_t __tsan_atomic##BITS##_##WHAT(volatile uint##BITS##_t *at, uint##BITS##_t by, \
                                                int order)                                      \
    {                                                                                           \
        (void)order;                                                                            \
        touch((uintptr_t)at, true, HERE);                                                       \
        return __atomic_##WHAT(at, by, __ATOMIC_SEQ_CST);                                       \
    }
#define ATOMIC_SWAP(BITS, STRENGTH, WEAK)                                                          \
    int __tsan_atomic##BITS##_compare_exchange_##STRENGTH(volatile uint##BITS##_t *at,             \
                                                          uint##BITS##_t *was, uint##BITS##_t to,  \
                                                          int order, int else_order)               \
    {                                                                                              \
        (void)order, (void)else_order;                                                             \
        touch((uintptr_t)at, true, HERE);                                                          \
        return __atomic_compare_exchange_n(at, was, to, WEAK, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    }
#define ATOMIC(BITS)                                                                              \
    uint##BITS##_t __tsan_atomic##BITS##_load(const volatile uint##BITS##_t *at, int order)       \
    {                                                                                             \
        (void)order;                                                                              \
        touch((uintptr_t)at, false, HERE);                                                        \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                             \
    }                                                                                             \
    void __tsan_atomic##BITS##_store(volatile uint##BITS##_t *at, uint##BITS##_t to, int order)   \
    {                                                                                             \
        (void)order;                                                                              \
        touch((uintptr_t)at, true, HERE);                                                         \
        __atomic_store_n(at, to, __ATOMIC_SEQ_CST);                                               \
    }                                                                                             \
    uint##BITS##_t __tsan_atomic##BITS##_exchange(volatile uint##BITS##_t *at, uint##BITS##_t to, \
                                                  int order)                                      \
    {                                                                                             \
        (void)order;                                                                              \
        touch((uintptr_t)at, true, HERE);                                                         \
        return __atomic_exchange_n(at, to, __ATOMIC_SEQ_CST);                                     \
    }                                                                                             \
    ATOMIC_RMW(BITS, fetch_add)                                                                   \
    ATOMIC_RMW(BITS, fetch_sub)                                                                   \
    ATOMIC_RMW(BITS, fetch_or)                                                                    \
    ATOMIC_RMW(BITS, fetch_and)                                                                   \
    ATOMIC_RMW(BITS, fetch_xor)                                                                   \
    ATOMIC_SWAP(BITS, strong, false)                                                              \
    ATOMIC_SWAP(BITS, weak, true)
ATOMIC(8);
ATOMIC(16);
ATOMIC(32);
ATOMIC(64);

void __tsan_atomic_thread_fence(int order)
{
    (void)order;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void __tsan_atomic_signal_fence(int order)
{
    (void)order;
}

void __tsan_init(void)
{
}

void __tsan_func_entry(void *from)
{
    (void)from;
}

void __tsan_func_exit(void)
{
}

void __tsan_acquire(void *at)
{
    (void)at;
}

void __tsan_release(void *at)
{
    (void)at;
}
