/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_death.c - which libfabric error reports a dead peer: ofi_death recv|send|read|write|writedata
 * kill|stop, or ofi_death inject COMMAND. tests/cli/bounds_test.py runs it.
 *
 * Two processes: one is killed or stopped, or cut off by COMMAND. The other then does the named
 * operation and prints the error of its completion and the text of fi_cq_strerror().
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "tests/fixtures/ofi/fixture.h"

#define BYTES 100000 /* more than is sent without an announcement */

static const struct ofi_fixture_config with_memory = {.caps = OFI_FIXTURE_CAPS_ALL | FI_RMA,
                                                      .format = FI_CQ_FORMAT_TAGGED};

/* What the two send each other through pipes. */
struct hello {
    char name[OFI_FIXTURE_ADDR_BYTES];
    uint64_t key;
};

static unsigned char memory[BYTES];

static bool exchange_addresses(struct ofi_fixture *fixture, fi_addr_t *peer, struct hello *theirs,
                               int to, int from)
{
    struct hello mine;
    struct fid_mr *mr;

    if (fi_mr_reg(fixture->domain, memory, BYTES, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &mr,
                  NULL))
        return false;
    mine.key = fi_mr_key(mr);
    memcpy(mine.name, fixture->a.name, OFI_FIXTURE_ADDR_BYTES);
    return write(to, &mine, sizeof mine) == sizeof mine &&
           read(from, theirs, sizeof *theirs) == sizeof *theirs &&
           fi_av_insert(fixture->av, theirs->name, 1, peer, 0, NULL) == 1;
}

static int stop_the_other(pid_t pid, const char *how)
{
    if (strcmp(how, "kill") == 0)
        return kill(pid, SIGKILL);
    return strcmp(how, "stop") == 0 ? kill(pid, SIGSTOP) : system(how);
}

/* Receives one message, reports it, and waits to be killed. */
static int be_the_other(int to, int from)
{
    struct fi_cq_tagged_entry entry;
    struct hello theirs;
    struct ofi_fixture fixture;
    fi_addr_t peer;

    if (!ofi_fixture_try_open(&fixture, &with_memory) ||
        !exchange_addresses(&fixture, &peer, &theirs, to, from) ||
        fi_trecv(fixture.a.ep, memory, 8, NULL, peer, 1, 0, NULL) ||
        ofi_fixture_entry_wait(fixture.a.cq, &entry, NULL) != 1 || write(to, "", 1) != 1)
        return 1;
    for (;;)
        pause();
}

static ssize_t post(struct ofi_fixture *fixture, const char *what, fi_addr_t peer,
                    const struct hello *theirs)
{
    static unsigned char buf[BYTES];

    if (strcmp(what, "recv") == 0)
        return fi_trecv(fixture->a.ep, buf, BYTES, NULL, peer, 2, 0, NULL);
    if (strcmp(what, "send") == 0)
        return fi_tsend(fixture->a.ep, buf, BYTES, NULL, peer, 2, NULL);
    if (strcmp(what, "read") == 0)
        return fi_read(fixture->a.ep, buf, BYTES, NULL, peer, 0, theirs->key, NULL);
    if (strcmp(what, "inject") == 0)
        return fi_tinject(fixture->a.ep, buf, 8, peer, 2);
    if (strcmp(what, "writedata") == 0)
        return fi_writedata(fixture->a.ep, buf, BYTES, NULL, 1, peer, 0, theirs->key, NULL);
    return fi_write(fixture->a.ep, buf, BYTES, NULL, peer, 0, theirs->key, NULL);
}

static int print_end(struct ofi_fixture *fixture)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    char text[128] = "";
    ssize_t got = ofi_fixture_entry_wait(fixture->a.cq, &entry, NULL);

    if (got == 1)
        return puts("it succeeded"), 1;
    if (got == -FI_ETIMEDOUT)
        return puts("it still waits"), 2;
    if (got != -FI_EAVAIL || fi_cq_readerr(fixture->a.cq, &error, 0) != 1)
        return puts("?"), 3;
    fi_cq_strerror(fixture->a.cq, error.prov_errno, error.err_data, text, sizeof text);
    printf("%s: %s\n", fi_strerror(error.err), text);
    return 0;
}

int main(int argc, char **argv)
{
    struct fi_cq_tagged_entry entry;
    struct hello theirs;
    struct ofi_fixture fixture;
    fi_addr_t peer;
    int there[2], back[2], status;
    char word;

    if (argc != 3 || pipe(there) || pipe(back))
        return 4;
    setenv("FABEMU_NODE", "1", 1);
    pid_t pid = fork();
    if (pid == 0)
        _exit(be_the_other(back[1], there[0]));
    setenv("FABEMU_NODE", "0", 1);
    if (!ofi_fixture_try_open(&fixture, &with_memory) ||
        !exchange_addresses(&fixture, &peer, &theirs, there[1], back[0]) ||
        fi_tsend(fixture.a.ep, memory, 8, NULL, peer, 1, NULL) ||
        ofi_fixture_entry_wait(fixture.a.cq, &entry, NULL) != 1 || read(back[0], &word, 1) != 1)
        return 5;
    if (stop_the_other(pid, argv[2]) || post(&fixture, argv[1], peer, &theirs))
        return 6;
    status = print_end(&fixture);
    fflush(stdout);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    _exit(status);
}
