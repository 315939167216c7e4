/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ports.h - sets of a switch's ports, rows or outputs. A combine unit counts as a row and as an
 * output.
 *
 * A set has EMU_PORT_WORDS words: one in the program `fabemu`, for switches of up to 60 ports, and
 * four in `fabemu-wide`, which is built from the same sources for larger switches (docs/topo.md,
 * "Large switches"). With four words, small networks are only half to two thirds as fast on clock
 * raw.
 *
 * Sets are combined by &, |, ^ and ~. Use the functions below for everything else; all are pure.
 * With one word, each function is one or two instructions.
 */
#ifndef EMU_PORTS_H
#define EMU_PORTS_H

#include "emu/util/bits.h"

#ifndef EMU_PORT_WORDS
#define EMU_PORT_WORDS 1
#endif

#define EMU_PORTS_MAX (64u * EMU_PORT_WORDS) /* the numbers in a set are below this */

#if EMU_PORT_WORDS == 1

typedef uint64_t emu_ports;

static inline emu_ports emu_port(uint32_t n)
{
    return emu_bit(n);
}

/** emu_port_if - return the set of @n if @so, else the empty set, without a branch. */
static inline emu_ports emu_port_if(uint32_t n, bool so)
{
    return (uint64_t)so << n;
}

/** emu_ports_if - return @set if @so, else the empty set, without a branch. */
static inline emu_ports emu_ports_if(emu_ports set, bool so)
{
    return -(uint64_t)so & set;
}

/** emu_ports_below - return all numbers below @n; @n <= EMU_PORTS_MAX. */
static inline emu_ports emu_ports_below(uint32_t n)
{
    return emu_bits_below(n);
}

static inline bool emu_ports_any(emu_ports set)
{
    return set;
}

static inline bool emu_ports_has(emu_ports set, uint32_t n)
{
    return set >> n & 1;
}

static inline bool emu_ports_equal(emu_ports a, emu_ports b)
{
    return a == b;
}

static inline bool emu_ports_several(emu_ports set)
{
    return emu_bits_several(set);
}

static inline uint32_t emu_ports_count(emu_ports set)
{
    return (uint32_t)__builtin_popcountll(set);
}

/** emu_ports_first - return the smallest number in @set, which is not empty. */
static inline uint32_t emu_ports_first(emu_ports set)
{
    return emu_bits_first(set);
}

/** emu_ports_nth - return the number with exactly @n smaller ones in @set. It must exist. */
static inline uint32_t emu_ports_nth(emu_ports set, uint32_t n)
{
    return emu_bits_nth(set, n);
}

/** emu_ports_next - round robin: return the first number in @set above @last, or the smallest. */
static inline uint32_t emu_ports_next(emu_ports set, uint32_t last)
{
    return emu_bits_next(set, last);
}

/** emu_ports_signalled - return all ports whose emu_port_signal() is in the word @signals. */
static inline emu_ports emu_ports_signalled(uint64_t signals)
{
    return signals;
}

/** emu_ports_signals - return the signals of all ports in @set. */
static inline uint64_t emu_ports_signals(emu_ports set)
{
    return set;
}

/**
 * emu_ports_word, emu_ports_word_set - read or write a word of @set. Word w has the 64 numbers from
 * 64w on.
 */
static inline uint64_t emu_ports_word(emu_ports set, uint32_t w)
{
    (void)w;
    return set;
}

static inline void emu_ports_word_set(emu_ports *set, uint32_t w, uint64_t word)
{
    (void)w;
    *set = word;
}

#define emu_each_port(i, set) emu_each_bit (i, set)

#else /* several words; the same functions as above */

typedef uint64_t emu_ports __attribute__((vector_size(8 * EMU_PORT_WORDS), aligned(8)));

/*
 * Words are written at constant indexes, so that a set stays in registers. If a set were written to
 * memory word by word, the load of the whole set would have to wait for all these stores.
 */
static inline emu_ports emu_port_if(uint32_t n, bool so)
{
    uint64_t bit = (uint64_t)so << n % 64;
    emu_ports set;

    for (uint32_t w = 0; w < EMU_PORT_WORDS; w++)
        set[w] = -(uint64_t)(n / 64 == w) & bit;
    return set;
}

static inline emu_ports emu_port(uint32_t n)
{
    return emu_port_if(n, true);
}

static inline emu_ports emu_ports_if(emu_ports set, bool so)
{
    return set & -(uint64_t)so;
}

static inline emu_ports emu_ports_below(uint32_t n)
{
    uint64_t part = emu_bit(n % 64) - 1;
    emu_ports set;

    for (uint32_t w = 0; w < EMU_PORT_WORDS; w++)
        set[w] = -(uint64_t)(w < n / 64) | (-(uint64_t)(w == n / 64) & part);
    return set;
}

static inline uint64_t emu_ports_signals(emu_ports set)
{
    uint64_t signals = 0;

    for (uint32_t w = 0; w < EMU_PORT_WORDS; w++)
        signals |= set[w];
    return signals;
}

static inline bool emu_ports_any(emu_ports set)
{
    return emu_ports_signals(set);
}

static inline bool emu_ports_has(emu_ports set, uint32_t n)
{
    return set[n / 64] >> n % 64 & 1;
}

static inline bool emu_ports_equal(emu_ports a, emu_ports b)
{
    return !emu_ports_any(a ^ b);
}

static inline uint32_t emu_ports_count(emu_ports set)
{
    uint32_t count = 0;

    for (uint32_t w = 0; w < EMU_PORT_WORDS; w++)
        count += (uint32_t)__builtin_popcountll(set[w]);
    return count;
}

static inline uint32_t emu_ports_first(emu_ports set)
{
    for (uint32_t w = 0; w + 1 < EMU_PORT_WORDS; w++)
        if (set[w])
            return 64 * w + emu_bits_first(set[w]);
    return 64 * (EMU_PORT_WORDS - 1) + emu_bits_first(set[EMU_PORT_WORDS - 1]);
}

static inline bool emu_ports_several(emu_ports set)
{
    uint64_t any = 0, several = 0;

    for (uint32_t w = 0; w < EMU_PORT_WORDS; w++) {
        several |= (set[w] & (set[w] - 1)) | -(uint64_t)(any && set[w]);
        any |= set[w];
    }
    return several;
}

static inline uint32_t emu_ports_nth(emu_ports set, uint32_t n)
{
    for (uint32_t w = 0;; w++) {
        uint32_t count = (uint32_t)__builtin_popcountll(set[w]);

        if (n < count)
            return 64 * w + emu_bits_nth(set[w], n);
        n -= count;
    }
}

static inline uint32_t emu_ports_next(emu_ports set, uint32_t last)
{
    uint32_t word = last / 64;
    uint64_t above = set[word] & ~UINT64_C(1) << last % 64;

    while (!above) {
        word = (word + 1) % EMU_PORT_WORDS;
        above = set[word];
    }
    return 64 * word + emu_bits_first(above);
}

static inline emu_ports emu_ports_signalled(uint64_t signals)
{
    return (emu_ports){0} | signals;
}

static inline uint64_t emu_ports_word(emu_ports set, uint32_t w)
{
    return set[w];
}

static inline void emu_ports_word_set(emu_ports *set, uint32_t w, uint64_t word)
{
    (*set)[w] = word;
}

/* The ports that emu_each_port() has not visited yet. */
struct emu_ports_left {
    uint64_t word[EMU_PORT_WORDS];
    uint32_t at; /* the words before word `at` are empty */
    bool more;   /* false: the loop is over */
};

static inline struct emu_ports_left emu_ports_left(emu_ports set)
{
    struct emu_ports_left left = {.at = 0, .more = true};

    for (uint32_t w = 0; w < EMU_PORT_WORDS; w++)
        left.word[w] = set[w];
    return left;
}

static inline bool emu_ports_take(struct emu_ports_left *left, uint32_t *ret)
{
    while (!left->word[left->at])
        if (++left->at == EMU_PORT_WORDS)
            return false;
    *ret = 64 * left->at + emu_bits_first(left->word[left->at]);
    left->word[left->at] &= left->word[left->at] - 1;
    return true;
}

#define emu_each_port(i, set)                                                 \
    for (struct emu_ports_left i##_left = emu_ports_left(set); i##_left.more; \
         i##_left.more = false)                                               \
        for (uint32_t i; i##_left.at < EMU_PORT_WORDS && emu_ports_take(&i##_left, &i);)

#endif

#define EMU_NO_PORTS ((emu_ports){0})

/**
 * emu_port_signal - return the bit of a port in a device's words of signals (emu/dev/dev.h). Ports
 * whose numbers are equal modulo 64 share a bit: after a signal the device must check all of them.
 */
static inline uint64_t emu_port_signal(uint32_t n)
{
    return emu_bit(n % 64);
}

/** emu_ports_range - return the set of @count numbers, beginning with @first. */
static inline emu_ports emu_ports_range(uint32_t first, uint32_t count)
{
    return emu_ports_below(first + count) & ~emu_ports_below(first);
}

/**
 * emu_least - return the members of @from (one or more) that have the smallest load. Pure.
 * @load: returns the load of member @one. Pass a constant function, so that it is inlined. @of:
 * passed to @load.
 */
static inline __attribute__((always_inline)) emu_ports emu_least(
    emu_ports from, uint32_t (*load)(const void *of, uint32_t one), const void *of)
{
    uint32_t least = UINT32_MAX;
    emu_ports best = EMU_NO_PORTS;

    emu_each_port (one, from) {
        uint32_t its = load(of, one);

        if (its < least) {
            least = its;
            best = EMU_NO_PORTS;
        }
        best |= emu_port_if(one, its == least);
    }
    return best;
}

#endif
