"""`anyrt serve`: serve models over HTTP and gRPC.

anyrt serve model.onnx
    serve one model at http://127.0.0.1:8000/v2/models/model
anyrt serve --repository models --grpc-port 8001
    serve all models of a folder, over gRPC too
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from anyrt.cli.command import Command
from anyrt.core.errors import ArgumentError

if TYPE_CHECKING:
    from anyrt.serve.models import Source

TOKEN = "ANYRT_SERVE_TOKEN"


def options(parser: ArgumentParser) -> None:
    """The models, the addresses, and access control."""
    parser.description = __doc__
    add = parser.add_argument
    add("model", nargs="?", type=Path, help="an ONNX model or a plan")
    add("--repository", type=Path, metavar="DIR", help="folder with NAME/VERSION/model.onnx or model.plan")
    add("--name", help="name of MODEL in requests (default: name of its file)")
    add("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    add("--port", type=int, default=8000, help="HTTP port (default: %(default)s)")
    add("--grpc-port", type=int, help="gRPC port (default: no gRPC)")
    add("--allow-host", action="append", default=[], metavar="NAME", help="accept this Host header, too")
    add("--token-file", type=Path, help=f"file with the token that requests need (default: {TOKEN})")
    add("--tls-certificate", type=Path, help="certificate, a PEM file; needs --tls-key")
    add("--tls-key", type=Path, help="private key, a PEM file; needs --tls-certificate")
    add("--repository-control", action="store_true", help="allow requests to load and unload models")
    add("--max-batch-size", type=int, default=0, help="maximum rows of joined requests (default: 0, none)")
    add("--batch-delay-us", type=int, default=0, help="time to wait for other requests (default: 0)")
    add("--batch-invariant", action="store_true", help="join requests only if their results stay equal")
    add("--instances", type=int, default=1, help="concurrent inferences of MODEL (default: 1)")
    add("--threads", type=int, help="threads of one inference (default: those of the machine)")
    add("--max-body-mb", type=int, default=64, help="maximum size of a request in MB (default: 64)")
    add("--max-queue", type=int, default=256, help="maximum waiting requests per model (default: 256)")
    add("--timeout-seconds", type=float, default=60.0, help="time limit of a request (default: 60)")
    add("--slow-seconds", type=float, default=30.0, help="time limit for receiving a body (default: 30)")
    add("--drain-seconds", type=float, default=30.0, help="time for requests after SIGTERM (default: 30)")
    add("--no-page", action="store_true", help="do not serve the page with all models at /")
    add("--log-requests", action="store_true", help="log each request as a line of JSON")


def run(args: Namespace) -> None:
    """Serve until SIGTERM."""
    try:
        from anyrt.serve.models import Options
        from anyrt.serve.refused import Limits
        from anyrt.serve.run import Ports, serve
    except ModuleNotFoundError as error:
        got, do = f"no module {error.name}", "pip install anyrt[serve]"
        raise ArgumentError("AR304", "anyrt serve", got, "the packages of anyrt[serve]", do) from None
    limits = Limits(
        body_bytes=args.max_body_mb << 20,
        queue=args.max_queue,
        request_seconds=args.timeout_seconds,
        body_seconds=args.slow_seconds,
        header_seconds=min(10.0, args.slow_seconds),
        drain_seconds=args.drain_seconds,
    )
    ports = Ports(
        host=args.host,
        http=args.port,
        grpc=args.grpc_port,
        hosts=tuple(args.allow_host),
        token=_token(args.token_file),
        certificate=args.tls_certificate,
        key=args.tls_key,
        control=args.repository_control,
        logs_requests=args.log_requests,
        has_page=not args.no_page,
    )
    if (ports.certificate is None) != (ports.key is None):
        raise ArgumentError(
            "AR304", "anyrt serve", "one of --tls-certificate and --tls-key", "both or neither"
        )
    _trace()
    serve(_source(args), ports, Options(args.threads, limits))


def _trace() -> None:
    """Export traces if the variables of OpenTelemetry are set; log a line if its packages are missing."""
    from anyrt.serve.logs import log

    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    default = "otlp" if any(os.environ.get(n) for n in endpoints) else "none"
    names = [n.strip() for n in (os.environ.get("OTEL_TRACES_EXPORTER") or default).split(",")]
    if names == ["none"]:
        return
    try:
        from anyrt.serve.exporting import export_traces

        export_traces(names)
    except ModuleNotFoundError as error:
        log("traces", exporters=[], reason=f"no module {error.name}; pip install anyrt[trace]")
    else:
        log("traces", exporters=names)


def _source(args: Namespace) -> Source:
    from anyrt.serve.models import NAME, Source
    from anyrt.serve.settings import Settings

    if (args.model is None) == (args.repository is None):
        raise ArgumentError(
            "AR304",
            "anyrt serve",
            "no model" if args.model is None else "MODEL and --repository",
            "one of MODEL and --repository",
        )
    if args.repository is not None:
        if not args.repository.is_dir():
            raise ArgumentError("AR304", "--repository", str(args.repository), "a folder")
        return Source(root=args.repository)
    name = args.name or args.model.stem
    if not NAME.fullmatch(name):
        raise ArgumentError("AR304", "--name", repr(name), f"a name like {NAME.pattern}", "add --name NAME")
    settings = Settings(
        max_batch_size=args.max_batch_size,
        delay_seconds=args.batch_delay_us / 1e6,
        instances=args.instances,
        batch_invariant=args.batch_invariant,
    )
    return Source(single=(name, args.model, settings))


def _token(path: Path | None) -> str | None:
    """The token in the file, otherwise that of the environment variable; None if there is neither."""
    text = os.environ.get(TOKEN, "") if path is None else path.read_text()
    token = text.strip()
    if path is not None and not token:
        raise ArgumentError("AR304", "--token-file", f"{path}, which is empty", "a token")
    return token or None


COMMAND = Command("serve models over HTTP and gRPC", options, run, json=False)
