/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shared.c - address vectors that the processes of a host share by name.
 *
 * The table is a file in the folder of the fabric's control socket, which is open to its user only.
 * Each process that uses the table holds a shared flock() on the file, which the kernel releases
 * when the process dies. So a process that gets the exclusive lock is the only user. A process
 * tries to get the exclusive lock at two times. When it opens the table, success means that the
 * file is new, or was left behind, so the process empties the file. When it closes the table,
 * success means that no other process uses the file, so the process removes the file. If all users
 * of a table are killed, the file remains until the name is opened again, or the fabric ends
 * (apps/control/paths.c).
 *
 * The file may be removed between open() and flock(), so a process that has the lock checks that
 * the path still names its file, and starts again if it does not. A process holds another lock, on
 * the first byte of the file (F_OFD_SETLKW), while it inserts or removes an address. Rejected: a
 * mutex in the file. Its state would have to be trusted, and repaired after a process has died.
 */
#include "nic/ofi/table.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SHARED_SUFFIX ".av"
/* longest name of a vector; in the path, a byte may become three bytes */
#define SHARED_NAME_BYTES 64
#define SHARED_TRIES      5000 /* attempts to get a lock or to open the file, a millisecond apart */

/* The beginning of a table, which is read before the table is mapped. */
struct head {
    uint64_t magic;
    uint64_t fabric;
};
static_assert(sizeof(struct head) == offsetof(struct ofi_table, count), "as in struct ofi_table");

static int shared_fail(int err, const struct ofi_shared *shared, const char *why)
{
    FI_WARN(&ofi_prov, FI_LOG_AV, "shared address vector %s: %s\n", shared->path, why);
    return -err;
}

/* --- the file's name ---------------------------------------------------------------- */

/* Append @name. Each byte except letters, digits, '_' and '-' becomes %XX. */
static void name_append(char *path, const char *name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

    path += strlen(path);
    for (; *name; name++)
        if (strchr(plain, *name))
            *path++ = *name;
        else
            path += sprintf(path, "%%%02X", (unsigned)(unsigned char)*name);
    *path = '\0';
}

/* Build the path: the control socket's path, with NAME.av in place of "sock". */
static int shared_path(struct ofi_shared *shared, const char *name)
{
    const size_t more = 3 * SHARED_NAME_BYTES + sizeof SHARED_SUFFIX;
    char *suffix;

    fabemu_socket(NULL, shared->path, sizeof shared->path - more);
    suffix = strrchr(shared->path, '.');
    if (!suffix || strcmp(suffix, ".sock") != 0)
        suffix = shared->path + strlen(shared->path);
    if (!*name || strlen(name) > SHARED_NAME_BYTES)
        return shared_fail(FI_EINVAL, shared, "a name must have 1 to 64 bytes");
    strcpy(suffix, ".");
    name_append(shared->path, name);
    strcat(shared->path, SHARED_SUFFIX);
    return 0;
}

/* --- the file ----------------------------------------------------------------------- */

static bool is_named(int fd, const char *path)
{
    struct stat opened, named;

    return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

/* Read the beginning of the file. Returns whether the file is a table. */
static bool head_read(int fd, struct head *ret)
{
    return pread(fd, ret, sizeof *ret, 0) == (ssize_t)sizeof *ret && ret->magic == OFI_TABLE_MAGIC;
}

/* Return whether the file is a table, or is empty because its creator died early. */
static bool is_table(int fd)
{
    struct head head;
    struct stat st;

    return fstat(fd, &st) == 0 && (st.st_size == 0 || head_read(fd, &head));
}

/* Open the file. Refuse a file that another user may have written. */
static int file_open(struct ofi_shared *shared, bool create)
{
    struct stat st;

    shared->fd = open(shared->path,
                      O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (create ? O_CREAT : 0), 0600);
    if (shared->fd < 0)
        return errno == ENOENT && !create ? -FI_ENOENT
                                          : shared_fail(errno, shared, strerror(errno));
    if (fstat(shared->fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        st.st_mode & 022)
        return shared_fail(FI_EACCES, shared, "it is not a file that only this user can write");
    return 0;
}

/* Make the file an empty table. Lock: exclusive. */
static int file_empty(struct ofi_shared *shared, uint64_t fabric)
{
    const struct head head = {.magic = OFI_TABLE_MAGIC, .fabric = fabric};

    if (!is_table(shared->fd))
        return shared_fail(FI_EINVAL, shared, "the file is not an address vector; remove it");
    if (ftruncate(shared->fd, 0) ||
        pwrite(shared->fd, &head, sizeof head, 0) != (ssize_t)sizeof head ||
        ftruncate(shared->fd, sizeof(struct ofi_table)) || ofi_shared_reserve(shared, 0))
        return shared_fail(FI_ENOMEM, shared, "no space for the table");
    return 0;
}

/* Check a table that other processes may use. Lock: shared. */
static int file_check(struct ofi_shared *shared, uint64_t fabric)
{
    struct head head;
    struct stat st;

    if (fstat(shared->fd, &st) || st.st_size != (off_t)sizeof(struct ofi_table) ||
        !head_read(shared->fd, &head))
        return shared_fail(FI_EINVAL, shared, "the file is truncated, or not an address vector");
    if (head.fabric != fabric)
        return shared_fail(FI_EBUSY, shared, "processes of another run of the fabric use it");
    return 0;
}

/* --- locks -------------------------------------------------------------------------- */

static void shared_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Wait for the shared lock. A process holds the exclusive lock only while it opens or closes. */
static int lock_share(struct ofi_shared *shared)
{
    for (unsigned i = 0; i < SHARED_TRIES; i++) {
        if (flock(shared->fd, LOCK_SH | LOCK_NB) == 0)
            return 0;
        shared_pause();
    }
    return shared_fail(FI_EBUSY, shared, "another process keeps the file locked");
}

/*
 * Remove the file if no other process uses it. Returns whether the file has been removed, by this
 * process or another one. Afterwards this process holds the exclusive lock or no lock; it has lost
 * the shared lock.
 */
static bool file_retire(int fd, const char *path)
{
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_named(fd, path) && is_table(fd))
        unlink(path);
    return !is_named(fd, path);
}

/*
 * Open the file and lock it. Errors: -EAGAIN, the file was removed at the same time; others. After
 * an error the caller closes the file.
 */
static int file_enter(struct ofi_shared *shared, uint64_t fabric, bool read_only)
{
    int err = file_open(shared, !read_only);

    if (err)
        return err;
    if (read_only) {
        if (file_retire(shared->fd, shared->path))
            return -EAGAIN;
    } else if (flock(shared->fd, LOCK_EX | LOCK_NB) == 0) {
        err = file_empty(shared, fabric);
        if (err)
            return err;
    }
    err = lock_share(shared);
    if (err)
        return err;
    return is_named(shared->fd, shared->path) ? file_check(shared, fabric) : -EAGAIN;
}

/* --- interface ---------------------------------------------------------------------- */

int ofi_shared_open(struct ofi_shared *shared, const char *name, uint64_t fabric, bool read_only,
                    struct ofi_table **ret)
{
    int protection = PROT_READ | (read_only ? 0 : PROT_WRITE);
    int err = shared_path(shared, name);
    void *memory;

    if (err)
        return err;
    for (unsigned i = 0; i < SHARED_TRIES; i++) {
        err = file_enter(shared, fabric, read_only);
        if (err != -EAGAIN)
            break;
        close(shared->fd);
        shared->fd = -1;
        shared_pause();
    }
    if (err)
        goto close_fd;
    memory = mmap(NULL, sizeof **ret, protection, MAP_SHARED, shared->fd, 0);
    if (memory == MAP_FAILED) {
        err = -errno;
        goto close_fd;
    }
    *ret = memory;
    return 0;

close_fd:
    if (shared->fd >= 0)
        close(shared->fd);
    shared->fd = -1;
    return err == -EAGAIN ? -FI_EBUSY : err;
}

void ofi_shared_close(struct ofi_shared *shared, struct ofi_table *table)
{
    munmap(table, sizeof *table);
    if (shared->fd < 0)
        return;
    file_retire(shared->fd, shared->path);
    close(shared->fd);
}

static int byte_lock(const struct ofi_shared *shared, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_len = 1};

    if (shared->fd < 0)
        return 0;
    while (fcntl(shared->fd, F_OFD_SETLKW, &lock) < 0)
        if (errno != EINTR)
            return shared_fail(errno, shared, strerror(errno));
    return 0;
}

int ofi_shared_lock(const struct ofi_shared *shared)
{
    return byte_lock(shared, F_WRLCK);
}

void ofi_shared_unlock(const struct ofi_shared *shared)
{
    byte_lock(shared, F_UNLCK);
}

int ofi_shared_reserve(const struct ofi_shared *shared, uint32_t first)
{
    const off_t addr = offsetof(struct ofi_table, addr) + (off_t)first * sizeof(fi_addr_t);
    const off_t peer = offsetof(struct ofi_table, peer) + (off_t)first * sizeof(struct ofi_peer);

    if (shared->fd < 0)
        return 0;
    if (posix_fallocate(shared->fd, addr, OFI_TABLE_CHUNK * sizeof(fi_addr_t)) ||
        posix_fallocate(shared->fd, peer, OFI_TABLE_CHUNK * sizeof(struct ofi_peer)))
        return -FI_ENOMEM;
    return 0;
}
