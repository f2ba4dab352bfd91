# cython: language_level=3
"""The leaf functions in C: scan.h and values.h."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "scan.h" nogil:
    enum:
        MAX_FIELDS
        MIN_UNAVAILABLE
        JSON_NULL
        JSON_BOOL
        JSON_INT
        JSON_STRING
        JSON_OBJECT
        JSON_ARRAY
        HAS_ESCAPES

    ctypedef struct Text:
        const char *text
        size_t size

    ctypedef struct Field:
        const char *name
        const char *text
        uint32_t name_size
        uint32_t size
        uint8_t kind
        uint8_t flags

    ctypedef struct Row:
        const char *text
        const char *end
        Py_ssize_t size
        int count
        int alike
        Field *fields

    bint is_utf8(const char *text, size_t size)
    const char *scan_value(const char *p, const char *end, int depth, uint8_t *kind, uint8_t *flags)
    const char *scan_row(const char *p, const char *end, Row *row, const Row *like)
    bint scan_object(const char *text, size_t size, Row *row, const Row *like)
    bint is_unavailable(const char *text, size_t size)
    bint has_text(const char *text, size_t size, const char *part, size_t part_size)
    const char *skip_space(const char *p, const char *end)
    const char *scan_plain(const char *p, const char *end)
    const char *scan_string(const char *p, const char *end, uint8_t *flags)
    const char *scan_number(const char *p, const char *end, uint8_t *kind, uint8_t *flags)
    bint is_same(const char *a, const char *b, size_t size)
    bint is_named(const Field *field, const char *name, uint32_t size)
    const char *scan_name(const char *p, const char *end, Field *field)
    const char *scan_field(const char *p, const char *end, Field *field)
    const char *next_field(const char *p, const char *end, bint *last)
    const char *open_object(const char *p, const char *end, bint *last)


cdef extern from "values.h" nogil:
    enum:
        MAX_MADE
        MAX_ESCAPE
        MAX_NUMBER

    bint is_number(const Field *field)
    bint fits_int(const Field *field, int64_t bits)
    bint fits_double(const Field *field)
    bint fits_exact_double(const Field *field)
    bint fits_exact_float(const Field *field)
    bint fits_decimal(const Field *field, int64_t precision, int64_t scale)
    bint fits_length(const Field *field, int64_t most)
    bint fits_date(const Field *field)
    bint fits_timestamp(const Field *field, char separator, bint zoned)
    bint fits_time(const Field *field)
    bint fits_fine_timestamp(const Field *field, char separator, bint zoned)
    bint fits_fine_time(const Field *field)
    int64_t read_base64(const char *text, uint32_t size, uint8_t *to, uint32_t most)
    char *put_date(char *to, int64_t days)
    char *put_time(char *to, uint64_t micros)
    char *put_timestamp(char *to, int64_t micros, char separator)
    char *put_int(char *to, int64_t value)
    char *put_short_double(char *to, double value)
    char *put_base64(char *to, const char *from_, size_t size)
    size_t BASE64_SIZE(size_t size)
    char *put_json_text(char *to, const char *p, uint32_t size)
    char *put_escaped(char *to, uint8_t byte)
    char *put_unescaped(char *to, const char *p, const char *end)
    char *put_quoted_text(char *to, const char *p, size_t size)
    char *put_unscaled(char *to, const uint8_t *bytes, size_t count, int64_t precision, int64_t scale)
    int64_t int_of(const Field *field)
    bint read_short_double(const Field *field, double *value)
    bint key_text(const Field *field, Text *text)
    bint read_unquoted(Field *field)
    bint read_trimmed_number(Field *field)
    bint read_trimmed_integer(Field *field)
    bint read_trimmed_boolean(Field *field)
    bint read_bit(Field *field)
    bint read_unscaled(Field *field, int64_t precision, int64_t scale, char **to)
    bint read_unscaled_text(Field *field, int64_t scale, char **to)
    bint read_variable(Field *field, char **to)
    bint read_bits(Field *field, int64_t width, char **to)
    bint read_latin(Field *field, char **to)
    bint read_zoned(Field *field, char **to)
    bint read_utc(Field *field, char **to)
    bint read_days(Field *field, char **to)
    bint read_time(Field *field, int64_t micros, char **to)
    bint read_moment(Field *field, int64_t micros, char **to)
    bint read_spelled_timestamp(Field *field, char separator, bint zoned, char **to)
