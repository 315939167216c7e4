/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check_bcast.c - broadcasts of every type from every root, and broadcasts in
 * which root and receivers describe the same bytes differently.
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#define GUARD_BYTES 64
#define POISON      0xa5
#define LONG_COUNT  100000

static const size_t counts[] = {1, 2, 7, 31, 1000, LONG_COUNT};
#define COUNTS (sizeof counts / sizeof counts[0])

static struct draw draw_of(uint64_t key, const struct check_comm *comm, int root)
{
    return (struct draw){.key = key, .rank = root, .size = comm->size, .op = OP_MAX};
}

/* Every rank can draw the root's data. */
static void bcast_once(struct check *check, const struct check_comm *comm,
                       const struct check_type *type, size_t count, int root)
{
    const size_t bytes = count * type->bytes;
    const struct draw draw = draw_of(check_key(check), comm, root);
    uint8_t *want = check_alloc(bytes), *buf = check_alloc(bytes + GUARD_BYTES);
    bool guard = true;

    type->fill(want, count, &draw);
    memset(buf, POISON, bytes + GUARD_BYTES);
    if (comm->rank == root)
        type->fill(buf, count, &draw);
    MPI_Bcast(buf, (int)count, type->mpi, root, comm->comm);

    size_t at = type->differs(buf, want, count);

    for (size_t i = 0; i < GUARD_BYTES; i++)
        guard = guard && buf[bytes + i] == POISON;
    check_that(check, at == count && guard,
               "bcast(%s, %zu) from %d on %s of %d: element %zu is wrong%s", type->name, count,
               root, comm->name, comm->size, at, guard ? "" : ", wrote past the end");
    free(buf);
    free(want);
}

static bool wanted(const struct check *check, bool first_comm, const struct check_type *type,
                   size_t count)
{
    const bool core = type->mpi == MPI_BYTE || type->mpi == MPI_DOUBLE ||
                      type->mpi == MPI_DOUBLE_INT;

    if (check->full)
        return true;
    if (check->quick)
        return core ? first_comm || count == 7 : first_comm && count == 7;
    return core || (first_comm && count < LONG_COUNT);
}

/*
 * Layouts of the same signature: n ints. The gaps of a strided one must stay unchanged. The root
 * uses one layout, its receivers others.
 */
enum layout { PLAIN, CONTIGUOUS, STRIDED, INDEXED, ABSOLUTE, LAYOUTS };

#define STRIDE 3

/* The type of @layout for @n ints in @ints (n * STRIDE of them); its address and count. */
static MPI_Datatype layout_type(enum layout layout, int n, int *ints, void **address, int *count)
{
    MPI_Datatype type = MPI_INT;
    MPI_Aint at;

    *address = ints;
    *count = 1;
    switch (layout) {
    case CONTIGUOUS:
        MPI_Type_contiguous(n, MPI_INT, &type);
        break;
    case STRIDED:
        MPI_Type_vector(n, 1, STRIDE, MPI_INT, &type);
        break;
    case INDEXED: /* one int, made STRIDE ints wide: n elements of it */
        MPI_Type_create_resized(MPI_INT, 0, STRIDE * (MPI_Aint)sizeof(int), &type);
        *count = n;
        break;
    case ABSOLUTE:
        MPI_Get_address(ints, &at);
        MPI_Type_create_hindexed(1, &n, &at, MPI_INT, &type);
        *address = MPI_BOTTOM;
        break;
    default:
        *count = n;
        return type;
    }
    MPI_Type_commit(&type);
    return type;
}

static void bcast_layouts(struct check *check, const struct check_comm *comm, int n, int root)
{
    const uint64_t key = check_key(check);
    const enum layout layout = (enum layout)((unsigned)(comm->rank + root) % LAYOUTS);
    const int step = layout == STRIDED || layout == INDEXED ? STRIDE : 1;
    int *ints = check_alloc((size_t)n * STRIDE * sizeof *ints);
    bool right = true;
    void *address;
    int count;
    MPI_Datatype type = layout_type(layout, n, ints, &address, &count);

    for (int i = 0; i < n * STRIDE; i++)
        ints[i] = comm->rank == root && i % step == 0 && i / step < n
                      ? (int)check_mix(key, (uint64_t)(i / step), 0)
                      : -i;
    MPI_Bcast(address, count, type, root, comm->comm);
    for (int i = 0; i < n * STRIDE; i++)
        right = right && ints[i] == (i % step == 0 && i / step < n
                                         ? (int)check_mix(key, (uint64_t)(i / step), 0)
                                         : -i);
    check_that(check, right, "bcast of %d ints from %d on %s of %d: layout %d got the wrong ones",
               n, root, comm->name, comm->size, layout);
    if (type != MPI_INT)
        MPI_Type_free(&type);
    free(ints);
}

void check_broadcasts(struct check *check, const struct check_comm *comms, size_t count)
{
    for (size_t c = 0; c < count; c++) {
        check_epoch(check);
        const int step = check->quick && comms[c].size > 2 ? comms[c].size - 1 : 1;

        for (int root = 0; root < comms[c].size; root += step) {
            for (size_t t = 0; t < check_types_count; t++)
                for (size_t n = 0; n < COUNTS; n++)
                    if (wanted(check, c == 0, &check_types[t], counts[n]))
                        bcast_once(check, &comms[c], &check_types[t], counts[n], root);
            for (size_t n = 0; n < COUNTS; n++)
                if (!check->quick || counts[n] < LONG_COUNT)
                    bcast_layouts(check, &comms[c], (int)counts[n], root);
        }
    }
}
