"""Engines and contexts: everything between a compiled plan and a finished inference, without a compiler."""
