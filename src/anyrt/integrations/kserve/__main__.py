"""The command that starts KServe's server with a model. It has the options of KServe, `--model_dir` and
`--threads`.

python -m anyrt.integrations.kserve --model_name faces --model_dir /mnt/models --threads 2
"""

from argparse import ArgumentParser

import kserve

from anyrt.integrations.kserve import Model
from anyrt.integrations.protocol import model_file
from anyrt.onnx.predictor import Predictor

PLACE = "folder with model.plan or model.onnx"
THREADS = "threads of one inference (default: those of the machine)"


def main() -> None:
    """Serve the model of a folder until a signal stops the server."""
    parser = ArgumentParser(parents=[kserve.model_server.parser], prog="python -m anyrt.integrations.kserve")
    parser.add_argument("--model_dir", type=model_file, required=True, help=PLACE)
    parser.add_argument("--threads", type=int, help=THREADS)
    args = parser.parse_args()
    model = Model(args.model_name, Predictor(args.model_dir, threads=args.threads))
    model.load()
    kserve.ModelServer().start([model])


if __name__ == "__main__":
    main()
