"""Everything that starts Java: the Spark session, the workers' daemon, the class archive."""
