"""AnyRT beside other programs and beside the limit of the machine: `python -m benchmarks ops`.

cases      what is measured: data, each case written once
steps      the neutral language of cases, which each peer translates
reference  what the right result is, in float64
peers      one file for each program
limit      the least time that the memory traffic of a case allows on this machine
measure    who runs when
report     tables

`python -m benchmarks contractions`, products, convolutions, attention: the package contractions.

`python -m benchmarks build`, what building networks costs:

networks, random_networks, random_graphs    what is built
builds     the rows of the table, and what each must reach
build_session, building    runs them: each build in a process of its own, which is `building`
clock      CPU seconds of all processes, memory

`python -m benchmarks trees`, two source trees in turn: trees, and tree, which is one of the two processes.
"""
