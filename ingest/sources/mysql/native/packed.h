/* Numbers, times and texts as a server packs them into rows, to their JSON texts. Nothing here knows a Python object.

   `put_` functions write at `to`, and return where that ends; NULL for what the reference has to look at
   (ingest/sources/mysql/binary_values.py and row_values.py). They read as many bytes as their type has. */

#ifndef INGEST_MYSQL_PACKED_H
#define INGEST_MYSQL_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Most bytes that a number or a time has as JSON */
#define MAX_PACKED 80

/* Return an unsigned number of up to eight bytes, the lowest first. */
static inline uint64_t low_bytes(const uint8_t *p, int size)
{
    uint64_t found = 0;
    for (int i = size - 1; i >= 0; i--)
        found = found << 8 | p[i];
    return found;
}

/* The same, the highest first. */
static inline uint64_t high_bytes(const uint8_t *p, int size)
{
    uint64_t found = 0;
    for (int i = 0; i < size; i++)
        found = found << 8 | p[i];
    return found;
}

uint32_t crc32_of(const uint8_t *p, size_t size);
int packed_decimal_size(int precision, int scale);
char *put_unsigned(char *to, uint64_t value);
char *put_packed_decimal(char *to, const uint8_t *p, int precision, int scale);
char *put_packed_date(char *to, const uint8_t *p);
char *put_packed_datetime(char *to, const uint8_t *p, int places);
char *put_packed_time(char *to, const uint8_t *p, int places);
char *put_packed_timestamp(char *to, const uint8_t *p, int places);
char *put_short_float(char *to, float value);
char *put_windows_text(char *to, const uint8_t *p, size_t size);

#endif
