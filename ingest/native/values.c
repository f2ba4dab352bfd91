/* Whether values are of a type, and texts that are written. See values.h. */

#include "values.h"

#include <math.h>

/* -- Numbers ------------------------------------------------------------------------------------------------------- */

/* Return whether an integer has so many bits at most. -0 is 0, and not written so. */
bool fits_int(const Field *field, int64_t bits)
{
    const char *p = field->text;
    uint32_t size = field->size;
    bool minus = *p == '-';
    uint64_t value = 0, most = 1ULL << (bits - 1);
    if (minus) {
        p++;
        size--;
        if (*p == '0')
            return false;
    }
    if (size <= (bits - 1) * 3 / 10)
        return true; /* so few digits fit whatever they are */
    if (size > 19)
        return false;
    while (size--)
        value = value * 10 + (uint64_t)(*p++ - '0');
    return value < most || (minus && value == most);
}

/* Return whether a number is a double. What may be out of its range is left to the reference. */
bool fits_double(const Field *field)
{
    return is_number(field) && !(field->flags & HAS_EXPONENT) && field->size < 300;
}

#ifdef __SIZEOF_INT128__
/* Return whether a double, printed with as many digits as a number has, is `digits` / 10^`behind`. `digits` has 53 bits
   at least, and 57 at most.

   It is where one lies nearer to the number than half of its last digit: so the nearest one is looked for, which is
   `near` units of 2^-`shift`. */
static bool is_near_double(uint64_t digits, int behind)
{
    unsigned __int128 tens = 1;
    for (int i = 0; i < behind; i++)
        tens *= 10;
    int shift = 53 + behind * 3322 / 1000 - (64 - __builtin_clzll(digits));
    if (shift < -1)
        return false;
    if (shift < 0 || !((((unsigned __int128)digits << shift) / tens) >> 52))
        shift++;
    unsigned __int128 wanted = (unsigned __int128)digits << shift, near = (wanted + tens / 2) / tens;
    unsigned __int128 found = near * tens;
    return near <= 1ULL << 53 && (found > wanted ? found - wanted : wanted - found) << 1 < (unsigned __int128)1 << shift;
}
#endif

/* Return whether a number is plainly what a double, printed with as many digits, is. Others are left to the reference. */
bool fits_exact_double(const Field *field)
{
    const char *p = field->text, *end = p + field->size;
    uint64_t digits = 0;
    int count = 0;
    ptrdiff_t behind = 0;
    if (!is_number(field) || field->flags & HAS_EXPONENT || field->size > 40)
        return false;
    for (p += *p == '-'; p < end; p++) {
        if (*p == '.') {
            behind = end - p - 1;
            continue;
        }
        count += count || *p != '0';
        if (count > 17)
            return false;
        digits = digits * 10 + (uint64_t)(*p - '0');
    }
    if (count <= 15 || !(digits >> 52)) /* the doubles there are less than a last digit apart */
        return true;
    if (!behind)
        return digits <= 1ULL << 53;
#ifdef __SIZEOF_INT128__
    return behind <= 20 && is_near_double(digits, (int)behind);
#else
    return false;
#endif
}

/* Return whether a number is plainly a float: one of few digits that is whole. */
bool fits_exact_float(const Field *field) { return field->kind == JSON_INT && field->size <= 7; }

bool fits_decimal(const Field *field, int64_t precision, int64_t scale)
{
    const char *p = field->text, *end = p + field->size;
    if (field->flags & HAS_EXPONENT)
        return false;
    if (*p == '-')
        p++;
    if (p < end && *p == '0')
        p++;
    const char *whole = p;
    while (p < end && *p != '.')
        p++;
    if (p - whole > precision - scale)
        return false;
    if (p == end)
        return true;
    const char *fraction = p + 1;
    while (end > fraction && end[-1] == '0')
        end--;
    return end - fraction <= scale;
}

/* Return the integer of a field that has at most 64 bits. */
int64_t int_of(const Field *field)
{
    uint64_t value = 0;
    bool minus = *field->text == '-';
    for (uint32_t i = minus; i < field->size; i++)
        value = value * 10 + (uint64_t)(field->text[i] - '0');
    return minus ? (int64_t)(0 - value) : (int64_t)value;
}

/* Read a number of few digits; false for any other, and for what has an exponent.

   Ten to the power of few digits, and a whole number of few digits, are doubles: so what one is by the other is rounded
   once, as it is to be. */
bool read_short_double(const Field *field, double *value)
{
    static const double TENS[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    const char *p = field->text, *end = p + field->size;
    uint64_t digits = 0;
    ptrdiff_t behind = 0;
    bool minus = *p == '-';
    p += minus;
    if (end - p > 15)
        return false;
    for (; p < end; p++)
        if (is_digit(*p))
            digits = digits * 10 + (uint64_t)(*p - '0');
        else if (*p == '.')
            behind = end - p - 1;
        else
            return false;
    *value = (double)digits / TENS[behind];
    if (minus)
        *value = -*value;
    return true;
}

/* -- Texts --------------------------------------------------------------------------------------------------------- */

/* Return whether a text has so many characters at most; -1: any number. */
bool fits_length(const Field *field, int64_t most)
{
    if (most < 0)
        return true;
    if (field->flags & HAS_ESCAPES)
        return false;
    int64_t characters = 0;
    for (uint32_t i = 1; i + 1 < field->size; i++)
        characters += (field->text[i] & 0xC0) != 0x80;
    return characters <= most;
}

/* -- Dates and times ----------------------------------------------------------------------------------------------- */

static int two(const char *p) { return is_digit(p[0]) && is_digit(p[1]) ? (p[0] - '0') * 10 + p[1] - '0' : 100; }

/* Return whether ten characters are a date, and one that the calendar has. */
static bool is_date(const char *p)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (p[4] != '-' || p[7] != '-')
        return false;
    int century = two(p), year = two(p + 2), month = two(p + 5), day = two(p + 8);
    if (century > 99 || year > 99 || month < 1 || month > 12 || century + year == 0)
        return false;
    year += century * 100;
    bool leap = month == 2 && year % 4 == 0 && (year % 100 || year % 400 == 0);
    return day >= 1 && day <= days[month - 1] + leap;
}

bool fits_date(const Field *field) { return field->kind == JSON_STRING && field->size == 12 && is_date(field->text + 1); }

/* Return whether a time's fraction, of `size` characters with its point, has six digits at most, and zeros behind them. */
static bool is_fraction(const char *p, int64_t size)
{
    if (*p != '.' || size < 2 || size > 10)
        return false;
    for (int64_t i = 1; i < size; i++)
        if (!is_digit(p[i]) || (i >= 7 && p[i] != '0'))
            return false;
    return true;
}

static bool is_timestamp(const char *p, int64_t size, char separator)
{
    return size >= 19 && p[10] == separator && p[13] == ':' && p[16] == ':' && is_date(p) && two(p + 11) <= 23 &&
           two(p + 14) <= 59 && two(p + 17) <= 59 && (size == 19 || is_fraction(p + 19, size - 19));
}

static bool is_time(const char *p, int64_t size)
{
    return size >= 8 && p[2] == ':' && p[5] == ':' && two(p) <= 23 && two(p + 3) <= 59 && two(p + 6) <= 59 &&
           (size == 8 || is_fraction(p + 8, size - 8));
}

/* Return whether a text is a date and a time in microseconds, with `Z` where it is zoned. */
bool fits_timestamp(const Field *field, char separator, bool zoned)
{
    int64_t size = (int64_t)field->size - 2;
    if (zoned && (size < 1 || field->text[size--] != 'Z'))
        return false;
    return is_timestamp(field->text + 1, size, separator);
}

bool fits_time(const Field *field) { return is_time(field->text + 1, (int64_t)field->size - 2); }

/* Return whether the time that ends a text has a fraction of seven to nine digits from `at` on. */
static bool is_fine(const Field *field, int64_t at, bool zoned)
{
    int64_t digits = (int64_t)field->size - 2 - at - zoned;
    if (field->kind != JSON_STRING || digits < 8 || digits > 10)
        return false;
    const char *p = field->text + 1 + at;
    if (*p != '.' || (zoned && p[digits] != 'Z'))
        return false;
    while (--digits)
        if (!is_digit(p[digits]))
            return false;
    return true;
}

/* Return whether a text is a time stamp that is finer than a microsecond. */
bool fits_fine_timestamp(const Field *field, char separator, bool zoned)
{
    return is_fine(field, 19, zoned) && is_timestamp(field->text + 1, 19, separator);
}

bool fits_fine_time(const Field *field) { return is_fine(field, 8, false) && is_time(field->text + 1, 8); }

static char *put_digits(char *to, uint64_t value, int width)
{
    for (int i = width; i--; value /= 10)
        to[i] = (char)('0' + value % 10);
    return to + width;
}

/* Write the date so many days after 1970, and return where it ends; NULL outside of the years 1 to 9999. */
char *put_date(char *to, int64_t days)
{
    if (days < -719162 || days > 2932896)
        return NULL;
    /* From the 1st of March of the year 0 on, in which leap days come last */
    uint32_t day = (uint32_t)(days + 719468), era = day / 146097, of_era = day % 146097;
    uint32_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    uint32_t of_year = of_era - (365 * year + year / 4 - year / 100), month = (5 * of_year + 2) / 153;
    uint32_t of_month = of_year - (153 * month + 2) / 5 + 1;
    month = month < 10 ? month + 3 : month - 9;
    to = put_digits(to, year + era * 400 + (month <= 2), 4);
    *to++ = '-';
    to = put_digits(to, month, 2);
    *to++ = '-';
    return put_digits(to, of_month, 2);
}

/* Write so many microseconds of a day, their fraction without zeros at its end, and return where that ends. */
char *put_time(char *to, uint64_t micros)
{
    uint64_t seconds = micros / 1000000, fraction = micros % 1000000;
    to = put_digits(to, seconds / 3600, 2);
    *to++ = ':';
    to = put_digits(to, seconds / 60 % 60, 2);
    *to++ = ':';
    to = put_digits(to, seconds % 60, 2);
    if (!fraction)
        return to;
    *to++ = '.';
    to = put_digits(to, fraction, 6);
    while (to[-1] == '0')
        to--;
    return to;
}

/* Write a date and a time, so many microseconds after 1970, and return where that ends; NULL outside of the years 1 to
   9999. */
char *put_timestamp(char *to, int64_t micros, char separator)
{
    int64_t days = micros / DAY - (micros % DAY < 0);
    if (!(to = put_date(to, days)))
        return NULL;
    *to++ = separator;
    return put_time(to, (uint64_t)(micros - days * DAY));
}

/* Write an integer, of 20 characters at most, and return where it ends. */
char *put_int(char *to, int64_t value)
{
    char digits[20], *p = digits + sizeof digits;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do
        *--p = (char)('0' + left % 10);
    while (left /= 10);
    if (value < 0)
        *to++ = '-';
    size_t size = (size_t)(digits + sizeof digits - p);
    memcpy(to, p, size);
    return to + size;
}

/* Write a number of few digits as its shortest text, and return where it ends; NULL for any other number.

   Few are fifteen, four of them behind the point. There are not two texts of so few digits for one number: so one that
   gives this number again is its shortest, but for zeros at its end. */
char *put_short_double(char *to, double value)
{
    double size = fabs(value);
    if (!(size < 1e11)) /* nor what is no number */
        return NULL;
    uint64_t scaled = (uint64_t)(size * 10000 + 0.5);
    if ((double)scaled / 10000 != size)
        return NULL;
    uint64_t behind = scaled % 10000;
    if (signbit(value))
        *to++ = '-';
    to = put_int(to, (int64_t)(scaled / 10000));
    *to++ = '.';
    do {
        *to++ = (char)('0' + behind / 1000);
        behind = behind % 1000 * 10;
    } while (behind);
    return to;
}

/* -- Bytes --------------------------------------------------------------------------------------------------------- */

static int digit_of_base64(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : is_digit(c)          ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

/* Return how many bytes base64 stands for, or -1; the first `most` are put in `to`, which may be NULL. */
int64_t read_base64(const char *text, uint32_t size, uint8_t *to, uint32_t most)
{
    if (size % 4)
        return -1;
    uint32_t padding = size && text[size - 1] == '=' ? 1 + (text[size - 2] == '=') : 0, made = 0, bits = 0;
    for (uint32_t i = 0; i < size - padding; i++) {
        int six = digit_of_base64(text[i]);
        if (six < 0)
            return -1;
        bits = bits << 6 | (uint32_t)six;
        if (i % 4) { /* each but the first completes a byte */
            uint8_t byte = (uint8_t)(bits >> (6 - i % 4 * 2));
            if (to && made < most)
                to[made] = byte;
            made++;
        }
    }
    return made;
}

/* -- Texts --------------------------------------------------------------------------------------------------------- */

/* Write a character of one byte as JSON has it within a text, and return where that ends. */
char *put_escaped(char *to, uint8_t byte)
{
    static const char hex[] = "0123456789abcdef", names[] = "btn?fr"; /* from 8 on; 11 has no short name */
    if (byte >= 0x20 && byte != '"' && byte != '\\') {
        *to++ = (char)byte;
        return to;
    }
    *to++ = '\\';
    if (byte >= 0x20)
        *to++ = (char)byte;
    else if (byte >= '\b' && byte <= '\r' && byte != '\v')
        *to++ = names[byte - '\b'];
    else {
        memcpy(to, "u00", 3);
        to[3] = hex[byte >> 4];
        to[4] = hex[byte & 15];
        to += 5;
    }
    return to;
}

/* Write a text as JSON has it, in quotes, and return where that ends. `to` has room for MAX_ESCAPE times its size, two
   quotes. The text is UTF-8. */
char *put_quoted_text(char *to, const char *p, size_t size)
{
    const char *end = p + size;
    *to++ = '"';
    while (p < end) {
        const char *stop = scan_plain(p, end);
        memcpy(to, p, (size_t)(stop - p));
        to += stop - p;
        p = stop;
        if (p < end)
            to = put_escaped(to, (uint8_t)*p++);
    }
    *to++ = '"';
    return to;
}

/* -- JSON in JSON, and keys ---------------------------------------------------------------------------------------- */

/* Write JSON as a text that holds it, without its white space, and return where that ends. `to` has room for twice its
   size and two quotes. */
char *put_json_text(char *to, const char *p, uint32_t size)
{
    const char *end = p + size;
    bool inside = false;
    *to++ = '"';
    for (; p < end; p++) {
        char c = *p;
        if (!inside && (c == ' ' || c == '\n' || c == '\t' || c == '\r'))
            continue;
        if (c == '"' || c == '\\')
            *to++ = '\\';
        if (c == '\\') { /* an escape within a string: both its characters, whatever the second is */
            *to++ = '\\';
            c = *++p;
            if (c == '"' || c == '\\')
                *to++ = '\\';
        } else if (c == '"')
            inside = !inside;
        *to++ = c;
    }
    *to++ = '"';
    return to;
}

/* Put in `text` what a value is in a key, whatever its column's type: model/jsontext.py is the reference. Return false for
   what it has to look at. */
bool key_text(const Field *field, Text *text)
{
    *text = (Text){field->text, field->size};
    switch (field->kind) {
    case JSON_STRING: /* texts are written one way only, so those with escapes would have to be read first */
        return !(field->flags & HAS_ESCAPES);
    case JSON_BOOL:
        return true;
    case JSON_NUMBER:
        if (field->flags & HAS_EXPONENT || field->size > MAX_KEY_NUMBER)
            return false;
        while (text->text[text->size - 1] == '0')
            text->size--;
        text->size -= text->text[text->size - 1] == '.';
        return text->size != 2 || memcmp(text->text, "-0", 2);
    case JSON_INT:
        return field->size <= MAX_KEY_NUMBER && (field->size != 2 || memcmp(field->text, "-0", 2));
    default:
        return false;
    }
}
