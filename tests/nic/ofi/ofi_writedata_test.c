/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_writedata_test.c - libfabric's writes with completion data: fi_writedata(),
 * fi_inject_writedata(), fi_writemsg() with FI_REMOTE_CQ_DATA; and FI_MR_BASIC, which some programs
 * need for them.
 *
 * Needs a fabric of at least two nodes: `fabemu run -- build/tests/…`. Most cases use two endpoints
 * of one process; in the last case a second process writes over the network.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "nic/ofi/versions.h"
#include "tests/test.h"
#include "tests/fixtures/bytes.h"
#include "tests/fixtures/ofi/fixture.h"

#define LARGEST (4u << 20)
#define WRITTEN (FI_REMOTE_WRITE | FI_RMA | FI_REMOTE_CQ_DATA)

/* Sizes around the most that one segment carries with its data, and sizes of many segments. */
static const size_t sizes[] = {0,   1,    8,     175,   176,    177,     191,    192,
                               193, 4096, 65535, 65536, 262144, 1000001, LARGEST};
#define SIZES (sizeof sizes / sizeof sizes[0])

static const struct ofi_fixture_config with_memory = {.caps = OFI_FIXTURE_CAPS_ALL | FI_RMA |
                                                              FI_ATOMIC,
                                                      .format = FI_CQ_FORMAT_DATA};

/* --- entries ------------------------------------------------------------------------ */

static struct fi_cq_data_entry data_entry(struct ofi_fixture_endpoint *end, fi_addr_t *source)
{
    struct fi_cq_data_entry entry = {0};

    CU_ASSERT_EQUAL_FATAL(ofi_fixture_entry_wait(end->cq, &entry, source), 1);
    return entry;
}

/* The next entry of @to must report a write of @bytes by @from. */
static void arrives(struct ofi_fixture_endpoint *to, const struct ofi_fixture_endpoint *from,
                    uint64_t data, size_t bytes)
{
    fi_addr_t source = FI_ADDR_NOTAVAIL;
    struct fi_cq_data_entry entry = data_entry(to, &source);

    CU_ASSERT_EQUAL(entry.flags, WRITTEN);
    CU_ASSERT_EQUAL(entry.data, data);
    CU_ASSERT_EQUAL(entry.len, bytes);
    CU_ASSERT_PTR_NULL(entry.op_context);
    CU_ASSERT_EQUAL(source, from->addr);
}

static void completes(struct ofi_fixture_endpoint *from, void *context)
{
    struct fi_cq_data_entry entry = data_entry(from, NULL);

    CU_ASSERT_EQUAL(entry.flags, FI_WRITE | FI_RMA);
    CU_ASSERT_PTR_EQUAL(entry.op_context, context);
}

static void completes_with(struct ofi_fixture_endpoint *from, int err)
{
    struct fi_cq_err_entry error = {0};
    struct fi_cq_data_entry entry;

    CU_ASSERT_EQUAL_FATAL(ofi_fixture_entry_wait(from->cq, &entry, NULL), -FI_EAVAIL);
    CU_ASSERT_EQUAL(fi_cq_readerr(from->cq, &error, 0), 1);
    CU_ASSERT_EQUAL(error.err, err);
}

/* Write 8 bytes with @data. */
static ssize_t write_8(struct ofi_fixture_endpoint *from, const struct ofi_fixture_endpoint *to,
                       struct fid_mr *mr, uint64_t data, void *context)
{
    static const char eight[8] = "eight..";

    return fi_writedata(from->ep, eight, 8, NULL, data, to->addr, 0, fi_mr_key(mr), context);
}

/* --- cases -------------------------------------------------------------------------- */

static void writedata__arrives_after_the_bytes_of_every_size(void)
{
    struct ofi_fixture fixture = ofi_fixture_open_with(&with_memory);
    unsigned char *window = calloc(1, LARGEST), *out = malloc(LARGEST);
    struct fid_mr *mr = ofi_fixture_window(&fixture, window, LARGEST);

    for (size_t i = 0; i < SIZES; i++) {
        bytes_fill(out, sizes[i], i);
        CU_ASSERT_EQUAL(fi_writedata(fixture.a.ep, out, sizes[i], NULL, (UINT64_MAX << 40) + i,
                                     fixture.b.addr, 0, fi_mr_key(mr), &out),
                        0);
        arrives(&fixture.b, &fixture.a, (UINT64_MAX << 40) + i, sizes[i]);
        CU_ASSERT(bytes_filled(window, sizes[i], i));
        completes(&fixture.a, &out);
    }
    CU_ASSERT(ofi_fixture_quiet(&fixture.a) && ofi_fixture_quiet(&fixture.b));
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    ofi_fixture_close(&fixture);
    free(window);
    free(out);
}

static void inject_writedata__has_no_local_entry(void)
{
    struct ofi_fixture fixture = ofi_fixture_open_with(&with_memory);
    static unsigned char window[4096], out[4097];
    struct fid_mr *mr = ofi_fixture_window(&fixture, window, sizeof window);

    for (size_t bytes = 0; bytes <= sizeof window; bytes += bytes < 256 ? 16 : 256) {
        bytes_fill(out, bytes, bytes);
        CU_ASSERT_EQUAL(fi_inject_writedata(fixture.a.ep, out, bytes, bytes, fixture.b.addr, 0,
                                            fi_mr_key(mr)),
                        0);
        memset(out, 0, sizeof out); /* we own the buffer again */
        arrives(&fixture.b, &fixture.a, bytes, bytes);
        CU_ASSERT(bytes_filled(window, bytes, bytes));
    }
    CU_ASSERT_EQUAL(fi_inject_writedata(fixture.a.ep, out, 4097, 1, fixture.b.addr, 0,
                                        fi_mr_key(mr)),
                    -FI_EMSGSIZE);
    CU_ASSERT(ofi_fixture_quiet(&fixture.a) && ofi_fixture_quiet(&fixture.b));
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    ofi_fixture_close(&fixture);
}

static void writemsg__carries_data_on_request(void)
{
    struct ofi_fixture fixture = ofi_fixture_open_with(&with_memory);
    unsigned char window[1000] = {0}, out[1000];
    struct fid_mr *mr = ofi_fixture_window(&fixture, window, sizeof window);
    struct iovec from[2] = {{out, 300}, {out + 300, 700}};
    struct fi_rma_iov there = {.len = 1000, .key = fi_mr_key(mr)};
    struct fi_msg_rma msg = {.msg_iov = from,
                             .iov_count = 2,
                             .addr = fixture.b.addr,
                             .rma_iov = &there,
                             .rma_iov_count = 1,
                             .context = &msg,
                             .data = 77};

    bytes_fill(out, sizeof out, 5);
    CU_ASSERT_EQUAL(fi_writemsg(fixture.a.ep, &msg, 0), 0);
    completes(&fixture.a, &msg);
    CU_ASSERT(ofi_fixture_quiet(&fixture.b));
    memset(window, 0, sizeof window);
    CU_ASSERT_EQUAL(fi_writemsg(fixture.a.ep, &msg, FI_REMOTE_CQ_DATA), 0);
    arrives(&fixture.b, &fixture.a, 77, 1000);
    CU_ASSERT(bytes_filled(window, sizeof window, 5));
    completes(&fixture.a, &msg);
    CU_ASSERT_EQUAL(fi_readmsg(fixture.a.ep, &msg, FI_REMOTE_CQ_DATA), -FI_EBADFLAGS);
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    ofi_fixture_close(&fixture);
}

/* Entries that a program has not read yet are queued in order, and consume no receive. */
static void writedata__is_queued_until_it_is_read(void)
{
    enum { COUNT = 3000 };
    struct ofi_fixture fixture = ofi_fixture_open_with(&with_memory);
    char window[8], in[8];
    struct fid_mr *mr = ofi_fixture_window(&fixture, window, sizeof window);
    uint64_t next = 0;
    bool received = false;

    CU_ASSERT_EQUAL(fi_recv(fixture.b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, in), 0);
    for (uint64_t i = 0; i < COUNT; i++) {
        CU_ASSERT_EQUAL_FATAL(write_8(&fixture.a, &fixture.b, mr, i, NULL), 0);
        completes(&fixture.a, NULL);
    }
    CU_ASSERT_EQUAL(fi_send(fixture.a.ep, window, 8, NULL, fixture.b.addr, NULL), 0);
    while (next < COUNT || !received) {
        struct fi_cq_data_entry entry[64];
        ssize_t got = fi_cq_read(fixture.b.cq, entry, 64);

        CU_ASSERT_FATAL(got > 0 || got == -FI_EAGAIN);
        for (ssize_t i = 0; i < got; i++) {
            if (entry[i].flags & FI_RECV) {
                CU_ASSERT(!received && entry[i].op_context == in);
                received = true;
                continue;
            }
            CU_ASSERT_EQUAL_FATAL(entry[i].flags, WRITTEN);
            CU_ASSERT_EQUAL_FATAL(entry[i].data, next++);
        }
    }
    CU_ASSERT(ofi_fixture_quiet(&fixture.b));
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    ofi_fixture_close(&fixture);
}

static void writedata__is_reported_by_a_selective_queue(void)
{
    struct ofi_fixture_config config = with_memory;
    char window[8];

    config.bind_flags = FI_SELECTIVE_COMPLETION;
    struct ofi_fixture fixture = ofi_fixture_open_with(&config);
    struct fid_mr *mr = ofi_fixture_window(&fixture, window, sizeof window);

    for (uint64_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(write_8(&fixture.a, &fixture.b, mr, i, NULL), 0);
        arrives(&fixture.b, &fixture.a, i, 8);
    }
    CU_ASSERT(ofi_fixture_quiet(&fixture.a));
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    ofi_fixture_close(&fixture);
}

/* If the target's queue format cannot hold the data, the write is refused before it writes. */
static void writedata__is_refused_if_entries_cannot_hold_it(void)
{
    static const enum fi_cq_format formats[] = {FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_MSG};

    for (unsigned i = 0; i < 2; i++) {
        struct ofi_fixture_config config = with_memory;
        char window[8] = "before", out[8] = "after";
        struct ofi_fixture_endpoint source = {0};

        config.format = formats[i];
        struct ofi_fixture fixture = ofi_fixture_open_with(&config);
        struct fid_mr *mr = ofi_fixture_window(&fixture, window, sizeof window);

        CU_ASSERT_FATAL(ofi_fixture_endpoint_open(&fixture, &source, &with_memory));
        CU_ASSERT_EQUAL(write_8(&source, &fixture.b, mr, 1, NULL), 0);
        completes_with(&source, FI_EOPNOTSUPP);
        CU_ASSERT_STRING_EQUAL(window, "before");
        CU_ASSERT_EQUAL(fi_write(source.ep, out, 8, NULL, fixture.b.addr, 0, fi_mr_key(mr), NULL),
                        0);
        completes(&source, NULL);
        CU_ASSERT_STRING_EQUAL(window, "after");
        CU_ASSERT(ofi_fixture_quiet(&fixture.b));
        CU_ASSERT(ofi_fixture_endpoint_close(&source));
        CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
        ofi_fixture_close(&fixture);
    }
}

static void writedata__is_refused_without_cq_data_size(void)
{
    struct ofi_fixture_config config = with_memory;
    char window[8] = "before";

    config.no_cq_data = true;
    struct ofi_fixture fixture = ofi_fixture_open_with(&config);
    struct fid_mr *mr = ofi_fixture_window(&fixture, window, sizeof window);
    uint64_t key = fi_mr_key(mr);

    CU_ASSERT_EQUAL(write_8(&fixture.a, &fixture.b, mr, 1, NULL), -FI_EOPNOTSUPP);
    CU_ASSERT_EQUAL(fi_inject_writedata(fixture.a.ep, "after", 6, 1, fixture.b.addr, 0, key),
                    -FI_EOPNOTSUPP);
    CU_ASSERT_EQUAL(fi_senddata(fixture.a.ep, "after", 6, NULL, 1, fixture.b.addr, NULL),
                    -FI_EOPNOTSUPP);
    CU_ASSERT_EQUAL(fi_tinjectdata(fixture.a.ep, "after", 6, 1, fixture.b.addr, 1), -FI_EOPNOTSUPP);
    CU_ASSERT_STRING_EQUAL(window, "before");
    CU_ASSERT_EQUAL(fi_inject_write(fixture.a.ep, "after", 6, fixture.b.addr, 0, key), 0);
    CU_ASSERT_EQUAL(fi_read(fixture.a.ep, window, 0, NULL, fixture.b.addr, 0, key, NULL), 0);
    data_entry(&fixture.a, NULL);
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    ofi_fixture_close(&fixture);
}

static void writedata__to_a_closed_endpoint_fails(void)
{
    struct ofi_fixture fixture = ofi_fixture_open_with(&with_memory);
    char window[8];
    struct fid_mr *mr = ofi_fixture_window(&fixture, window, sizeof window);
    struct ofi_fixture_endpoint c = {0};

    CU_ASSERT_FATAL(ofi_fixture_endpoint_open(&fixture, &c, &with_memory));
    CU_ASSERT_EQUAL(write_8(&fixture.a, &c, mr, 1, NULL), 0); /* its entry is never read */
    completes(&fixture.a, NULL);
    CU_ASSERT(ofi_fixture_endpoint_close(&c));
    CU_ASSERT_EQUAL(write_8(&fixture.a, &c, mr, 1, NULL), 0);
    completes_with(&fixture.a, FI_EOPNOTSUPP);
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    ofi_fixture_close(&fixture);
}

/* --- threads ------------------------------------------------------------------------ */

#define THREADS 3u
#define EACH    2000u

/* Several threads write to one endpoint, and several threads read its queue. */
struct threads {
    struct ofi_fixture *fixture;
    struct fid_mr *mr;
    struct ofi_fixture_endpoint writer[THREADS];
    _Atomic uint32_t writers; /* writers that have started: each takes the next index */
    _Atomic uint32_t read;
    _Atomic uint8_t seen[THREADS * EACH];
    _Atomic bool closed; /* the endpoint is closed, but the readers go on */
};

/* Returns false if objects are for one thread only in this run; nothing was opened. */
static bool threads_open(struct threads *threads, struct ofi_fixture *fixture)
{
    static char window[8];

    if (ofi_fixture_is_serial())
        return false;
    *fixture = ofi_fixture_open_with(&with_memory);
    *threads = (struct threads){.fixture = fixture,
                                .mr = ofi_fixture_window(fixture, window, sizeof window)};
    return true;
}

static void *threads_write(void *arg)
{
    struct threads *threads = arg;
    uint32_t index = atomic_fetch_add(&threads->writers, 1);
    struct ofi_fixture_endpoint *me = &threads->writer[index];
    struct fi_cq_data_entry entry;

    for (uint32_t i = 0; i < EACH; i++)
        if (write_8(me, &threads->fixture->b, threads->mr, index * EACH + i, NULL) ||
            ofi_fixture_entry_wait(me->cq, &entry, NULL) != 1)
            return "a write failed";
    return NULL;
}

static void *threads_read(void *arg)
{
    struct threads *threads = arg;
    struct fi_cq_data_entry entry[8];

    while (atomic_load(&threads->read) < THREADS * EACH) {
        ssize_t got = fi_cq_read(threads->fixture->b.cq, entry, 8);

        if (got < 0 && got != -FI_EAGAIN)
            return "a read failed";
        for (ssize_t i = 0; i < got; i++)
            atomic_fetch_add(&threads->seen[entry[i].data % (THREADS * EACH)], 1);
        if (got > 0)
            atomic_fetch_add(&threads->read, (uint32_t)got);
    }
    return NULL;
}

static void writedata__of_threads_is_read_once_by_threads(void)
{
    static struct threads threads;
    struct ofi_fixture fixture;
    pthread_t thread[2 * THREADS];
    void *failed;

    if (!threads_open(&threads, &fixture))
        return;
    for (unsigned i = 0; i < THREADS; i++)
        CU_ASSERT_FATAL(ofi_fixture_endpoint_open(&fixture, &threads.writer[i], &with_memory));
    for (unsigned i = 0; i < 2 * THREADS; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread[i], NULL, i % 2 ? threads_read : threads_write,
                                             &threads),
                              0);
    for (unsigned i = 0; i < 2 * THREADS; i++) {
        CU_ASSERT_EQUAL(pthread_join(thread[i], &failed), 0);
        CU_ASSERT_PTR_NULL(failed);
    }
    for (uint32_t i = 0; i < THREADS * EACH; i++)
        CU_ASSERT_EQUAL_FATAL(threads.seen[i], 1);
    for (unsigned i = 0; i < THREADS; i++)
        CU_ASSERT(ofi_fixture_endpoint_close(&threads.writer[i]));
    CU_ASSERT_EQUAL(fi_close(&threads.mr->fid), 0);
    ofi_fixture_close(&fixture);
}

static void *read_on(void *arg)
{
    struct threads *threads = arg;
    struct fi_cq_data_entry entry[8];
    ssize_t got;

    while (!atomic_load(&threads->closed)) {
        got = fi_cq_read(threads->fixture->b.cq, entry, 8);
        if (got < 0 && got != -FI_EAGAIN)
            return "a read failed";
    }
    return NULL;
}

/* Closing an endpoint does not disturb a reader of its queue. */
static void close__while_a_thread_reads_the_queue(void)
{
    static struct threads threads;
    struct ofi_fixture fixture;
    struct fi_cq_data_entry entry;
    pthread_t thread;
    void *failed;

    if (!threads_open(&threads, &fixture))
        return;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, read_on, &threads), 0);
    for (unsigned round = 0; round < 200; round++) {
        struct ofi_fixture_endpoint c = {0};

        CU_ASSERT_FATAL(ofi_fixture_endpoint_open(&fixture, &c, &with_memory));
        fi_close(&c.ep->fid);
        CU_ASSERT_FATAL(!fi_endpoint(fixture.domain, fixture.info, &c.ep, NULL) &&
                        !fi_ep_bind(c.ep, &fixture.av->fid, 0) &&
                        !fi_ep_bind(c.ep, &fixture.b.cq->fid, FI_TRANSMIT | FI_RECV) &&
                        !fi_enable(c.ep));
        size_t bytes = sizeof c.name;

        CU_ASSERT_EQUAL(fi_getname(&c.ep->fid, c.name, &bytes), 0);
        CU_ASSERT_EQUAL_FATAL(fi_av_insert(fixture.av, c.name, 1, &c.addr, 0, NULL), 1);
        for (unsigned i = 0; i < 4; i++)
            CU_ASSERT_EQUAL_FATAL(write_8(&fixture.a, &c, threads.mr, i, NULL), 0);
        CU_ASSERT(ofi_fixture_endpoint_close(&c));
        for (unsigned i = 0; i < 4; i++)
            if (ofi_fixture_entry_wait(fixture.a.cq, &entry, NULL) == -FI_EAVAIL) {
                struct fi_cq_err_entry error = {0};

                CU_ASSERT_EQUAL(fi_cq_readerr(fixture.a.cq, &error, 0), 1);
                CU_ASSERT(error.err == FI_EOPNOTSUPP || error.err == FI_ECANCELED);
            }
    }
    atomic_store(&threads.closed, true);
    CU_ASSERT_EQUAL(pthread_join(thread, &failed), 0);
    CU_ASSERT_PTR_NULL(failed);
    CU_ASSERT_EQUAL(fi_close(&threads.mr->fid), 0);
    ofi_fixture_close(&fixture);
}

/* --- FI_MR_BASIC -------------------------------------------------------------------- */

/*
 * With hints of version 1.4 that require it or leave it open, and of version 1.5 that require it.
 */
static void basic__names_memory_by_its_address(void)
{
    static const struct {
        uint32_t version;
        int mr_mode;
    } wants[] = {{FI_VERSION(1, 4), OFI_MR_BASIC}, {FI_VERSION(1, 5), OFI_MR_BASIC}};

    for (unsigned i = 0; i < 2; i++) {
        struct ofi_fixture_config config = with_memory;
        static _Alignas(8) uint64_t window[8];
        uint64_t out[2] = {11, 22}, in[2] = {0}, one = 1, at = (uintptr_t)&window[4];

        memset(window, 0, sizeof window);
        config.version = wants[i].version;
        config.mr_mode = wants[i].mr_mode;
        struct ofi_fixture fixture = ofi_fixture_open_with(&config);
        struct fid_mr *mr = ofi_fixture_window(&fixture, window, sizeof window);
        uint64_t key = fi_mr_key(mr);

        CU_ASSERT_EQUAL(fixture.info->domain_attr->mr_mode, OFI_MR_BASIC);
        CU_ASSERT_EQUAL(fi_writedata(fixture.a.ep, out, 16, NULL, 9, fixture.b.addr, at, key, NULL),
                        0);
        arrives(&fixture.b, &fixture.a, 9, 16);
        completes(&fixture.a, NULL);
        CU_ASSERT(window[4] == 11 && window[5] == 22 && !window[0]);
        CU_ASSERT_EQUAL(fi_atomic(fixture.a.ep, &one, 1, NULL, fixture.b.addr, at, key, FI_UINT64,
                                  FI_SUM, NULL),
                        0);
        data_entry(&fixture.a, NULL);
        CU_ASSERT_EQUAL(fi_read(fixture.a.ep, in, 16, NULL, fixture.b.addr, at, key, NULL), 0);
        data_entry(&fixture.a, NULL);
        CU_ASSERT(in[0] == 12 && in[1] == 22);
        CU_ASSERT_EQUAL(fi_write(fixture.a.ep, out, 8, NULL, fixture.b.addr, 0, key, NULL), 0);
        completes_with(&fixture.a, FI_EACCES); /* an offset is not an address */
        CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
        ofi_fixture_close(&fixture);
    }
}

/* --- another process ---------------------------------------------------------------- */

#define ROUNDS 8u

struct hello {
    char name[OFI_FIXTURE_ADDR_BYTES];
    uint64_t key;
};

static struct {
    pid_t pid;
    int to, from; /* pipes */
} writer;         /* set by main() before the cases run */

/*
 * Write all sizes, several at a time, each to its own part of the window. No CU_ASSERT here: it
 * runs in another process.
 */
static int writer_main(int to, int from)
{
    unsigned char *out[SIZES];
    struct fi_cq_data_entry entry;
    struct hello theirs;
    struct ofi_fixture fixture;
    fi_addr_t peer;
    char word;

    if (read(from, &theirs, sizeof theirs) != sizeof theirs) /* no writer is needed */
        return 0;
    if (!ofi_fixture_try_open(&fixture, &with_memory) ||
        fi_av_insert(fixture.av, theirs.name, 1, &peer, 0, NULL) != 1)
        return 1;
    for (size_t i = 0; i < SIZES; i++)
        out[i] = malloc(sizes[i] + 1);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < SIZES; i++) {
            bytes_fill(out[i], sizes[i], round + i);
            if (fi_writedata(fixture.a.ep, out[i], sizes[i], NULL, round * SIZES + i, peer,
                             i * LARGEST, theirs.key, NULL))
                return 2;
        }
        for (size_t i = 0; i < SIZES; i++)
            if (ofi_fixture_entry_wait(fixture.a.cq, &entry, NULL) != 1)
                return 3;
        if (write(to, "", 1) != 1 || read(from, &word, 1) != 1)
            return 4;
    }
    for (size_t i = 0; i < SIZES; i++)
        free(out[i]);
    return ofi_fixture_try_close(&fixture) ? 0 : 5;
}

static void writer_start(void)
{
    int there[2], back[2];

    if (pipe(there) || pipe(back))
        exit(2);
    writer.pid = fork();
    writer.to = there[1];
    writer.from = back[0];
    if (writer.pid == 0) {
        close(there[1]);
        close(back[0]);
        _exit(writer_main(back[1], there[0]));
    }
    close(there[0]);
    close(back[1]);
}

/* There must be one entry of each size, in any order, each after its bytes. */
static void round_arrives(struct ofi_fixture *fixture, const unsigned char *window, unsigned round)
{
    bool arrived[SIZES] = {false};

    for (size_t n = 0; n < SIZES; n++) {
        struct fi_cq_data_entry entry = data_entry(&fixture->a, NULL);
        size_t i = entry.data - round * SIZES;

        CU_ASSERT_FATAL(i < SIZES && !arrived[i]);
        arrived[i] = true;
        CU_ASSERT(entry.flags == WRITTEN && entry.len == sizes[i]);
        CU_ASSERT(bytes_filled(window + i * LARGEST, sizes[i], round + i));
    }
}

static void writedata__of_another_process_arrives_after_its_bytes(void)
{
    struct ofi_fixture fixture = ofi_fixture_open_with(&with_memory);
    unsigned char *window = calloc(SIZES, LARGEST);
    struct fid_mr *mr = ofi_fixture_window(&fixture, window, (size_t)SIZES * LARGEST);
    struct hello mine = {.key = fi_mr_key(mr)};
    int status = 1;
    char word;

    memcpy(mine.name, fixture.a.name, sizeof mine.name);
    CU_ASSERT_EQUAL_FATAL(write(writer.to, &mine, sizeof mine), sizeof mine);
    for (unsigned round = 0; round < ROUNDS; round++) {
        round_arrives(&fixture, window, round);
        CU_ASSERT_EQUAL_FATAL(read(writer.from, &word, 1), 1);
        CU_ASSERT_EQUAL_FATAL(write(writer.to, "", 1), 1);
    }
    CU_ASSERT_EQUAL(waitpid(writer.pid, &status, 0), writer.pid);
    CU_ASSERT_EQUAL(status, 0);
    CU_ASSERT(ofi_fixture_quiet(&fixture.a));
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    ofi_fixture_close(&fixture);
    free(window);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(writedata__arrives_after_the_bytes_of_every_size),
        CASE(inject_writedata__has_no_local_entry),
        CASE(writemsg__carries_data_on_request),
        CASE(writedata__is_queued_until_it_is_read),
        CASE(writedata__is_reported_by_a_selective_queue),
        CASE(writedata__is_refused_if_entries_cannot_hold_it),
        CASE(writedata__is_refused_without_cq_data_size),
        CASE(writedata__to_a_closed_endpoint_fails),
        CASE(writedata__of_threads_is_read_once_by_threads),
        CASE(close__while_a_thread_reads_the_queue),
        CASE(basic__names_memory_by_its_address),
        CASE(writedata__of_another_process_arrives_after_its_bytes),
        {0},
    };

    if (!getenv("FABEMU_SOCKET")) {
        fprintf(stderr, "ofi_writedata_test: no fabric; start it under `fabemu run --`\n");
        return 2;
    }
    writer_start();
    return test_run("ofi_writedata", cases);
}
