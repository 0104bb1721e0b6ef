"""The base of all packages: element types, enums, symbolic sizes, errors, logging, debug switches."""
