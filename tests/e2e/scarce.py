"""A process that lacks memory, disk or permissions: `python scarce.py build|load|refit|calibrate|… …`.

Prints the log lines, then the outcome. Builds, loads and disks take several numbers: a ready process forks a
child for each, which prints a line `--` at its end. All modules are imported before a limit is set, so that
AnyRT and not an import of Python meets the limit.
"""

import contextlib
import os
import resource
import sys
import tempfile
from pathlib import Path

import numpy as np

import anyrt as trt

MB = 1 << 20
NOBODY = 65534


class Log(trt.ILogger):
    """Prints warnings and errors."""

    def log(self, severity, msg):
        if severity <= trt.Logger.WARNING:
            print(msg)


LOG = Log()


def build(rows=64, columns=64):
    """The plan of y: sums of rows, stored between two kernels, because a cubic resize reads each
    four times."""
    builder = trt.Builder(LOG)
    net = builder.create_network()
    x = net.add_input("x", trt.float32, (-1, columns, 2))
    total = net.add_reduce(x, trt.ReduceOperation.SUM, 0b100, False)
    layer = net.add_resize(total.get_output(0))
    layer.resize_mode, layer.scales = trt.InterpolationMode.CUBIC, (1.5, 1.5)
    layer.get_output(0).name = "y"
    net.mark_output(layer.get_output(0))
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, columns, 2), (2, columns, 2), (rows, columns, 2))
    config = builder.create_builder_config()
    config.num_threads = 2
    config.add_optimization_profile(profile)
    return builder.build_serialized_network(net, config)


def load(plan):
    return trt.Runtime(LOG).deserialize_cuda_engine(plan)


def works(engine):
    return engine is not None and engine.run(x=np.ones((2, 64, 2), np.float32))["y"].shape == (3, 96)


def limit(nbytes):
    """Limit the address space of this process to `nbytes` more than it uses now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + nbytes, resource.RLIM_INFINITY))


@contextlib.contextmanager
def limited(nbytes):
    """Set the limit for a block, with an empty directory; the cleanup needs memory, too, and runs without the
    limit."""
    with tempfile.TemporaryDirectory() as folder:
        limit(nbytes)
        yield folder
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def use_cache(path):
    os.environ["ANYRT_CACHE_DIR"] = str(path)


def each(work, numbers):
    """Call `work(number)` in a separate process for each number."""
    for number in numbers:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            work(number)
            print("--", flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, number


def short_builds(*megabytes):
    """Build again with this much memory, into an empty cache."""
    warm_up()
    each(short_build, megabytes)


def short_first_builds(*megabytes):
    """Run the first build of a process, which loads LLVM, with this much memory."""
    trt.Builder(LOG)
    each(short_build, megabytes)


def short_build(megabytes):
    with limited(megabytes * MB) as other:
        use_cache(other)
        print("built" if build() else "None")


def short_loads(cold, *megabytes):
    """Load in a process that has compiled nothing, from a warm cache or an empty one."""
    each(lambda number: short_load(number, cold), megabytes)


def short_load(megabytes, cold):
    plan = Path(os.environ["SCARCE_PLAN"]).read_bytes()
    trt.Runtime(LOG)
    with limited(megabytes * MB) as other:
        if cold:
            use_cache(other)
        print("works" if works(load(plan)) else "None")


def short_context():
    """Create contexts for shapes whose sums alone take 4 GB."""
    engine = load(build(rows=1 << 14, columns=1 << 15))
    limit(1024 * MB)
    print(engine.device_memory_size_v2 >> 20, "MB", engine.create_execution_context())
    context = engine.create_execution_context(trt.ExecutionContextAllocationStrategy.USER_MANAGED)
    print(context.set_input_shape("x", (1 << 14, 1 << 15, 2)), tuple(context.get_tensor_shape("y")))
    little = np.zeros(8192, np.uint8)
    context.set_device_memory(-(-little.ctypes.data // 4096) * 4096, 4096)
    context.set_tensor_address("x", 64)
    context.set_tensor_address("y", 64)
    print(context.execute_async_v3(0))


def short_inference():
    """Run an inference whose output does not fit into memory."""
    engine = load(build(rows=1 << 14, columns=1 << 15))
    x = np.zeros((1 << 10, 1 << 15, 2), np.float32)
    limit(200 * MB)
    try:
        engine.run(x=x)
    except trt.errors.AnyrtError as error:
        print(type(error).__name__, error)


def product(weights, flag):
    """x · weights, for an engine that is refitted or calibrated."""
    builder = trt.Builder(LOG)
    net, config = builder.create_network(), builder.create_builder_config()
    config.set_flag(flag)
    x, none = net.add_input("x", trt.float32, (1, len(weights))), trt.MatrixOperation.NONE
    layer = net.add_constant(weights.shape, weights)
    layer.name = "w"
    y = net.add_matrix_multiply(x, none, layer.get_output(0), none).get_output(0)
    y.name = "y"
    net.mark_output(y)
    return builder, net, config


def short_refits(*megabytes):
    """Replace the 44 MB of weights of an engine, and run it, whether or not the refit succeeded."""
    old, new = (np.full((3072, 3584), n, np.float32) for n in (1, 2))
    builder, net, config = product(old, trt.BuilderFlag.REFIT)
    engine, x = builder.build_engine_with_config(net, config), np.ones((1, 3072), np.float32)
    works = engine.run(x=x)["y"]

    def refit(number):
        refitter = trt.Refitter(engine, LOG)
        assert refitter.set_weights("w", trt.WeightsRole.CONSTANT, new)
        taken = []  # memory that was freed and that malloc keeps
        with contextlib.suppress(MemoryError):
            limit(0)
            while True:
                taken.append(np.empty_like(new))
        limit(number * MB)
        answer = refitter.refit_cuda_engine()
        print(answer, (engine.run(x=x)["y"] / works)[0, 0])

    each(refit, megabytes)


class Batches(trt.IInt8EntropyCalibrator2):
    """Four batches, and a cache in memory."""

    def __init__(self):
        trt.IInt8EntropyCalibrator2.__init__(self)
        self.count, self.cache = 0, None

    def get_batch_size(self):
        return 1

    def get_batch(self, names):
        self.count += 1
        self.batch = np.full((1, 2048), self.count, np.float32)
        return [self.batch] if self.count < 5 else None

    def write_calibration_cache(self, cache):
        self.cache = cache


def short_calibrations(*megabytes):
    builder, net, config = product(np.ones((2048, 2048), np.float32), trt.BuilderFlag.INT8)
    config.int8_calibrator = Batches()
    assert builder.build_serialized_network(net, config) is not None

    def calibrate(number):
        config.int8_calibrator = instance = Batches()
        limit(number * MB)
        plan = builder.build_serialized_network(net, config)
        print(plan is not None, instance.cache is not None)

    each(calibrate, megabytes)


def full_disks(*nbytes):
    """A disk on which no file can be longer than `nbytes`."""
    each(full, nbytes)


def full(nbytes):
    with tempfile.TemporaryDirectory() as other:
        use_cache(other)
        fill(nbytes)
        print(list(Path(other).glob(".*")))


def fill(nbytes):
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, nbytes))
    print("works" if works(load(build())) else "None")


def warm_up():
    """Import every module, as a build without any cache does: another user may be unable to read the
    interpreter's files."""
    before = os.environ.get("ANYRT_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        use_cache(folder)
        works(load(build(rows=32)))
    os.environ.pop("ANYRT_CACHE_DIR")
    if before is not None:
        use_cache(before)


def as_nobody(home, cache):
    """Build and load as a user who owns only `cache`; the superuser may write anywhere."""
    Path(home).chmod(0o777)
    if os.getuid() == 0:
        os.chown(cache, NOBODY, NOBODY)
    child = os.fork()
    if child == 0:
        if os.getuid() == 0:
            os.setuid(NOBODY)
        print("works" if works(load(build())) else "None", flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def readonly():
    """A cache directory of the user's own that is read-only."""
    warm_up()
    with tempfile.TemporaryDirectory() as home:
        cache = Path(home) / "cache"
        cache.mkdir(mode=0o500)
        use_cache(cache)
        as_nobody(home, cache)
        print([*cache.iterdir()])


def homeless():
    """A user without a home directory, as in many containers."""
    warm_up()
    with tempfile.TemporaryDirectory() as home:
        os.environ["HOME"] = "nowhere"
        os.environ.pop("XDG_CACHE_HOME", None)
        os.environ.pop("ANYRT_CACHE_DIR", None)
        tempfile.tempdir = home
        (Path(home) / "own").mkdir()
        as_nobody(home, Path(home) / "own")
        print(sorted(p.name.split("-")[0] for p in Path(home).iterdir()))


if __name__ == "__main__":
    what, numbers = sys.argv[1], [int(n) for n in sys.argv[2:]]
    lives = {"build": short_builds, "load": short_loads, "context": short_context, "infer": short_inference}
    lives |= {"first": short_first_builds, "refit": short_refits, "calibrate": short_calibrations}
    lives |= {"full": full_disks, "readonly": readonly, "homeless": homeless}
    lives[what](*numbers)
