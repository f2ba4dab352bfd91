#include "packed.h"

#include <math.h>
#include <string.h>

#include "values.h"

/* -- Bytes --------------------------------------------------------------------------------------------------------- */

static uint32_t crc_table[8][256];

__attribute__((constructor)) static void make_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
        crc_table[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int slice = 1; slice < 8; slice++)
            crc_table[slice][i] = crc_table[slice - 1][i] >> 8 ^ crc_table[0][crc_table[slice - 1][i] & 255];
}

static inline uint32_t four_bytes(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Return the CRC32 of bytes, eight at a time. */
uint32_t crc32_of(const uint8_t *p, size_t size)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (; size >= 8; size -= 8, p += 8) {
        uint32_t low = four_bytes(p) ^ crc, high = four_bytes(p + 4);
        crc = crc_table[7][low & 255] ^ crc_table[6][low >> 8 & 255] ^ crc_table[5][low >> 16 & 255] ^
              crc_table[4][low >> 24] ^ crc_table[3][high & 255] ^ crc_table[2][high >> 8 & 255] ^
              crc_table[1][high >> 16 & 255] ^ crc_table[0][high >> 24];
    }
    while (size--)
        crc = crc >> 8 ^ crc_table[0][(crc ^ *p++) & 255];
    return ~crc;
}

/* -- Numbers ------------------------------------------------------------------------------------------------------- */

char *put_unsigned(char *to, uint64_t value)
{
    if (value <= INT64_MAX)
        return put_int(to, (int64_t)value);
    to = put_int(to, (int64_t)(value / 10));
    *to++ = (char)('0' + value % 10);
    return to;
}

static const int digit_bytes[] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4};
static const uint32_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};

/* Return the bytes of a DECIMAL, or -1 where there is none of so many digits. */
int packed_decimal_size(int precision, int scale)
{
    if (scale < 0 || precision < scale || precision > 65 || scale > 38 || precision == 0)
        return -1;
    int whole = precision - scale;
    return whole / 9 * 4 + digit_bytes[whole % 9] + scale / 9 * 4 + digit_bytes[scale % 9];
}

static char *put_digits(char *to, uint32_t number, int count)
{
    for (int i = count - 1; i >= 0; i--, number /= 10)
        to[i] = (char)('0' + number % 10);
    return to + count;
}

char *put_packed_decimal(char *to, const uint8_t *p, int precision, int scale)
{
    char digits[72], *made = digits;
    int whole = precision - scale, groups[10], count = 0, size = packed_decimal_size(precision, scale);
    uint8_t flip = p[0] & 0x80 ? 0 : 0xFF, bytes[36];
    if (size < 0)
        return NULL;
    for (int i = 0; i < size; i++)
        bytes[i] = p[i] ^ flip;
    bytes[0] ^= 0x80;
    if (whole % 9)
        groups[count++] = whole % 9;
    for (int i = 0; i < whole / 9; i++)
        groups[count++] = 9;
    for (int i = 0; i < scale / 9; i++)
        groups[count++] = 9;
    if (scale % 9)
        groups[count++] = scale % 9;
    const uint8_t *from = bytes;
    for (int i = 0; i < count; i++) {
        uint32_t number = (uint32_t)high_bytes(from, digit_bytes[groups[i]]);
        if (number >= powers[groups[i]])
            return NULL;
        made = put_digits(made, number, groups[i]);
        from += digit_bytes[groups[i]];
    }
    bool zero = true;
    for (int i = 0; i < precision; i++)
        zero &= digits[i] == '0';
    if (precision > 38)
        *to++ = '"';
    if (flip && !zero)
        *to++ = '-';
    int first = 0;
    while (first < whole && digits[first] == '0')
        first++;
    if (first == whole)
        *to++ = '0';
    memcpy(to, digits + first, (size_t)(whole - first));
    to += whole - first;
    if (scale) {
        *to++ = '.';
        memcpy(to, digits + whole, (size_t)scale);
        to += scale;
    }
    if (precision > 38)
        *to++ = '"';
    return to;
}

/* Write a float of at most six digits, none of them further than four behind the point. A float has no second text of so
   few digits. */
char *put_short_float(char *to, float value)
{
    double size = fabs((double)value), power = 10000;
    if (!(size < 1e6))
        return NULL;
    for (; power >= 1; power /= 10) {
        double scaled = (double)(uint64_t)(size * power + 0.5);
        if (scaled < 1e6 && (float)(scaled / power) == (float)size)
            return put_short_double(to, signbit(value) ? -(scaled / power) : scaled / power);
    }
    return NULL;
}

/* -- Times --------------------------------------------------------------------------------------------------------- */

static char *put_part(char *to, uint32_t number, int digits, char behind)
{
    to = put_digits(to, number, digits);
    *to++ = behind;
    return to;
}

static uint32_t micros_of(uint64_t fraction, int places)
{
    static const uint32_t units[] = {0, 10000, 100, 1};
    return (uint32_t)fraction * units[places];
}

/* Write a fraction without zeros at its end, and the quote. */
static char *put_fraction(char *to, uint32_t micros)
{
    if (micros) {
        *to++ = '.';
        char *end = put_digits(to, micros, 6);
        while (end[-1] == '0')
            end--;
        to = end;
    }
    *to++ = '"';
    return to;
}

/* Write a date of 17 bits of years times 13 and months, and five of days. */
static char *put_day(char *to, uint32_t number, char behind)
{
    uint32_t months = number >> 5;
    to = put_part(to, months / 13, 4, '-');
    to = put_part(to, months % 13, 2, '-');
    return put_part(to, number & 31, 2, behind);
}

static char *put_clock(char *to, uint32_t number)
{
    to = put_part(to, number >> 12, 2, ':');
    to = put_part(to, number >> 6 & 63, 2, ':');
    return put_digits(to, number & 63, 2);
}

char *put_packed_date(char *to, const uint8_t *p)
{
    uint32_t number = (uint32_t)low_bytes(p, 3);
    *to++ = '"';
    if (number >> 9 > 9999)
        return NULL;
    to = put_part(to, number >> 9, 4, '-');
    to = put_part(to, number >> 5 & 15, 2, '-');
    return put_part(to, number & 31, 2, '"');
}

char *put_packed_datetime(char *to, const uint8_t *p, int places)
{
    uint64_t number = high_bytes(p, 5);
    uint32_t micros = micros_of(high_bytes(p + 5, places), places);
    if (number >> 39 != 1 || micros > 999999)
        return NULL;
    number &= (1ULL << 39) - 1;
    if ((number >> 22) / 13 > 9999)
        return NULL;
    *to++ = '"';
    to = put_day(to, (uint32_t)(number >> 17), ' ');
    to = put_clock(to, (uint32_t)number & 0x1FFFF);
    return put_fraction(to, micros);
}

char *put_packed_time(char *to, const uint8_t *p, int places)
{
    int64_t number = (int64_t)high_bytes(p, 3 + places) - (1LL << (23 + 8 * places));
    *to++ = '"';
    if (number < 0) {
        *to++ = '-';
        number = -number;
    }
    uint32_t clock = (uint32_t)(number >> 8 * places);
    uint32_t micros = micros_of((uint64_t)number & ((1ULL << 8 * places) - 1), places);
    if (micros > 999999)
        return NULL;
    if (clock >> 12 > 99) {
        if (clock >> 12 > 999)
            return NULL;
        to = put_digits(to, clock >> 12, 3);
        *to++ = ':';
        to = put_part(to, clock >> 6 & 63, 2, ':');
        to = put_digits(to, clock & 63, 2);
    } else
        to = put_clock(to, clock);
    return put_fraction(to, micros);
}

char *put_packed_timestamp(char *to, const uint8_t *p, int places)
{
    uint64_t seconds = high_bytes(p, 4);
    uint32_t micros = micros_of(high_bytes(p + 4, places), places);
    if ((!seconds && !micros) || micros > 999999)
        return NULL;
    *to++ = '"';
    to = put_timestamp(to, (int64_t)(seconds * 1000000 + micros), ' ');
    *to++ = 'Z';
    *to++ = '"';
    return to;
}

/* -- Texts --------------------------------------------------------------------------------------------------------- */

/* Windows' code page 1252 from 0x80 to 0x9F; what it does not have is the control that it is in Unicode, as in servers */
static const uint16_t windows[] = {
    0x20AC, 0x81,   0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8D,
    0x017D, 0x8F,   0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A,
    0x0153, 0x9D,   0x017E, 0x0178,
};

/* Write a text of the server's latin1. `to` has room for MAX_ESCAPE times its size, two quotes. */
char *put_windows_text(char *to, const uint8_t *p, size_t size)
{
    *to++ = '"';
    for (const uint8_t *end = p + size; p < end; p++) {
        uint32_t code = *p >= 0x80 && *p < 0xA0 ? windows[*p - 0x80] : *p;
        if (code >= 0x800) {
            *to++ = (char)(0xE0 | code >> 12);
            *to++ = (char)(0x80 | (code >> 6 & 63));
            *to++ = (char)(0x80 | (code & 63));
        } else if (code >= 0x80) {
            *to++ = (char)(0xC0 | code >> 6);
            *to++ = (char)(0x80 | (code & 63));
        } else if (code < 0x20 || code == '"' || code == '\\')
            to = put_escaped(to, (uint8_t)code);
        else
            *to++ = (char)code;
    }
    *to++ = '"';
    return to;
}
