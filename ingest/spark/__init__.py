"""All that starts Java: the session, the workers' daemon, the class archive."""
