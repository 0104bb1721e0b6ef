"""Plug-ins made of functions: what `anyrt.plugin` offers, and what runs them."""
