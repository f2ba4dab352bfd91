"""One Spark task: it reads ranges of splits, decodes, encodes, writes and commits."""
