/* SPDX-License-Identifier: BSD-3-Clause */
/* files.c - see files.h. */
#include "apps/capture/files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "apps/base/amount.h"
#include "apps/base/message.h"

static bool is_ring(const struct capture_files *files)
{
    return files->limits.count > 1;
}

static bool is_regular(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/*
 * Insert @mark before the suffix: with "2", "links.pcapng" becomes "links_2.pcapng". Returns false
 * if the name is too long.
 */
static bool name_with(const char *path, const char *mark, char *name)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    size_t stem = dot && dot > base ? (size_t)(dot - path) : strlen(path);
    int bytes = snprintf(name, PATH_MAX, "%.*s_%s%s", (int)stem, path, mark, path + stem);

    return bytes > 0 && bytes < PATH_MAX;
}

/* Make the name of file @i. The numbers have leading zeros, so that listings show them in order. */
static bool name_of(const struct capture_files *files, uint32_t i, char *name)
{
    char mark[16];
    int digits = snprintf(NULL, 0, "%u", files->limits.count - 1);

    snprintf(mark, sizeof mark, "%0*u", digits, i);
    return name_with(files->path, mark, name);
}

/* --- open and close ----------------------------------------------------------------- */

static bool names_make(struct capture_files *files)
{
    if (is_ring(files))
        return name_of(files, 0, files->first) && name_with(files->path, "*", files->label);
    return snprintf(files->first, sizeof files->first, "%s", files->path) < PATH_MAX;
}

int capture_files_open(struct capture_files *ret, const char *path,
                       const struct capture_limits *limits, int64_t until_ms)
{
    bool is_stdout = output_is_stdout(path);
    int err;

    *ret = (struct capture_files){.path = path, .limits = *limits};
    for (uint32_t i = 0; i < CAPTURE_FILES_MOST; i++)
        ret->file[i] = OUTPUT_NONE;
    snprintf(ret->label, sizeof ret->label, "%s", is_stdout ? "standard output" : path);
    if (is_stdout && is_ring(ret))
        return -ESPIPE;
    if (!names_make(ret))
        return -ENAMETOOLONG;
    err = output_open(&ret->file[0], ret->first, until_ms);
    if (!err && is_ring(ret) && !is_regular(ret->file[0].fd)) {
        output_end(&ret->file[0], true);
        err = -ESPIPE;
    }
    return err;
}

const char *capture_files_why(int err)
{
    return err == -ESPIPE ? "a ring of files needs regular files" : output_why(err);
}

void capture_files_close(struct capture_files *files, bool refused)
{
    for (uint32_t i = 0; i < files->limits.count; i++)
        output_end(&files->file[i], refused);
}

/* --- writing ------------------------------------------------------------------------ */

/* Remove the files of an earlier ring, because they would look like a part of this one. */
static void remove_others(const struct capture_files *files)
{
    char name[PATH_MAX];
    struct stat st;

    for (uint32_t i = 1; i < files->limits.count; i++)
        if (name_of(files, i, name) && lstat(name, &st) == 0 && S_ISREG(st.st_mode))
            unlink(name);
}

static void print_space_needed(const struct capture_files *files, size_t record_bytes)
{
    uint64_t count = files->limits.count, most = files->limits.most_bytes;
    struct statvfs disk;

    if (!is_regular(files->file[0].fd) || fstatvfs(files->file[0].fd, &disk))
        return;
    uint64_t free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    const char *only = most > free_bytes / count ? "only " : "";
    struct amount there = amount_of_bytes(free_bytes);
    if (most == UINT64_MAX)
        print_message("capture: each record takes up to %zu bytes of %s, and the disk has %s left; "
                      "--capture-size sets a limit",
                      record_bytes, files->label, there.text);
    else if (count == 1)
        print_message("capture: %s takes up to %s, and the disk has %s%s left", files->label,
                      amount_of_bytes(most).text, only, there.text);
    else
        print_message("capture: %s take up to %s in %u files, and the disk has %s%s left",
                      files->label, amount_of_bytes(most * count).text, files->limits.count, only,
                      there.text);
}

int capture_files_begin(struct capture_files *files, size_t record_bytes)
{
    int err = files->begun ? 0 : output_begin(files->file[0].fd);

    if (err || files->begun)
        return err;
    files->begun = true;
    remove_others(files);
    print_space_needed(files, record_bytes);
    return 0;
}

int capture_files_next(struct capture_files *files)
{
    uint32_t at = (files->at + 1) % files->limits.count;
    struct output *next = &files->file[at];
    char name[PATH_MAX];
    int err = 0;

    if (!is_ring(files))
        return -EFBIG;
    if (next->fd < 0)
        err = name_of(files, at, name) ? output_open(next, name, 0) : -ENAMETOOLONG;
    next->path = files->path; /* names another file, so output_end() never removes this one */
    if (!err && (ftruncate(next->fd, 0) || lseek(next->fd, 0, SEEK_SET)))
        err = -errno;
    if (err)
        return err;
    files->at = at;
    files->used_bytes = 0;
    return 0;
}

int capture_files_small(const struct capture_files *files, char *error, size_t error_bytes)
{
    return fail(-EMSGSIZE, error, error_bytes,
                "cannot capture: --capture-size must be %lluKiB or more for so many cables",
                (unsigned long long)(files->least_bytes / 1024 + 1));
}
