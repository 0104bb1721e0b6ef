"""Messages as JSON, and in Python's logging."""

import json
import logging

import pytest

import anyrt
from tests.messages import diagnostic


def refuse(logger):
    network = anyrt.Builder(logger).create_network(0)
    network.add_scale(network.add_input("x", anyrt.float32, (2, 3)), anyrt.ScaleMode.UNIFORM)
    return anyrt.Builder(logger).build_serialized_network(
        network, anyrt.Builder(logger).create_builder_config()
    )


def test_messages_are_json_where_the_environment_asks(monkeypatch, capsys):
    monkeypatch.setenv("ANYRT_LOG", "json")
    refuse(anyrt.Logger(anyrt.Logger.ERROR))
    output = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert output
    assert {tuple(x) for x in output} == {("time", "severity", "code", "message")}
    assert (output[-1]["severity"], output[-1]["code"][:2]) == ("ERROR", "AR")


def test_a_wrong_form_is_rejected(monkeypatch):
    monkeypatch.setenv("ANYRT_LOG", "xml")
    with pytest.raises(anyrt.errors.ArgumentError, match=diagnostic("AR304", "ANYRT_LOG", "'xml'", "json")):
        anyrt.Logger().log(anyrt.Logger.ERROR, "x")


def test_messages_reach_the_logging_of_python(caplog):
    caplog.set_level(logging.DEBUG, "serving.anyrt")
    refuse(anyrt.PythonLogger("serving.anyrt"))
    last = caplog.records[-1]
    assert (last.name, last.levelno, last.severity) == ("serving.anyrt", logging.ERROR, "ERROR")
    assert last.getMessage().startswith(f"[{last.code}]")


@pytest.mark.parametrize(("severity", "level"), [("INTERNAL_ERROR", 50), ("WARNING", 30), ("VERBOSE", 10)])
def test_severities_have_levels(severity, level, caplog):
    caplog.set_level(logging.DEBUG)
    anyrt.PythonLogger(logging.getLogger("own")).log(anyrt.ILogger.Severity[severity], "100 % [AR101]")
    (record,) = caplog.records
    assert (record.levelno, record.getMessage(), record.code) == (level, "100 % [AR101]", None)


def test_an_object_that_is_no_logger_is_rejected():
    with pytest.raises(TypeError, match=diagnostic("AR311", "PythonLogger: logger", "int", "logging.Logger")):
        anyrt.PythonLogger(3)
