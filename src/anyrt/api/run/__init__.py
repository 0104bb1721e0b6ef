"""What loads and runs a plan: runtime, engine, context, inspector, refitter."""
