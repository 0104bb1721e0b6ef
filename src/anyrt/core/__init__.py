"""What every layer stands on: element types, enums, symbolic sizes, errors, logging, debug switches."""
