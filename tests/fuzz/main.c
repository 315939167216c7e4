/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.c - runs a fuzz target without a fuzzer on the inputs in files, and in all files of folders.
 *
 * A file that ends in .hex is text: two hexadecimal digits per byte, optional spaces in between,
 * and comments from '#' to the end of the line. scripts/fuzz reads these files in the same way.
 */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

#define INPUT_BYTES (1u << 20) /* limit of the bytes of a file */

/* Decode @text in place. Return the number of decoded bytes. */
static size_t hex_decode(uint8_t *text, size_t bytes)
{
    size_t made = 0;
    char digits[3] = "";
    unsigned count = 0;

    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '#')
            while (i < bytes && text[i] != '\n')
                i++;
        if (i < bytes && isxdigit(text[i]))
            digits[count++] = (char)text[i];
        if (count == 2) {
            text[made++] = (uint8_t)strtoul(digits, NULL, 16);
            count = 0;
        }
    }
    return made;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);

    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

/* Run a file. Its copy has exactly its length, so that sanitizers detect reads beyond the end. */
static void run_file(const char *path)
{
    static uint8_t read_to[INPUT_BYTES];
    FILE *file = fopen(path, "re");

    fuzz_must(file, path);
    size_t bytes = fread(read_to, 1, sizeof read_to, file);
    fclose(file);
    if (ends_with(path, ".hex"))
        bytes = hex_decode(read_to, bytes);
    uint8_t *input = malloc(bytes ? bytes : 1);
    fuzz_must(input, "no memory");
    memcpy(input, read_to, bytes);
    LLVMFuzzerTestOneInput(input, bytes);
    free(input);
}

static unsigned run_folder(const char *path, DIR *folder)
{
    unsigned count = 0;
    char name[4096];

    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        run_file(name);
        count++;
    }
    return count;
}

int main(int argc, char **argv)
{
    unsigned count = 0;

    LLVMFuzzerTestOneInput(NULL, 0);
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        if (folder) {
            count += run_folder(argv[i], folder);
            closedir(folder);
        } else {
            run_file(argv[i]);
            count++;
        }
    }
    printf("corpus: %u inputs passed, 0 failed\n", count);
    return count ? 0 : 1;
}
