/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * file.h - the contents of a topology file in ibnetdiscover's format (docs/topo.md): file_scan.c
 * parses the text, and file_build.c makes the graph. Inside topo/ only.
 */
#ifndef TOPO_FILE_H
#define TOPO_FILE_H

#include "topo/graph.h"

#define FILE_BYTES_MAX    (128u << 20)
#define FILE_LINE_MAX     4096
#define FILE_NAME_MAX     TOPO_NAME_MAX /* bytes of a device's name */
#define FILE_PORTS_MAX    254
#define FILE_SWITCHES_MAX 65536

enum device_kind {
    DEVICE_SWITCH,
    DEVICE_NODE,
    DEVICE_OTHER /* routers and aggregation nodes, which are ignored */
};

struct device {
    enum device_kind kind;
    const char *name; /* in the text of the file, without NUL */
    uint32_t length;
    const char *title; /* description, in the text of the file, unchecked; NULL: none */
    uint32_t title_length;
    uint64_t guid; /* 0: not in the file */
    uint32_t line;
    uint32_t ports;  /* 1 to FILE_PORTS_MAX */
    uint32_t level;  /* level of a switch; TOPO_NONE: not given */
    uint32_t number; /* number of the switch or node in the graph */
    uint32_t next;   /* next device with the same hash, or TOPO_NONE */
};

/* One end of a cable, from a line of the file. */
struct plug {
    uint32_t device;
    uint32_t port; /* from 1 */
    uint32_t remote_device;
    uint32_t remote_port;
    const char *remote; /* the remote device's name in the text, until all devices are read */
    uint32_t remote_length;
    uint32_t line;
    uint8_t rate; /* topo_rate_scan(); 0: not given */
    /* a rate in the line that is not known, and its length; NULL: none */
    const char *unknown_rate;
    uint8_t unknown_length;
};

struct file {
    const char *name; /* for messages */
    char *error;
    size_t error_bytes;

    struct device *device;
    uint32_t devices, devices_room;
    uint32_t *bucket; /* hash table of devices by name, with 2 * devices_room elements */
    struct plug *plug;
    uint32_t plugs, plugs_room;
    uint32_t count[3]; /* number of devices, by kind */
    uint32_t levels;   /* number of switches with a level */

    uint32_t line;    /* number of the current line */
    uint32_t current; /* device whose ports the current lines list, or TOPO_NONE */
    uint32_t level;   /* level for the next switch, or TOPO_NONE */
    uint64_t guid;    /* GUID for the next device, or 0 */
};

/** file_fail - write one line for the user; @line 0: no particular line. Returns -EINVAL. */
__attribute__((format(printf, 3, 4))) int file_fail(const struct file *file, uint32_t line,
                                                    const char *format, ...);

/** file_scan - read devices and ends of cables from the text. Errors: -EINVAL, -ENOMEM. */
int file_scan(struct file *file, const char *text, size_t bytes);

/** file_find - find a device by name; TOPO_NONE: there is none. */
uint32_t file_find(const struct file *file, const char *name, uint32_t length);

/** file_text_is_clean - return whether a text is UTF-8 without control characters. Pure. */
bool file_text_is_clean(const char *text, size_t bytes);

/** file_label - give the switches and nodes of a graph their labels. Errors: -ENOMEM. */
int file_label(struct topo_graph *graph, const struct file *file);

/** file_graph - build the graph without levels and routes. Errors: -EINVAL, -ENOMEM. */
int file_graph(struct topo_graph **ret, struct file *file);

#endif
