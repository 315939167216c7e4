/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_host_test.c - processes of one host that find each other by 127.0.0.1 and a port, and the
 * addresses of connected endpoints.
 *
 * Needs a fabric of at least four nodes: `fabemu run -- build/tests/…`.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_cm.h>

#include "tests/test.h"
#include "tests/fixtures/ofi/fixture.h"

#define HERE  "127.0.0.1"
#define BYTES 24

/* --- endpoints ---------------------------------------------------------------------- */

/* An endpoint, of any type, with all that it needs. */
struct end {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_eq *eq;
    struct fid_cq *cq;
    struct fid_ep *ep;
};

static struct fi_info *hints_of(enum fi_ep_type type)
{
    struct fi_info *hints = ofi_fixture_hints(FI_MSG);

    hints->ep_attr->type = type;
    hints->addr_format = FI_SOCKADDR_IN;
    return hints;
}

/* Open all but the endpoint. Returns false on failure. */
static bool end_open(struct end *end, struct fi_info *hints, const char *node, const char *service,
                     uint64_t flags)
{
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};

    *end = (struct end){0};
    if (fi_getinfo(OFI_FIXTURE_VERSION, node, service, flags, hints, &end->info) ||
        fi_fabric(end->info->fabric_attr, &end->fabric, NULL) ||
        fi_domain(end->fabric, end->info, &end->domain, NULL) ||
        fi_eq_open(end->fabric, &(struct fi_eq_attr){0}, &end->eq, NULL) ||
        fi_av_open(end->domain, &av, &end->av, NULL) ||
        fi_cq_open(end->domain, &cq, &end->cq, NULL))
        return false;
    return true;
}

/* Open and enable the endpoint that @info describes. */
static int end_enable(struct end *end, struct fi_info *info)
{
    int err = fi_endpoint(end->domain, info, &end->ep, NULL);

    if (!err)
        err = fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV);
    if (!err)
        err = info->ep_attr->type == FI_EP_MSG ? fi_ep_bind(end->ep, &end->eq->fid, 0)
                                               : fi_ep_bind(end->ep, &end->av->fid, 0);
    return err ? err : fi_enable(end->ep);
}

static void end_close(struct end *end)
{
    if (end->ep)
        CU_ASSERT_EQUAL(fi_close(&end->ep->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&end->cq->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&end->av->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&end->eq->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&end->domain->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&end->fabric->fid), 0);
    fi_freeinfo(end->info);
}

static struct end client_open(enum fi_ep_type type, const char *service)
{
    struct fi_info *hints = hints_of(type);
    struct end end;

    CU_ASSERT_TRUE_FATAL(end_open(&end, hints, HERE, service, 0));
    CU_ASSERT_EQUAL_FATAL(end_enable(&end, end.info), 0);
    fi_freeinfo(hints);
    return end;
}

static struct sockaddr_in name_of(struct fid *fid)
{
    struct sockaddr_in name = {0};
    size_t bytes = sizeof name;

    CU_ASSERT_EQUAL(fi_getname(fid, &name, &bytes), 0);
    CU_ASSERT_EQUAL(bytes, sizeof name);
    return name;
}

static bool same(const struct sockaddr_in *a, const struct sockaddr_in *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* --- other processes ---------------------------------------------------------------- */

struct child {
    pid_t pid;
    int fd;
};

/* A child waits for this before each of its steps. */
static void step_await(int parent)
{
    char x;

    if (read(parent, &x, 1) != 1)
        _exit(20);
}

static void step_done(int parent)
{
    if (write(parent, "x", 1) != 1)
        _exit(21);
}

/*
 * Start a child that runs @fn. Call this before this process attaches, that is, while it has one
 * thread: a child may inherit locks of AddressSanitizer's allocator that other threads hold.
 */
static struct child child_start(void (*fn)(int parent))
{
    struct child child;
    int fds[2];

    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    fflush(NULL);
    child.pid = fork();
    CU_ASSERT_TRUE_FATAL(child.pid >= 0);
    if (child.pid == 0) {
        close(fds[0]);
        fn(fds[1]);
        _exit(0);
    }
    close(fds[1]);
    child.fd = fds[0];
    return child;
}

/* Let the child do its next step, and wait until it has. */
static void child_step(const struct child *child)
{
    char x;

    CU_ASSERT_EQUAL_FATAL(send(child->fd, "x", 1, MSG_NOSIGNAL), 1);
    CU_ASSERT_EQUAL_FATAL(read(child->fd, &x, 1), 1);
}

/* Wait until the child has ended. */
static void child_wait(const struct child *child)
{
    int status = -1;

    CU_ASSERT_EQUAL(waitpid(child->pid, &status, 0), child->pid);
    CU_ASSERT_EQUAL(status, 0);
    close(child->fd);
}

static bool receives(struct end *end, const char *text)
{
    struct fi_cq_tagged_entry entry;
    char buf[BYTES] = "";

    return fi_recv(end->ep, buf, sizeof buf, NULL, FI_ADDR_UNSPEC, NULL) == 0 &&
           ofi_fixture_entry_wait(end->cq, &entry, NULL) == 1 && strcmp(buf, text) == 0;
}

/* Step 1: open an endpoint at port 501. Step 2: receive a message. Step 3: close the endpoint. */
static void server_of_messages(int parent)
{
    struct fi_info *hints = hints_of(FI_EP_RDM);
    struct end end;

    step_await(parent);
    if (!end_open(&end, hints, HERE, "501", FI_SOURCE) || end_enable(&end, end.info))
        _exit(1);
    step_done(parent);
    step_await(parent);
    if (!receives(&end, "hello"))
        _exit(2);
    step_done(parent);
    step_await(parent);
    if (fi_close(&end.ep->fid))
        _exit(3);
    end.ep = NULL;
    step_done(parent);
    step_await(parent);
    end_close(&end);
    fi_freeinfo(hints);
}

/* Step 1: open an endpoint at port 501. Step 2: leave the node. */
static void server_that_leaves(int parent)
{
    struct fi_info *hints = hints_of(FI_EP_RDM);
    struct end end;

    step_await(parent);
    if (!end_open(&end, hints, NULL, "501", FI_SOURCE) || end_enable(&end, end.info))
        _exit(1);
    step_done(parent);
    step_await(parent);
    end_close(&end);
    fi_freeinfo(hints);
    step_done(parent);
}

/* --- messages ----------------------------------------------------------------------- */

static ssize_t send_text(struct end *end, fi_addr_t to, const char *text)
{
    ssize_t err;

    do {
        err = fi_inject(end->ep, text, strlen(text) + 1, to);
        if (err == -FI_EAGAIN)
            fi_cq_read(end->cq, NULL, 0);
    } while (err == -FI_EAGAIN);
    return err;
}

/* Insert the server's address. Returns its index, and which address it has. */
static fi_addr_t insert(struct end *end, struct sockaddr_in *name)
{
    fi_addr_t to = FI_ADDR_NOTAVAIL;
    size_t bytes = sizeof *name;

    CU_ASSERT_EQUAL_FATAL(fi_av_insert(end->av, end->info->dest_addr, 1, &to, 0, NULL), 1);
    CU_ASSERT_EQUAL(fi_av_lookup(end->av, to, name, &bytes), 0);
    return to;
}

/* A client inserts the address before the server has its port, and then again. */
static void host__finds_the_process_that_has_the_port(void)
{
    const struct child child = child_start(server_of_messages);
    struct end end = client_open(FI_EP_RDM, "501");
    struct sockaddr_in early, late, own = name_of(&end.ep->fid);
    fi_addr_t to, again;

    to = insert(&end, &early);
    CU_ASSERT_EQUAL(ntohl(early.sin_addr.s_addr), INADDR_LOOPBACK);
    CU_ASSERT_EQUAL(send_text(&end, to, "hello"), -FI_ECONNREFUSED);
    child_step(&child);
    again = insert(&end, &late);
    CU_ASSERT_EQUAL(ntohs(late.sin_port), 501);
    CU_ASSERT_NOT_EQUAL(late.sin_addr.s_addr, own.sin_addr.s_addr);
    CU_ASSERT_NOT_EQUAL(late.sin_addr.s_addr, early.sin_addr.s_addr);
    CU_ASSERT_NOT_EQUAL(to, again);
    CU_ASSERT_EQUAL(send_text(&end, to, "hello"), 0);
    insert(&end, &early);
    CU_ASSERT_TRUE(same(&early, &late));
    child_step(&child);
    child_step(&child); /* the server has closed its endpoint, but is still attached */
    insert(&end, &early);
    CU_ASSERT_EQUAL(ntohl(early.sin_addr.s_addr), INADDR_LOOPBACK);
    CU_ASSERT_EQUAL(send(child.fd, "x", 1, MSG_NOSIGNAL), 1);
    child_wait(&child);
    end_close(&end);
}

/* A process that has the port itself finds itself, although another one had it first. */
static void host__prefers_the_process_itself(void)
{
    const struct child child = child_start(server_that_leaves);
    struct fi_info *hints = hints_of(FI_EP_RDM);
    struct end end;
    struct sockaddr_in name, own;

    child_step(&child);
    CU_ASSERT_TRUE_FATAL(end_open(&end, hints, NULL, "501", FI_SOURCE));
    CU_ASSERT_EQUAL_FATAL(end_enable(&end, end.info), 0);
    own = name_of(&end.ep->fid);
    end.info->dest_addr = &(struct sockaddr_in){.sin_family = AF_INET,
                                                .sin_port = htons(501),
                                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    insert(&end, &name);
    CU_ASSERT_TRUE(same(&name, &own));
    CU_ASSERT_EQUAL(fi_close(&end.ep->fid), 0);
    end.ep = NULL;
    insert(&end, &name);
    CU_ASSERT_NOT_EQUAL(name.sin_addr.s_addr, own.sin_addr.s_addr);
    end.info->dest_addr = NULL;
    child_step(&child);
    child_wait(&child);
    end_close(&end);
    fi_freeinfo(hints);
}

static void insert__checks_the_array(void)
{
    struct end end = client_open(FI_EP_RDM, "501");
    fi_addr_t to;

    CU_ASSERT_EQUAL(fi_av_insert(end.av, NULL, 1, &to, 0, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_av_insert(end.av, NULL, 0, &to, 0, NULL), 0);
    end_close(&end);
}

/* --- connections -------------------------------------------------------------------- */

static uint32_t event_wait(struct fid_eq *eq, struct fi_eq_cm_entry *entry)
{
    uint32_t event = 0;

    CU_ASSERT_EQUAL_FATAL(fi_eq_sread(eq, &event, entry, sizeof *entry,
                                      OFI_FIXTURE_PATIENCE_S * 1000, 0),
                          (ssize_t)sizeof *entry);
    return event;
}

static void connect__is_refused_if_no_process_has_the_port(void)
{
    struct end end = client_open(FI_EP_MSG, "502");
    static const char data[257];

    CU_ASSERT_EQUAL(fi_connect(end.ep, end.info->dest_addr, data, sizeof data), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_connect(end.ep, end.info->dest_addr, NULL, 0), -FI_ECONNREFUSED);
    end_close(&end);
}

/* Accept a connection at port 502, receive a message, and wait until the client shuts down. */
static void server_of_connections(int parent)
{
    struct fi_info *hints = hints_of(FI_EP_MSG);
    struct fi_eq_cm_entry entry;
    struct sockaddr_in name, accepted;
    struct fid_pep *pep;
    struct end end;

    step_await(parent);
    if (!end_open(&end, hints, HERE, "502", FI_SOURCE) ||
        fi_passive_ep(end.fabric, end.info, &pep, NULL) || fi_pep_bind(pep, &end.eq->fid, 0) ||
        fi_listen(pep))
        _exit(1);
    step_done(parent);
    if (event_wait(end.eq, &entry) != FI_CONNREQ || end_enable(&end, entry.info) ||
        fi_accept(end.ep, NULL, 0))
        _exit(2);
    fi_freeinfo(entry.info);
    if (event_wait(end.eq, &entry) != FI_CONNECTED || entry.fid != &end.ep->fid)
        _exit(3);
    name = name_of(&pep->fid);
    accepted = name_of(&end.ep->fid);
    if (!same(&name, &accepted) || ntohs(name.sin_port) != 502)
        _exit(4);
    if (!receives(&end, "hello") || event_wait(end.eq, &entry) != FI_SHUTDOWN)
        _exit(5);
    if (fi_close(&pep->fid))
        _exit(6);
    end_close(&end);
    fi_freeinfo(hints);
}

/*
 * The client has the address of a passive endpoint, which it closes before it connects. Both ends
 * are notified when one of them shuts the connection down.
 */
static void connect__reaches_the_process_that_has_the_port(void)
{
    const struct child child = child_start(server_of_connections);
    struct fi_info *hints = hints_of(FI_EP_MSG), *info;
    struct sockaddr_in name, same_name;
    struct fi_eq_cm_entry entry;
    struct fid_pep *pep;
    struct end end;

    child_step(&child);
    CU_ASSERT_TRUE_FATAL(end_open(&end, hints, HERE, "502", 0));
    CU_ASSERT_EQUAL_FATAL(fi_passive_ep(end.fabric, end.info, &pep, NULL), 0);
    name = name_of(&pep->fid);
    CU_ASSERT_NOT_EQUAL(ntohs(name.sin_port), 0);
    hints->handle = &pep->fid;
    CU_ASSERT_EQUAL_FATAL(fi_getinfo(OFI_FIXTURE_VERSION, HERE, "502", 0, hints, &info), 0);
    CU_ASSERT_PTR_EQUAL(info->handle, &pep->fid);
    CU_ASSERT_EQUAL(memcmp(info->src_addr, &name, sizeof name), 0);
    CU_ASSERT_EQUAL_FATAL(fi_endpoint(end.domain, info, &end.ep, NULL), 0);
    CU_ASSERT_EQUAL(fi_close(&pep->fid), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(end.ep, &end.cq->fid, FI_TRANSMIT | FI_RECV), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(end.ep, &end.eq->fid, 0), 0);
    CU_ASSERT_EQUAL_FATAL(fi_enable(end.ep), 0);
    CU_ASSERT_EQUAL_FATAL(fi_connect(end.ep, info->dest_addr, NULL, 0), 0);
    CU_ASSERT_EQUAL(event_wait(end.eq, &entry), FI_CONNECTED);
    same_name = name_of(&end.ep->fid);
    CU_ASSERT_TRUE(same(&name, &same_name));
    CU_ASSERT_EQUAL(send_text(&end, 0, "hello"), 0);
    CU_ASSERT_EQUAL(fi_shutdown(end.ep, 0), 0);
    CU_ASSERT_EQUAL(event_wait(end.eq, &entry), FI_SHUTDOWN);
    child_wait(&child);
    fi_freeinfo(info);
    hints->handle = NULL;
    fi_freeinfo(hints);
    end_close(&end);
}

/* The address of a passive endpoint is fixed before it listens. */
static void passive__has_its_address_before_it_listens(void)
{
    struct fi_info *hints = hints_of(FI_EP_MSG);
    struct sockaddr_in wanted = {.sin_family = AF_INET, .sin_port = htons(503)}, name, later;
    struct fid_pep *pep;
    struct end end;

    CU_ASSERT_TRUE_FATAL(end_open(&end, hints, NULL, NULL, 0));
    CU_ASSERT_EQUAL_FATAL(fi_passive_ep(end.fabric, end.info, &pep, NULL), 0);
    CU_ASSERT_EQUAL(fi_setname(&pep->fid, &wanted, sizeof wanted), 0);
    name = name_of(&pep->fid);
    CU_ASSERT_EQUAL(ntohs(name.sin_port), 503);
    CU_ASSERT_EQUAL(fi_setname(&pep->fid, &wanted, sizeof wanted), -FI_EOPBADSTATE);
    CU_ASSERT_EQUAL(fi_listen(pep), -FI_ENOEQ);
    CU_ASSERT_EQUAL(fi_pep_bind(pep, &end.eq->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_listen(pep), 0);
    CU_ASSERT_EQUAL(fi_listen(pep), -FI_EOPBADSTATE);
    later = name_of(&pep->fid);
    CU_ASSERT_TRUE(same(&name, &later));
    CU_ASSERT_EQUAL(fi_close(&pep->fid), 0);
    end_close(&end);
    fi_freeinfo(hints);
}

static void getinfo__checks_the_handle(void)
{
    struct fi_info *hints = hints_of(FI_EP_MSG), *info;
    struct fid other = {.fclass = FI_CLASS_PEP};
    struct fid_pep *pep;
    struct end end;

    CU_ASSERT_TRUE_FATAL(end_open(&end, hints, NULL, NULL, 0));
    CU_ASSERT_EQUAL_FATAL(fi_passive_ep(end.fabric, end.info, &pep, NULL), 0);
    hints->handle = &other;
    CU_ASSERT_EQUAL(fi_getinfo(OFI_FIXTURE_VERSION, NULL, NULL, 0, hints, &info), -FI_ENODATA);
    hints->handle = &end.domain->fid;
    CU_ASSERT_EQUAL(fi_getinfo(OFI_FIXTURE_VERSION, NULL, NULL, 0, hints, &info), -FI_ENODATA);
    hints->handle = &pep->fid;
    hints->ep_attr->type = FI_EP_RDM;
    CU_ASSERT_EQUAL(fi_getinfo(OFI_FIXTURE_VERSION, NULL, NULL, 0, hints, &info), -FI_ENODATA);
    hints->handle = NULL;
    CU_ASSERT_EQUAL(fi_close(&pep->fid), 0);
    end_close(&end);
    fi_freeinfo(hints);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(host__finds_the_process_that_has_the_port),
        CASE(host__prefers_the_process_itself),
        CASE(insert__checks_the_array),
        CASE(connect__is_refused_if_no_process_has_the_port),
        CASE(connect__reaches_the_process_that_has_the_port),
        CASE(passive__has_its_address_before_it_listens),
        CASE(getinfo__checks_the_handle),
        {0},
    };

    if (!getenv("FABEMU_SOCKET")) {
        fprintf(stderr, "ofi_host_test: no fabric; start it under `fabemu run --`\n");
        return 2;
    }
    return test_run("ofi_host", cases);
}
