"""Table schemas: how they are inferred, declared, evolved and routed to the sink's tables."""
