"""The command line: `anyrt COMMAND` or `python -m anyrt COMMAND`; every file in commands/ is a command."""
