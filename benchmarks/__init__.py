"""AnyRT beside other programs and beside the limit of the machine: `python -m benchmarks NAME`.

command, __main__    what commands share: rows, options, documents; the list of all commands
registry             the tables of cases by peers: `ops`, `contractions`, `families`, each a suite
suite, language      what a table is; what its cases are, with numbers, right results and translations
sweep, session       a suite's command, which starts processes; what one process measures
peers                one module for each program
measure, probe       who runs when: in turn, forwards and backwards, on a quiet machine
limit, native        the least time that memory traffic takes; contractions.peaks: that arithmetic takes
record, table        results as lines of JSON; tables and documents

Languages: layers (chains of steps), contractions, families. In each, `cases` says what is measured, and
`in_anyrt`, `onnx_model` and `in_torch` translate it. models and bits measure whole ONNX files.

`build`: networks, random_networks and random_graphs are built, by rows in builds; build_session starts
processes, each of which is building. `trees`: two source trees in turn, each a process that is tree.
"""
