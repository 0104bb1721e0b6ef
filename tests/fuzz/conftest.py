"""The fuzzers are programs of their own, so that a crash or a hang of one is seen by the tests."""

collect_ignore = ["mutate_plans.py", "mutate_calls.py", "mutate_models.py"]
