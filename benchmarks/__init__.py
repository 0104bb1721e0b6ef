"""AnyRT beside other programs and beside the limit of the machine: `python -m benchmarks ops`.

cases      what is measured: data, each case written once
steps      the neutral language of cases, which each peer translates
reference  what the right result is, in float64
peers      one file for each program
limit      the least time that the memory traffic of a case allows on this machine
measure    who runs when
report     tables
"""
