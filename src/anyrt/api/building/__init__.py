"""From a network to a plan: the builder, its configuration, freezing, calibration."""
