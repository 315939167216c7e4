/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pcapng.h - writes captured packets in the format pcapng, which Wireshark reads.
 *
 * The blocks are section headers, interface descriptions, enhanced packets and interface
 * statistics. Blocks are never changed after they were written, so that the file can be a pipe.
 * Source: draft-ietf-opsawg-pcapng.
 */
#ifndef APPS_CAPTURE_PCAPNG_H
#define APPS_CAPTURE_PCAPNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PCAPNG_BUF_BYTES 65536u
#define PCAPNG_USER0     147u  /* LINKTYPE_USER0 */
#define PCAPNG_NANOS     9u    /* unit of times: 10^-9 s */
#define PCAPNG_PICOS     12u   /* unit of times: 10^-12 s */
#define PCAPNG_DATA_MOST 2048u /* largest number of bytes of a packet */

/* Maximum size of each kind of block. Arguments: sizes of the texts and the data, in bytes. */
#define PCAPNG_SECTION_BYTES(text)          (40u + (text))
#define PCAPNG_INTERFACE_BYTES(name, about) (44u + (name) + (about))
#define PCAPNG_PACKET_BYTES(data)           (52u + (data))
#define PCAPNG_STATISTICS_BYTES             88u

/* Owned by one thread. */
struct pcapng {
    int fd;             /* borrowed */
    int end_fd;         /* borrowed; once it is readable, a write to a pipe waits at most 1 s */
    int err;            /* negative errno of the first failed write; there is no later write */
    uint64_t bytes;     /* bytes written since pcapng_open(), without those in buf */
    uint64_t unwritten; /* packets that were in buf when a write failed */
    size_t used;        /* bytes in buf */
    uint64_t waiting;   /* packets in buf */
    uint8_t buf[PCAPNG_BUF_BYTES];
};

/** pcapng_open - begin a section of the file. @by: name of the program that writes it. */
void pcapng_open(struct pcapng *file, int fd, int end_fd, const char *by);

/**
 * pcapng_interface - describe the next interface; the first one has number 0. @about: a description
 * for the user, or "". @unit: the unit of its times, PCAPNG_NANOS or PCAPNG_PICOS.
 */
void pcapng_interface(struct pcapng *file, const char *name, const char *about, uint32_t snap_bytes,
                      uint8_t unit);

struct pcapng_packet {
    uint32_t iface;
    uint64_t time;
    const uint8_t *data;
    uint32_t bytes; /* size of data, at most PCAPNG_DATA_MOST */
    uint32_t whole; /* size of the packet before it was cut */
    uint64_t lost;  /* packets lost on this interface since the previous packet */
};

void pcapng_packet(struct pcapng *file, const struct pcapng_packet *packet);

struct pcapng_statistics {
    uint32_t iface;
    uint64_t time;       /* when the counts were read */
    uint64_t start, end; /* times of the first and the last packet */
    uint64_t received;   /* packets, including lost ones */
    uint64_t lost;
    uint64_t written;
};

void pcapng_statistics(struct pcapng *file, const struct pcapng_statistics *stats);

/**
 * pcapng_flush - write the buffered blocks. If that fails, a regular file is truncated to the
 * blocks of previous flushes, so that it stays readable. Returns file->err.
 */
int pcapng_flush(struct pcapng *file);

#endif
