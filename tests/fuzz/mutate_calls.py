"""Call the API at random, with valid and invalid arguments in any order: `python mutate_calls.py FIRST LAST`.

Case k is deterministic. Its calls may fail: with None, False or a sentinel and a line in the log, or with one
of the exceptions of TensorRT's Python layer. Prints the cases with any other outcome; a case that crashes the
process is the last one on stderr.
"""

import contextlib
import faulthandler
import inspect
import random
import sys
import tempfile
import warnings

import numpy as np

import anyrt as trt
from anyrt.api.edge.quiet import Refused, WrongType, WrongValue
from anyrt.core.dtype import is_packed, numpy_dtype
from anyrt.core.trt_enum import TrtEnum

SECONDS = 60  # for one case
CALLS = 40  # in one case
OURS = ("AR806", "AR807", "AR808")  # codes of internal errors
# Exceptions of the Python layer; AnyrtError where the documentation says that a call raises.
ALLOWED = (WrongType, WrongValue, Refused, trt.errors.AnyrtError)
SIZES = (0, 1, 2, 3, 4, 5, 7, -1, -2, 9, 1 << 20, 1 << 31, 1 << 40)
NAMES = ("x", "n", "y", "z", "", "x" * 5000, "a b", "a_b", "\0", "ü")
ENUMS = [e for e in (getattr(trt, n) for n in dir(trt)) if inspect.isclass(e) and issubclass(e, TrtEnum)]
# No inferences at invalid addresses: as in C, the caller is responsible for them.
SKIPPED = {"set_tensor_address", "execute_v2", "set_device_memory", "device_memory"}


class Log(trt.ILogger):
    """Records errors."""

    def __init__(self):
        trt.ILogger.__init__(self)
        self.lines = []

    def log(self, severity, msg):
        if severity <= trt.Logger.ERROR:
            self.lines.append(msg)


class Case:
    """One sequence: the objects that it has so far, and its random choices."""

    def __init__(self, number):
        self.rng = random.Random(number)
        self.log = Log()
        self.builder = trt.Builder(self.log)
        self.objects = {"builder": [self.builder], "tensor": [], "layer": [], "weights": [], "plan": []}
        self.objects |= {"engine": [], "context": [], "inspector": []}
        self.objects["network"] = [self.builder.create_network()]
        self.objects["config"] = [self.builder.create_builder_config()]
        self.objects["profile"] = [self.builder.create_optimization_profile()]
        self.objects["runtime"] = [trt.Runtime(self.log)]
        if self.rng.random() < 0.8:
            self.prepare()

    def prepare(self):
        """A network that can be built, with a profile."""
        net, config, profile = (self.objects[k][0] for k in ("network", "config", "profile"))
        rank = self.rng.choice((1, 2, 4, 4, 5))
        low = [self.rng.choice((1, 2, 3)) for _ in range(rank)]
        high = [n + self.rng.choice((0, 0, 5)) for n in low]
        shape = [a if a == b else -1 for a, b in zip(low, high, strict=True)]
        tensor = net.add_input("x", self.dtype(), shape)
        profile.set_shape("x", low, low, high)
        config.add_optimization_profile(profile)
        self.store(tensor)
        for _ in range(self.rng.choice((1, 2, 4))):
            built = self.layer(net, tensor, rank)
            if built is not None and built.get_output(0).shape.rank >= 0:
                tensor = built.get_output(0)
                self.store(built)
        if tensor is not net.get_input(0):
            net.mark_output(tensor)
        if self.rng.random() < 0.7:
            self.store(self.builder.build_serialized_network(net, config))
        for plan in self.objects["plan"]:
            self.store(self.objects["runtime"][0].deserialize_cuda_engine(plan))
        for engine in self.objects["engine"]:
            self.store(engine.create_execution_context())
            self.objects["inspector"].append(engine.create_engine_inspector())

    def layer(self, net, tensor, rank):
        """A layer that is valid most of the time."""
        axes = self.rng.randrange(1, 1 << rank)
        return self.rng.choice(
            (
                lambda: net.add_activation(tensor, self.rng.choice(list(trt.ActivationType))),
                lambda: net.add_unary(tensor, self.rng.choice(list(trt.UnaryOperation))),
                lambda: net.add_elementwise(tensor, tensor, self.rng.choice(list(trt.ElementWiseOperation))),
                lambda: net.add_reduce(tensor, self.rng.choice(list(trt.ReduceOperation)), axes, True),
                lambda: net.add_cast(tensor, self.dtype()),
                lambda: net.add_shuffle(tensor),
                lambda: net.add_resize(tensor),
                lambda: net.add_identity(tensor),
                lambda: net.add_concatenation([tensor, tensor]),
                lambda: net.add_slice(tensor, (0,) * rank, (1,) * rank, (1,) * rank),
                lambda: net.add_scale(tensor, trt.ScaleMode.UNIFORM, np.ones(1, np.float32)),
            )
        )()

    # ---- arguments

    def some(self, kind):
        """An object of that kind; occasionally None."""
        result = self.objects[kind]
        return self.rng.choice(result) if result and self.rng.random() < 0.95 else None

    def shape(self):
        rank = self.rng.choice((0, 1, 2, 2, 3, 4, 4, 4, 5, 8, 9))
        sizes = (
            SIZES
            if self.rng.random() < 0.2
            else (1, 2, 3, 4, 5, -1)
            if self.rng.random() < 0.5
            else (1, 2, 3)
        )
        numbers = [self.rng.choice(sizes) for _ in range(rank)]
        return self.rng.choice((tuple, list, trt.Dims if rank <= 8 else tuple))(numbers)

    def array(self):
        dtype = self.rng.choice(
            (np.float32, np.float32, np.float16, np.int32, np.int64, np.int8, bool, np.float64)
        )
        array = np.ones([self.rng.choice((0, 1, 2, 3)) for _ in range(self.rng.choice((1, 1, 2, 4)))], dtype)
        return array[::2] if self.rng.random() < 0.1 else array

    def anything(self):
        return self.rng.choice(
            (
                lambda: None,
                lambda: self.rng.choice(SIZES),
                lambda: self.rng.choice(
                    (True, 0.5, float("nan"), float("inf"), -1e30, "", b"", object(), [], {})
                ),
                lambda: self.rng.choice(NAMES),
                self.shape,
                self.array,
                lambda: self.rng.choice(list(self.rng.choice(ENUMS).__members__.values())),
                lambda: self.some(self.rng.choice(list(self.objects))),
            )
        )()

    def argument(self, parameter):
        """An argument that is valid most of the time, by the parameter's name and annotation."""
        if self.rng.random() < 0.12:
            return self.anything()
        annotation, name = str(parameter.annotation), parameter.name
        for enum in ENUMS:
            if annotation == enum.__name__:
                return self.rng.choice(list(enum.__members__.values()))
        if name in ("min", "opt", "max"):
            return self.limits[("min", "opt", "max").index(name)]
        table = {
            "ITensor": lambda: self.some("tensor"),
            "list[ITensor]": lambda: [self.some("tensor") for _ in range(self.rng.randrange(4))],
            "ILayer": lambda: self.some("layer"),
            "INetworkDefinition": lambda: self.some("network"),
            "IBuilderConfig": lambda: self.some("config"),
            "IOptimizationProfile": lambda: self.some("profile"),
            "Weights": self.array,
            "Dims": self.shape,
            "Permutation": lambda: self.rng.sample(range(4), self.rng.choice((2, 3, 4))),
            "list[float]": lambda: [self.rng.choice((0.5, 1, 2, 1.5, 0, -1)) for _ in range(4)],
            "int": lambda: self.rng.choice((0, 0, 1, 1, 2, 3, 4, 8, 12, -1)),
            "float": lambda: self.rng.choice((0.5, 1.0, 2.0, -1.0)),
            "bool": lambda: self.rng.choice((True, False)),
            "str": lambda: self.rng.choice(NAMES),
            "ICudaEngine": lambda: self.some("engine"),
        }
        if name in ("shape", "dims"):
            return self.shape()
        if "serialized" in name:
            return self.some("plan")
        return table.get(annotation, self.anything)()

    # ---- calls

    def act(self):
        """One call, or one assignment."""
        kind = self.rng.choice(
            ("network",) * 6 + ("layer",) * 5 + ("builder", "engine", "context") * 2 + tuple(self.objects)
        )
        owner = self.some(kind)
        if owner is None or kind == "plan":  # a plan is bytes
            return
        self.limits = self.profile_shapes()
        public = [n for n in dir(type(owner)) if not n.startswith("_") and n not in SKIPPED]
        special = self.special(kind, owner)
        if special and self.rng.random() < 0.4:
            self.store(self.rng.choice(special)())
            return
        name = self.rng.choice(public)
        member = inspect.getattr_static(type(owner), name)
        if isinstance(member, property) or hasattr(type(member), "__set__"):
            self.property(owner, name)
        elif callable(member):
            self.call(owner, name)

    def profile_shapes(self):
        low = [self.rng.choice((1, 1, 2)) for _ in range(self.rng.choice((1, 2, 3, 4)))]
        step = self.rng.choice((0, 1, 4))
        return low, [x + step for x in low], [x + 2 * step for x in low]

    def special(self, kind, owner):
        """Sensible steps, which random ones seldom form."""
        match kind:
            case "network":
                return (
                    lambda: owner.add_input(self.rng.choice("xnyz"), self.dtype(), self.shape()),
                    lambda: owner.mark_output(self.some("tensor")),
                    lambda: owner.add_unary(self.some("tensor"), trt.UnaryOperation.ABS),
                )
            case "builder":
                return (
                    lambda: owner.build_serialized_network(
                        self.objects["network"][0], self.objects["config"][0]
                    ),
                )
            case "runtime":
                return (lambda: owner.deserialize_cuda_engine(self.some("plan")),)
            case "engine":
                return (owner.create_execution_context, lambda: self.infer(owner))
            case "context":
                return (
                    lambda: self.run(owner),
                    lambda: owner.set_tensor_address(self.name(owner.engine), self.memory()),
                    lambda: owner.execute_v2([self.memory() for _ in owner.engine]),
                    lambda: owner.set_input_shape(self.name(owner.engine), self.shape()),
                )
        return ()

    def dtype(self):
        return self.rng.choice((trt.float32,) * 4 + tuple(trt.DataType.__members__.values()))

    def name(self, engine):
        return self.rng.choice([*engine, *NAMES[:4]])

    def infer(self, engine):
        """A call with arrays, most of the time of the right type and shape."""
        arrays = {}
        for name in engine:
            if engine.get_tensor_mode(name) is trt.TensorIOMode.INPUT:
                limits = engine.get_tensor_profile_shape(name, 0)
                if limits and trt.volume(limits[2]) < 1 << 20:
                    dtype = (
                        np.float32 if self.rng.random() < 0.1 else numpy_type(engine.get_tensor_dtype(name))
                    )
                    arrays[name] = np.ones(tuple(self.rng.choice(limits)), dtype)
        engine.run(**arrays)

    def memory(self):
        """Only 0 and impossible addresses: the caller is responsible for others."""
        return self.rng.choice((0, 0, -1, 1 << 63, None, "x", 1.5, self.array(), self.array(), self))

    def run(self, context):
        """An inference in valid memory."""
        for name in context.engine:
            size = context.get_max_output_size(name)
            if 0 <= size < 1 << 24:
                dtype = context.engine.get_tensor_dtype(name)
                kind = np.dtype(np.uint8 if is_packed(dtype) else numpy_dtype(dtype))
                # Arrays, whose size is checked again after the shapes have changed.
                context.set_tensor_address(name, np.zeros(size // kind.itemsize + 8, kind))
        context.execute_async_v3(self.rng.choice((0, 1)))

    def property(self, owner, name):
        value = getattr(owner, name, None)
        if self.rng.random() < 0.7:
            enum = type(value) if type(value) in ENUMS else None
            chosen = self.rng.choice(list(enum)) if enum and self.rng.random() < 0.8 else self.guess(value)
            with contextlib.suppress(AttributeError):  # read-only
                setattr(owner, name, chosen)

    def guess(self, value):
        if isinstance(value, trt.Dims):
            return self.shape()
        if isinstance(value, np.ndarray):
            return self.array()
        if isinstance(value, trt.Permutation):
            return self.rng.sample(range(4), self.rng.choice((2, 3, 4)))
        return self.anything()

    def call(self, owner, name):
        method = getattr(owner, name)
        parameters = list(inspect.signature(method).parameters.values())
        expected = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        named = {p.name: self.argument(p) for p in expected if p.kind is p.KEYWORD_ONLY}
        self.store(method(*(self.argument(p) for p in expected if p.kind is not p.KEYWORD_ONLY), **named))

    def store(self, built):
        """Store values for later use."""
        match built:
            case trt.ILayer():
                self.objects["layer"].append(built)
                self.objects["tensor"].append(built.get_output(0))
            case trt.ITensor():
                self.objects["tensor"].append(built)
            case trt.IHostMemory():
                self.objects["plan"].append(built)
            case trt.ICudaEngine():
                self.objects["engine"].append(built)
            case trt.IExecutionContext():
                self.objects["context"].append(built)
            case trt.IOptimizationProfile():
                self.objects["profile"].append(built)
            case trt.INetworkDefinition():
                self.objects["network"].append(built)


def numpy_type(dtype):
    try:
        return trt.nptype(dtype)
    except TypeError:
        return np.uint8


def wrong(number):
    """The failure of a case."""
    case, problems = Case(number), []
    for step in range(CALLS):
        before = len(case.log.lines)
        try:
            case.act()
        except ALLOWED as error:
            if str(error)[1:6] in OURS:
                problems.append(f"step {step}: {error}")
        except Exception as error:
            problems.append(f"step {step}: {type(error).__name__}: {error}")
        new = case.log.lines[before:]
        problems += [f"step {step}: {x}" for x in new if x[1:6] in OURS or x[1:3] != "AR"]
    return problems


def main(first, last):
    warnings.simplefilter("ignore")  # deprecations, and caches that cannot be written
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # calls write files there
        tried(first, last)


def tried(first, last):
    for number in range(first, last):
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        print(number, file=sys.stderr, flush=True)
        problems = wrong(number)
        if problems:
            print(f"case {number}: {problems}", flush=True)
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
