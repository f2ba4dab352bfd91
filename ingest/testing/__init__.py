"""A pipeline in this process, on given records: what tests of pipelines and dry runs use."""
