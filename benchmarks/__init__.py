"""AnyRT beside other programs and beside the limit of the machine: `python -m benchmarks NAME`.

command, __main__    parts that commands share: rows, options, documents; the list of all commands
registry             the tables of cases by peers: `ops`, `contractions`, `families`, each a suite
language             the cases of a suite with inputs, expected results and translations
sweep, session       the command of a suite, which starts processes; the measuring process
child                a function in a process of its own
peers                a module for each program
engines              engines of AnyRT: described, built, loaded, bound to memory
measure, probe       the order of measurements: in turn, forwards and backwards, on a quiet machine
limit, native        the least time of memory traffic; contractions.peaks: of arithmetic
record, leads, table    results as lines of JSON; leads over other programs; tables and documents

Languages: layers (chains of steps), contractions, families. In each, `cases` has the cases, and `in_anyrt`,
`onnx_model` and `in_torch` translate them. models and bits measure whole ONNX files.

`build`: the rows in builds build networks, random_networks and random_graphs; build_session starts a process
of building for each. `trees`: two source trees in turn, each a process of tree.
"""
