"""Loading and executing plans: runtime, engine, context, inspector, refitter."""
