# cython: language_level=3
"""The leaf functions of packed.h."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef extern from "packed.h" nogil:
    enum:
        MAX_PACKED

    uint32_t crc32_of(const uint8_t *p, size_t size)
    uint64_t low_bytes(const uint8_t *p, int size)
    uint64_t high_bytes(const uint8_t *p, int size)
    int packed_decimal_size(int precision, int scale)
    char *put_unsigned(char *to, uint64_t value)
    char *put_packed_decimal(char *to, const uint8_t *p, int precision, int scale)
    char *put_packed_date(char *to, const uint8_t *p)
    char *put_packed_datetime(char *to, const uint8_t *p, int places)
    char *put_packed_time(char *to, const uint8_t *p, int places)
    char *put_packed_timestamp(char *to, const uint8_t *p, int places)
    char *put_short_float(char *to, float value)
    char *put_windows_text(char *to, const uint8_t *p, size_t size)
