"""One Spark task: reads ranges of splits, decodes, encodes, writes, commits."""
