"""What a user meets on the way to a Ray cluster."""

import socket
import sys

import pytest

from tpo.cli import main
from tpo.lab.execution import ray


def test_without_ray_the_error_says_what_to_install(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    words = ["run", "talk", "--engine", "ray", "--out", str(tmp_path / "s")]
    assert main(words) == 2
    assert "not installed: pip install 'tpo[ray]'" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


def test_an_address_without_a_port_is_named():
    with pytest.raises(ValueError, match="--address is 'head', expected HOST:PORT or auto"):
        ray.check_address("head")


def test_an_address_where_nothing_listens_is_named():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(ValueError, match=f"'{address}', and nothing answers there .*ray start"):
        ray.check_address(address)


def test_an_address_of_something_else_is_given_up(monkeypatch):
    monkeypatch.setattr(ray, "CONNECTS_WITHIN", 4.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ValueError, match="no Ray cluster answered in 4 s"):
            ray.check_address(address)


def test_workers_round_as_this_process_would(monkeypatch):
    for name in ("PJRT_NPROC", "NPROC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(ray, "cores", lambda: 7)
    assert ray.worker_environment(False) == {
        "PJRT_NPROC": "7",
        "NPROC": "7",
        "JAX_PLATFORMS": "cpu",
    }
    monkeypatch.setenv("PJRT_NPROC", "3")
    assert ray.worker_environment(True)["NPROC"] == "3"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["talk", "--address", "auto"], "give --engine ray with it"),
        (["--methods", "tpo", "--address", "auto"], "give --engine ray with it"),
        (["talk", "--engine", "spark"], "expected one of 'local', 'ray'"),
    ],
)
def test_a_wrong_flag_is_named(words, message, capsys):
    assert main(["run", *words]) == 2
    assert message in capsys.readouterr().err
