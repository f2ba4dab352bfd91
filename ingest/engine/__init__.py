"""Plans batches, runs them on Spark, keeps the checkpoint. The only package that starts Spark.

Main street is `loop.py`.
"""
