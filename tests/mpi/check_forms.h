/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check_forms.h - the three forms of a collective: blocking, non-blocking and persistent.
 */
#ifndef CHECK_FORMS_H
#define CHECK_FORMS_H

#include <mpi.h>
#include <stdint.h>

#if MPI_VERSION >= 4
#define CHECK_INIT(name) MPI_##name##_init
#elif defined OPEN_MPI && OPEN_MPI
#include <mpi-ext.h>
#ifdef OMPI_HAVE_MPI_EXT_PCOLLREQ
#define CHECK_INIT(name) MPIX_##name##_init
#endif
#endif

enum check_form { CHECK_BLOCKING, CHECK_NON_BLOCKING, CHECK_PERSISTENT, CHECK_FORMS };

static inline const char *check_form_name(enum check_form form)
{
    static const char *const names[CHECK_FORMS] = {"blocking", "non-blocking", "persistent"};

    return names[form];
}

/* Draw a form that this MPI has. */
static inline enum check_form check_form_draw(uint64_t draw)
{
#ifdef CHECK_INIT
    return (enum check_form)(draw % CHECK_FORMS);
#else
    return (enum check_form)(draw % CHECK_PERSISTENT);
#endif
}

/*
 * Execute MPI_@name with the remaining arguments, start MPI_@iname, or make a persistent request,
 * as the variable `form` says. The variable `request` points to the request.
 */
#ifdef CHECK_INIT
#define CHECK_START(name, iname, ...)                              \
    do {                                                           \
        if (form == CHECK_BLOCKING)                                \
            MPI_##name(__VA_ARGS__);                               \
        else if (form == CHECK_NON_BLOCKING)                       \
            MPI_##iname(__VA_ARGS__, request);                     \
        else                                                       \
            CHECK_INIT(name)(__VA_ARGS__, MPI_INFO_NULL, request); \
    } while (0)
#else
#define CHECK_START(name, iname, ...)          \
    do {                                       \
        if (form == CHECK_BLOCKING)            \
            MPI_##name(__VA_ARGS__);           \
        else                                   \
            MPI_##iname(__VA_ARGS__, request); \
    } while (0)
#endif

#endif
