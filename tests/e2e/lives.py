"""Processes around builds and inferences: `python lives.py fork|exit|idle|workers …`."""

import os
import signal
import sys
import threading
import time
from importlib import import_module

import numpy as np

import anyrt as trt

LOGGER = trt.Logger(trt.Logger.WARNING)
X = np.random.default_rng(0).standard_normal((4, 64, 64, 8), np.float32)


def engine():
    """y: x normalised over its last three axes, with a pool of three threads."""
    builder = trt.Builder(LOGGER)
    net = builder.create_network()
    x, one = (net.add_input(n, trt.float32, s) for n, s in (("x", X.shape), ("one", (1, 1, 1, 8))))
    layer = net.add_normalization(x, one, one, 0b1110)
    layer.get_output(0).name = "y"
    net.mark_output(layer.get_output(0))
    config = builder.create_builder_config()
    config.num_threads = 3
    return builder.build_engine_with_config(net, config)


def fork():
    """A process that has run an engine forks; both child and parent continue to run it."""
    run, one = engine().run, np.ones((1, 1, 1, 8), np.float32)
    before = run(x=X, one=one)["y"]
    child = os.fork()
    same = all(np.array_equal(run(x=X, one=one)["y"], before) for _ in range(20))
    if child == 0:
        os._exit(0 if same else 3)
    status = os.waitpid(child, 0)[1]
    assert (same, status) == (True, 0)


def leave():
    """The interpreter exits while workers sleep and other threads run inferences."""
    run, one = engine().run, np.ones((1, 1, 1, 8), np.float32)

    def forever():
        while True:
            run(x=X, one=one)

    for _ in range(2):
        threading.Thread(target=forever, daemon=True).start()
    run(x=X, one=one)


def idle():
    """Prints the processor time used in half an idle second."""
    run = engine().run
    run(x=X, one=np.ones((1, 1, 1, 8), np.float32))
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.5)
    print(time.process_time() - before)


def slow(stages):
    """A builder, a network with this many kernels that compile slowly, and its configuration."""
    builder = trt.Builder(LOGGER)
    net = builder.create_network()
    tensor = net.add_input("x", trt.float32, (-1, -1, -1, -1))
    outputs = []
    for _ in range(stages):
        layer = net.add_resize(tensor)
        layer.resize_mode = trt.InterpolationMode.CUBIC
        layer.scales = (1, 1, 1.5, 1.5)
        outputs.append(layer.get_output(0))
        tensor = net.add_reduce(outputs[-1], trt.ReduceOperation.SUM, 0b1000, True).get_output(0)
        tensor = net.add_elementwise(tensor, outputs[-1], trt.ElementWiseOperation.DIV).get_output(0)
        tensor = net.add_slice(tensor, (0,) * 4, (1, 2, 5, 7), (1,) * 4).get_output(0)
    net.mark_output(tensor)
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 2, 5, 7), (2, 3, 9, 9), (4, 4, 16, 16))
    config = builder.create_builder_config()
    config.add_optimization_profile(profile)
    return builder, net, config


def interrupt(plan_file, stages=3000):
    """Runs a slow build until it is interrupted from outside."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have set it to ignored
    builder, net, config = slow(int(stages))
    print("running", flush=True)
    plan = builder.build_serialized_network(net, config)
    with open(plan_file, "wb") as file:
        file.write(plan)


def interrupt_load(plan_file):
    """Loads a plan that must be compiled, until it is interrupted from outside."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with open(plan_file, "rb") as file:
        plan = file.read()
    print("running", flush=True)
    trt.Runtime(LOGGER).deserialize_cuda_engine(plan)


def caught(plan_file):
    """Exits normally after Ctrl-C while a thread is still inside LLVM."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # If the signal arrives during the import of a module, Python exits with the signal's code, caught or not.
    import_module("anyrt.compiler.driver")
    builder, net, config = slow(3000)
    print("running", flush=True)
    try:
        builder.build_serialized_network(net, config)
    except KeyboardInterrupt:
        print("caught", flush=True)


def fork_while_building():
    """Children that build and load, forked while threads of the parent are inside LLVM."""
    # Otherwise a child would wait forever for a module that another thread of its parent was importing.
    import_module("anyrt.compiler.driver")
    builder, net, config = slow(1)

    def forever():
        while True:
            builder.build_serialized_network(net, config)

    for _ in range(2):
        threading.Thread(target=forever, daemon=True).start()
    time.sleep(1)
    children = []
    for _ in range(8):
        children.append(os.fork())
        if children[-1] == 0:
            signal.alarm(30)  # ends a child that would wait forever
            engine().run(x=X, one=np.ones((1, 1, 1, 8), np.float32))
            os._exit(0)
        time.sleep(0.03)
    print([os.waitpid(child, 0)[1] for child in children], flush=True)
    os._exit(0)


def workers(asked=None):
    """Prints the number of threads that a loaded engine has started in addition to the caller."""
    builder, net, config = slow(1)
    config.num_threads = asked and int(asked)
    engine = builder.build_engine_with_config(net, config)
    names = [t.name for t in threading.enumerate() if t.name.removeprefix("anyrt-").isdecimal()]
    print(len(names) if engine else "None")


if __name__ == "__main__":
    lives = {"fork": fork, "exit": leave, "idle": idle, "interrupt": interrupt, "workers": workers}
    lives |= {"interrupt load": interrupt_load, "caught": caught, "fork while building": fork_while_building}
    lives[sys.argv[1]](*sys.argv[2:])
