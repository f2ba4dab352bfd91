"""The journey of a change, in order: conform, route, encode; and `infer` and `evolve`, how schemas are found.

Pure: values in, values out. Nothing here knows Kafka, Spark, files or clocks.
"""
