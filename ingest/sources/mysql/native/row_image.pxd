# cython: language_level=3
"""How rows of a table are decoded: a step for each column of its table map."""

from libc.stdint cimport int64_t, uint8_t

from ingest.sources.mysql.native.log_records cimport PendingRecords


cdef enum Step:               # what is done with a value; table_maps.py has the same numbers
    BY_PYTHON = 0             # rare types
    SIGNED = 1
    UNSIGNED = 2
    TRUTH = 3                 # BIT(1)
    DATE = 4
    TIME = 5
    DATETIME = 6
    TIMESTAMP = 7
    YEAR = 8
    BITS = 9
    LABEL = 10
    LABELS = 11
    UTF8 = 12
    ASCII = 13
    WINDOWS = 14
    BYTES = 15
    PADDED = 16
    FLOAT = 17
    DOUBLE = 18
    DECIMAL = 19
    NOTHING = 20              # of a column that is not written


cdef struct TextPiece:
    const char *text
    size_t size


cdef struct ColumnStep:
    int step
    int length_bytes          # bytes that say how many follow; 0: `size` follow
    int size
    int precision             # digits of a DECIMAL; bytes to which BINARY is filled up
    int scale                 # digits of a DECIMAL behind the point; bytes of a fraction
    TextPiece name                # the name as JSON behind a comma, with a colon
    TextPiece *labels             # of ENUM and SET, as JSON: SET without quotes
    int label_count


cdef class RowShape:
    cdef int *lengths             # of each column: bytes that say how many follow; 0: `sizes` follow
    cdef int *sizes
    cdef uint8_t *wanted          # 1 for a column that is compared
    cdef const uint8_t **begins   # of each column before an update: where its value is; NULL: nowhere
    cdef const uint8_t **ends
    cdef int count

    cdef set changed(
        self, const uint8_t *p, const uint8_t *end, const uint8_t *before, const uint8_t *after
    )
    cdef const uint8_t *image(
        self, const uint8_t *p, const uint8_t *end, const uint8_t *present, set changed
    ) except? NULL


cdef class RowPlan:
    cdef readonly bytes map       # the body of the table map that it is for
    cdef readonly object known    # the table, as the reference has it
    cdef tuple kept               # owns the bytes of all pieces
    cdef object read              # the reference: (place of the column, bytes of a value) -> its JSON text
    cdef ColumnStep *columns
    cdef int count
    cdef size_t room              # bytes that an image has at most, but for texts and bytes
    cdef TextPiece head               # before the first image
    cdef TextPiece[3] tails           # behind the last one of inserts, updates, deletes

    cdef int rows(
        self, PendingRecords records, const uint8_t *p, const uint8_t *end, const uint8_t *before,
        const uint8_t *after, int64_t position, int64_t millis
    ) except -1
    cdef const uint8_t *image(
        self, PendingRecords records, char **to, const uint8_t *p, const uint8_t *end, const uint8_t *present
    ) except? NULL
    cdef const uint8_t *by_python(
        self, PendingRecords records, char **to, int at, const uint8_t *begin, const uint8_t *p, const uint8_t *end
    ) except NULL
    cdef const uint8_t *value(self, char **to, ColumnStep *column, const uint8_t *p, size_t size) noexcept nogil
