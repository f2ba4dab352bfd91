# cython: language_level=3
"""The codes of the native code, as Python's enums; see codes.pxd."""
