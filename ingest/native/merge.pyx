# cython: language_level=3, boundscheck=False, wraparound=False
"""Rows that come back from expressions, with their results: to records.

The reference is task/row_results.py. Rows of one offset are one message, of which all records are written or none.
"""

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport UINT32_MAX, int32_t, int64_t

from ingest.native.change cimport MAX_KEYS, Change, Workspace, enter, leave
from ingest.native.codes cimport FORM_ROWS
from ingest.native.records cimport EncodedBatch, add_record
from ingest.native.results cimport ArrowColumn, ArrowColumns, ResultRows, int_at, is_null, long_at, text_at, truth_at
from ingest.native.row_encoder cimport RowEncoder, add_upsert
from ingest.native.scan cimport Field, Row, Text, is_utf8, scan_row
from ingest.native.table cimport Table, count_touched, find_key
from ingest.native.transform_rows cimport AT_KEY, AT_OFFSET, AT_SENT, AT_TARGET, AT_TEXT, AT_TRANSFORM, AT_WHAT

from ingest.encode import compiled_transform


# What a row is that went to an expression: the numbers are the reference's
cdef int32_t INSERT = compiled_transform.INSERT
cdef int32_t UPDATE = compiled_transform.UPDATE
cdef int32_t UPDATE_ALONE = compiled_transform.UPDATE_ALONE
cdef int32_t DELETE = compiled_transform.DELETE
cdef int32_t BEFORE = compiled_transform.BEFORE
cdef int32_t BOTH = compiled_transform.BOTH

cdef enum:                    # the columns: what stayed here, the transforms and masks that came back, results
    BACK_TRANSFORM = AT_SENT
    BACK_MASK
    FIXED

cdef const char *KINDS = b"iilissil"


cdef struct RowSpan:             # the rows of one message, and those of their results
    Py_ssize_t first
    Py_ssize_t end
    Py_ssize_t row
    Py_ssize_t row_end


@cython.final
cdef class Merger:
    cdef ArrowColumns columns
    cdef tuple encoders       # by transform
    cdef tuple targets        # of records that are ready
    cdef Py_ssize_t *places   # of those targets in the batch, or -1
    cdef long *done           # by target: so many records went there
    cdef long *sizes          # by target: bytes of messages whose last record went there
    cdef long filtered
    cdef EncodedBatch batch

    def __cinit__(self, list encoders not None, list targets not None, Py_ssize_t results):
        cdef Py_ssize_t i
        self.encoders, self.targets = tuple(encoders), tuple(targets)
        for target in self.targets:
            if type(target) is not tuple or not target:
                raise TypeError("a target is a tuple")
        self.places = <Py_ssize_t *> PyMem_Calloc(<size_t> len(targets) + 1, sizeof(Py_ssize_t))
        self.done = <long *> PyMem_Calloc(<size_t> len(targets) + 1, sizeof(long))
        self.sizes = <long *> PyMem_Calloc(<size_t> len(targets) + 1, sizeof(long))
        if not self.places or not self.done or not self.sizes:
            raise MemoryError
        for i in range(len(self.targets)):
            self.places[i] = -1
        self.columns = ArrowColumns(FIXED + results)
        self.batch = EncodedBatch()
        self.batch.messages = self.columns

    def __dealloc__(self):
        PyMem_Free(self.places)
        PyMem_Free(self.done)
        PyMem_Free(self.sizes)

    cdef int open(self, bytes kinds, list kept, Py_ssize_t size, list back, Py_ssize_t sent) except -1:
        """Take the columns; raises ValueError or TypeError for what they are not."""
        cdef Py_ssize_t c
        if len(kept) != AT_SENT or len(back) != len(kinds) + 2 or size < 0 or sent < 0:
            raise ValueError("not the columns that there are")
        cdef tuple given = tuple(kept) + tuple(back)  # nobody else changes it
        for c in range(len(kinds)):
            if kinds[c] not in b"lsdb":
                raise ValueError("a result is of s, l, d or b")
        for encoder in self.encoders:
            if encoder is None:
                continue
            if type(encoder) is not RowEncoder or (<RowEncoder> encoder).results is None or not (
                (<RowEncoder> encoder).results.fits(kinds)
            ):
                raise ValueError("tables whose results are not among those that came back")
        for c in range(FIXED + len(kinds)):
            kind = KINDS[c] if c < FIXED else kinds[c - FIXED]
            self.columns.open(c, kind, given[c], size if c < AT_SENT else sent)
        return 0

    # -- Records that are ready ----------------------------------------------------------------------------------------

    cdef bint is_ready(self, Py_ssize_t row, Text *key, Text *text) except -1:
        """Put in the record that a row is; False where it is none. A text of NULL is none."""
        cdef const ArrowColumn *columns = self.columns.columns
        key.text = text.text = NULL
        key.size = text.size = 0
        if int_at(&columns[AT_TRANSFORM], row) != -1 or not 0 <= int_at(&columns[AT_TARGET], row) < len(self.targets):
            return False
        if not is_null(&columns[AT_KEY], row):
            text_at(&columns[AT_KEY], row, key)
        if not is_null(&columns[AT_TEXT], row):
            text_at(&columns[AT_TEXT], row, text)
        return True

    cdef int add_ready(self, const RowSpan *span) except -1:
        """Add the records of a message that are ready: returns 1, or 0 for a fallback."""
        cdef Text key, text
        cdef Py_ssize_t i
        cdef int32_t target = 0
        cdef size_t size = 0
        for i in range(span.first, span.end):  # all of them are looked at first: all go, or none
            if not self.is_ready(i, &key, &text):
                return 0
        for i in range(span.first, span.end):
            self.is_ready(i, &key, &text)
            target = int_at(&self.columns.columns[AT_TARGET], i)
            if self.places[target] < 0:
                self.places[target] = self.batch.add_target(self.targets[target][0])
            add_record(self.batch, self.places[target], key.text, key.size, text.text, text.size)
            self.done[target] += 1
            size += key.size + text.size
        self.sizes[target] += <long> size  # the last one has the changes
        return 1

    # -- Rows with results ---------------------------------------------------------------------------------------------

    cdef int add(self, Workspace *ws, const RowSpan *span) except -1:
        """Add the records of a message: returns 1, or 0 for a fallback."""
        cdef const ArrowColumn *columns = self.columns.columns
        cdef Py_ssize_t last = span.end - 1, at = span.row + last - span.first
        cdef int32_t transform = int_at(&columns[AT_TRANSFORM], last)
        cdef RowEncoder encoder
        if transform == -1:
            return self.add_ready(span)
        if not 0 <= transform < len(self.encoders) or span.end - span.first > 2:
            return 0
        if span.row_end - span.row != span.end - span.first or self.encoders[transform] is None:
            return 0
        if int_at(&columns[BACK_TRANSFORM], at) != transform:
            return 0
        encoder = <RowEncoder> self.encoders[transform]
        return self.add_row(ws, span, encoder, encoder.results)

    cdef int add_row(self, Workspace *ws, const RowSpan *span, RowEncoder encoder, ResultRows results) except -1:
        """Add the records of a row, of which `last` is the row after: returns 1, or 0 for a fallback."""
        cdef const ArrowColumn *columns = self.columns.columns
        cdef Py_ssize_t last = span.end - 1, at = span.row + last - span.first
        cdef Text text, raw
        cdef int32_t what = int_at(&columns[AT_WHAT], last)
        cdef const ArrowColumn *came = columns + FIXED
        cdef const ArrowColumn *filter = &came[results.filter] if results.filter >= 0 else NULL
        cdef bint passes = filter == NULL or truth_at(filter, at), passed = False, key_only = False
        cdef Change change
        cdef int64_t ignored = 0
        text_at(&columns[AT_TEXT], last, &text)
        change.form, change.named = FORM_ROWS, 0
        change.typed = change.declared = change.composed = change.extended = False
        change.message_key.text, change.message_key.size = NULL, 0
        # What the row before would have been is of no interest where it did not come along
        if results.filter_before >= 0 and not what & BOTH:
            ignored = <int64_t> 1 << results.filter_before
        if long_at(&columns[BACK_MASK], at) & ~ignored:
            return 0
        raw = text
        if span.end - span.first == 2:
            if not self.is_pair(span, what, ignored):
                return 0
            text_at(&columns[AT_TEXT], span.first, &raw)
            passed = results.changeable or filter == NULL or truth_at(filter, span.row)
            what = UPDATE if passed else INSERT
        elif what == (UPDATE | BOTH):
            if results.filter_before < 0 or results.makes_key:
                return 0
            passed = truth_at(&came[results.filter_before], at)
            what = UPDATE if passed else INSERT
            key_only = True
        elif what not in (INSERT, UPDATE, UPDATE_ALONE, DELETE) or (what == UPDATE_ALONE and not passes):
            return 0
        elif results.changeable and what != INSERT and not passes:
            return 0  # the row may have been there
        elif what == DELETE and results.soft_delete:
            what = INSERT
        elif what == DELETE:
            passed, passes = passes, False
        if not passes and not passed:
            self.filtered += 1
            return 1
        change.op = b'd' if not passes else b'c' if what == INSERT else b'u'
        ws.after.size = ws.before.size = 0
        if passes and not results.make(
            ws, text, came, at, self.batch if encoder.template is None else None, &ws.after_text, &ws.after
        ):
            return 0
        if passed and not self.put_before(ws, encoder, came, span.row, raw, key_only, passes):
            return 0
        if encoder.template is not None:
            return encoder.template.add(ws, encoder, &change, self.batch)
        return add_upsert(ws, encoder, &change, self.batch)

    cdef bint put_before(
        self, Workspace *ws, RowEncoder encoder, const ArrowColumn *came, Py_ssize_t at, Text raw, bint key_only,
        bint passes,
    ) except -1:
        """Put the row before an update, or that of a delete, in the workspace; False for a fallback.

        `key_only`: no more of it is known than its key, which is that of the row after it.
        """
        if not key_only:
            return encoder.results.make(ws, raw, came, at, None, &ws.before_text, &ws.before)
        if not passes:
            return read_row(raw, &ws.composed) and take_key(encoder, &ws.composed, raw, &ws.before)
        # Where records are rows, an old key that is the same says nothing
        return encoder.template is None or take_key(encoder, &ws.composed, raw, &ws.before)

    cdef bint is_pair(self, const RowSpan *span, int32_t what, int64_t ignored) noexcept:
        """Return whether two rows are an update and the row before it, neither of which failed."""
        cdef const ArrowColumn *columns = self.columns.columns
        cdef int32_t transform = int_at(&columns[AT_TRANSFORM], span.end - 1)
        return (
            what == UPDATE and int_at(&columns[AT_WHAT], span.first) == BEFORE
            and int_at(&columns[AT_TRANSFORM], span.first) == transform
            and int_at(&columns[BACK_TRANSFORM], span.row) == transform
            and not long_at(&columns[BACK_MASK], span.row) & ~ignored
        )


cdef bint read_row(Text text, Row *row) noexcept nogil:
    """Scan a row's own text; False for a fallback."""
    cdef const char *end = text.text + text.size
    return text.size <= UINT32_MAX and is_utf8(text.text, text.size) and scan_row(text.text, end, row, NULL) == end


cdef bint take_key(Table table, const Row *row, Text text, Row *key) noexcept nogil:
    """Make a row of the key's columns of another one, whose text this is; False for a fallback."""
    cdef const Field *fields[MAX_KEYS]
    cdef int k
    if not table.keys or find_key(table, row, fields) != table.keys:
        return False
    for k in range(table.keys):
        key.fields[k] = fields[k][0]
    key.count = table.keys
    key.text, key.size = text.text, <Py_ssize_t> text.size
    return True


def merge_results(
    list encoders, list targets, Py_ssize_t size, list kept not None, bytes kinds not None, Py_ssize_t sent,
    list back not None, Py_ssize_t start, Py_ssize_t row, long long limit,
):
    """See the stub."""
    cdef Workspace *ws = enter()
    cdef Merger merger
    cdef RowSpan span
    cdef int64_t offset
    good = False
    try:
        if start < 0 or not 0 <= row <= sent:
            raise ValueError("not the columns that there are")
        merger = Merger(encoders, targets, len(kinds))
        merger.open(kinds, kept, size, back, sent)
        count_touched(True)  # what others counted is not for this to forget
        span.end, span.row_end = start, row
        while span.end < size:
            span.first, span.row = span.end, span.row_end
            offset = long_at(&merger.columns.columns[AT_OFFSET], span.first)
            if offset >= limit:
                break
            while span.end < size and long_at(&merger.columns.columns[AT_OFFSET], span.end) == offset:
                span.row_end += int_at(&merger.columns.columns[AT_TRANSFORM], span.end) >= 0
                span.end += 1
            if span.row_end > sent:
                raise ValueError("fewer results than rows")
            if not merger.add(ws, &span):
                span.end, span.row_end = span.first, span.row
                break
        good = True
    finally:
        try:
            count_touched(good)
        finally:
            leave()
    done = {i: (merger.done[i], merger.sizes[i]) for i in range(len(merger.targets)) if merger.done[i]}
    return merger.batch, span.end, span.row_end, merger.filtered, done
