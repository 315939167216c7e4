/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agree.c - agreement of the hosts of a cluster: the canonical text of the cluster file, the digest
 * of everything that must be equal on all hosts, and the key.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/cluster/cluster.h"
#include "apps/fabric/counters.h"
#include "apps/fault/fault.h"
#include "apps/base/message.h"
#include "emu/hostif/hostif.h"
#include "emu/util/random.h"

/* --- the canonical text ------------------------------------------------------------- */

static void print_host(const struct cluster_host *host, FILE *to)
{
    fprintf(to, "host %s share=%u\n", host->name, host->share);
    for (uint32_t i = 0; i < host->ports; i++) {
        const uint8_t *mac = host->port[i].mac;

        fprintf(to, "port %s", host->port[i].device);
        if (host->port[i].has_mac)
            fprintf(to, " mac=%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3],
                    mac[4], mac[5]);
        fputc('\n', to);
    }
    fputs("switches ", to);
    for (uint32_t i = 0; i < host->ranges; i++) {
        fprintf(to, "%s%u", i ? "," : "", host->range[i].first);
        if (host->range[i].last != host->range[i].first)
            fprintf(to, "-%u", host->range[i].last);
    }
    fputs(host->ranges ? "\n" : "auto\n", to);
}

void cluster_print(const struct cluster *cluster, FILE *to)
{
    char silent[32];

    fprintf(to, "fabric %s\nkey %s\nsilent %s\n", cluster->fabric,
            *cluster->key ? cluster->key : "none",
            fault_print_time(cluster->silent_ns * 1000, silent));
    for (uint32_t h = 0; h < cluster->hosts; h++)
        print_host(&cluster->host[h], to);
    for (uint32_t i = 0; i < cluster->joins; i++) {
        const struct cluster_join *join = &cluster->join[i];

        fprintf(to, "join %s:%u %s:%u\n", cluster->host[join->host[0]].name, join->port[0],
                cluster->host[join->host[1]].name, join->port[1]);
    }
}

/* --- the digest --------------------------------------------------------------------- */

static void print_number(void *to, const char *name, uint64_t number)
{
    fprintf(to, "%s=%" PRIu64 "\n", name, number);
}

static void print_counter(void *to, const char *part, const char *name)
{
    fprintf(to, "counter %s %s\n", part, name);
}

static int print_all(const struct cluster *cluster, const struct fabric_config *config, FILE *to)
{
    fprintf(to, "version " FABEMU_VERSION "\n");
    print_number(to, "protocol", EMU_HOSTIF_VERSION); /* agents forward requests of processes */
    cluster_print(cluster, to);
    fprintf(to, "topo %s\n", config->graph->spec);
    emu_profile_each(&config->profile, print_number, to);
    print_number(to, "clock", config->clock);
    print_number(to, "seed", config->seed);
    print_number(to, "first", config->first);
    print_number(to, "link_rates", config->link_rates);
    /* the format of messages between hosts depends on this number */
    print_number(to, "port_words", EMU_PORT_WORDS);
    print_number(to, "start_ps", config->start_ps);
#define PRINT(field, name, ms, what) print_number(to, name, config->bounds.field##_ms);
    EMU_BOUNDS(PRINT)
#undef PRINT
    print_number(to, "retries", config->bounds.retries);
    fabric_counters_each(print_counter, to);
    return topo_write(config->graph, to);
}

/* Make a digest that consists of four 64-bit hashes of the text, each with a different seed. */
static void digest_text(const char *text, size_t bytes, uint8_t digest[static CLUSTER_DIGEST_BYTES])
{
    for (uint32_t lane = 0; lane < CLUSTER_DIGEST_BYTES / 8; lane++) {
        uint64_t hash = emu_mix(bytes + lane + 1);

        for (size_t i = 0; i < bytes; i++)
            hash = emu_mix(hash ^ (unsigned char)text[i]) + lane;
        for (uint32_t i = 0; i < 8; i++)
            digest[8 * lane + i] = (uint8_t)(hash >> 8 * i);
    }
}

int cluster_digest(const struct cluster *cluster, const struct fabric_config *config,
                   uint8_t digest[static CLUSTER_DIGEST_BYTES])
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    int err = to ? print_all(cluster, config, to) : -ENOMEM;

    if (to && fclose(to))
        err = -ENOMEM;
    if (!err)
        digest_text(text, bytes, digest);
    free(text);
    return err ? -ENOMEM : 0;
}

/* --- the key ------------------------------------------------------------------------ */

/*
 * Parse 2 * CLUSTER_KEY_BYTES hexadecimal digits, which white space may follow. Returns false if
 * the text is anything else.
 */
static bool read_hex(const char *text, size_t bytes, uint8_t key[static CLUSTER_KEY_BYTES])
{
    while (bytes && isspace((unsigned char)text[bytes - 1]))
        bytes--;
    if (bytes != 2 * CLUSTER_KEY_BYTES)
        return false;
    for (uint32_t i = 0; i < CLUSTER_KEY_BYTES; i++) {
        char digits[3] = {text[2 * i], text[2 * i + 1], '\0'};

        if (!isxdigit((unsigned char)digits[0]) || !isxdigit((unsigned char)digits[1]))
            return false;
        key[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return true;
}

static int read_key(FILE *from, const char *name, uint8_t key[static CLUSTER_KEY_BYTES],
                    char *error, size_t error_bytes)
{
    char text[4 * CLUSTER_KEY_BYTES];
    size_t bytes = fread(text, 1, sizeof text, from);
    bool good = !ferror(from) && bytes < sizeof text;

    if (good && bytes == CLUSTER_KEY_BYTES)
        memcpy(key, text, bytes);
    else if (good)
        good = read_hex(text, bytes, key);
    explicit_bzero(text, sizeof text);
    return good ? 0
                : fail(-EINVAL, error, error_bytes,
                       "%.200s: this is not a key: it must be %d bytes, or %d hexadecimal digits",
                       name, CLUSTER_KEY_BYTES, 2 * CLUSTER_KEY_BYTES);
}

/*
 * Open the key's file; if it is a pipe, do not wait for a writer. On an error, return NULL and set
 * errno.
 */
static FILE *open_key(const char *name)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *from = fd < 0 ? NULL : fdopen(fd, "r");

    if (fd >= 0 && !from)
        close(fd);
    return from;
}

int cluster_key(const struct cluster *cluster, uint8_t key[static CLUSTER_KEY_BYTES], char *error,
                size_t error_bytes)
{
    const char *name = cluster->key;
    struct stat is;
    FILE *from;
    int err;

    if (!*name)
        return fail(-ENOENT, error, error_bytes, "the cluster file has the line \"key none\"");
    from = open_key(name);
    if (!from || fstat(fileno(from), &is)) {
        err = fail(-EIO, error, error_bytes, "%.200s: cannot read the key: %s", name,
                   strerror(errno));
    } else if (!S_ISREG(is.st_mode)) {
        err = fail(-EINVAL, error, error_bytes, "%.200s: the key must be in a regular file", name);
    } else if (is.st_mode & 077) {
        err = fail(-EACCES, error, error_bytes,
                   "%.200s: other users may read the key: make a new key, in a file with mode 600",
                   name);
    } else {
        setvbuf(from, NULL, _IONBF, 0); /* do not leave a copy of the key in a buffer */
        err = read_key(from, name, key, error, error_bytes);
    }
    if (from)
        fclose(from);
    return err;
}
