"""Products, convolutions, attention and layers around them, beside other programs and beside the limit of
the machine: `python -m benchmarks contractions`.

forms      the cases as data: products, convolutions, attention, pooling, softmax, and the layers that follow
tables     the distinct convolutions of known networks
cases      all cases, grouped by goal
calls      the language of cases, which each program translates
describe   a case in that language
networks   whole networks in that language
reference  the language in float64 NumPy, and its cases with inputs and expected results
peaks      the least time of the arithmetic of a case on this machine
goals      the goals
tried      attempts for cases that miss their goals
opened     engines with dynamic dimensions beside static ones, `python -m benchmarks open`
in_anyrt, onnx_model, in_torch    the language for each program
"""
