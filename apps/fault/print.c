/* SPDX-License-Identifier: BSD-3-Clause */
/* print.c - write a fault's canonical text: keys in a fixed order, without default values. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "apps/fault/internal.h"

void fault_put(struct fault_writer *writer, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int bytes = vsnprintf(writer->at, writer->left, format, args);
    va_end(args);
    if (bytes < 0)
        return;
    if ((size_t)bytes >= writer->left)
        bytes = writer->left ? (int)writer->left - 1 : 0;
    writer->at += bytes;
    writer->left -= (size_t)bytes;
}

/* Write a time in the largest unit in which it has at most three decimals. */
static void put_time(struct fault_writer *writer, uint64_t ps)
{
    static const struct {
        const char *name;
        uint64_t ps;
    } units[] = {{"s", UINT64_C(1000000000000)}, {"ms", 1000000000}, {"us", 1000000}, {"ns", 1000}};

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        uint64_t thousandth = units[i].ps / 1000;
        uint64_t part = ps % units[i].ps / thousandth;
        int places = 3;

        if (ps < units[i].ps || ps % thousandth)
            continue;
        for (; part && part % 10 == 0; places--)
            part /= 10;
        fault_put(writer, "%llu", (unsigned long long)(ps / units[i].ps));
        if (part)
            fault_put(writer, ".%0*llu", places, (unsigned long long)part);
        fault_put(writer, "%s", units[i].name);
        return;
    }
    fault_put(writer, "%llups", (unsigned long long)ps);
}

char *fault_print_time(uint64_t ps, char *text)
{
    struct fault_writer writer = {.at = text, .left = 32};

    put_time(&writer, ps);
    return text;
}

static void put_share(struct fault_writer *writer, uint32_t share)
{
    char text[16];
    uint32_t digits = share;
    int places = 9;

    for (; digits && digits % 10 == 0; places--)
        digits /= 10;
    if (share == EMU_FAULT_ONE) {
        fault_put(writer, "1");
    } else if (share >= EMU_FAULT_ONE / 100) {
        fault_put(writer, "0.%0*u", places, digits);
    } else {
        int length = snprintf(text, sizeof text, "%u", digits);
        fault_put(writer, "%c%s%se-%d", text[0], length > 1 ? "." : "", text + 1,
                  places - length + 1);
    }
}

static void put_factor(struct fault_writer *writer, uint32_t factor)
{
    uint32_t part = factor % FAULT_FACTOR_ONE;
    int places = 3;

    for (; part && part % 10 == 0; places--)
        part /= 10;
    fault_put(writer, "%u", factor / FAULT_FACTOR_ONE);
    if (part)
        fault_put(writer, ".%0*u", places, part);
}

static void put_bits(struct fault_writer *writer, const char *const *names, uint32_t bits)
{
    const char *between = "";

    emu_each_bit (i, bits) {
        fault_put(writer, "%s%s", between, names[i]);
        between = ",";
    }
}

static void put_event(struct fault_writer *writer, const char *const *names,
                      const struct fault_event *event)
{
    fault_put(writer, "%s:%llu", names[event->kind], (unsigned long long)event->nth);
    if (event->group != EMU_FAULT_ANY)
        fault_put(writer, ":%u", event->group);
}

static uint64_t value_of(const struct fault_key_row *row, const struct fault *fault)
{
    const void *at = (const char *)fault + row->offset;

    return row->type == FAULT_TYPE_TIME || row->type == FAULT_TYPE_COUNT ? *(const uint64_t *)at
                                                                         : *(const uint32_t *)at;
}

static void put_value(struct fault_writer *writer, const struct fault_key_row *row,
                      const struct fault *fault)
{
    uint64_t value = value_of(row, fault);

    switch (row->type) {
    case FAULT_TYPE_TIME:
        put_time(writer, value);
        return;
    case FAULT_TYPE_COUNT:
    case FAULT_TYPE_NUMBER:
        fault_put(writer, "%llu", (unsigned long long)value);
        return;
    case FAULT_TYPE_NODE:
        fault_put_node(writer, (uint32_t)value);
        return;
    case FAULT_TYPE_SHARE:
        put_share(writer, (uint32_t)value);
        return;
    case FAULT_TYPE_FACTOR:
        put_factor(writer, (uint32_t)value);
        return;
    case FAULT_TYPE_BITS:
        put_bits(writer, row->names, (uint32_t)value);
        return;
    case FAULT_TYPE_NAME:
        fault_put(writer, "%s", row->names[value - row->least]);
        return;
    case FAULT_TYPE_EVENT:
        put_event(writer, row->names, &fault->when.on);
        return;
    case FAULT_TYPE_WHERE:
        return;
    }
}

/*
 * Write each of @keys whose value differs from the default (in @plain), between the texts @before
 * and @after.
 */
static void put_keys(struct fault_writer *writer, const struct fault *fault,
                     const struct fault *plain, uint64_t keys, const char *before,
                     const char *after)
{
    emu_each_bit (key, keys) {
        const struct fault_key_row *row = fault_key_row((enum fault_key)key);
        bool differs = row->type == FAULT_TYPE_EVENT ? fault->when.on.nth != 0
                                                     : value_of(row, fault) != value_of(row, plain);

        if (!differs)
            continue;
        fault_put(writer, "%s%s=", before, row->name);
        put_value(writer, row, fault);
        fault_put(writer, "%s", after);
    }
}

void fault_print(const struct fault *fault, const struct topo_graph *graph, char *text)
{
    const struct fault_kind_row *row = fault_kind_row(fault->kind);
    struct fault_writer writer = {text, FAULT_TEXT_BYTES, graph};
    struct fault plain;

    fault_init(&plain, fault->kind);
    put_keys(&writer, fault, &plain, row->keys & FAULT_KEYS_WHEN, "", " ");
    fault_put(&writer, "%s ", row->name);
    fault_where_print(&writer, fault);
    put_keys(&writer, fault, &plain, row->keys & ~(FAULT_KEYS_WHEN | FAULT_KEYS_WHERE), " ", "");
}
