# cython: language_level=3
"""The codes of the native code, for Cython and Python alike: this is their only definition."""


cpdef enum MessageForm:
    FORM_DEBEZIUM       # Debezium's, in its schema envelope or without
    FORM_ROWS           # values that are rows
    FORM_CANAL          # Canal's
    FORM_OGG            # GoldenGate's; when they are read, their changes have the form of rows
    FORM_MAXWELL        # Maxwell's; when they are read, their changes have Canal's form
    FORM_CSV            # values that are rows in CSV; when they are read, their changes have the form of rows


cpdef enum CsvKind:     # what a field of CSV is
    CSV_TEXT
    CSV_NUMBER
    CSV_BOOLEAN
    CSV_OTHER           # only null is read by native code
    CSV_KINDS           # so many there are


cpdef enum ColumnKind:  # the values that a column takes
    COLUMN_NULL
    COLUMN_BOOL
    COLUMN_INT
    COLUMN_DOUBLE       # any number
    COLUMN_EXACT_DOUBLE # one that a double is
    COLUMN_EXACT_FLOAT  # one that a float is
    COLUMN_TEXT
    COLUMN_DECIMAL
    COLUMN_TIMESTAMP
    COLUMN_DATE
    COLUMN_TIME
    COLUMN_BYTES
    COLUMN_OTHER        # none that the native code knows


cpdef enum Spelling:    # the texts that a column takes beside the usual ones
    SPELLING_USUAL
    SPELLING_ANY        # the pipeline declares its type
    SPELLING_FINE       # and no expression reads it: a time may be finer than a microsecond


cdef enum WriteMode:    # how a value is written
    WRITE_FALLBACK      # by the reference
    WRITE_AS_IS
    WRITE_QUOTED
    WRITE_AS_TEXT       # JSON in a text


cpdef enum SegmentKind: # what a template of records has
    SEGMENT_TEXT
    SEGMENT_JSON        # a column's value
    SEGMENT_CSV         # the same, as a field of a line
    SEGMENT_BEFORE      # the whole row before a change


cpdef enum ValueCodec:  # how a value is read whose type its message tells; names as in formats/typed.py
    CODEC_OTHER
    CODEC_INT
    CODEC_NUMBER
    CODEC_DECIMAL
    CODEC_BOOL
    CODEC_ANY
    CODEC_BASE64
    CODEC_DAYS
    CODEC_TIME
    CODEC_MOMENT
    CODEC_ZONED
    CODEC_UNSCALED
    CODEC_QUOTED_INT
    CODEC_QUOTED_NUMBER
    CODEC_QUOTED_DECIMAL
    CODEC_BIT
    CODEC_TEXT
    CODEC_LATIN
    CODEC_DATE_TEXT
    CODEC_TIME_TEXT
    CODEC_MOMENT_TEXT
    CODEC_UTC_TEXT
    CODEC_UNSCALED_TEXT
    CODEC_VARIABLE
    CODEC_BITS
    CODEC_SHORT_NUMBER


cdef enum TargetUse:    # what a ready-made record is, for which its table has a target
    TARGET_INSERT
    TARGET_UPDATE
    TARGET_DELETE
    TARGET_OLD_KEY      # the tombstone of a key that an update left
    TARGET_USES         # so many there are


cpdef enum MetadataKind: # columns about a record; names as in model/record.py
    METADATA_TOPIC
    METADATA_PARTITION
    METADATA_OFFSET
    METADATA_TIMESTAMP
    METADATA_TIMESTAMP_TYPE
    METADATA_HEADERS
    METADATA_LEADER_EPOCH
    METADATA_RAW_KEY
    METADATA_RAW_VALUE
    METADATA_KEY_TEXT   # the raw key as a text
    METADATA_VALUE_TEXT
    METADATA_KINDS      # so many there are
