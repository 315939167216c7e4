/* SPDX-License-Identifier: BSD-3-Clause */
/* log.c - filter DPDK's log. Errors become part of our error texts, and warnings go to stderr. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <rte_log.h>

#include "emu/hostlink/dpdk/dpdk.h"

/* Global because DPDK has one log per process. */
static struct {
    pthread_mutex_t lock;
    bool keep;
    char line[DPDK_LOG_CHARS]; /* first line since dpdk_log_keep(true), without its newline */
    char kernel[100];          /* why the kernel rejected an XDP program; "": it did not */
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Receive a line of DPDK's log, or a part of a long one: the stream is line buffered. */
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

    if (stream && setvbuf(stream, NULL, _IOLBF, 0) == 0 && rte_openlog_stream(stream) == 0)
        return 0;
    if (stream)
        fclose(stream);
    return -ENOMEM;
}

void dpdk_log_keep(bool keep)
{
    pthread_mutex_lock(&kept.lock);
    kept.keep = keep;
    if (keep)
        kept.line[0] = kept.kernel[0] = '\0';
    pthread_mutex_unlock(&kept.lock);
    rte_log_set_global_level(keep ? RTE_LOG_ERR : RTE_LOG_WARNING);
    /* no warning about a missing memif server, because its host may start later */
    rte_log_set_level_pattern("pmd.net.memif", keep ? RTE_LOG_ERR : RTE_LOG_CRIT);
}

void dpdk_log_kept(char ret[static DPDK_LOG_CHARS])
{
    pthread_mutex_lock(&kept.lock);
    snprintf(ret, DPDK_LOG_CHARS, "%s", kept.kernel[0] ? kept.kernel : kept.line);
    pthread_mutex_unlock(&kept.lock);
}

typedef int print_fn(int level, const char *format, va_list args);

/*
 * Receive the messages of libbpf and libxdp, which otherwise would go to stderr. Keep only the
 * message that says why the kernel rejected a program.
 */
static int library_print(int level, const char *format, va_list args)
{
    static const char refused[] = "Kernel error message: ";
    char line[200];

    (void)level;
    vsnprintf(line, sizeof line, format, args);
    const char *why = strstr(line, refused);
    pthread_mutex_lock(&kept.lock);
    if (why && kept.keep)
        snprintf(kept.kernel, sizeof kept.kernel, "%.*s", (int)strcspn(why + strlen(refused), "\n"),
                 why + strlen(refused));
    pthread_mutex_unlock(&kept.lock);
    return 0;
}

void dpdk_log_libraries(void)
{
    static const char *const libraries[][2] = {{"libbpf.so.1", "libbpf_set_print"},
                                               {"libxdp.so.1", "libxdp_set_print"}};

    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
        void *library = dlopen(libraries[i][0], RTLD_NOW | RTLD_NOLOAD);
        if (!library)
            continue;
        print_fn *(*set)(print_fn *) = (print_fn * (*)(print_fn *)) dlsym(library, libraries[i][1]);
        if (set)
            set(library_print);
        dlclose(library); /* the library stays loaded, because DPDK's driver uses it */
    }
}
