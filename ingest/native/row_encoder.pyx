# cython: language_level=3
"""The native encoder of one table's rows: checks and writes them; see row_encoder.pxd."""

from ingest.native.codes cimport TARGET_USES
from ingest.native.results cimport ResultRows
from ingest.native.template cimport RecordTemplate
from ingest.native.transform_input cimport TransformInput


cdef class RowEncoder(Table):
    """Checks and writes rows as a `RowEncoderSpec` says. `plan`: the reference encoder, which keeps the counters."""

    def __cinit__(self, spec, plan, destination):
        cdef int use
        if spec.template is not None:
            self.template = RecordTemplate(self, spec.template)
        if spec.transform is not None:
            self.transform = TransformInput(self, spec.transform)
        if spec.results is not None:
            self.results = ResultRows(spec.results)
        if spec.targets is not None:
            if len(spec.targets) != <int> TARGET_USES:
                raise ValueError("not one target for each use")
            for use in range(<int> TARGET_USES):
                if spec.targets[use] < 0:
                    raise ValueError("no such target")
                self.targets[use] = spec.targets[use]
            self.has_targets = True
