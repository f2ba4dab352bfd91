"""Rows of MySQL and MariaDB decoded natively: those of the log, into records without a Python object for each.

Absent where the package was installed without a compiler; the modules beside this package do the same then.
"""
