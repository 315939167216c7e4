/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * readers.c - all who can look at a running fabric, at the same time.
 */
#include "apps/bench/readers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/cli/say.h"
#include "apps/run/paths.h"
#include "apps/telemetry/serve.h"
#include "apps/web/web.h"
#include "emu/now.h"

#define SCRAPE_EVERY_MS 1000 /* Prometheus itself asks every 15 s, if nobody says otherwise */
#define FIRST_MS        10000
#define FIRST_LOOK_NS   2000000

/* --- connections ----------------------------------------------------------------------- */

static int send_text(int fd, const char *text)
{
    return send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text) ? 0 : -EPIPE;
}

static int subscribe(struct bench_readers *r, char *error, size_t error_bytes)
{
    char line[64];
    int err = paths_connect(&r->fd[READER_SUBSCRIBER], NULL, r->name, error, error_bytes);

    snprintf(line, sizeof line, "{\"cmd\":\"subscribe\",\"telemetry\":%u}\n",
             TELEMETRY_EVERY_LEAST_MS);
    return err ? err : send_text(r->fd[READER_SUBSCRIBER], line);
}

/* A request to the page's server. */
static int get(const struct bench_readers *r, const char *what, int *ret)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(r->web->port)};
    char request[256];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof to) < 0) {
        int err = -errno;

        if (fd >= 0)
            close(fd);
        return err;
    }
    snprintf(request, sizeof request,
             "GET /%s/%s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nConnection: close\r\n\r\n",
             r->web->token, what, r->web->port);
    *ret = fd;
    return send_text(fd, request);
}

/* --- the thread ------------------------------------------------------------------------ */

static uint64_t lines_in(const char *text, size_t bytes)
{
    uint64_t lines = 0;

    for (const char *at = text; (at = memchr(at, '\n', bytes - (size_t)(at - text))); at++)
        lines++;
    return lines;
}

/* Of a scrape the end of the connection is the end of the answer. */
static void at_end(struct bench_readers *r, int who)
{
    close(r->fd[who]);
    r->fd[who] = -1;
    if (who == READER_SCRAPER)
        atomic_fetch_add_explicit(&r->scrapes, r->answered, memory_order_relaxed);
    else
        snprintf(r->error, sizeof r->error, "the fabric ended a reader's connection");
}

/* Only what begins so has metrics. */
static void scraped(struct bench_readers *r, const char *text, size_t bytes)
{
    static const char good[] = "HTTP/1.1 200";

    if (!r->begun)
        r->answered = bytes >= sizeof good - 1 && memcmp(text, good, sizeof good - 1) == 0;
    r->begun = true;
}

static void take(struct bench_readers *r, int who)
{
    char text[65536];
    ssize_t got = recv(r->fd[who], text, sizeof text, MSG_DONTWAIT);

    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        at_end(r, who);
    else if (got > 0 && who == READER_SCRAPER)
        scraped(r, text, (size_t)got);
    else if (got > 0 && who == READER_SUBSCRIBER)
        atomic_fetch_add_explicit(&r->lines, lines_in(text, (size_t)got), memory_order_relaxed);
    else if (got > 0 && who == READER_PAGE)
        atomic_fetch_add_explicit(&r->streamed, (uint64_t)got, memory_order_relaxed);
}

/* The next scrape, if it is due. Returns how long there is until another one. */
static int scrape(struct bench_readers *r)
{
    uint64_t now_ms = (uint64_t)emu_now_ms();

    if (!r->web)
        return -1;
    if (now_ms >= r->scrape_ms && r->fd[READER_SCRAPER] < 0) {
        r->scrape_ms = now_ms + SCRAPE_EVERY_MS;
        r->begun = r->answered = false;
        if (get(r, "metrics", &r->fd[READER_SCRAPER]))
            snprintf(r->error, sizeof r->error, "the page's server does not answer");
    }
    return r->scrape_ms > now_ms ? (int)(r->scrape_ms - now_ms) : SCRAPE_EVERY_MS;
}

static void *readers_main(void *ctx)
{
    struct bench_readers *r = ctx;
    struct pollfd fds[READERS + 1];

    do {
        int wait_ms = scrape(r);

        for (int i = 0; i < READERS; i++)
            fds[i] = (struct pollfd){r->fd[i], POLLIN, 0};
        fds[READERS] = (struct pollfd){r->end_fd, POLLIN, 0};
        poll(fds, READERS + 1, wait_ms);
        for (int i = 0; i < READERS; i++)
            if (fds[i].revents)
                take(r, i);
    } while (!fds[READERS].revents);
    return NULL;
}

/* --- beginning and end ------------------------------------------------------------------ */

static int readers_connect(struct bench_readers *r, char *error, size_t error_bytes)
{
    int err = subscribe(r, error, error_bytes);

    if (!err && r->web)
        err = get(r, "stream", &r->fd[READER_PAGE]);
    if (!err)
        err = (r->end_fd = eventfd(0, EFD_CLOEXEC)) < 0 ? -errno : 0;
    return err;
}

static void readers_disconnect(struct bench_readers *r)
{
    for (int i = 0; i < READERS; i++)
        if (r->fd[i] >= 0)
            close(r->fd[i]);
    if (r->end_fd >= 0)
        close(r->end_fd);
}

/* Reply, shape and a snapshot; of all that the page has some is there as well, then. */
static bool has_begun(const struct bench_readers *r)
{
    return atomic_load_explicit(&r->lines, memory_order_relaxed) >= 3 &&
           (!r->web || (atomic_load_explicit(&r->streamed, memory_order_relaxed) &&
                        atomic_load_explicit(&r->scrapes, memory_order_relaxed)));
}

int bench_readers_open(struct bench_readers *r, const char *name, const struct web *web,
                       char *error, size_t error_bytes)
{
    int64_t until_ms = emu_now_ms() + FIRST_MS;
    int err;

    *r = (struct bench_readers){.name = name, .web = web, .fd = {-1, -1, -1}, .end_fd = -1};
    err = readers_connect(r, error, error_bytes);
    if (!err)
        err = -pthread_create(&r->thread, NULL, readers_main, r);
    if (err) {
        readers_disconnect(r);
        return fail(err, error, error_bytes, "cannot read the fabric: %s", strerror(-err));
    }
    while (!has_begun(r) && emu_now_ms() < until_ms)
        nanosleep(&(struct timespec){.tv_nsec = FIRST_LOOK_NS}, NULL);
    if (has_begun(r))
        return 0;
    bench_readers_close(r);
    return fail(-ETIMEDOUT, error, error_bytes, "no snapshot came%s%s", *r->error ? ": " : "",
                r->error);
}

void bench_readers_close(struct bench_readers *r)
{
    eventfd_write(r->end_fd, 1);
    pthread_join(r->thread, NULL);
    readers_disconnect(r);
}
