"""Runs of a pipeline inside this process, on given records, for tests of pipelines and for dry runs."""
