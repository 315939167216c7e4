/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * writer.c - see writer.h.
 *
 * Each step writes the records that were in the rings at its start, ordered by time. The order is
 * not guaranteed across steps: a record that a worker adds late may follow records of later times.
 */
#include "apps/capture/writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/capture/files.h"
#include "apps/capture/pcapng.h"
#include "apps/base/message.h"
#include "emu/link/tap_area.h"
#include "emu/util/now.h"

#define RELEASE_SLOTS 256u /* slots that are returned to the worker together */
#define WRITTEN_BY    "fabemu " FABEMU_VERSION

/* The ring of a worker. The counts are free-running. */
struct source {
    struct emu_tap_ring *ring;
    uint64_t taken;    /* records read */
    uint64_t released; /* records whose slots were returned to the worker */
    uint64_t put;      /* records that the worker had written when this step began */
};

/* Counts of one interface. */
struct counts {
    uint64_t missed;  /* records that the worker had dropped, as of the last record read */
    uint64_t written; /* records written to files, some of which may be overwritten by now */
};

struct capture_writer {
    struct emu_tap_area *area;
    struct emu_tap_area head; /* a copy of the area's beginning */
    struct source *source;    /* by ring */
    struct counts *counts;    /* by interface */
    struct source **busy;     /* sources that are not empty in this step */
    uint32_t busy_count;
    uint64_t offset_ns; /* time of day minus monotonic time; clock virtual: 0 */
    uint64_t most;
    uint64_t records;     /* all records written so far, or still in file.buf */
    uint64_t first, last; /* earliest and latest time of a record */

    struct capture_files *files;
    uint64_t in_file[CAPTURE_FILES_MOST]; /* by file: records in it */
    uint64_t overwritten;                 /* records in files that were overwritten */
    bool full;                            /* no file has space for another record */
    struct pcapng file;                   /* the file that is being written */
};

/* --- opening ------------------------------------------------------------------------ */

static void writer_free(struct capture_writer *writer)
{
    emu_tap_area_close(writer->area, writer->head.bytes);
    free(writer->source);
    free(writer->counts);
    free(writer->busy);
    free(writer);
}

static uint64_t statistics_bytes(const struct capture_writer *writer)
{
    return (uint64_t)writer->head.ifaces * PCAPNG_STATISTICS_BYTES;
}

struct names {
    char name[EMU_TAP_NAME_BYTES];
    char about[EMU_TAP_ABOUT_BYTES];
};

/* Return copies of the texts about an interface, because another process may change them. */
static struct names names_of(const struct capture_writer *writer, uint32_t i)
{
    const struct emu_tap_iface *iface = emu_tap_iface(writer->area, i);
    struct names names;

    memcpy(names.name, iface->name, sizeof names.name);
    memcpy(names.about, iface->about, sizeof names.about);
    names.name[sizeof names.name - 1] = names.about[sizeof names.about - 1] = '\0';
    return names;
}

/* Texts are padded to multiples of 4 bytes. */
static uint64_t interfaces_bytes(const struct capture_writer *writer)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < writer->head.ifaces; i++)
        bytes += PCAPNG_INTERFACE_BYTES(EMU_TAP_NAME_BYTES,
                                        (strlen(names_of(writer, i).about) + 3) & ~3ul);
    return bytes;
}

/* Return the size of a file with a single record of maximum size. */
static uint64_t least_bytes(const struct capture_writer *writer)
{
    return PCAPNG_SECTION_BYTES(sizeof WRITTEN_BY) + interfaces_bytes(writer) +
           PCAPNG_PACKET_BYTES(EMU_TAP_BYTES) + statistics_bytes(writer);
}

static bool has_room(const struct capture_writer *writer, uint64_t bytes)
{
    uint64_t most = writer->files->limits.most_bytes;
    uint64_t used = writer->files->used_bytes + writer->file.bytes + writer->file.used;

    return used <= most && bytes <= most - used;
}

/*
 * Return the unit of times in the file: a picosecond for `fabemu traffic`. Programs usually run for
 * longer, and Wireshark 4.0 shows wrong times after 18 ms if the unit is a picosecond.
 */
static uint32_t unit_ps(const struct capture_writer *writer)
{
    return writer->head.clock == EMU_CLOCK_VIRTUAL && writer->head.unit_ps == 1 ? 1 : 1000;
}

/* Return the time of a record, in the unit of the file. */
static uint64_t time_of(const struct capture_writer *writer, uint64_t time)
{
    if (writer->head.clock == EMU_CLOCK_VIRTUAL)
        return time / unit_ps(writer);
    return time + writer->offset_ns;
}

static void section_begin(struct capture_writer *writer, int end_fd)
{
    uint8_t unit = unit_ps(writer) == 1 ? PCAPNG_PICOS : PCAPNG_NANOS;

    pcapng_open(&writer->file, writer->files->file[writer->files->at].fd, end_fd, WRITTEN_BY);
    for (uint32_t i = 0; i < writer->head.ifaces; i++) {
        struct names names = names_of(writer, i);

        pcapng_interface(&writer->file, names.name, names.about, EMU_TAP_BYTES, unit);
    }
    pcapng_flush(&writer->file);
}

/* Begin a section in the current file, or in the next one if an earlier capture has filled it. */
static void writer_begin(struct capture_writer *writer, int end_fd)
{
    if (writer->head.clock != EMU_CLOCK_VIRTUAL)
        writer->offset_ns = emu_time_ns(CLOCK_REALTIME) - emu_now_ns();
    if (!has_room(writer, least_bytes(writer))) {
        int err = capture_files_next(writer->files);

        writer->full = err;
        writer->file.err = err == -EFBIG ? 0 : err;
    }
    if (!writer->full)
        section_begin(writer, end_fd);
}

/*
 * The first capture of a fabric empties the files, and later ones continue them. Errors: -EMSGSIZE,
 * the size limit of the files is too small for this capture; those of capture_files_begin().
 */
static int files_begin(struct capture_writer *writer, struct capture_files *files)
{
    writer->files = files;
    files->least_bytes = least_bytes(writer);
    if (files->least_bytes > files->limits.most_bytes)
        return -EMSGSIZE;
    return capture_files_begin(files, PCAPNG_PACKET_BYTES(EMU_TAP_HEAD_BYTES + 2 * EMU_HDR_BYTES +
                                                          writer->head.snap_bytes));
}

int capture_writer_open(struct capture_writer **ret, int memfd, struct capture_files *files,
                        uint64_t most, int end_fd)
{
    struct capture_writer *writer = calloc(1, sizeof *writer);
    int err = writer ? emu_tap_area_open(&writer->area, &writer->head, memfd) : -ENOMEM;

    close(memfd);
    if (err) {
        free(writer);
        return err;
    }
    writer->most = most;
    writer->source = calloc(writer->head.rings, sizeof *writer->source);
    writer->counts = calloc(writer->head.ifaces, sizeof *writer->counts);
    writer->busy = calloc(writer->head.rings, sizeof(struct source *));
    err = writer->source && writer->counts && writer->busy ? files_begin(writer, files) : -ENOMEM;
    if (err) {
        writer_free(writer);
        return err;
    }
    for (uint32_t i = 0; i < writer->head.rings; i++)
        writer->source[i].ring = emu_tap_ring(writer->area, &writer->head, i);
    writer_begin(writer, end_fd);
    *ret = writer;
    return 0;
}

/* --- records ------------------------------------------------------------------------ */

static const struct emu_tap_record *front(const struct capture_writer *writer,
                                          const struct source *source)
{
    return &source->ring->record[source->taken & (writer->head.slots - 1)];
}

/*
 * Find the rings with records. Records that workers add later wait for the next step. A worker
 * never writes more records than the ring has slots, but other processes can write to the count.
 */
static void find_busy(struct capture_writer *writer)
{
    writer->busy_count = 0;
    for (uint32_t i = 0; i < writer->head.rings; i++) {
        struct source *source = &writer->source[i];

        source->put = emu_tap_there(source->ring);
        if (source->put - source->taken > writer->head.slots)
            source->put = source->taken + writer->head.slots;
        if (source->put != source->taken)
            writer->busy[writer->busy_count++] = source;
    }
}

/* Return the index in busy[] of the ring with the oldest record. There is at least one ring. */
static uint32_t oldest(const struct capture_writer *writer)
{
    uint32_t at = 0;

    for (uint32_t i = 1; i < writer->busy_count; i++)
        if (front(writer, writer->busy[i])->time < front(writer, writer->busy[at])->time)
            at = i;
    return at;
}

/*
 * Write the statistics of each interface. @last: the capture has ended, so every record that is not
 * in the files counts as lost. Before the end, only dropped records count as lost.
 */
static void write_statistics(struct capture_writer *writer, bool last)
{
    uint64_t now = writer->offset_ns ? emu_time_ns(CLOCK_REALTIME) : writer->last;

    for (uint32_t i = 0; i < writer->head.ifaces; i++) {
        const struct emu_tap_iface *iface = emu_tap_iface(writer->area, i);
        uint64_t written = writer->counts[i].written;
        uint64_t lost = last ? emu_count_read(&iface->seen) - written : writer->counts[i].missed;

        pcapng_statistics(&writer->file, &(struct pcapng_statistics){.iface = i,
                                                                     .time = now,
                                                                     .start = writer->first,
                                                                     .end = writer->last,
                                                                     .received = written + lost,
                                                                     .lost = lost,
                                                                     .written = written});
    }
}

/* Begin the next file of the ring. Returns false if there is only one file, or on an error. */
static bool next_file_begin(struct capture_writer *writer)
{
    int end_fd = writer->file.end_fd;
    int err;

    if (writer->files->limits.count == 1)
        return false;
    write_statistics(writer, false);
    if (pcapng_flush(&writer->file))
        return false;
    err = capture_files_next(writer->files);
    if (err) {
        writer->file.err = err;
        return false;
    }
    writer->overwritten += writer->in_file[writer->files->at];
    writer->in_file[writer->files->at] = 0;
    section_begin(writer, end_fd);
    return true;
}

static void write_packet(struct capture_writer *writer, const struct pcapng_packet *packet)
{
    if (!has_room(writer, PCAPNG_PACKET_BYTES(packet->bytes) + statistics_bytes(writer)) &&
        !next_file_begin(writer)) {
        writer->full = true;
        return;
    }
    pcapng_packet(&writer->file, packet);
    writer->in_file[writer->files->at]++;
    if (!writer->records++ || packet->time < writer->first)
        writer->first = packet->time;
    if (packet->time > writer->last)
        writer->last = packet->time;
    writer->counts[packet->iface].written++;
}

/*
 * Write a record. Other processes can write to the rings at any time, so each field is read once,
 * and checked. A record with a wrong field is left out.
 */
static void write_record(struct capture_writer *writer, const struct emu_tap_record *record)
{
    uint64_t time = __atomic_load_n(&record->time, __ATOMIC_RELAXED);
    uint64_t missed = __atomic_load_n(&record->missed, __ATOMIC_RELAXED);
    struct pcapng_packet packet = {.iface = __atomic_load_n(&record->iface, __ATOMIC_RELAXED),
                                   .time = time_of(writer, time),
                                   .data = record->data,
                                   .bytes = __atomic_load_n(&record->bytes, __ATOMIC_RELAXED),
                                   .whole = __atomic_load_n(&record->whole, __ATOMIC_RELAXED)};

    if (packet.iface >= writer->head.ifaces || packet.bytes > EMU_TAP_BYTES ||
        packet.bytes > packet.whole || missed < writer->counts[packet.iface].missed)
        return;
    packet.lost = missed - writer->counts[packet.iface].missed;
    writer->counts[packet.iface].missed = missed;
    write_packet(writer, &packet);
}

static void release_slots(struct source *source)
{
    source->released = source->taken;
    emu_tap_done(source->ring, source->taken);
}

int64_t capture_writer_step(struct capture_writer *writer)
{
    uint64_t before = writer->records;

    find_busy(writer);
    while (writer->busy_count && !capture_writer_ended(writer) && !writer->file.err) {
        uint32_t at = oldest(writer);
        struct source *source = writer->busy[at];

        write_record(writer, front(writer, source));
        if (++source->taken - source->released >= RELEASE_SLOTS)
            release_slots(source);
        if (source->taken == source->put)
            writer->busy[at] = writer->busy[--writer->busy_count];
    }
    for (uint32_t i = 0; i < writer->head.rings; i++)
        if (writer->source[i].taken != writer->source[i].released)
            release_slots(&writer->source[i]);
    if (pcapng_flush(&writer->file))
        return writer->file.err;
    return (int64_t)(writer->records - before);
}

/* --- closing ------------------------------------------------------------------------ */

bool capture_writer_ended(const struct capture_writer *writer)
{
    return writer->full || writer->records >= writer->most;
}

/*
 * Return three numbers of records: written and still in the files, missed by the writer, and
 * overwritten. The capture has stopped, so the workers no longer change the counters.
 */
static struct capture_written written_of(const struct capture_writer *writer)
{
    struct capture_written written = {.overwritten = writer->overwritten, .full = writer->full};
    /* Once the writer has stopped, rings fill up, and iface->missed counts later records, too. */
    bool stopped = writer->full || writer->file.err;
    uint64_t seen = 0;

    for (uint32_t i = 0; i < writer->head.ifaces; i++) {
        const struct emu_tap_iface *iface = emu_tap_iface(writer->area, i);

        seen += emu_count_read(&iface->seen);
        written.missed += stopped ? writer->counts[i].missed : emu_count_read(&iface->missed);
    }
    written.records = writer->records - writer->overwritten - writer->file.unwritten;
    written.after = seen - written.missed - written.records - written.overwritten;
    return written;
}

int capture_writer_close(struct capture_writer *writer, struct capture_written *ret)
{
    int err;

    capture_writer_step(writer);
    if (!writer->full || writer->records)
        write_statistics(writer, true);
    err = pcapng_flush(&writer->file);
    writer->files->used_bytes += writer->file.bytes;
    *ret = written_of(writer);
    writer_free(writer);
    return err;
}

void capture_print(const struct capture_files *files, const struct capture_written *written,
                   int err)
{
    unsigned long long records = written->records, after = written->after;
    const char *are = records == 1 ? " is" : "s are";
    char fast[160] = "", old[64] = "", late[96] = "";

    if (written->missed)
        snprintf(fast, sizeof fast,
                 "; %llu more came too fast and were only counted: a narrower filter or a smaller "
                 "--snaplen keeps more",
                 (unsigned long long)written->missed);
    if (written->overwritten)
        snprintf(old, sizeof old, "; %llu older one%s overwritten",
                 (unsigned long long)written->overwritten,
                 written->overwritten == 1 ? " was" : "s were");
    if (written->full)
        snprintf(late, sizeof late, "; %llu later one%s not written, because of --capture-size",
                 after, after == 1 ? " was" : "s were");
    if (err)
        print_message(
            "capture: writing %s failed (%s): %llu record%s in it, and %llu later one%s not "
            "written%s%s",
            files->label, strerror(-err), records, are, after, after == 1 ? " was" : "s were", fast,
            old);
    else
        print_message("capture: %llu record%s in %s%s%s%s", records, are, files->label, fast, old,
                      late);
}
