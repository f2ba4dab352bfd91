/* Values of JSON: whether they are of a type, and their texts in other forms. Nothing here knows a Python object.

   `fits_` functions take a field whose kind was looked at already. `read_` functions put in a field's place what it is
   in the form that is written; that may be at `*to`, which then goes on behind it. They return false, and leave `*to` as
   it is, for what the reference has to look at. */

#ifndef INGEST_NATIVE_VALUES_H
#define INGEST_NATIVE_VALUES_H

#include "scan.h"

/* Most bytes of a converted value that is not made of a text's bytes */
#define MAX_MADE 64
/* Microseconds of a day */
#define DAY 86400000000LL
/* Most bytes of a character that JSON has with an escape */
#define MAX_ESCAPE 6
/* Most bytes that base64 has of so many bytes, with two quotes */
#define BASE64_SIZE(size) (((size) + 2) / 3 * 4 + 2)
/* Most characters of a number in a key; the limit of zeros in model/jsontext.py is no lower */
#define MAX_KEY_NUMBER 40
/* Most bytes of a number that `put_int` or `put_short_double` writes */
#define MAX_NUMBER 24

static inline bool is_number(const Field *field) { return field->kind == JSON_INT || field->kind == JSON_NUMBER; }

/* Let a field have this text from here on. */
static inline void set_text(Field *field, JsonKind kind, const char *text, const char *end)
{
    field->kind = (uint8_t)kind;
    field->flags = 0;
    field->text = text;
    field->size = (uint32_t)(end - text);
}

/* The same, with a text that was made at `*to`. */
static inline bool set_made(Field *field, JsonKind kind, char **to, char *end)
{
    set_text(field, kind, *to, end);
    *to = end;
    return true;
}

bool fits_int(const Field *field, int64_t bits);
bool fits_double(const Field *field);
bool fits_exact_double(const Field *field);
bool fits_exact_float(const Field *field);
bool fits_decimal(const Field *field, int64_t precision, int64_t scale);
bool fits_length(const Field *field, int64_t most);
bool fits_date(const Field *field);
bool fits_timestamp(const Field *field, char separator, bool zoned);
bool fits_time(const Field *field);
bool fits_fine_timestamp(const Field *field, char separator, bool zoned);
bool fits_fine_time(const Field *field);
int64_t read_base64(const char *text, uint32_t size, uint8_t *to, uint32_t most);

char *put_date(char *to, int64_t days);
char *put_time(char *to, uint64_t micros);
char *put_timestamp(char *to, int64_t micros, char separator);
char *put_int(char *to, int64_t value);
char *put_short_double(char *to, double value);
char *put_base64(char *to, const char *from, size_t size);
char *put_json_text(char *to, const char *p, uint32_t size);
char *put_unescaped(char *to, const char *p, const char *end);
char *put_escaped(char *to, uint8_t byte);
char *put_quoted_text(char *to, const char *p, size_t size);
char *put_unscaled(char *to, const uint8_t *bytes, size_t count, int64_t precision, int64_t scale);
int64_t int_of(const Field *field);
bool read_short_double(const Field *field, double *value);

bool key_text(const Field *field, Text *text);

bool read_unquoted(Field *field);
bool read_trimmed_number(Field *field);
bool read_trimmed_integer(Field *field);
bool read_trimmed_boolean(Field *field);
bool read_bit(Field *field);
bool read_unscaled(Field *field, int64_t precision, int64_t scale, char **to);
bool read_unscaled_text(Field *field, int64_t scale, char **to);
bool read_variable(Field *field, char **to);
bool read_bits(Field *field, int64_t width, char **to);
bool read_latin(Field *field, char **to);
bool read_zoned(Field *field, char **to);
bool read_utc(Field *field, char **to);
bool read_days(Field *field, char **to);
bool read_time(Field *field, int64_t micros, char **to);
bool read_moment(Field *field, int64_t micros, char **to);
bool read_spelled_timestamp(Field *field, char separator, bool zoned, char **to);

#endif
