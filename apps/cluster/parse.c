/* SPDX-License-Identifier: BSD-3-Clause */
/* parse.c - parses a cluster file line by line, and checks every word. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "apps/cluster/cluster.h"
#include "apps/base/amount.h"
#include "apps/base/quantity.h"
#include "apps/base/message.h"
#include "emu/util/slurp.h"

#define FILE_BYTES_MAX (16u << 20)
#define LINE_BYTES_MAX 4095
#define SHOWN          60 /* maximum number of characters of a word that a message shows */
#define SILENT_NS      UINT64_C(5000000000)

enum seen { SEEN_FABRIC = 1, SEEN_KEY = 2, SEEN_SILENT = 4 };

struct parse {
    struct cluster cluster;
    const char *name;
    uint32_t line; /* number of the current line; 0 while the whole file is checked */
    unsigned seen;
    bool placed; /* the last host has a `switches` line */
    char *error;
    size_t error_bytes;
};

__attribute__((format(printf, 3, 4))) static int wrong(const struct parse *p, int err,
                                                       const char *format, ...)
{
    char why[CLUSTER_ERROR_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    if (!p->line)
        return fail(err, p->error, p->error_bytes, "%.100s: %s", p->name, why);
    return fail(err, p->error, p->error_bytes, "%.100s, line %u: %s", p->name, p->line, why);
}

/* --- words -------------------------------------------------------------------------- */

/* Cut the next word off the line that begins at *at. Returns NULL if there is none. */
static char *word_next(char **at)
{
    char *word = *at + strspn(*at, " \t");

    if (!*word)
        return NULL;
    *at = word + strcspn(word, " \t");
    if (**at)
        *(*at)++ = '\0';
    return word;
}

static int no_more(const struct parse *p, char **at, const char *what)
{
    const char *word = word_next(at);

    return word ? wrong(p, -EINVAL, "'%.*s' after %s; nothing may follow it", SHOWN, word, what)
                : 0;
}

static bool name_is_good(const char *name)
{
    size_t length = strlen(name);

    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            return false;
    return length && length < CLUSTER_NAME_BYTES;
}

static int read_name(const struct parse *p, char **at, const char *what, char *ret)
{
    const char *word = word_next(at);

    if (!word || !name_is_good(word))
        return wrong(p, -EINVAL,
                     "%s '%.*s': it must be a name of letters, digits, '.', '_' and '-', "
                     "%d characters at most",
                     what, SHOWN, word ? word : "", CLUSTER_NAME_BYTES - 1);
    strcpy(ret, word);
    return 0;
}

/* --- global lines ----------------------------------------------------------------- */

static int once(struct parse *p, unsigned what, const char *name)
{
    if (p->cluster.hosts)
        return wrong(p, -EINVAL, "%s comes after a host; write it before the first one", name);
    if (p->seen & what)
        return wrong(p, -EINVAL, "%s is given twice; give it once", name);
    p->seen |= what;
    return 0;
}

static int line_fabric(struct parse *p, char **at)
{
    int err = once(p, SEEN_FABRIC, "fabric");

    return err ? err : read_name(p, at, "fabric", p->cluster.fabric);
}

static int line_key(struct parse *p, char **at)
{
    const char *word = word_next(at);
    int err = once(p, SEEN_KEY, "key");

    if (err)
        return err;
    if (!word || strlen(word) >= sizeof p->cluster.key)
        return wrong(p, -EINVAL,
                     "key needs the name of a file, shorter than %zu characters, or none",
                     sizeof p->cluster.key);
    if (strcmp(word, "none") != 0)
        strcpy(p->cluster.key, word);
    return 0;
}

static int line_silent(struct parse *p, char **at)
{
    static const struct quantity_form form = {.units = quantity_times,
                                              .least = UINT64_C(10000000000), /* in ps: 10 ms */
                                              .most = UINT64_C(86400000000000000)};
    const char *word = word_next(at);
    int err = once(p, SEEN_SILENT, "silent");
    uint64_t ps;

    if (err)
        return err;
    if (!word || !quantity_read(word, &form, &ps))
        return wrong(p, -EINVAL, "silent '%.*s': it must be a time from 10ms to 86400s, such as 2s",
                     SHOWN, word ? word : "");
    p->cluster.silent_ns = ps / 1000;
    return 0;
}

/* --- hosts -------------------------------------------------------------------------- */

static struct cluster_host *host_last(const struct parse *p)
{
    return p->cluster.hosts ? &p->cluster.host[p->cluster.hosts - 1] : NULL;
}

static int read_share(const struct parse *p, const char *word, uint32_t *ret)
{
    const char *number = strncmp(word, "share=", 6) == 0 ? word + 6 : "";
    uint64_t share = 0;

    if (!quantity_digits(&number, CLUSTER_SHARE_MAX, &share) || *number || !share)
        return wrong(p, -EINVAL, "'%.*s' after a host; only share=N may follow, from 1 to %d",
                     SHOWN, word, CLUSTER_SHARE_MAX);
    *ret = (uint32_t)share;
    return 0;
}

static int host_end(const struct parse *p)
{
    const struct cluster_host *host = host_last(p);

    if (host && !host->ports)
        return wrong(p, -EINVAL, "host %s has no port; it needs a line: port DEVICE", host->name);
    return 0;
}

static int line_host(struct parse *p, char **at)
{
    struct cluster_host *host, *bigger;
    int err = host_end(p);
    const char *word;

    if (err)
        return err;
    if (p->cluster.joins)
        return wrong(p, -EINVAL, "host comes after join; write all hosts before the first join");
    if (p->cluster.hosts == CLUSTER_HOSTS_MAX)
        return wrong(p, -E2BIG, "the file has more than %d hosts", CLUSTER_HOSTS_MAX);
    bigger = realloc(p->cluster.host, (p->cluster.hosts + 1) * sizeof *bigger);
    if (!bigger)
        return wrong(p, -ENOMEM, "out of memory");
    p->cluster.host = bigger;
    host = &bigger[p->cluster.hosts];
    memset(host, 0, sizeof *host);
    host->share = 1;
    err = read_name(p, at, "host", host->name);
    if (err)
        return err;
    if (cluster_host(&p->cluster, host->name) != CLUSTER_HOSTS_MAX)
        return wrong(p, -EINVAL, "host %s is given twice; give it all of its lines at once",
                     host->name);
    word = word_next(at);
    p->cluster.hosts++;
    p->placed = false;
    return word ? read_share(p, word, &host->share) : 0;
}

static bool read_mac(const char *text, uint8_t mac[static CLUSTER_MAC_BYTES])
{
    for (uint32_t i = 0; i < CLUSTER_MAC_BYTES; i++, text += 3) {
        char digits[3] = {text[0], text[0] ? text[1] : '\0', '\0'};

        if (!isxdigit((unsigned char)digits[0]) || !isxdigit((unsigned char)digits[1]) ||
            text[2] != (i + 1 < CLUSTER_MAC_BYTES ? ':' : '\0'))
            return false;
        mac[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return !(mac[0] & 1); /* a multicast address is not valid */
}

static int port_is_new(const struct parse *p, const struct cluster_host *host,
                       const struct cluster_port *port)
{
    for (uint32_t i = 0; i < host->ports; i++)
        if (strcmp(host->port[i].device, port->device) == 0)
            return wrong(p, -EINVAL, "port %.*s is given twice at host %s", SHOWN, port->device,
                         host->name);
    for (uint32_t h = 0; port->has_mac && h < p->cluster.hosts; h++)
        for (uint32_t i = 0; i < p->cluster.host[h].ports; i++) {
            const struct cluster_port *other = &p->cluster.host[h].port[i];

            if (other->has_mac && memcmp(other->mac, port->mac, sizeof port->mac) == 0)
                return wrong(p, -EINVAL, "this mac address belongs to port %u of host %s", i,
                             p->cluster.host[h].name);
        }
    return 0;
}

static int line_port(struct parse *p, char **at)
{
    struct cluster_host *host = host_last(p);
    struct cluster_port port = {.has_mac = false};
    const char *word = word_next(at);
    int err;

    if (!host)
        return wrong(p, -EINVAL, "port comes before the first host");
    if (!word || strlen(word) >= sizeof port.device)
        return wrong(p, -EINVAL,
                     "port needs a device in the syntax of DPDK, shorter than %zu characters",
                     sizeof port.device);
    if (host->ports == CLUSTER_PORTS_MAX)
        return wrong(p, -E2BIG, "host %s has more than %d ports", host->name, CLUSTER_PORTS_MAX);
    strcpy(port.device, word);
    word = word_next(at);
    if (word && (strncmp(word, "mac=", 4) != 0 || !read_mac(word + 4, port.mac)))
        return wrong(
            p, -EINVAL,
            "'%.*s' after a port; only an address may follow, such as mac=02:00:00:00:00:01", SHOWN,
            word);
    port.has_mac = word != NULL;
    err = port_is_new(p, host, &port);
    if (!err)
        host->port[host->ports++] = port;
    return err;
}

/* Add a range of switches. The ranges stay in ascending order, and adjacent ones are merged. */
static int range_add(const struct parse *p, struct cluster_host *host, struct cluster_range range)
{
    uint32_t at = 0;

    while (at < host->ranges && host->range[at].first < range.first)
        at++;
    if ((at && host->range[at - 1].last >= range.first) ||
        (at < host->ranges && host->range[at].first <= range.last))
        return wrong(p, -EINVAL, "host %s has a switch of %u-%u twice", host->name, range.first,
                     range.last);
    if (at && host->range[at - 1].last + 1 == range.first) {
        host->range[at - 1].last = range.last;
        if (at == host->ranges || range.last + 1 != host->range[at].first)
            return 0;
        /* @range lies exactly between two ranges: merge all three */
        host->range[at - 1].last = host->range[at].last;
        host->ranges--;
        memmove(&host->range[at], &host->range[at + 1],
                (host->ranges - at) * sizeof host->range[0]);
        return 0;
    }
    if (at < host->ranges && range.last + 1 == host->range[at].first) {
        host->range[at].first = range.first;
        return 0;
    }
    if (host->ranges == CLUSTER_RANGES_MAX)
        return wrong(p, -E2BIG, "host %s has more than %d ranges of switches", host->name,
                     CLUSTER_RANGES_MAX);
    memmove(&host->range[at + 1], &host->range[at], (host->ranges - at) * sizeof host->range[0]);
    host->range[at] = range;
    host->ranges++;
    return 0;
}

/* Check that no earlier host of the file has a switch of @range. */
static int range_is_free(const struct parse *p, const struct cluster_range *range)
{
    for (uint32_t h = 0; h + 1 < p->cluster.hosts; h++)
        for (uint32_t i = 0; i < p->cluster.host[h].ranges; i++) {
            const struct cluster_range *other = &p->cluster.host[h].range[i];

            if (other->first <= range->last && range->first <= other->last)
                return wrong(p, -EINVAL, "switch %u is on host %s already",
                             other->first > range->first ? other->first : range->first,
                             p->cluster.host[h].name);
        }
    return 0;
}

static int read_ranges(const struct parse *p, struct cluster_host *host, const char *word)
{
    int err = 0;

    for (const char *at = word; !err; at++) {
        struct cluster_range range;
        uint64_t first, last;

        if (!quantity_digits(&at, TOPO_NODES_MAX, &first))
            break;
        last = first;
        if (*at == '-' && (at++, !quantity_digits(&at, TOPO_NODES_MAX, &last)))
            break;
        if (last < first || (*at && *at != ','))
            break;
        range = (struct cluster_range){(uint32_t)first, (uint32_t)last};
        err = range_is_free(p, &range);
        if (!err)
            err = range_add(p, host, range);
        if (!err && !*at)
            return 0;
    }
    return err ? err
               : wrong(p, -EINVAL, "switches '%.*s': it must be like 0-3,8, or auto", SHOWN, word);
}

static int line_switches(struct parse *p, char **at)
{
    struct cluster_host *host = host_last(p);
    const char *word = word_next(at);
    bool found = word && strcmp(word, "auto") == 0;

    if (!host)
        return wrong(p, -EINVAL, "switches comes before the first host");
    if (p->placed)
        return wrong(p, -EINVAL, "switches is given twice at host %s; write one line", host->name);
    p->placed = true;
    return found ? 0 : read_ranges(p, host, word ? word : "");
}

/* --- joins -------------------------------------------------------------------------- */

/* Read one end of a join, such as "alpha:1". */
static int read_end(const struct parse *p, char **at, uint32_t *host, uint32_t *port)
{
    char *word = word_next(at), *colon = word ? strrchr(word, ':') : NULL;
    const char *number = colon ? colon + 1 : "";
    uint64_t i;

    if (!colon || !quantity_digits(&number, UINT32_MAX, &i) || *number)
        return wrong(p, -EINVAL, "join '%.*s': it must be HOST:PORT HOST:PORT, ports from 0", SHOWN,
                     word ? word : "");
    *colon = '\0';
    *host = cluster_host(&p->cluster, word);
    if (*host == CLUSTER_HOSTS_MAX)
        return wrong(p, -EINVAL, "there is no host '%.*s' in this file", SHOWN, word);
    if (i >= p->cluster.host[*host].ports)
        return wrong(p, -EINVAL, "host %s has %u port%s, from 0 on: there is no port %llu", word,
                     p->cluster.host[*host].ports, plural_s(p->cluster.host[*host].ports),
                     (unsigned long long)i);
    *port = (uint32_t)i;
    return 0;
}

static int join_differs(const struct cluster_join *left, const struct cluster_join *right)
{
    return memcmp(left, right, sizeof(struct cluster_join));
}

static int line_join(struct parse *p, char **at)
{
    struct cluster_join *bigger, join;
    uint32_t host[2], port[2], first;
    int err = host_end(p);

    for (uint32_t i = 0; i < 2 && !err; i++)
        err = read_end(p, at, &host[i], &port[i]);
    if (err)
        return err;
    if (host[0] == host[1])
        return wrong(p, -EINVAL, "host %s is joined with itself", p->cluster.host[host[0]].name);
    first = host[1] < host[0];
    join = (struct cluster_join){.host = {host[first], host[!first]},
                                 .port = {port[first], port[!first]}};
    for (uint32_t i = 0; i < p->cluster.joins; i++)
        if (!join_differs(&p->cluster.join[i], &join))
            return wrong(p, -EINVAL, "these ports are joined already");
    if (p->cluster.joins == CLUSTER_JOINS_MAX)
        return wrong(p, -E2BIG, "the file has more than %d joins", CLUSTER_JOINS_MAX);
    bigger = realloc(p->cluster.join, (p->cluster.joins + 1) * sizeof *bigger);
    if (!bigger)
        return wrong(p, -ENOMEM, "out of memory");
    p->cluster.join = bigger;
    bigger[p->cluster.joins++] = join;
    return 0;
}

/* --- the file ----------------------------------------------------------------------- */

static const struct {
    const char *word;
    int (*read)(struct parse *p, char **at);
} lines[] = {
    {"fabric", line_fabric}, {"key", line_key},   {"silent", line_silent},
    {"host", line_host},     {"port", line_port}, {"switches", line_switches},
    {"join", line_join},
};

static int read_line(struct parse *p, char *line)
{
    char *at = line;
    const char *word = word_next(&at);

    if (!word)
        return 0;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (strcmp(lines[i].word, word) == 0) {
            int err = lines[i].read(p, &at);

            return err ? err : no_more(p, &at, word);
        }
    return wrong(p, -EINVAL,
                 "'%.*s' is unknown; a line begins with fabric, key, silent, host, port, switches "
                 "or join",
                 SHOWN, word);
}

static int read_bytes(struct parse *p, const char *text, size_t bytes)
{
    char line[LINE_BYTES_MAX + 1];
    const char *comment = memchr(text, '#', bytes);

    if (comment)
        bytes = (size_t)(comment - text);
    if (bytes && text[bytes - 1] == '\r')
        bytes--;
    if (bytes > LINE_BYTES_MAX)
        return wrong(p, -EINVAL, "the line is longer than %d characters", LINE_BYTES_MAX);
    for (size_t i = 0; i < bytes; i++)
        if (((unsigned char)text[i] < ' ' && text[i] != '\t') || text[i] == 127)
            return wrong(p, -EINVAL, "the line has control character %d; a cluster file is text",
                         text[i]);
    memcpy(line, text, bytes);
    line[bytes] = '\0';
    return read_line(p, line);
}

/* Check that either all hosts list their switches, or none does. */
static int check_placed(const struct parse *p)
{
    const struct cluster *c = &p->cluster;

    for (uint32_t h = 1; h < c->hosts; h++)
        if (!c->host[h].ranges != !c->host[0].ranges)
            return wrong(
                p, -EINVAL,
                "host %s lists its switches and host %s does not; list them for all hosts, "
                "or for none",
                c->host[c->host[h].ranges ? h : 0].name, c->host[c->host[h].ranges ? 0 : h].name);
    return 0;
}

/* Check that no port occurs in more `join` lines than it supports sessions. */
static int check_sessions(const struct parse *p)
{
    const struct cluster *c = &p->cluster;

    for (uint32_t h = 0; c->joins && h < c->hosts; h++)
        for (uint32_t i = 0; i < c->host[h].ports; i++)
            if (cluster_sessions(c, h, i) > CLUSTER_HOSTS_MAX)
                return wrong(p, -E2BIG,
                             "port %u of host %s is joined with %u ports; %d are possible", i,
                             c->host[h].name, cluster_sessions(c, h, i), CLUSTER_HOSTS_MAX);
    return 0;
}

/*
 * Compare joins by hosts, then by ports. The result does not depend on the byte order of the
 * machine.
 */
static int join_rank(const void *left, const void *right)
{
    const struct cluster_join *a = left, *b = right;
    const uint32_t of[2][4] = {{a->host[0], a->host[1], a->port[0], a->port[1]},
                               {b->host[0], b->host[1], b->port[0], b->port[1]}};

    for (uint32_t i = 0; i < 4; i++)
        if (of[0][i] != of[1][i])
            return of[0][i] < of[1][i] ? -1 : 1;
    return 0;
}

static int check_whole(struct parse *p)
{
    int err = host_end(p);

    p->line = 0;
    if (!err && !p->cluster.hosts)
        err =
            wrong(p, -EINVAL, "the file has no host; a host is two lines: host NAME, port DEVICE");
    if (!err && !(p->seen & SEEN_FABRIC))
        err = wrong(p, -EINVAL, "no line names the fabric; write, for example: fabric 7");
    if (!err && !(p->seen & SEEN_KEY))
        err = wrong(p, -EINVAL, "no line names the key; write key FILE, or key none");
    if (!err)
        err = check_placed(p);
    if (!err)
        err = check_sessions(p);
    if (!err && p->cluster.joins)
        qsort(p->cluster.join, p->cluster.joins, sizeof p->cluster.join[0], join_rank);
    return err;
}

int cluster_text(struct cluster *ret, const char *name, const char *text, size_t bytes, char *error,
                 size_t error_bytes)
{
    struct parse p = {.cluster = {.silent_ns = SILENT_NS},
                      .name = name,
                      .error = error,
                      .error_bytes = error_bytes};
    const char *end = text + bytes;
    int err = 0;

    while (text < end && !err) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));

        p.line++;
        err = read_bytes(&p, text, (size_t)((newline ? newline : end) - text));
        text = newline ? newline + 1 : end;
    }
    if (!err)
        err = check_whole(&p);
    if (err)
        cluster_release(&p.cluster);
    else
        *ret = p.cluster;
    return err;
}

int cluster_read(struct cluster *ret, const char *name, char *error, size_t error_bytes)
{
    char *text;
    size_t bytes;
    int err = emu_slurp(name, FILE_BYTES_MAX, &text, &bytes);

    if (err)
        err = fail(err == -ENOMEM ? err : -EIO, error, error_bytes,
                   "%.100s: cannot read the cluster file: %s", name, emu_slurp_why(err));
    else
        err = cluster_text(ret, name, text, bytes, error, error_bytes);
    free(text);
    return err;
}

void cluster_release(struct cluster *cluster)
{
    free(cluster->host);
    free(cluster->join);
    *cluster = (struct cluster){.hosts = 0};
}
