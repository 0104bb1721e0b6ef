"""The fuzzers run as separate programs, so that tests notice a crash or a hang."""

collect_ignore = ["mutate_plans.py", "mutate_calls.py", "mutate_models.py"]
