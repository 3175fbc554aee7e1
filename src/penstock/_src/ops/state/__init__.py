"""State: variables, queues, tables, tensor arrays."""
