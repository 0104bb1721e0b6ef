"""Searches for the layers that must stay float32, and for the part of a model that fails."""
