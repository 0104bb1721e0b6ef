"""Searches: which layers must stay float32, and which part of a model fails."""
