"""AnyRT's server behind Ray Serve: the Open Inference Protocol at Ray's port, the models in each replica.

Needs the extra `serve` and Ray: pip install "anyrt[serve]" "ray[serve]"

    serve run examples.serving.ray_serve:deployment model=model.onnx replicas=2
"""

from collections.abc import Mapping
from pathlib import Path

from ray import serve
from starlette.types import ASGIApp

from anyrt.serve.http import application
from anyrt.serve.models import Options, Repository, Source
from anyrt.serve.service import Service
from anyrt.serve.settings import Settings


def deployment(args: Mapping[str, str]) -> serve.Application:
    """`model` is a file, or a folder of models; each of `replicas` processes runs with `threads` threads."""
    path = Path(args["model"]).absolute()
    single = None if path.is_dir() else (path.stem, path, Settings())
    source = Source(path, None) if single is None else Source(None, single)
    hosts = args.get("hosts", "localhost,127.0.0.1").split(",")

    def replica() -> ASGIApp:
        options = Options(threads=int(args.get("threads", 1)))
        repository = Repository(source, options)
        repository.load_all()
        return application(Service(repository, options.limits), token=None, hosts=hosts)

    wrapped = serve.ingress(replica)()
    return serve.deployment(wrapped, name="AnyRT").options(num_replicas=int(args.get("replicas", 1))).bind()
