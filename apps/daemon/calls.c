/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls.c - give each process in simulated time a file in memory: an empty one, to which it writes
 * its calls (`--compute record:FILE`), or one with the calls that it replays (`replay:FILE`). A
 * process is identified by its rank. The second process of a rank uses the second part of the
 * recording for that rank.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/base/message.h"
#include "apps/base/output.h"
#include "apps/daemon/client.h"
#include "apps/fabric/origin.h"

/* The processes that record their calls, in the order in which they have attached. */
struct daemon_calls {
    size_t count, room;
    struct recorder {
        int64_t rank;
        int fd;
        size_t order; /* number of processes that attached earlier */
    } recorder[];
};

/* Return whether processes record GOAL (--goal) in place of their calls. */
static bool traces(const struct daemon *daemon)
{
    return daemon->config->fabric->compute.traces;
}

static int64_t rank_of(const struct client *client)
{
    return client->rank >= 0 ? client->rank : client->node;
}

/* Make room for one more recorder. Returns false if there is no memory. */
static bool grow(struct daemon *daemon)
{
    struct daemon_calls *calls = daemon->calls;
    size_t room = calls ? 2 * calls->room : 16;

    if (calls && calls->count < calls->room)
        return true;
    calls = realloc(calls, sizeof *calls + room * sizeof *calls->recorder);
    if (!calls)
        return false;
    if (!daemon->calls)
        calls->count = 0;
    calls->room = room;
    daemon->calls = calls;
    return true;
}

/* Return a descriptor of a new file for the calls of @client's process. Errors: -errno. */
static int recorder_new(struct daemon *daemon, const struct client *client)
{
    struct daemon_calls *calls;
    int fd, passed;

    if (!grow(daemon))
        return -ENOMEM;
    calls = daemon->calls;
    fd = memfd_create("fabemu-calls", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    /* otherwise a process could kill the daemon by truncating its file while it is read */
    passed = fd < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL)
                 ? -1
                 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (passed < 0) {
        int err = -errno;

        if (fd >= 0)
            close(fd);
        return err;
    }
    calls->recorder[calls->count] =
        (struct recorder){.rank = traces(daemon) ? client->node : rank_of(client),
                          .fd = fd,
                          .order = calls->count};
    calls->count++;
    return passed;
}

/* Return a descriptor of a file with the calls of a part. Errors: -errno. */
static int part_file(const struct calls_part *part)
{
    int fd = memfd_create("fabemu-calls", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *at;

    if (fd < 0)
        return -errno;
    if (ftruncate(fd, (off_t)part->bytes))
        goto failed;
    at = mmap(NULL, part->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        goto failed;
    memcpy(at, part->data, part->bytes);
    munmap(at, part->bytes);
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0)
        return fd;

failed:
    close(fd);
    return -errno;
}

static struct calls_part *part_of(struct calls_file *file, int64_t rank)
{
    for (size_t i = 0; i < file->parts; i++)
        if (file->part[i].rank == rank && !file->part[i].used)
            return &file->part[i];
    return NULL;
}

int daemon_calls_file(struct daemon *daemon, const struct client *client, char *error,
                      size_t error_bytes)
{
    struct calls_file *replay = daemon->config->replay;
    struct calls_part *part = replay ? part_of(replay, rank_of(client)) : NULL;
    int fd = -1;

    if (replay && !part)
        return fail(-ENOENT, error, error_bytes,
                    "the recording of --compute has no calls for this process of rank %lld; it has "
                    "the calls of %zu processes",
                    (long long)rank_of(client), replay->parts);
    if (part)
        fd = part_file(part);
    else if (daemon->config->fabric->compute.mode == EMU_COMPUTE_RECORD || traces(daemon))
        fd = recorder_new(daemon, client);
    else
        return -1;
    if (part)
        part->used = true;
    if (fd >= 0)
        return fd;
    fail(fd, error, error_bytes, "cannot make a file for calls: %s", strerror(-fd));
    return fd < -1 ? fd : -EIO;
}

/* Map the calls that a process has recorded. Returns false if that fails. */
static bool recorder_map(const struct recorder *from, struct calls_part *ret)
{
    static const uint8_t none[1];
    struct stat st;
    void *at;

    *ret = (struct calls_part){.rank = from->rank, .data = none};
    if (fstat(from->fd, &st))
        return false;
    if (!st.st_size)
        return true;
    if ((uint64_t)st.st_size > CALLS_FILE_MOST) {
        errno = EFBIG;
        return false;
    }
    at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, from->fd, 0);
    if (at == MAP_FAILED)
        return false;
    ret->data = at;
    ret->bytes = (size_t)st.st_size;
    return true;
}

/* Processes of one rank keep the order in which they attached. */
static int by_rank(const void *a, const void *b)
{
    const struct recorder *x = a, *y = b;

    return x->rank != y->rank ? (x->rank > y->rank) - (x->rank < y->rank)
                              : (x->order > y->order) - (x->order < y->order);
}

static int parts_write(const struct daemon *daemon, const struct calls_part *part, size_t parts)
{
    FILE *out = output_stream(daemon->config->calls_fd);
    struct json_object *origin;

    if (!out)
        return -errno;
    origin = origin_json(daemon->config->fabric);
    if (traces(daemon))
        daemon_goal_write(daemon, out, origin, part, parts);
    else
        calls_write(out, origin, part, parts);
    return output_close(out);
}

/*
 * Write the calls that all processes have recorded. Returns 1 if the file is incomplete. Then a
 * message has named the missing part.
 */
static int recorders_write(const struct daemon *daemon, struct daemon_calls *calls)
{
    struct calls_part *part = calloc(calls->count, sizeof *part);
    int err = part ? 0 : -ENOMEM;
    size_t mapped = 0;

    qsort(calls->recorder, calls->count, sizeof *calls->recorder, by_rank);
    for (; mapped < calls->count && !err; mapped++)
        err = recorder_map(&calls->recorder[mapped], &part[mapped]) ? 0 : -errno;
    if (!err)
        err = parts_write(daemon, part, calls->count);
    if (!err && traces(daemon) && !daemon_goal_check(daemon, part, calls->count))
        err = 1;
    for (size_t i = 0; i < mapped; i++)
        if (part[i].bytes)
            munmap((void *)(uintptr_t)part[i].data, part[i].bytes);
    free(part);
    return err;
}

void daemon_calls_write(struct daemon *daemon)
{
    const char *option = traces(daemon) ? "--goal" : "--compute";
    int err = 0;

    if (daemon->calls) {
        err = recorders_write(daemon, daemon->calls);
    } else if (traces(daemon) || daemon->config->fabric->compute.mode == EMU_COMPUTE_RECORD) {
        print_message("%s: no process has attached, so the file is not written", option);
        err = 1;
    }
    if (!err)
        return;
    if (err < 0)
        print_message("cannot write the %s: %s",
                      traces(daemon) ? "GOAL of --goal" : "calls of --compute", strerror(-err));
    daemon->unwritten = true;
}

uint32_t daemon_calls_unused(const struct daemon *daemon)
{
    const struct calls_file *replay = daemon->config->replay;
    uint32_t unused = 0;

    for (size_t i = 0; replay && i < replay->parts; i++)
        unused += !replay->part[i].used;
    return unused;
}

void daemon_calls_close(struct daemon *daemon)
{
    for (size_t i = 0; daemon->calls && i < daemon->calls->count; i++)
        close(daemon->calls->recorder[i].fd);
    free(daemon->calls);
    daemon->calls = NULL;
}
