/* SPDX-License-Identifier: BSD-3-Clause */
/* log.c - what DPDK says: errors become part of ours, warnings go to stderr, the rest nowhere. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <rte_log.h>

#include "emu/hostlink/dpdk/dpdk.h"

/* DPDK has one log, so this is the process's. */
static struct {
    pthread_mutex_t lock;
    bool keep;
    char line[200]; /* the first since keeping began, without its newline */
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The stream is line buffered: @text is a line, or what is left of one. */
static ssize_t log_write(void *cookie, const char *text, size_t bytes)
{
    size_t length = bytes;

    (void)cookie;
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == ' '))
        length--;
    pthread_mutex_lock(&kept.lock);
    if (!kept.keep && length > 0)
        fprintf(stderr, "fabemu: DPDK: %.*s\n", (int)length, text);
    else if (length > 0 && !kept.line[0])
        snprintf(kept.line, sizeof kept.line, "%.*s", (int)length, text);
    pthread_mutex_unlock(&kept.lock);
    return (ssize_t)bytes;
}

int dpdk_log_open(void)
{
    FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = log_write});

    if (!stream || setvbuf(stream, NULL, _IOLBF, 0) != 0 || rte_openlog_stream(stream) != 0)
        return -ENOMEM;
    return 0;
}

void dpdk_log_keep(bool keep)
{
    pthread_mutex_lock(&kept.lock);
    kept.keep = keep;
    if (keep)
        kept.line[0] = '\0';
    pthread_mutex_unlock(&kept.lock);
    rte_log_set_global_level(keep ? RTE_LOG_ERR : RTE_LOG_WARNING);
}

const char *dpdk_log_kept(void)
{
    return kept.line;
}
