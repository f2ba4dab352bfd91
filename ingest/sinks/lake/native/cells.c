/* See cells.h. */

#include "cells.h"

#include <float.h>
#include <math.h>

/* -- Truth values and numbers -------------------------------------------------------------------------------------- */

bool cell_truth(const Field *field, uint8_t *to)
{
    Field read = *field;
    if (read.kind != JSON_BOOL && !read_trimmed_boolean(&read))
        return false;
    *to = *read.text == 't';
    return true;
}

bool cell_integer(const Field *field, int64_t bits, int64_t *to)
{
    Field read = *field;
    if (read.size > MAX_SPELLED || (read.kind != JSON_INT && !read_trimmed_integer(&read)) || !fits_int(&read, bits))
        return false;
    *to = int_of(&read);
    return true;
}

/* Let a field be a number that may be in a text. */
bool cell_number(Field *field)
{
    return is_number(field) || (field->size <= MAX_SPELLED && read_trimmed_number(field));
}

/* Put in `to` the 16 bytes of a number times ten to the power of its scale: that is whole, or the number does not fit. */
bool cell_decimal(const Field *field, int64_t precision, int64_t scale, uint8_t *to)
{
    Field read = *field;
    if (!cell_number(&read) || !fits_decimal(&read, precision, scale))
        return false;
    const char *p = read.text, *end = p + read.size;
    bool minus = *p == '-';
    unsigned __int128 value = 0;
    for (p += minus; p < end && *p != '.'; p++)
        value = value * 10 + (unsigned)(*p - '0');
    if (p < end)
        p++;
    for (int64_t i = 0; i < scale; i++)
        value = value * 10 + (p < end ? (unsigned)(*p++ - '0') : 0);
    if (minus)
        value = -value;
    memcpy(to, &value, sizeof value);
    return true;
}

/* Round the double that is nearest to a number to the float that is nearest to it. Where the double is in the middle of
   two floats, the number may be on either side of it. */
bool cell_float(double value, float *to)
{
    uint64_t bits;
    double size = fabs(value);
    memcpy(&bits, &value, sizeof bits);
    if (!(size <= FLT_MAX) || (size < FLT_MIN && size != 0) || (bits & 0x1FFFFFFF) == 0x10000000)
        return false;
    *to = (float)value;
    return true;
}

/* -- Dates and times ----------------------------------------------------------------------------------------------- */

static int two(const char *p) { return (p[0] - '0') * 10 + p[1] - '0'; }

/* Return the days from 1970 to a date of ten characters. */
static int64_t days_of(const char *p)
{
    int64_t year = two(p) * 100 + two(p + 2), month = two(p + 5);
    /* From the 1st of March of the year 0 on, in which leap days come last */
    year -= month <= 2;
    int64_t era = year / 400, of_era = year % 400;
    int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + two(p + 8) - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* Return the microseconds from midnight to a time of eight characters, and a fraction up to `end`. */
static int64_t micros_of(const char *p, const char *end, int *cut)
{
    int64_t seconds = two(p) * 3600 + two(p + 3) * 60 + two(p + 6), micros = 0;
    p += 8;
    if (p < end)
        p++; /* the point */
    for (int i = 0; i < 6; i++)
        micros = micros * 10 + (p < end ? *p++ - '0' : 0);
    for (; p < end; p++)
        *cut |= *p != '0';
    return seconds * 1000000 + micros;
}

bool cell_date(const Field *field, int32_t *to)
{
    if (!fits_date(field))
        return false;
    *to = (int32_t)days_of(field->text + 1);
    return true;
}

bool cell_time(const Field *field, int64_t *to, int *cut)
{
    if (field->kind != JSON_STRING || (!fits_time(field) && !fits_fine_time(field)))
        return false;
    *to = micros_of(field->text + 1, field->text + field->size - 1, cut);
    return true;
}

/* A date is its midnight. Where a zone may be named, there is none but UTC. */
bool cell_timestamp(const Field *field, bool zoned, int64_t *to, int *cut)
{
    if (field->kind != JSON_STRING || field->size < 12)
        return false;
    const char *p = field->text + 1, *end = field->text + field->size - 1;
    if (fits_date(field)) {
        *to = days_of(p) * DAY;
        return true;
    }
    zoned = zoned && end[-1] == 'Z';
    char separator = p[10] == 'T' ? 'T' : ' ';
    if (!fits_timestamp(field, separator, zoned) && !fits_fine_timestamp(field, separator, zoned))
        return false;
    *to = days_of(p) * DAY + micros_of(p + 11, end - zoned, cut);
    return true;
}
