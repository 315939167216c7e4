/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scratch.c - a folder for the temporary files of one run, removed at its end.
 *
 * The folder's name is the pid of the run's supervisor. So no two runs share a folder, and a later
 * run can find and remove the folder of a supervisor that was killed.
 */
#include "apps/cmd/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX        ".tmp"
#define OPEN_MAX_DIRS 16 /* descriptors that nftw() may keep open */

void scratch_path(char *ret, size_t ret_bytes, const char *socket_path, pid_t supervisor)
{
    const char *slash = strrchr(socket_path, '/');
    int dir_bytes = slash ? (int)(slash - socket_path) : 0;

    snprintf(ret, ret_bytes, "%.*s/%d" SUFFIX, dir_bytes, socket_path, (int)supervisor);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    remove(path);
    return 0;
}

void scratch_remove(const char *path)
{
    nftw(path, remove_one, OPEN_MAX_DIRS, FTW_DEPTH | FTW_PHYS);
}

static void remove_orphans(const char *dir)
{
    DIR *entries = opendir(dir);
    struct dirent *entry;
    char path[1024 + 256];
    char *end;

    while (entries && (entry = readdir(entries))) {
        long pid = strtol(entry->d_name, &end, 10);
        if (pid <= 0 || strcmp(end, SUFFIX) != 0 || kill((pid_t)pid, 0) == 0 || errno != ESRCH)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        scratch_remove(path);
    }
    if (entries)
        closedir(entries);
}

/*
 * Make Open MPI's session folder, ompi.HOST.UID, with a folder "keep" in it. Each mpirun makes the
 * session folder, and removes it if it is empty. If several mpirun do this at the same time, one
 * may fail with "File exists". Because of the folder "keep", the session folder is never empty.
 */
static void make_session(const char *path, const char *host)
{
    char session[1024 + 256];
    const char *const parts[] = {"", "/keep"};

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        snprintf(session, sizeof session, "%s/ompi.%s.%u%s", path, host, (unsigned)geteuid(),
                 parts[i]);
        mkdir(session, 0700); /* if this fails, mpirun makes the folder itself */
    }
}

int scratch_make(const char *path)
{
    char dir[1024], host[256] = "";

    snprintf(dir, sizeof dir, "%s", path);
    char *slash = strrchr(dir, '/');
    if (slash) {
        *slash = '\0';
        remove_orphans(dir);
    }
    scratch_remove(path);
    if (mkdir(path, 0700) < 0)
        return -errno;
    if (gethostname(host, sizeof host - 1) < 0)
        return 0;
    make_session(path, host);
    host[strcspn(host, ".")] = '\0'; /* by default Open MPI omits the domain */
    make_session(path, host);
    return 0;
}
