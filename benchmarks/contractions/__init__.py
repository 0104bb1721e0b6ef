"""Products, convolutions, attention and what surrounds them, beside other programs and beside the limit of
the machine: `python -m benchmarks contractions`.

forms      what is measured, as data: products, convolutions, attention, pooling, softmax, and what follows
tables     the distinct convolutions of known networks
cases      every case, by what it must reach
calls      the language that cases are written in, which each program translates
describe   a case in that language
networks   whole networks in that language
reference  the language in float64 NumPy, and its cases with numbers and right results
peaks      the least time that the arithmetic of a case takes on this machine
goals      what must be reached
tried      what was tried where that was missed
opened     engines with open sizes beside static ones, `python -m benchmarks open`
in_anyrt, onnx_model, in_torch    the language for each program
"""
