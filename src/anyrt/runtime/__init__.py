"""Engines and contexts: all between a compiled plan and a finished inference, without a compiler."""
