"""Plug-ins made of functions: the content of `anyrt.plugin`, and its execution."""
