/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * numbers.c - what hosts write to each other as lists of numbers or as digits, and read: counters,
 * bytes, sets of ports.
 */
#include "apps/cluster/channel.h"

#include <stdlib.h>

/* --- counters --------------------------------------------------------------------------- */

struct json_object *hosts_totals_list(const struct fabric_totals *totals)
{
    const uint64_t *counter = (const uint64_t *)(const void *)totals;
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < FABRIC_COUNTERS; i++)
        json_object_array_add(list, json_object_new_uint64(counter[i]));
    json_object_array_add(list, json_object_new_double(totals->real_time_factor));
    json_object_array_add(list, json_object_new_uint64(totals->worst_lag_ns));
    return list;
}

void hosts_totals_add(struct fabric_totals *sum, struct json_object *list)
{
    uint64_t *counter = (uint64_t *)(void *)sum;
    double factor;
    uint64_t lag_ns;

    if (!json_object_is_type(list, json_type_array) ||
        json_object_array_length(list) != FABRIC_COUNTERS + 2)
        return;
    for (size_t i = 0; i < FABRIC_COUNTERS; i++)
        counter[i] += json_object_get_uint64(json_object_array_get_idx(list, i));
    factor = json_object_get_double(json_object_array_get_idx(list, FABRIC_COUNTERS));
    lag_ns = json_object_get_uint64(json_object_array_get_idx(list, FABRIC_COUNTERS + 1));
    if (factor < sum->real_time_factor)
        sum->real_time_factor = factor; /* the slowest host's */
    if (lag_ns > sum->worst_lag_ns)
        sum->worst_lag_ns = lag_ns;
}

/* --- bytes as digits ------------------------------------------------------------------ */

static void digits_add(char *to, const void *from, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *at = from;

    for (size_t i = 0; i < bytes; i++) {
        to[2 * i] = digits[at[i] >> 4];
        to[2 * i + 1] = digits[at[i] & 15];
    }
}

struct json_object *hosts_digits(const void *from, size_t bytes)
{
    char *text = malloc(2 * bytes + 1);
    struct json_object *ret = NULL;

    if (text) {
        digits_add(text, from, bytes);
        ret = json_object_new_string_len(text, (int)(2 * bytes));
    }
    free(text);
    return ret;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

size_t hosts_bytes(struct json_object *digits, void *to, size_t most)
{
    const char *text = json_object_get_string(digits);
    size_t bytes = json_object_is_type(digits, json_type_string)
                       ? (size_t)json_object_get_string_len(digits) / 2
                       : 0;
    uint8_t *at = to;

    if (bytes > most)
        return 0;
    for (size_t i = 0; i < bytes; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return 0;
        at[i] = (uint8_t)(high << 4 | low);
    }
    return bytes;
}

/* --- sets of ports -------------------------------------------------------------------- */

void hosts_ports_add(struct json_object *list, emu_ports set)
{
    for (uint32_t w = 0; w < EMU_PORT_WORDS; w++)
        json_object_array_add(list, json_object_new_uint64(emu_ports_word(set, w)));
}

bool hosts_ports_read(emu_ports *ret, struct json_object *list, size_t at, uint32_t ports)
{
    *ret = EMU_NO_PORTS;
    for (uint32_t w = 0; w < EMU_PORT_WORDS; w++) {
        struct json_object *word = emu_json_at(list, at + w);

        if (!json_object_is_type(word, json_type_int))
            return false;
        emu_ports_word_set(ret, w, json_object_get_uint64(word));
    }
    return !emu_ports_any(*ret & ~emu_ports_below(ports));
}
