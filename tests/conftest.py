"""One hypothesis profile for every machine: fixed seeds, no deadline, nothing kept between runs."""

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None, database=None, max_examples=50)
settings.load_profile("fixed")
