/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * file_label.c - give names to the devices of a topology file.
 *
 * A device has an identity, such as "H-0002c903000e0b72". The comment after it contains a
 * description (title) that the device itself has sent, such as "node01 HCA-1" or
 * "MF0;leaf1:MSB7700/U1". The device's name is the host in its description if no other device has
 * the same host, else the whole description if it is unique, else the identity.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "topo/file.h"

/* --- clean texts -------------------------------------------------------------------- */

/* Return the length of the UTF-8 character at @at; 0: it is invalid. Source: RFC 3629. */
static size_t scan_character(const char *at, size_t left, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = (unsigned char)*at;
    size_t length = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;

    if (!length || length > left || first > 0xf4)
        return 0;
    *code = length == 1 ? first : first & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (((unsigned char)at[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | ((unsigned char)at[i] & 0x3f);
    }
    if (*code < least[length] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000))
        return 0;
    return length;
}

/* Return whether @code is a control character, or changes the direction of writing. */
static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x2028 && code < 0x202f) ||
           (code >= 0x2066 && code < 0x206a) || code == 0x61c || code == 0x200e || code == 0x200f ||
           code == 0xfeff;
}

bool file_text_is_clean(const char *text, size_t bytes)
{
    uint32_t code;
    size_t length;

    for (size_t i = 0; i < bytes; i += length) {
        length = scan_character(text + i, bytes - i, &code);
        if (!length || is_control(code))
            return false;
    }
    return true;
}

/* Copy at most TOPO_NAME_MAX bytes, and a NUL. Unprintable bytes become '?'. Return the length. */
static uint32_t copy_clean(char *to, const char *text, size_t bytes)
{
    uint32_t used = 0, code;
    size_t length;

    for (size_t i = 0; i < bytes; i += length) {
        length = scan_character(text + i, bytes - i, &code);
        bool shows = length && !is_control(code);

        length += !length;
        if (used + (shows ? length : 1) > TOPO_NAME_MAX)
            break;
        if (shows)
            memcpy(to + used, text + i, length);
        else
            to[used] = '?';
        used += shows ? (uint32_t)length : 1;
    }
    to[used] = '\0';
    return used;
}

/* --- names -------------------------------------------------------------------------- */

struct texts {
    char *at; /* texts of all devices, each with a NUL */
    uint32_t used;
};

/* A text that may become a device's name. */
struct candidate {
    const char *text;
    uint32_t device;
    bool title; /* true: the whole description; false: the host */
};

/* Return whether @word names an adapter, such as "HCA-1" or "mlx5_0". */
static bool is_adapter(const char *word)
{
    static const char *const names[] = {"HCA-", "mlx4_", "mlx5_", "mthca", "hfi1_", "qib"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t length = strlen(names[i]);

        if (strncmp(word, names[i], length) == 0)
            return word[length] && strspn(word + length, "0123456789") == strlen(word + length);
    }
    return false;
}

/* Find the host's name, such as "node01" in "node01 HCA-1". Returns its length, or 0. */
static size_t find_host(const char *title, const char **ret)
{
    const char *space = strrchr(title, ' ');

    *ret = title;
    if (strncmp(title, "MF0;", 4) == 0) {
        *ret += 4;
        return strchr(*ret, ':') ? strcspn(*ret, ":") : 0;
    }
    return space && is_adapter(space + 1) ? (size_t)(space - title) : 0;
}

static uint32_t texts_add(struct texts *texts, const char *text, size_t bytes)
{
    uint32_t at = texts->used;

    texts->used += copy_clean(texts->at + at, text, bytes) + 1;
    return at;
}

static int by_text(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;

    return strcmp(a->text, b->text);
}

/* Replace names, which are identities at first, by unique hosts or else by unique descriptions. */
static void labels_name(struct topo_label *label, const struct file *file,
                        const struct texts *texts, struct candidate *candidate, uint32_t count)
{
    qsort(candidate, count, sizeof *candidate, by_text);
    for (uint32_t i = 0; i < count; i++) {
        const struct candidate *c = &candidate[i];
        struct topo_label *at = &label[c->device];

        if ((i && !by_text(c, c - 1)) || (i + 1 < count && !by_text(c, c + 1)) ||
            file_find(file, c->text, (uint32_t)strlen(c->text)) != TOPO_NONE)
            continue;
        if (!c->title || at->name == at->id)
            at->name = (uint32_t)(c->text - texts->at);
    }
}

/* Return the GUID in the file, or else in an identity such as "H-0002c903000e0b72", or else 0. */
static uint64_t guid_of(const struct device *device)
{
    char text[17], *end;
    uint64_t guid;

    if (device->guid || device->length != 18 || device->name[1] != '-')
        return device->guid;
    memcpy(text, device->name + 2, 16);
    text[16] = '\0';
    guid = strtoull(text, &end, 16);
    return strspn(text, "0123456789abcdefABCDEF") == 16 ? guid : 0;
}

/* Add the texts of device @d. @candidate: gets its possible names. Returns how many there are. */
static uint32_t label_fill(struct topo_label *label, const struct device *device, uint32_t d,
                           struct texts *texts, struct candidate *candidate)
{
    const char *host;
    uint32_t count = 0;
    size_t length;

    label->id = label->name = texts_add(texts, device->name, device->length);
    label->title = texts_add(texts, device->title ? device->title : "", device->title_length);
    label->guid = guid_of(device);
    if (!texts->at[label->title])
        return 0;
    candidate[count++] =
        (struct candidate){.text = texts->at + label->title, .device = d, .title = true};
    length = find_host(texts->at + label->title, &host);
    if (length) {
        uint32_t at = texts_add(texts, host, length);

        candidate[count++] = (struct candidate){.text = texts->at + at, .device = d};
    }
    return count;
}

/* Copy the labels, in the order of the graph's switches and nodes, and the texts behind them. */
static int labels_order(struct topo_graph *graph, const struct file *file,
                        const struct topo_label *label, const struct texts *texts)
{
    size_t count = (size_t)graph->switches + graph->nodes;
    size_t bytes = count * sizeof *label + texts->used;
    struct topo_label *ordered = calloc(1, bytes);

    if (!ordered)
        return -ENOMEM;
    memcpy(ordered + count, texts->at, texts->used);
    for (uint32_t d = 0; d < file->devices; d++) {
        const struct device *device = &file->device[d];

        if (device->kind == DEVICE_SWITCH)
            ordered[device->number] = label[d];
        else if (device->kind == DEVICE_NODE)
            ordered[graph->switches + device->number] = label[d];
    }
    graph->label = ordered;
    graph->label_text = (const char *)(ordered + count);
    graph->label_bytes = bytes;
    graph->bytes += bytes;
    return 0;
}

int file_label(struct topo_graph *graph, const struct file *file)
{
    size_t room = (size_t)file->devices * 3 * (TOPO_NAME_MAX + 1);
    struct topo_label *label = calloc(file->devices, sizeof *label);
    struct candidate *candidate = calloc(2 * (size_t)file->devices, sizeof *candidate);
    struct texts texts = {.at = malloc(room)};
    uint32_t count = 0;
    int err = label && candidate && texts.at && room <= UINT32_MAX ? 0 : -ENOMEM;

    for (uint32_t d = 0; !err && d < file->devices; d++)
        count += label_fill(&label[d], &file->device[d], d, &texts, candidate + count);
    if (!err) {
        labels_name(label, file, &texts, candidate, count);
        err = labels_order(graph, file, label, &texts);
    }
    free(texts.at);
    free(candidate);
    free(label);
    return err;
}
