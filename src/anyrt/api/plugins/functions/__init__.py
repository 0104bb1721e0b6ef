"""Plug-ins made from functions: the implementation of `anyrt.plugin`."""
