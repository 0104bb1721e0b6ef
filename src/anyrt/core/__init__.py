"""Element types and enums, symbolic dims, the exception tree, logging, debug flags: imports nothing above it."""
