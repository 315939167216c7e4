/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_shared_test.c - address vectors that processes of a host share by name.
 *
 * Needs a fabric of at least four nodes: `fabemu run -- build/tests/…`. The cases that use other
 * processes start them before this process attaches.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_tagged.h>

#include "tests/test.h"
#include "tests/fixtures/ofi/fixture.h"

/* struct ofi_table: where the counts and the peers are */
#define TABLE_COUNT_AT 16
#define TABLE_PEERS_AT (4096 + 8 * (1 << 20))

static struct fi_av_attr shared_attr(const char *name, uint64_t flags)
{
    return (struct fi_av_attr){.type = FI_AV_TABLE, .name = name, .flags = flags};
}

static int shared_open(struct ofi_fixture *fixture, const char *name, uint64_t flags,
                       struct fid_av **ret, const fi_addr_t **map)
{
    struct fi_av_attr attr = shared_attr(name, flags);
    int err = fi_av_open(fixture->domain, &attr, ret, NULL);

    if (!err && map)
        *map = attr.map_addr;
    return err;
}

/* Write the path of the file of a shared vector whose name has only letters and digits. */
static const char *path_of(const char *name, char path[256])
{
    const char *socket = getenv("FABEMU_SOCKET");

    snprintf(path, 256, "%.*s.%s.av", (int)(strlen(socket) - strlen(".sock")), socket, name);
    return path;
}

static bool exists(const char *name)
{
    struct stat st;
    char path[256];

    return lstat(path_of(name, path), &st) == 0;
}

static void insert_node(struct fid_av *av, const char *node, fi_addr_t want)
{
    fi_addr_t addr;

    CU_ASSERT_EQUAL(fi_av_insertsvc(av, node, "300", &addr, 0, NULL), 1);
    CU_ASSERT_EQUAL(addr, want);
}

static uint32_t node_at(struct fid_av *av, fi_addr_t addr)
{
    char name[OFI_FIXTURE_ADDR_BYTES];
    size_t bytes = sizeof name;
    uint32_t node = UINT32_MAX;

    if (fi_av_lookup(av, addr, name, &bytes) == 0)
        memcpy(&node, name, sizeof node);
    return node;
}

static void shared__all_see_what_one_inserts(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    struct fid_av *one, *two, *reader;
    const fi_addr_t *map = NULL;
    fi_addr_t addr = 0;

    CU_ASSERT_EQUAL(shared_open(&fixture, "all", FI_READ, &reader, NULL), -FI_ENOENT);
    CU_ASSERT_EQUAL_FATAL(shared_open(&fixture, "all", 0, &one, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(shared_open(&fixture, "all", FI_READ, &reader, &map), 0);
    insert_node(one, "1", 0);
    CU_ASSERT_EQUAL_FATAL(shared_open(&fixture, "all", 0, &two, NULL), 0);
    insert_node(two, "2", 1);
    CU_ASSERT_TRUE(map[0] == 0 && map[1] == 1);
    CU_ASSERT_TRUE(node_at(one, 1) == 2 && node_at(reader, 0) == 1 && node_at(reader, 1) == 2);
    CU_ASSERT_EQUAL(fi_av_insertsvc(reader, "1", "300", &addr, 0, NULL), -FI_EACCES);
    CU_ASSERT_EQUAL(fi_av_remove(reader, &addr, 1, 0), -FI_EACCES);
    CU_ASSERT_EQUAL(fi_av_remove(two, &addr, 1, 0), 0);
    CU_ASSERT_EQUAL(node_at(one, 0), UINT32_MAX);
    insert_node(one, "3", 0);
    CU_ASSERT_EQUAL(node_at(reader, 0), 3);
    CU_ASSERT_EQUAL(fi_close(&one->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&two->fid), 0);
    CU_ASSERT_TRUE(exists("all"));
    CU_ASSERT_EQUAL(node_at(reader, 1), 2);
    CU_ASSERT_EQUAL(fi_close(&reader->fid), 0);
    CU_ASSERT_FALSE(exists("all"));
    ofi_fixture_close(&fixture);
}

/* More entries than one chunk of memory holds. */
static void shared__grows(void)
{
    enum { COUNT = 3000 };
    struct ofi_fixture fixture = ofi_fixture_open();
    fi_addr_t *addr = calloc(COUNT, sizeof *addr);
    const fi_addr_t *map = NULL;
    struct fid_av *av;

    CU_ASSERT_EQUAL_FATAL(shared_open(&fixture, "grows", 0, &av, &map), 0);
    CU_ASSERT_EQUAL(fi_av_insertsym(av, "1", 1, "300", COUNT, addr, 0, NULL), COUNT);
    for (unsigned i = 0; i < COUNT; i++)
        CU_ASSERT_TRUE(addr[i] == i && map[i] == i);
    CU_ASSERT_EQUAL(node_at(av, COUNT - 1), 1);
    CU_ASSERT_EQUAL(fi_close(&av->fid), 0);
    free(addr);
    ofi_fixture_close(&fixture);
}

/* The source of a message is found at an index that another user of the vector has given it. */
static void shared__finds_sources(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    struct ofi_fixture_endpoint end = {0};
    struct fid_av *own = fixture.av, *one;
    struct fi_cq_tagged_entry entry;
    fi_addr_t source, to, addr[2] = {0, 1};

    CU_ASSERT_EQUAL_FATAL(shared_open(&fixture, "sources", 0, &fixture.av, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(shared_open(&fixture, "sources", 0, &one, NULL), 0);
    CU_ASSERT_TRUE_FATAL(ofi_fixture_endpoint_open(&fixture, &end, &ofi_fixture_plain));
    CU_ASSERT_EQUAL(fi_av_insert(own, end.name, 1, &to, 0, NULL), 1);
    CU_ASSERT_EQUAL(fi_av_remove(one, &end.addr, 1, 0), 0);
    for (unsigned i = 0; i < 6; i++) { /* the source is at index 0 and 1 in turn */
        if (i % 2)
            insert_node(one, "1", 0);
        CU_ASSERT_EQUAL(fi_av_insert(one, fixture.a.name, 1, &source, 0, NULL), 1);
        CU_ASSERT_EQUAL(source, i % 2);
        if (i % 2 == 0)
            insert_node(one, "1", 1);
        CU_ASSERT_EQUAL(fi_trecv(end.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, i, 0, NULL), 0);
        CU_ASSERT_EQUAL(ofi_fixture_inject(&fixture.a, NULL, 0, 0, to, i), 0);
        CU_ASSERT_EQUAL(ofi_fixture_entry_wait(end.cq, &entry, &source), 1);
        CU_ASSERT_EQUAL(source, i % 2);
        CU_ASSERT_EQUAL(fi_av_remove(one, addr, 2, 0), 0);
    }
    CU_ASSERT_TRUE(ofi_fixture_endpoint_close(&end));
    CU_ASSERT_EQUAL(fi_close(&one->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&fixture.av->fid), 0);
    fixture.av = own;
    ofi_fixture_close(&fixture);
}

static void shared__names_are_no_paths(void)
{
    static const char *const good[] = {"../x", "/tmp/x", "a b", ".", "%", "\xff", "x.y"};
    char longest[66];
    struct ofi_fixture fixture = ofi_fixture_open();
    struct fid_av *av;

    for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++) {
        CU_ASSERT_EQUAL_FATAL(shared_open(&fixture, good[i], 0, &av, NULL), 0);
        CU_ASSERT_EQUAL(fi_close(&av->fid), 0);
    }
    memset(longest, '/', sizeof longest);
    longest[65] = '\0';
    CU_ASSERT_EQUAL(shared_open(&fixture, longest, 0, &av, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(shared_open(&fixture, "", 0, &av, NULL), -FI_EINVAL);
    longest[64] = '\0';
    CU_ASSERT_EQUAL(shared_open(&fixture, longest, 0, &av, NULL), 0);
    CU_ASSERT_EQUAL(fi_close(&av->fid), 0);
    ofi_fixture_close(&fixture);
}

/* --- files that are not as they should be ------------------------------------------- */

static void write_file(const char *path, const void *bytes, size_t count)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    CU_ASSERT_TRUE_FATAL(fd >= 0);
    CU_ASSERT_EQUAL(write(fd, bytes, count), (ssize_t)count);
    close(fd);
}

/* Nobody's file is overwritten, and what is no file is not opened. */
static void shared__refuses_what_is_no_table(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    struct fid_av *av;
    struct stat st;
    char path[256];

    path_of("foreign", path);
    write_file(path, "some text of the user", 21);
    CU_ASSERT_EQUAL(shared_open(&fixture, "foreign", 0, &av, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(shared_open(&fixture, "foreign", FI_READ, &av, NULL), -FI_EINVAL);
    CU_ASSERT_TRUE(stat(path, &st) == 0 && st.st_size == 21);
    write_file(path, "short", 5);
    CU_ASSERT_EQUAL(shared_open(&fixture, "foreign", 0, &av, NULL), -FI_EINVAL);
    chmod(path, 0666);
    CU_ASSERT_EQUAL(shared_open(&fixture, "foreign", 0, &av, NULL), -FI_EACCES);
    unlink(path);
    CU_ASSERT_EQUAL_FATAL(symlink("/dev/null", path), 0);
    CU_ASSERT_TRUE(shared_open(&fixture, "foreign", 0, &av, NULL) < 0);
    unlink(path);
    CU_ASSERT_EQUAL_FATAL(mkfifo(path, 0600), 0);
    CU_ASSERT_EQUAL(shared_open(&fixture, "foreign", 0, &av, NULL), -FI_EACCES);
    unlink(path);
    CU_ASSERT_EQUAL_FATAL(mkdir(path, 0700), 0);
    CU_ASSERT_TRUE(shared_open(&fixture, "foreign", 0, &av, NULL) < 0);
    rmdir(path);
    ofi_fixture_close(&fixture);
}

/* Copy the first @bytes of the file of the vector "live" to that of "dead", and set its size. */
static void leave_behind(size_t bytes, off_t size)
{
    char path[256], *copy = calloc(1, bytes ? bytes : 1);
    int fd = open(path_of("live", path), O_RDONLY);

    CU_ASSERT_EQUAL(read(fd, copy, bytes), (ssize_t)bytes);
    close(fd);
    write_file(path_of("dead", path), copy, bytes);
    CU_ASSERT_EQUAL(truncate(path, size), 0);
    free(copy);
}

/*
 * A file that killed processes have left behind, complete or not, is empty for the next process,
 * and absent for a reader.
 */
static void shared__ends_with_its_processes(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    struct fid_av *live, *av;
    struct stat st;
    char path[256];

    CU_ASSERT_EQUAL_FATAL(shared_open(&fixture, "live", 0, &live, NULL), 0);
    insert_node(live, "1", 0);
    CU_ASSERT_EQUAL_FATAL(stat(path_of("live", path), &st), 0);
    for (unsigned i = 0; i < 3; i++) {
        const size_t bytes[] = {0, 16, TABLE_PEERS_AT + 4096};
        const off_t size[] = {0, 16, st.st_size};

        leave_behind(bytes[i], size[i]);
        CU_ASSERT_EQUAL(shared_open(&fixture, "dead", FI_READ, &av, NULL), -FI_ENOENT);
        CU_ASSERT_FALSE(exists("dead"));
        leave_behind(bytes[i], size[i]);
        CU_ASSERT_EQUAL_FATAL(shared_open(&fixture, "dead", 0, &av, NULL), 0);
        CU_ASSERT_EQUAL(node_at(av, 0), UINT32_MAX);
        insert_node(av, "2", 0);
        CU_ASSERT_EQUAL(fi_close(&av->fid), 0);
    }
    CU_ASSERT_EQUAL(node_at(live, 0), 1);
    CU_ASSERT_EQUAL(fi_close(&live->fid), 0);
    ofi_fixture_close(&fixture);
}

/* A table in use is checked, too: its size, its magic number and its fabric. */
static void shared__refuses_a_damaged_table(void)
{
    static const uint64_t zero;
    uint64_t magic;
    struct ofi_fixture fixture = ofi_fixture_open();
    struct fid_av *av, *other;
    struct stat st;
    char path[256];
    int fd;

    CU_ASSERT_EQUAL_FATAL(shared_open(&fixture, "damaged", 0, &av, NULL), 0);
    fd = open(path_of("damaged", path), O_RDWR);
    CU_ASSERT_EQUAL_FATAL(fstat(fd, &st), 0);
    CU_ASSERT_EQUAL(ftruncate(fd, st.st_size - 1), 0);
    CU_ASSERT_EQUAL(shared_open(&fixture, "damaged", 0, &other, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(ftruncate(fd, st.st_size + 1), 0);
    CU_ASSERT_EQUAL(shared_open(&fixture, "damaged", FI_READ, &other, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(ftruncate(fd, st.st_size), 0);
    CU_ASSERT_EQUAL(pwrite(fd, &zero, sizeof zero, 8), sizeof zero);
    CU_ASSERT_EQUAL(shared_open(&fixture, "damaged", 0, &other, NULL), -FI_EBUSY);
    CU_ASSERT_EQUAL(pread(fd, &magic, sizeof magic, 0), sizeof magic);
    CU_ASSERT_EQUAL(pwrite(fd, &zero, sizeof zero, 0), sizeof zero);
    CU_ASSERT_EQUAL(shared_open(&fixture, "damaged", 0, &other, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(pwrite(fd, &magic, sizeof magic, 0), sizeof magic);
    close(fd);
    CU_ASSERT_EQUAL(fi_close(&av->fid), 0);
    CU_ASSERT_FALSE(exists("damaged"));
    ofi_fixture_close(&fixture);
}

/* Whatever another process writes into the table, calls end, and with an error or a result. */
static void shared__survives_hostile_contents(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    struct ofi_fixture_endpoint end = {0};
    struct fid_av *own = fixture.av;
    uint64_t random = test_seed();
    char path[256];
    unsigned char *memory;
    fi_addr_t to;
    int fd;

    CU_ASSERT_EQUAL_FATAL(shared_open(&fixture, "hostile", 0, &fixture.av, NULL), 0);
    CU_ASSERT_TRUE_FATAL(ofi_fixture_endpoint_open(&fixture, &end, &ofi_fixture_plain));
    CU_ASSERT_EQUAL(fi_av_insert(own, end.name, 1, &to, 0, NULL), 1);
    fd = open(path_of("hostile", path), O_RDWR);
    memory = mmap(NULL, TABLE_PEERS_AT + 16384, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CU_ASSERT_PTR_NOT_EQUAL_FATAL(memory, MAP_FAILED);
    for (unsigned round = 0; round < 200; round++) {
        fi_addr_t addr, source;
        struct fi_cq_tagged_entry entry;
        struct fi_cq_err_entry error;
        uint32_t counts[4];

        for (unsigned i = 0; i < 4; i++) /* count, reused, removed, lowest */
            counts[i] = round % 2 ? (uint32_t)emu_splitmix(&random)
                                  : (uint32_t)emu_splitmix(&random) % 1000;
        counts[0] %= 1024 + (round % 10 == 1) * (UINT32_MAX - 1024); /* what is allocated; or not */
        memcpy(memory + TABLE_COUNT_AT, counts, sizeof counts);
        for (unsigned i = 0; i < 16384; i++)
            memory[TABLE_PEERS_AT + i] = (unsigned char)emu_splitmix(&random);
        fi_av_insertsvc(fixture.av, "localhost", "300", &addr, 0, NULL);
        addr = emu_splitmix(&random) % 2000;
        fi_av_remove(fixture.av, &addr, 1, 0);
        for (addr = 0; addr < 1024; addr += 97)
            if (fi_tsend(end.ep, NULL, 0, NULL, addr, round, NULL) == 0 &&
                ofi_fixture_entry_wait(end.cq, &entry, NULL) == -FI_EAVAIL)
                CU_ASSERT_EQUAL(fi_cq_readerr(end.cq, &error, 0), 1);
        CU_ASSERT_EQUAL(fi_trecv(end.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, 7, 0, NULL), 0);
        CU_ASSERT_EQUAL(ofi_fixture_inject(&fixture.a, NULL, 0, 0, to, 7), 0);
        CU_ASSERT_EQUAL(ofi_fixture_entry_wait(end.cq, &entry, &source), 1);
    }
    munmap(memory, TABLE_PEERS_AT + 16384);
    close(fd);
    CU_ASSERT_TRUE(ofi_fixture_endpoint_close(&end));
    CU_ASSERT_EQUAL(fi_close(&fixture.av->fid), 0);
    fixture.av = own;
    ofi_fixture_close(&fixture);
}

/* --- other processes ---------------------------------------------------------------- */

/* Start a process that runs @fn, connected to this one by a socket. */
static pid_t child_start(void (*fn)(unsigned number, int parent), unsigned number, int *child)
{
    int fds[2];
    pid_t pid;

    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    fflush(NULL);
    pid = fork();
    CU_ASSERT_TRUE_FATAL(pid >= 0);
    if (pid == 0) {
        close(fds[0]);
        fn(number, fds[1]);
        exit(0);
    }
    close(fds[1]);
    *child = fds[0];
    return pid;
}

/* In the child: report that it is ready, and wait until the parent has called child_end(). */
static void child_wait(int parent)
{
    char x = 'x';

    if (write(parent, &x, 1) != 1 || read(parent, &x, 1) != 1)
        _exit(10);
}

static void child_await(int child)
{
    char x;

    CU_ASSERT_EQUAL_FATAL(read(child, &x, 1), 1);
}

/* Let the child continue, and wait until it has ended. */
static void child_end(pid_t pid, int child)
{
    int status = -1;

    send(child, "x", 1, MSG_NOSIGNAL); /* fails if the child has ended already */
    CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
    CU_ASSERT_EQUAL(status, 0);
    close(child);
}

enum { CHILDREN = 3, EACH = 400, OPENS = 200 };

/* Insert EACH addresses that name the port @number, and remove and insert some of them again. */
static void child_that_inserts(unsigned number, int parent)
{
    char service[16];
    struct ofi_fixture fixture;
    struct fid_av *av;
    fi_addr_t addr[EACH];
    bool good;

    snprintf(service, sizeof service, "%u", 300 + number);
    if (!ofi_fixture_try_open(&fixture, &ofi_fixture_plain) ||
        shared_open(&fixture, "crowd", 0, &av, NULL))
        _exit(1);
    for (unsigned i = 0; i < EACH; i++) {
        good = fi_av_insertsvc(av, "1", service, &addr[i], 0, NULL) == 1;
        if (good && i % 3 == 0)
            good = fi_av_remove(av, &addr[i], 1, 0) == 0 &&
                   fi_av_insertsvc(av, "1", service, &addr[i], 0, NULL) == 1;
        if (!good)
            _exit(2);
    }
    child_wait(parent);
    if (fi_close(&av->fid) || !ofi_fixture_try_close(&fixture))
        _exit(3);
}

/* Processes that insert and remove at the same time get different entries. */
static void shared__processes_insert_at_the_same_time(void)
{
    struct ofi_fixture fixture;
    struct fid_av *av;
    int child[CHILDREN];
    pid_t pid[CHILDREN];
    unsigned of_port[CHILDREN] = {0}, entries = 0;

    for (unsigned i = 0; i < CHILDREN; i++)
        pid[i] = child_start(child_that_inserts, i, &child[i]);
    fixture = ofi_fixture_open();
    CU_ASSERT_EQUAL_FATAL(shared_open(&fixture, "crowd", 0, &av, NULL), 0);
    for (unsigned i = 0; i < CHILDREN; i++)
        child_await(child[i]);
    for (fi_addr_t addr = 0; addr < (fi_addr_t)2 * CHILDREN * EACH; addr++) {
        char name[OFI_FIXTURE_ADDR_BYTES];
        size_t bytes = sizeof name;
        uint16_t queue;

        if (fi_av_lookup(av, addr, name, &bytes))
            continue;
        memcpy(&queue, name + 4, sizeof queue);
        CU_ASSERT_TRUE_FATAL(queue >= 600 && queue < 600 + 2 * CHILDREN);
        of_port[(queue - 600) / 2]++;
        entries++;
    }
    CU_ASSERT_EQUAL(entries, CHILDREN * EACH);
    for (unsigned i = 0; i < CHILDREN; i++) {
        CU_ASSERT_EQUAL(of_port[i], EACH);
        child_end(pid[i], child[i]);
    }
    CU_ASSERT_EQUAL(fi_close(&av->fid), 0);
    CU_ASSERT_FALSE(exists("crowd"));
    ofi_fixture_close(&fixture);
}

/* Open and close the vector "busy" many times. While it is open, its first entry is there. */
static void child_that_opens(unsigned number, int parent)
{
    struct ofi_fixture fixture;

    if (!ofi_fixture_try_open(&fixture, &ofi_fixture_plain))
        _exit(1);
    child_wait(parent);
    for (unsigned i = 0; i < OPENS; i++) {
        struct fid_av *av, *again;
        fi_addr_t addr;
        int err = shared_open(&fixture, "busy", number == 0 ? FI_READ : 0, &av, NULL);

        if (number == 0 && err == -FI_ENOENT)
            continue;
        if (err)
            _exit(2);
        if (number && fi_av_insertsvc(av, "1", "300", &addr, 0, NULL) != 1)
            _exit(3);
        /* the name leads to the same table for as long as it is open */
        if (shared_open(&fixture, "busy", FI_READ, &again, NULL) ||
            (number && node_at(again, addr) != 1))
            _exit(4);
        if (fi_close(&again->fid) || fi_close(&av->fid))
            _exit(5);
    }
    if (!ofi_fixture_try_close(&fixture))
        _exit(6);
}

static void shared__opens_and_closes_at_the_same_time(void)
{
    int child[CHILDREN];
    pid_t pid[CHILDREN];

    for (unsigned i = 0; i < CHILDREN; i++)
        pid[i] = child_start(child_that_opens, i, &child[i]);
    for (unsigned i = 0; i < CHILDREN; i++)
        child_await(child[i]);
    for (unsigned i = 0; i < CHILDREN; i++) /* all at the same time */
        CU_ASSERT_EQUAL(write(child[i], "x", 1), 1);
    for (unsigned i = 0; i < CHILDREN; i++)
        child_end(pid[i], child[i]);
    CU_ASSERT_FALSE(exists("busy"));
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(shared__all_see_what_one_inserts),
        CASE(shared__grows),
        CASE(shared__finds_sources),
        CASE(shared__names_are_no_paths),
        CASE(shared__refuses_what_is_no_table),
        CASE(shared__refuses_a_damaged_table),
        CASE(shared__survives_hostile_contents),
        CASE(shared__ends_with_its_processes),
        CASE(shared__processes_insert_at_the_same_time),
        CASE(shared__opens_and_closes_at_the_same_time),
        {0},
    };

    if (!getenv("FABEMU_SOCKET")) {
        fprintf(stderr, "ofi_shared_test: no fabric; start it under `fabemu run --`\n");
        return 2;
    }
    return test_run("ofi_shared", cases);
}
