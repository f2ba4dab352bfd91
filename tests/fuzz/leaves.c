/* What holds for the leaf functions of ingest/native, whatever bytes they are given.

   A coverage-guided fuzzer where it is linked with libFuzzer (tools/fuzz); with -DREPLAY a program that goes through
   files, and through so many random changes of them: `leaves COUNT FILES…`. What does not hold aborts. An input's first
   byte is what is called; its bytes end where their memory ends, so that the address sanitizer sees what is read past
   them. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cells.h"
#include "packed.h"
#include "scan.h"
#include "values.h"

#define HOLDS(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what);                                  \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static Row row, other, again;

/* -- The same, byte by byte ---------------------------------------------------------------------------------------- */

static bool plain_utf8(const uint8_t *p, size_t size)
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    for (size_t i = 0; i < size; i++) {
        int more = p[i] < 0x80 ? 0 : p[i] >> 5 == 6 ? 1 : p[i] >> 4 == 14 ? 2 : p[i] >> 3 == 30 ? 3 : -1;
        if (more < 0 || i + (size_t)more >= size)
            return false;
        uint32_t code = more ? p[i] & (0x3F >> more) : p[i];
        for (int k = 0; k < more; k++) {
            if (p[++i] >> 6 != 2)
                return false;
            code = code << 6 | (p[i] & 0x3F);
        }
        if (code < least[more] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
            return false;
    }
    return true;
}

static bool contains(const char *text, size_t size, const char *what)
{
    for (size_t i = 0; i + strlen(what) <= size; i++)
        if (!memcmp(text + i, what, strlen(what)))
            return true;
    return false;
}

static bool same_rows(const Row *a, const Row *b)
{
    if (a->count != b->count || a->size != b->size)
        return false;
    for (int i = 0; i < a->count; i++) {
        const Field *x = &a->fields[i], *y = &b->fields[i];
        if (x->name != y->name || x->text != y->text || x->name_size != y->name_size || x->size != y->size ||
            x->kind != y->kind || x->flags != y->flags)
            return false;
    }
    return true;
}

/* -- JSON ---------------------------------------------------------------------------------------------------------- */

static void see_utf8(const char *text, size_t size)
{
    HOLDS(is_utf8(text, size) == plain_utf8((const uint8_t *)text, size));
    bool array = size && text[0] == '[';
    HOLDS(is_unavailable(text, size) ==
          (contains(text, size, "__debezium_unavailable_value") ||
           contains(text, size, "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==") ||
           (array && contains(text, size, "b68a35a7-17ad-35b3-af2a-ae46edb4545a")) ||
           (array && contains(text, size, "95,95,100,101,98,101,122,105,117,109,95,117,110,97,118,97,105,108,97,98,"
                                          "108,101,95,118,97,108,117,101"))));
}

static void see_value(const char *text, size_t size)
{
    uint8_t kind = 99, flags = 0, kind_then = 99, flags_then = 0;
    const char *end = scan_value(text, text + size, 0, &kind, &flags);
    if (!end)
        return;
    HOLDS(end > text && end <= text + size && kind <= JSON_ARRAY);
    /* No more of it is needed, but for a number, which goes on as far as it can */
    HOLDS(scan_value(text, end, 0, &kind_then, &flags_then) == end && kind_then == kind && flags_then == flags);
    char *to = malloc((size_t)(end - text) * 2 + 2);
    HOLDS(to);
    char *made = put_json_text(to, text, (uint32_t)(end - text));
    HOLDS(made <= to + (end - text) * 2 + 2);
    HOLDS(scan_value(to, made, 0, &kind_then, &flags_then) == made && kind_then == JSON_STRING);
    free(to);
}

/* One row, and one that it may be like: what is taken from the other one is the same as what is read. */
static void see_rows(const char *text, size_t size)
{
    const char *end = text + size, *p = scan_row(text, end, &other, NULL);
    if (!p)
        return;
    HOLDS(p > text && p <= end && other.size == p - text);
    for (int i = 0; i < other.count; i++) {
        const Field *field = &other.fields[i];
        uint8_t kind, flags = 0;
        HOLDS(field->name > text && field->text > field->name && field->text + field->size < p);
        HOLDS(scan_value(field->text, p, 2, &kind, &flags) == field->text + field->size);
        HOLDS(kind == field->kind && (kind > JSON_STRING || flags == field->flags));
    }
    const char *first = scan_row(p, end, &row, NULL), *second = scan_row(p, end, &again, &other);
    HOLDS(first == second);
    HOLDS(!first || same_rows(&row, &again));
}

/* Bytes as base64, and a number that is in them as a time. */
static void see_bytes(const char *text, size_t size)
{
    char *to = malloc(BASE64_SIZE(size)), when[32];
    uint8_t *back = malloc(size + 1);
    HOLDS(to && back);
    char *end = put_base64(to, text, size);
    HOLDS(end <= to + BASE64_SIZE(size));
    HOLDS(read_base64(to, (uint32_t)(end - to), back, (uint32_t)size) == (int64_t)size && !memcmp(back, text, size));
    free(to);
    free(back);
    int64_t micros = 0;
    memcpy(&micros, text, size < 7 ? size : 7); /* up to some 4,000 years */
    when[0] = '"';
    if ((end = put_timestamp(when + 1, micros, ' '))) {
        *end++ = '"';
        Field field = {NULL, when, 0, (uint32_t)(end - when), JSON_STRING, 0};
        HOLDS(end <= when + sizeof when && fits_timestamp(&field, ' ', false));
    }
}

/* -- Values -------------------------------------------------------------------------------------------------------- */

static void see_number(const Field *field, int64_t a, int64_t b)
{
    if (field->kind == JSON_INT && fits_int(field, 64)) {
        char made[24];
        HOLDS(put_int(made, int_of(field)) == made + field->size && !memcmp(made, field->text, field->size));
    }
    if (field->kind == JSON_INT)
        HOLDS(!fits_int(field, 1 + a % 63) || fits_int(field, 64));
    if (is_number(field)) {
        fits_double(field);
        fits_exact_double(field);
        fits_exact_float(field);
        HOLDS(!fits_decimal(field, a, b) || fits_decimal(field, a + 1, b));
    }
    Text text;
    if (key_text(field, &text))
        HOLDS(text.size && text.text == field->text && text.size <= field->size);
}

static void see_text(const Field *field, int64_t a)
{
    if (field->kind != JSON_STRING)
        return;
    bool date = fits_date(field), time = fits_time(field);
    HOLDS(!(date && time));
    HOLDS(!fits_timestamp(field, ' ', false) || !fits_timestamp(field, 'T', false));
    HOLDS(!fits_timestamp(field, ' ', false) || !fits_timestamp(field, ' ', true));
    HOLDS(!fits_fine_timestamp(field, 'T', true) || field->size > 28);
    HOLDS(!fits_fine_time(field) || field->size > 17);
    HOLDS(!fits_length(field, a) || fits_length(field, a + 1));
    uint8_t bytes[8];
    int64_t count = read_base64(field->text + 1, field->size - 2, bytes, sizeof bytes);
    HOLDS(count <= (int64_t)(field->size - 2) / 4 * 3);
}

/* Read a value in one of the ways: what it is then is JSON, and in the room that there is. */
static void see_reading(const Field *given, int how, int64_t a, int64_t b)
{
    size_t room = (size_t)given->size * 2 + MAX_MADE;
    char *start = malloc(room), *to = start;
    Field field = *given;
    bool made = false;
    HOLDS(start);
    switch (how) {
    case 0: made = read_unquoted(&field); break;
    case 1: made = read_trimmed_number(&field); break;
    case 2: made = read_trimmed_integer(&field); break;
    case 3: made = read_trimmed_boolean(&field); break;
    case 4: made = read_bit(&field); break;
    case 5: made = read_unscaled(&field, a, b, &to); break;
    case 6: made = read_latin(&field, &to); break;
    case 7: made = read_zoned(&field, &to); break;
    case 8: made = read_utc(&field, &to); break;
    case 9: made = read_days(&field, &to); break;
    case 10: made = read_time(&field, 1 + a, &to); break;
    case 11: made = read_moment(&field, 1 + a, &to); break;
    case 12: made = read_unscaled_text(&field, b - 3 * a, &to); break;
    case 13: made = read_variable(&field, &to); break;
    case 14: made = read_bits(&field, 1 + a % 8, &to); break;
    default: made = read_spelled_timestamp(&field, a ? 'T' : ' ', b, &to); break;
    }
    HOLDS(to >= start && to <= start + room && (made || to == start));
    if (made) {
        uint8_t kind, flags = 0;
        HOLDS(scan_value(field.text, field.text + field.size, 0, &kind, &flags) == field.text + field.size);
        HOLDS(kind == field.kind);
        if (how == 7)
            HOLDS(fits_timestamp(&field, ' ', true));
        if (how == 9)
            HOLDS(fits_date(&field));
        if (how == 10)
            HOLDS(fits_time(&field));
        if (how == 11)
            HOLDS(fits_timestamp(&field, ' ', false));
    }
    free(start);
}

/* What a value is in a column of Arrow: what is written of it again is the same. */
static void see_cell(const Field *field, int64_t a, int64_t b)
{
    int64_t whole = 0;
    int32_t days = 0;
    int cut = 0;
    uint8_t truth = 9;
    char made[64];
    HOLDS(!cell_truth(field, &truth) || truth < 2);
    if (cell_integer(field, 64, &whole) && field->kind == JSON_INT)
        HOLDS(put_int(made, whole) == made + field->size && !memcmp(made, field->text, field->size));
    if (cell_date(field, &days))
        HOLDS(put_date(made, days) == made + 10 && !memcmp(made, field->text + 1, 10));
    if (cell_time(field, &whole, &cut))
        HOLDS(whole >= 0 && whole < DAY && put_time(made, (uint64_t)whole) && !memcmp(made, field->text + 1, 8));
    if (cell_timestamp(field, b & 1, &whole, &cut))
        HOLDS(put_timestamp(made, whole, field->text[11] == 'T' ? 'T' : ' ') &&
              !memcmp(made, field->text + 1, field->size < 20 ? 10 : 19));
    __int128 number;
    if (cell_decimal(field, 38, a % 39, (uint8_t *)&number)) {
        uint8_t bytes[16];
        for (int i = 0; i < 16; i++)
            bytes[i] = (uint8_t)((unsigned __int128)number >> (120 - 8 * i));
        char *end = put_unscaled(made, bytes, sizeof bytes, 38, a % 39);
        Field again_field = {NULL, made, 0, (uint32_t)(end - made), JSON_NUMBER, 0};
        __int128 then;
        HOLDS(end && cell_decimal(&again_field, 38, a % 39, (uint8_t *)&then) && then == number);
    }
    if (field->kind == JSON_STRING) {
        size_t size = field->size - 2;
        char *plain = malloc(size + 1), *quoted = malloc(size * MAX_ESCAPE + 2);
        HOLDS(plain && quoted);
        char *end = put_unescaped(plain, field->text + 1, field->text + 1 + size);
        HOLDS(end <= plain + size && is_utf8(plain, (size_t)(end - plain)));
        char *last = put_quoted_text(quoted, plain, (size_t)(end - plain));
        char *back = malloc((size_t)(last - quoted));
        HOLDS(back && put_unescaped(back, quoted + 1, last - 1) == back + (end - plain));
        HOLDS(!memcmp(back, plain, (size_t)(end - plain)));
        free(back);
        free(quoted);
        free(plain);
    }
}

static void see_values(const char *text, size_t size)
{
    static const int64_t units[] = {0, 2, 37, 999, 999999};
    if (size < 3 || !is_utf8(text + 2, size - 2) || !scan_row(text + 2, text + size, &row, NULL))
        return;
    int64_t a = units[(uint8_t)text[0] % 5], b = (uint8_t)text[1] % 6;
    for (int i = 0; i < row.count; i++) {
        see_number(&row.fields[i], a, b);
        see_text(&row.fields[i], a);
        see_cell(&row.fields[i], a, b);
        for (int how = 0; how < 16; how++)
            see_reading(&row.fields[i], how, a, b);
    }
}

/* -- Values of MySQL's rows ---------------------------------------------------------------------------------------- */

/* Whether what was written is one value of JSON, in UTF-8, and no longer than it may be. */
static void see_written(const char *made, const char *end, size_t room)
{
    uint8_t kind, flags = 0;
    HOLDS(end >= made && (size_t)(end - made) <= room);
    HOLDS(is_utf8(made, (size_t)(end - made)));
    HOLDS(scan_value(made, end, 0, &kind, &flags) == end);
}

static void see_packed(const char *text, size_t size)
{
    char *made = malloc(MAX_PACKED), *end;
    uint8_t first = size ? (uint8_t)text[0] : 0, second = size > 1 ? (uint8_t)text[1] : 0;
    HOLDS(made);
    for (int way = 0; way < 6; way++) {
        int places = second % 4, precision = 1 + first % 65, scale = second % 39;
        int sizes[] = {3, 5 + places, 3 + places, 4 + places, packed_decimal_size(precision, scale), 4};
        if (sizes[way] < 0 || size < (size_t)sizes[way])
            continue;
        uint8_t *bytes = malloc((size_t)sizes[way]); /* no byte more than it has */
        HOLDS(bytes);
        memcpy(bytes, text + size - sizes[way], (size_t)sizes[way]);
        float narrow;
        switch (way) {
        case 0: end = put_packed_date(made, bytes); break;
        case 1: end = put_packed_datetime(made, bytes, places); break;
        case 2: end = put_packed_time(made, bytes, places); break;
        case 3: end = put_packed_timestamp(made, bytes, places); break;
        case 4: end = put_packed_decimal(made, bytes, precision, scale); break;
        default:
            memcpy(&narrow, bytes, 4);
            end = put_short_float(made, narrow);
            if (end) {
                *end = 0;
                HOLDS(strtof(made, NULL) == narrow);
            }
        }
        if (end)
            see_written(made, end, MAX_PACKED);
        free(bytes);
    }
    free(made);
    made = malloc(6 * size + 2);
    HOLDS(made);
    see_written(made, put_windows_text(made, (const uint8_t *)text, size), 6 * size + 2);
    free(made);
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < size; i++) {
        crc ^= (uint8_t)text[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    HOLDS(crc32_of((const uint8_t *)text, size) == ~crc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const all[])(const char *, size_t) = {see_utf8, see_value, see_rows, see_values};
    if (!size)
        return 0;
    char *text = malloc(size - 1 ? size - 1 : 1); /* no byte more than it has */
    HOLDS(text);
    memcpy(text, data + 1, size - 1);
    all[data[0] % 4](text, size - 1);
    see_bytes(text, size - 1);
    see_packed(text, size - 1);
    free(text);
    return 0;
}

/* -- Without a fuzzer ---------------------------------------------------------------------------------------------- */

#ifdef REPLAY
static uint64_t state = 0x9E3779B97F4A7C15ULL;

static size_t chance(size_t most)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return most ? (size_t)(state % most) : 0;
}

static size_t change(uint8_t *data, size_t size, size_t room)
{
    static const char odd[] = "{}[]\",:\\0123456789.eE-+ tfnu_XZT=\n\x01\x7f\x80\xc3\xa9\xed\xf0\xff";
    for (size_t left = 1 + chance(4); left--;) {
        size_t at = chance(size), more = chance(12);
        if (chance(3) == 0 && size > at + more) { /* less */
            memmove(data + at, data + at + more, size - at - more);
            size -= more;
        } else if (chance(2) && size + more < room) { /* some of it twice */
            memmove(data + at + more, data + at, size - at);
            size += more;
        } else if (size)
            data[at] = (uint8_t)odd[chance(sizeof odd - 1)];
    }
    return size;
}

int main(int count, char **arguments)
{
    enum { ROOM = 1 << 16 };
    static uint8_t data[ROOM], changed[ROOM];
    long times = count > 1 ? atol(arguments[1]) : 0;
    for (int i = 2; i < count; i++) {
        FILE *file = fopen(arguments[i], "rb");
        HOLDS(file);
        size_t size = fread(data, 1, ROOM / 2, file);
        fclose(file);
        LLVMFuzzerTestOneInput(data, size);
        for (long n = 0; n < times; n++) {
            memcpy(changed, data, size);
            LLVMFuzzerTestOneInput(changed, change(changed, size, ROOM));
        }
    }
    printf("%d files, each as it is and with %ld changes\n", count - 2, times);
    return 0;
}
#endif
