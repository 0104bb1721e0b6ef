"""Common parts of all public objects: quiet results, slots, one-line texts, missing names."""
