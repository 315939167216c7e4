/* SPDX-License-Identifier: BSD-3-Clause */
/* asleep.c - ask the kernel whether a process sleeps. */
#include "emu/util/asleep.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * Return the state of thread @tid, a letter of proc(5); 0: it has ended. @tasks: the folder
 * /proc/PID/task.
 */
static char thread_state(int tasks, const char *tid)
{
    char path[32], text[512];
    const char *name_end;
    ssize_t bytes;
    int file;

    snprintf(path, sizeof path, "%.16s/stat", tid);
    file = openat(tasks, path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    bytes = read(file, text, sizeof text - 1);
    close(file);
    text[bytes > 0 ? bytes : 0] = '\0';
    name_end = strrchr(text, ')'); /* the last ')', because the name may contain any byte */
    return name_end && strlen(name_end) > 2 ? name_end[2] : 0;
}

bool emu_is_asleep(pid_t pid)
{
    bool any = false, awake = false;
    char path[32];
    DIR *tasks;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    tasks = opendir(path);
    if (!tasks)
        return false;
    for (const struct dirent *entry; !awake && (entry = readdir(tasks));) {
        char state = entry->d_name[0] == '.' ? 0 : thread_state(dirfd(tasks), entry->d_name);

        any |= state == 'S';
        awake = state && !strchr("SZX", state);
    }
    closedir(tasks);
    return any && !awake;
}
