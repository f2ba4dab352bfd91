"""CSV: rows without names, in the dialect that the options describe."""
