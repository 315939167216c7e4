/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * file_scan.c - parse the output of ibnetdiscover, line by line.
 *
 *     Switch  36 "S-0002c90200404728"   # "leaf 1" enhanced port 0 lid 1 lmc 0
 *     [1]     "H-0002c903000e0b72"[1](2c903000e0b73)   # "node01 HCA-1" lid 4 4xQDR
 *     Ca      2 "H-0002c903000e0b72"    # "node01 HCA-1"
 *     [1](2c903000e0b73)   "S-0002c90200404728"[1]     # lid 4 lmc 0 "leaf 1" lid 1 4xQDR
 *
 * This file reads the kinds, names and GUIDs of devices, port numbers and level=N. In comments it
 * reads a device's description and a cable's rate. It ignores other settings, GUIDs of ports,
 * external port numbers, headings and other comments. The text is not trusted: numbers and lengths
 * of lines are limited, and names must have no control characters (file_label.c).
 */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "emu/util/nearest.h"
#include "topo/file.h"

#define SHOWN 40 /* bytes of the file's text that a message quotes */

struct cursor {
    const char *at;
    const char *end;
};

int file_fail(const struct file *file, uint32_t line, const char *format, ...)
{
    va_list args;
    int used;

    if (line)
        used = snprintf(file->error, file->error_bytes, "%s, line %u: ", file->name, line);
    else
        used = snprintf(file->error, file->error_bytes, "%s: ", file->name);
    if (used < 0 || (size_t)used >= file->error_bytes)
        return -EINVAL;
    va_start(args, format);
    vsnprintf(file->error + used, file->error_bytes - (size_t)used, format, args);
    va_end(args);
    return -EINVAL;
}

/* --- devices ------------------------------------------------------------------------ */

static uint32_t hash(const char *name, uint32_t length)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (uint32_t i = 0; i < length; i++)
        h = (h ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
    return (uint32_t)(h ^ h >> 32);
}

uint32_t file_find(const struct file *file, const char *name, uint32_t length)
{
    if (!file->devices)
        return TOPO_NONE;
    uint32_t i = file->bucket[hash(name, length) & (2 * file->devices_room - 1)];

    while (i != TOPO_NONE &&
           (file->device[i].length != length || memcmp(file->device[i].name, name, length) != 0))
        i = file->device[i].next;
    return i;
}

static void device_hash(struct file *file, uint32_t i)
{
    struct device *device = &file->device[i];
    uint32_t b = hash(device->name, device->length) & (2 * file->devices_room - 1);

    device->next = file->bucket[b];
    file->bucket[b] = i;
}

static int devices_grow(struct file *file)
{
    uint32_t room = file->devices_room ? 2 * file->devices_room : 64;
    struct device *device = realloc(file->device, room * sizeof *device);

    if (!device)
        return -ENOMEM;
    file->device = device;
    uint32_t *bucket = realloc(file->bucket, 2 * (size_t)room * sizeof *bucket);
    if (!bucket)
        return -ENOMEM;
    file->bucket = bucket;
    file->devices_room = room;
    memset(bucket, 0xff, 2 * (size_t)room * sizeof *bucket);
    for (uint32_t i = 0; i < file->devices; i++)
        device_hash(file, i);
    return 0;
}

/* Make the device of a header line the current one. An earlier line may have described it, too. */
static int device_begin(struct file *file, const struct device *given)
{
    uint32_t i = file_find(file, given->name, given->length);

    file->current = i;
    file->level = TOPO_NONE;
    file->guid = 0;
    if (i != TOPO_NONE) {
        const struct device *device = &file->device[i];

        if (device->kind != given->kind || device->ports != given->ports)
            return file_fail(file, file->line, "\"%.*s\" is described differently in line %u",
                             (int)given->length, given->name, device->line);
        return 0;
    }
    uint32_t most = given->kind == DEVICE_SWITCH ? FILE_SWITCHES_MAX : TOPO_NODES_MAX;
    if (file->count[given->kind] == most)
        return file_fail(file, file->line, "too large: at most %u switches and %u adapters",
                         FILE_SWITCHES_MAX, TOPO_NODES_MAX);
    if (file->devices == file->devices_room && devices_grow(file))
        return -ENOMEM;
    file->current = file->devices++;
    file->device[file->current] = *given;
    device_hash(file, file->current);
    file->count[given->kind]++;
    file->levels += given->level != TOPO_NONE;
    return 0;
}

/* --- words -------------------------------------------------------------------------- */

static void skip_spaces(struct cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t'))
        c->at++;
}

static bool take(struct cursor *c, const char *word)
{
    size_t length = strlen(word);

    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0)
        return false;
    c->at += length;
    return true;
}

static bool take_number(struct cursor *c, uint32_t *ret)
{
    const char *from = c->at;
    uint32_t number = 0;

    for (; c->at < c->end && isdigit((unsigned char)*c->at); c->at++)
        number = number > 99999999 ? 999999999 : number * 10 + (uint32_t)(*c->at - '0');
    *ret = number;
    return c->at > from;
}

static bool take_name(struct cursor *c, const char **name, uint32_t *length)
{
    if (!take(c, "\""))
        return false;
    *name = c->at;
    while (c->at < c->end && *c->at != '"' && (unsigned char)*c->at >= ' ')
        c->at++;
    *length = (uint32_t)(c->at - *name);
    return *length >= 1 && *length <= FILE_NAME_MAX && take(c, "\"");
}

/* Take a GUID such as "0x2c903000e0b72". */
static uint64_t take_guid(struct cursor *c)
{
    uint64_t guid = 0;

    take(c, "0x");
    for (; c->at < c->end && isxdigit((unsigned char)*c->at); c->at++)
        guid = guid << 4 | (uint64_t)(isdigit((unsigned char)*c->at)
                                          ? *c->at - '0'
                                          : tolower((unsigned char)*c->at) - 'a' + 10);
    return guid;
}

/* Take a port number such as "[3]". */
static bool take_port(struct cursor *c, uint32_t *port)
{
    return take(c, "[") && take_number(c, port) && take(c, "]");
}

/* Skip any number of GUIDs "(2c903000e0b73)" and external port numbers "[ext 5]". */
static void skip_extras(struct cursor *c)
{
    const char *close;

    for (;;) {
        skip_spaces(c);
        struct cursor ahead = *c;

        if (!take(&ahead, "(") && !take(&ahead, "[ext "))
            return;
        close = memchr(ahead.at, ahead.at[-1] == '(' ? ')' : ']', (size_t)(ahead.end - ahead.at));
        if (!close)
            return;
        c->at = close + 1;
    }
}

/* --- comments ----------------------------------------------------------------------- */

/* Read the description of a device: the quoted text in the comment, which may contain quotes. */
static void read_title(struct device *device, const struct cursor *c)
{
    size_t left = (size_t)(c->end - c->at);
    const char *comment = memchr(c->at, '#', left);
    const char *first = comment ? memchr(comment, '"', (size_t)(c->end - comment)) : NULL;
    const char *last = first ? memrchr(first, '"', (size_t)(c->end - first)) : NULL;

    if (last == first)
        return;
    device->title = first + 1;
    device->title_length = (uint32_t)(last - first - 1);
}

/*
 * Report an error if a word resembles a known rate but is none, such as "4xFRD". Note any other
 * rate that is not known, such as "4xFOO", or "4x???" where ibnetdiscover does not know the rate.
 */
static int check_rate(const struct file *file, struct plug *plug, const char *word, size_t length)
{
    char text[sizeof((struct topo_parts *)0)->rate], names[TOPO_RATES][16];

    if (length >= sizeof text)
        return 0;
    memcpy(text, word, length); /* copied because no NUL follows the word */
    text[length] = '\0';
    size_t digits = strspn(text, "0123456789");
    if (!digits || text[0] == '0' || length < digits + 3 || text[digits] != 'x')
        return 0;
    bool is_named = isalpha((unsigned char)text[digits + 1]);
    if (!is_named && text[digits + 1] != '?')
        return 0;
    struct nearest nearest = nearest_to(text);
    for (uint8_t rate = 1; is_named && rate < TOPO_RATES; rate++)
        nearest_try(&nearest, topo_rate_name(rate, names[rate]));
    if (nearest.name)
        return file_fail(file, file->line, "'%s' is not the rate of a cable%s", text,
                         nearest_question(&nearest, "").text);
    if (!plug->unknown_rate) {
        plug->unknown_rate = word;
        plug->unknown_length = (uint8_t)length;
    }
    return 0;
}

/* Read the rate of a cable: a word in the comment after all quoted text. Errors: -EINVAL. */
static int read_rate(const struct file *file, const struct cursor *c, struct plug *plug)
{
    const char *comment = memchr(c->at, '#', (size_t)(c->end - c->at));
    const char *quote = comment ? memrchr(comment, '"', (size_t)(c->end - comment)) : NULL;
    const char *at = quote ? quote + 1 : comment ? comment + 1 : c->end;

    while (at < c->end) {
        const char *word = at;

        while (at < c->end && !isspace((unsigned char)*at))
            at++;
        plug->rate = topo_rate_scan(word, (size_t)(at - word));
        if (plug->rate)
            return 0;
        int err = check_rate(file, plug, word, (size_t)(at - word));
        if (err)
            return err;
        at += at < c->end;
    }
    return 0;
}

/* --- lines -------------------------------------------------------------------------- */

/* Parse "Switch 36 "S-1" # ..." after its first word. */
static int scan_header(struct file *file, struct cursor *c, enum device_kind kind)
{
    struct device given = {.kind = kind,
                           .line = file->line,
                           .level = TOPO_NONE,
                           .guid = file->guid};
    const char *word = kind == DEVICE_SWITCH ? "Switch" : kind == DEVICE_NODE ? "Ca" : "Rt";

    skip_spaces(c);
    if (c->at < c->end && *c->at == ':')
        return file_fail(file, file->line,
                         "this is a list of devices without their cables; run "
                         "ibnetdiscover without -l, -S, -H and -R");
    if (!take_number(c, &given.ports))
        return file_fail(file, file->line, "no number of ports; want: %s 36 \"NAME\"", word);
    skip_spaces(c);
    if (!take_name(c, &given.name, &given.length))
        return file_fail(file, file->line,
                         "no name of 1 to %d characters in quotes; want: %s %u \"NAME\"",
                         FILE_NAME_MAX, word, given.ports);
    if (!file_text_is_clean(given.name, given.length))
        return file_fail(file, file->line,
                         "the name in quotes is not UTF-8, or has control characters");
    if (given.ports < 1 || given.ports > FILE_PORTS_MAX)
        return file_fail(file, file->line, "\"%.*s\" has %u ports; want 1 to %d", (int)given.length,
                         given.name, given.ports, FILE_PORTS_MAX);
    if (kind == DEVICE_SWITCH)
        given.level = file->level;
    else if (memmem(c->at, (size_t)(c->end - c->at), "Aggregation Node", 16))
        given.kind = DEVICE_OTHER; /* it is a unit of the switch into which it is plugged */
    read_title(&given, c);
    return device_begin(file, &given);
}

/* Parse "[1](2c903000e0b73) "S-1"[7] # ...": a port of the current device. */
static int scan_plug(struct file *file, struct cursor *c)
{
    struct plug plug = {.device = file->current, .line = file->line};

    if (file->current == TOPO_NONE)
        return file_fail(file, file->line, "this port comes before any Switch or Ca line");
    if (!take_port(c, &plug.port))
        return file_fail(file, file->line, "no port number; want: [1] \"NAME\"[2]");
    const struct device *device = &file->device[plug.device];
    if (plug.port < 1 || plug.port > device->ports)
        return file_fail(file, file->line, "there is no port %u: \"%.*s\" has ports 1 to %u",
                         plug.port, (int)device->length, device->name, device->ports);
    skip_extras(c);
    if (c->at == c->end || *c->at == '#')
        return 0; /* no cable */
    if (!take_name(c, &plug.remote, &plug.remote_length))
        return file_fail(file, file->line,
                         "no name of 1 to %d characters in quotes; want: [1] "
                         "\"NAME\"[2]",
                         FILE_NAME_MAX);
    skip_spaces(c);
    if (!take_port(c, &plug.remote_port))
        return file_fail(file, file->line, "no port number behind \"%.*s\"; want: [1] \"NAME\"[2]",
                         (int)plug.remote_length, plug.remote);
    int err = read_rate(file, c, &plug);
    if (err)
        return err;
    if (file->plugs == file->plugs_room) {
        uint32_t room = file->plugs_room ? 2 * file->plugs_room : 256;
        struct plug *bigger = realloc(file->plug, room * sizeof *bigger);

        if (!bigger)
            return -ENOMEM;
        file->plug = bigger;
        file->plugs_room = room;
    }
    file->plug[file->plugs++] = plug;
    return 0;
}

static int scan_other(struct file *file, struct cursor *c)
{
    static const char *const headings[] = {"Chassis ", "Non-Chassis ", "Hostname:", "ibwarn:"};
    struct cursor word = *c;

    if (take(&word, "level=")) {
        if (!take_number(&word, &file->level) || file->level >= FILE_SWITCHES_MAX)
            return file_fail(file, file->line, "level must be a number from 0 to %d",
                             FILE_SWITCHES_MAX - 1);
        return 0;
    }
    if (take(&word, "switchguid=") || take(&word, "caguid=")) {
        file->guid = take_guid(&word);
        return 0;
    }
    while (word.at < word.end && (isalnum((unsigned char)*word.at) || *word.at == '_'))
        word.at++;
    if (word.at > c->at && word.at < word.end && *word.at == '=')
        return 0; /* vendid=, sysimgguid=, ... */
    for (size_t i = 0; i < sizeof headings / sizeof headings[0]; i++)
        if (take(c, headings[i]))
            return 0;
    if (take(c, "SW ") || take(c, "CA ") || take(c, "RT "))
        return file_fail(file, file->line, "this is a list of ports; run ibnetdiscover without -p");
    if (take(c, "< ") || take(c, "> "))
        return file_fail(file, file->line,
                         "this is a difference of two networks; run ibnetdiscover "
                         "without --diff");
    return file_fail(file, file->line,
                     "'%.*s' is none of: Switch, Ca, [PORT], NAME=VALUE, # comment",
                     (int)(c->end - c->at > SHOWN ? SHOWN : c->end - c->at), c->at);
}

/* Take a keyword that a space or tab follows. */
static bool take_word(struct cursor *c, const char *word)
{
    struct cursor ahead = *c;

    if (!take(&ahead, word) || ahead.at == ahead.end || (*ahead.at != ' ' && *ahead.at != '\t'))
        return false;
    *c = ahead;
    return true;
}

static int scan_line(struct file *file, struct cursor c)
{
    while (c.end > c.at && isspace((unsigned char)c.end[-1]))
        c.end--;
    skip_spaces(&c);
    for (const char *p = c.at; p < c.end; p++) {
        if (!*p)
            return file_fail(file, file->line, "a zero byte: this is not a text file");
        if (*p == '#')
            break;
        if ((unsigned char)*p < ' ' && *p != '\t')
            return file_fail(file, file->line, "a control character: this is not a text file");
    }
    if (c.at == c.end || *c.at == '#')
        return 0;
    if (*c.at == '[')
        return scan_plug(file, &c);
    if (take_word(&c, "Switch"))
        return scan_header(file, &c, DEVICE_SWITCH);
    if (take_word(&c, "Ca") || take_word(&c, "Hca"))
        return scan_header(file, &c, DEVICE_NODE);
    if (take_word(&c, "Rt"))
        return scan_header(file, &c, DEVICE_OTHER);
    return scan_other(file, &c);
}

int file_scan(struct file *file, const char *text, size_t bytes)
{
    const char *end = text + bytes;

    file->current = file->level = TOPO_NONE;
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        struct cursor c = {.at = text, .end = newline ? newline : end};
        int err;

        file->line++;
        if (c.end - c.at > FILE_LINE_MAX)
            return file_fail(file, file->line,
                             "longer than %d characters: this is no topology file", FILE_LINE_MAX);
        err = scan_line(file, c);
        if (err)
            return err;
        text = newline ? newline + 1 : end;
    }
    return 0;
}
