"""Plug-ins: layers that programs bring along, with their creators and the registry that finds these."""
