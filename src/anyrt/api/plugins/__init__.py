"""Plug-ins: layers that programs implement, their creators, and the registry of creators."""
