/* SPDX-License-Identifier: BSD-3-Clause */
/* pcapng.c - see pcapng.h. */
#include "apps/capture/pcapng.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIPE_BYTES \
    4096u /* a pipe for which poll() returns POLLOUT accepts this many bytes without blocking */
#define END_MS     1000
#define BLOCK_MOST (PCAPNG_DATA_MOST + 256u)

enum { SECTION = 0x0a0d0d0a, INTERFACE = 1, STATISTICS = 5, PACKET = 6 };
enum {
    OPT_END = 0,
    OPT_USERAPPL = 4,
    OPT_IF_NAME = 2,
    OPT_IF_DESCRIPTION = 3,
    OPT_IF_TSRESOL = 9,
    OPT_EPB_DROPCOUNT = 4
};
enum {
    OPT_ISB_START = 2,
    OPT_ISB_END = 3,
    OPT_ISB_IFRECV = 4,
    OPT_ISB_IFDROP = 5,
    OPT_ISB_USRDELIV = 8
};

/* --- bytes -------------------------------------------------------------------------- */

/*
 * Wait until the file accepts data. There is no time limit until end_fd becomes readable, which
 * means that the capture ends. From then on, wait for at most END_MS. Return false if that time is
 * over.
 */
static bool wait_writable(const struct pcapng *file)
{
    struct pollfd fds[2] = {{.fd = file->fd, .events = POLLOUT},
                            {.fd = file->end_fd, .events = POLLIN}};

    while (poll(fds, 2, -1) < 0 && errno == EINTR)
        continue;
    return fds[0].revents || poll(fds, 1, END_MS) > 0;
}

/*
 * Remove the last @bytes of the file. They are the part of the buffer that was written before an
 * error.
 */
static void take_back(const struct pcapng *file, size_t bytes)
{
    off_t end = lseek(file->fd, 0, SEEK_CUR);
    struct stat st;

    if (fstat(file->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == end &&
        end >= (off_t)bytes && ftruncate(file->fd, end - (off_t)bytes) == 0)
        lseek(file->fd, -(off_t)bytes, SEEK_CUR);
}

int pcapng_flush(struct pcapng *file)
{
    size_t done = 0;

    while (!file->err && done < file->used) {
        size_t left = file->used - done;
        ssize_t wrote;

        if (!wait_writable(file)) {
            file->err = -ETIMEDOUT;
            break;
        }
        wrote = write(file->fd, file->buf + done, left < PIPE_BYTES ? left : PIPE_BYTES);
        if (wrote > 0)
            done += (size_t)wrote;
        else if (wrote == 0 || (errno != EINTR && errno != EAGAIN))
            file->err = wrote ? -errno : -EIO;
    }
    if (!file->err) {
        file->bytes += done;
    } else {
        file->unwritten += file->waiting;
        if (done)
            take_back(file, done);
    }
    file->used = 0;
    file->waiting = 0;
    return file->err;
}

static void put(struct pcapng *file, const void *data, size_t bytes)
{
    if (bytes) /* @data of no bytes may be NULL, which memcpy() does not permit */
        memcpy(file->buf + file->used, data, bytes);
    file->used += bytes;
}

static void put_u32(struct pcapng *file, uint32_t n)
{
    put(file, &n, sizeof n);
}

static void put_u16(struct pcapng *file, uint16_t n)
{
    put(file, &n, sizeof n);
}

/* Write the upper half of a time first. */
static void put_time(struct pcapng *file, uint64_t time)
{
    put_u32(file, (uint32_t)(time >> 32));
    put_u32(file, (uint32_t)time);
}

static void put_padded(struct pcapng *file, const void *data, size_t bytes)
{
    static const uint8_t zeros[4];

    put(file, data, bytes);
    put(file, zeros, -bytes % 4);
}

static void put_option(struct pcapng *file, uint16_t code, const void *value, size_t bytes)
{
    put_u16(file, code);
    put_u16(file, (uint16_t)bytes);
    put_padded(file, value, bytes);
}

/* --- blocks ------------------------------------------------------------------------- */

/* Return the offset of the block in the buffer, for block_end(), which sets its length. */
static size_t block_begin(struct pcapng *file, uint32_t kind)
{
    size_t at;

    if (file->used + BLOCK_MOST > PCAPNG_BUF_BYTES)
        pcapng_flush(file);
    at = file->used;
    put_u32(file, kind);
    put_u32(file, 0);
    return at;
}

static void block_end(struct pcapng *file, size_t at)
{
    uint32_t bytes = (uint32_t)(file->used + sizeof bytes - at);

    put_u32(file, bytes);
    memcpy(file->buf + at + 4, &bytes, sizeof bytes);
}

void pcapng_open(struct pcapng *file, int fd, int end_fd, const char *by)
{
    static const uint64_t unknown = UINT64_MAX; /* length of the section */
    size_t at;

    file->fd = fd;
    file->end_fd = end_fd;
    file->err = 0;
    file->used = 0;
    file->bytes = file->unwritten = file->waiting = 0;
    at = block_begin(file, SECTION);
    put_u32(file, 0x1a2b3c4d); /* byte-order magic */
    put_u16(file, 1);
    put_u16(file, 0);
    put(file, &unknown, sizeof unknown);
    put_option(file, OPT_USERAPPL, by, strlen(by));
    put_option(file, OPT_END, NULL, 0);
    block_end(file, at);
}

void pcapng_interface(struct pcapng *file, const char *name, const char *about, uint32_t snap_bytes,
                      uint8_t unit)
{
    size_t at = block_begin(file, INTERFACE);

    put_u16(file, PCAPNG_USER0);
    put_u16(file, 0);
    put_u32(file, snap_bytes);
    put_option(file, OPT_IF_NAME, name, strlen(name));
    if (*about)
        put_option(file, OPT_IF_DESCRIPTION, about, strlen(about));
    put_option(file, OPT_IF_TSRESOL, &unit, sizeof unit);
    put_option(file, OPT_END, NULL, 0);
    block_end(file, at);
}

void pcapng_packet(struct pcapng *file, const struct pcapng_packet *packet)
{
    size_t at = block_begin(file, PACKET);

    put_u32(file, packet->iface);
    put_time(file, packet->time);
    put_u32(file, packet->bytes);
    put_u32(file, packet->whole);
    put_padded(file, packet->data, packet->bytes);
    if (packet->lost) {
        put_option(file, OPT_EPB_DROPCOUNT, &packet->lost, sizeof packet->lost);
        put_option(file, OPT_END, NULL, 0);
    }
    block_end(file, at);
    file->waiting++;
}

static void put_time_option(struct pcapng *file, uint16_t code, uint64_t time)
{
    uint32_t halves[2] = {(uint32_t)(time >> 32), (uint32_t)time};

    put_option(file, code, halves, sizeof halves);
}

void pcapng_statistics(struct pcapng *file, const struct pcapng_statistics *stats)
{
    size_t at = block_begin(file, STATISTICS);

    put_u32(file, stats->iface);
    put_time(file, stats->time);
    put_time_option(file, OPT_ISB_START, stats->start);
    put_time_option(file, OPT_ISB_END, stats->end);
    put_option(file, OPT_ISB_IFRECV, &stats->received, sizeof stats->received);
    put_option(file, OPT_ISB_IFDROP, &stats->lost, sizeof stats->lost);
    put_option(file, OPT_ISB_USRDELIV, &stats->written, sizeof stats->written);
    put_option(file, OPT_END, NULL, 0);
    block_end(file, at);
}
