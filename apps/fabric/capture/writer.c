/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * writer.c - see writer.h.
 *
 * Each step takes what was in all rings when it began, the oldest first, so that what came in one
 * step is in order. What one worker notes late may still stand behind what another noted before.
 */
#include "apps/fabric/capture/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/fabric/capture/pcapng.h"
#include "apps/cli/say.h"
#include "emu/link/tap_area.h"
#include "emu/now.h"

#define GIVE_BACK 256u /* records that a ring has back at a time */

/* A ring, as far as it was read. */
struct source {
    struct emu_tap_ring *ring;
    uint64_t taken;
    uint64_t told;  /* taken, as the worker knows it */
    uint64_t there; /* as of this step */
};

/* What the file says of an interface by now. */
struct told {
    uint64_t missed, written;
};

struct capture_writer {
    struct emu_tap_area *area;
    size_t bytes;          /* of it */
    struct source *source; /* area->rings of them */
    struct told *told;     /* by interface */
    struct source **busy;  /* those that are not empty, as of this step */
    uint32_t busies;
    uint64_t offset_ns; /* from the monotonic clock to the time of day; clock virtual: 0 */
    uint64_t most;
    uint64_t records;
    uint64_t first, last; /* times of the first one, and of the last */
    struct pcapng file;
};

/* --- made --------------------------------------------------------------------------- */

static void writer_free(struct capture_writer *writer)
{
    emu_tap_area_close(writer->area, writer->bytes);
    free(writer->source);
    free(writer->told);
    free(writer->busy);
    free(writer);
}

static void writer_begin(struct capture_writer *writer, int fd, int hurry_fd)
{
    bool simulated = writer->area->clock == EMU_CLOCK_VIRTUAL;

    if (!simulated)
        writer->offset_ns = emu_time_ns(CLOCK_REALTIME) - emu_now_ns();
    pcapng_open(&writer->file, fd, hurry_fd, "fabemu " FABEMU_VERSION);
    for (uint32_t i = 0; i < writer->area->ifaces; i++)
        pcapng_interface(&writer->file, emu_tap_iface(writer->area, i)->name, EMU_TAP_BYTES,
                         simulated ? PCAPNG_PICOS : PCAPNG_NANOS);
    pcapng_flush(&writer->file);
}

int capture_writer_open(struct capture_writer **ret, int memfd, int fd, uint64_t most, int hurry_fd)
{
    struct capture_writer *writer = calloc(1, sizeof *writer);
    int err = writer ? emu_tap_area_open(&writer->area, memfd) : -ENOMEM;

    close(memfd);
    if (err) {
        free(writer);
        return err;
    }
    writer->bytes = writer->area->bytes;
    writer->most = most;
    writer->source = calloc(writer->area->rings, sizeof *writer->source);
    writer->told = calloc(writer->area->ifaces, sizeof *writer->told);
    writer->busy = calloc(writer->area->rings, sizeof(struct source *));
    if (!writer->source || !writer->told || !writer->busy) {
        writer_free(writer);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < writer->area->rings; i++)
        writer->source[i].ring = emu_tap_ring(writer->area, i);
    writer_begin(writer, fd, hurry_fd);
    *ret = writer;
    return 0;
}

/* --- records ------------------------------------------------------------------------ */

static const struct emu_tap_record *front(const struct capture_writer *writer,
                                          const struct source *source)
{
    return &source->ring->record[source->taken & (writer->area->slots - 1)];
}

/* The rings that have something now: what comes later is the next step's. */
static void look(struct capture_writer *writer)
{
    writer->busies = 0;
    for (uint32_t i = 0; i < writer->area->rings; i++) {
        struct source *source = &writer->source[i];

        source->there = emu_tap_there(source->ring);
        if (source->there != source->taken)
            writer->busy[writer->busies++] = source;
    }
}

/* Where among the busy ones. There is one. */
static uint32_t oldest(const struct capture_writer *writer)
{
    uint32_t at = 0;

    for (uint32_t i = 1; i < writer->busies; i++)
        if (front(writer, writer->busy[i])->time < front(writer, writer->busy[at])->time)
            at = i;
    return at;
}

static void write_record(struct capture_writer *writer, const struct emu_tap_record *record)
{
    struct told *told = &writer->told[record->iface];
    struct pcapng_packet packet = {.iface = record->iface,
                                   .time = record->time + writer->offset_ns,
                                   .data = record->data,
                                   .bytes = record->bytes,
                                   .whole = record->whole,
                                   .lost = record->missed - told->missed};

    told->missed = record->missed;
    told->written++;
    pcapng_packet(&writer->file, &packet);
    if (!writer->records++ || packet.time < writer->first)
        writer->first = packet.time;
    if (packet.time > writer->last)
        writer->last = packet.time;
}

/* What a record says of itself is not followed where it cannot be. */
static bool is_sane(const struct capture_writer *writer, const struct emu_tap_record *record)
{
    return record->iface < writer->area->ifaces && record->bytes <= EMU_TAP_BYTES &&
           record->bytes <= record->whole && record->missed >= writer->told[record->iface].missed;
}

static void give_back(struct source *source)
{
    source->told = source->taken;
    emu_tap_done(source->ring, source->taken);
}

int64_t capture_writer_step(struct capture_writer *writer)
{
    uint64_t before = writer->records;

    look(writer);
    while (writer->busies && writer->records < writer->most && !writer->file.err) {
        uint32_t at = oldest(writer);
        struct source *source = writer->busy[at];

        if (is_sane(writer, front(writer, source)))
            write_record(writer, front(writer, source));
        if (++source->taken - source->told >= GIVE_BACK)
            give_back(source);
        if (source->taken == source->there)
            writer->busy[at] = writer->busy[--writer->busies];
    }
    for (uint32_t i = 0; i < writer->area->rings; i++)
        if (writer->source[i].taken != writer->source[i].told)
            give_back(&writer->source[i]);
    if (pcapng_flush(&writer->file))
        return writer->file.err;
    return (int64_t)(writer->records - before);
}

/* --- the end ------------------------------------------------------------------------ */

struct capture_written capture_writer_written(const struct capture_writer *writer)
{
    struct capture_written written = {.records = writer->records,
                                      .ended = writer->records >= writer->most};

    for (uint32_t i = 0; i < writer->area->ifaces; i++)
        written.missed += emu_count_read(&emu_tap_iface(writer->area, i)->missed);
    return written;
}

static void write_statistics(struct capture_writer *writer)
{
    uint64_t now = writer->offset_ns ? emu_time_ns(CLOCK_REALTIME) : writer->last;

    for (uint32_t i = 0; i < writer->area->ifaces; i++) {
        const struct emu_tap_iface *iface = emu_tap_iface(writer->area, i);

        pcapng_statistics(&writer->file,
                          &(struct pcapng_statistics){.iface = i,
                                                      .time = now,
                                                      .start = writer->first,
                                                      .end = writer->last,
                                                      .received = emu_count_read(&iface->seen),
                                                      .lost = emu_count_read(&iface->missed),
                                                      .written = writer->told[i].written});
    }
}

int capture_writer_close(struct capture_writer *writer, struct capture_written *ret)
{
    int err;

    capture_writer_step(writer);
    write_statistics(writer);
    err = pcapng_flush(&writer->file);
    *ret = capture_writer_written(writer);
    writer_free(writer);
    return err;
}

void capture_say(const char *file, const struct capture_written *written, int err)
{
    unsigned long long records = written->records, missed = written->missed;

    if (err)
        say("capture: %s could not be written any more (%s): some of the %llu records are missing "
            "there, and so are those that came later",
            file, strerror(-err), records);
    else if (missed)
        say("capture: %llu records are in %s; %llu more came too fast, and are only counted there: "
            "a narrower filter, or a smaller --snaplen, keeps more",
            records, file, missed);
    else
        say("capture: %llu records are in %s", records, file);
}
