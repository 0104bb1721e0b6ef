"""Common parts of all public objects: quiet results, slots, one-line text, missing names."""
