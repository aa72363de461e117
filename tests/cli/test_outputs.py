"""Results for programs and notebooks: --json, --csv, `open_results`, and logs for TensorBoard and W&B."""

import csv
import io
import json
import struct
import sys
from importlib.machinery import ModuleSpec
from types import SimpleNamespace

import numpy as np
import pytest

from tpo import cli, reports
from tpo.cli import doctor, main
from tpo.cli.lab import logs, study_display
from tpo.cli.lab.plain_progress import PlainProgress
from tpo.reports.notebook.table import ResultTable
from tpo.storage.store import Store

RUN = ["run", "--task", "bandit", "--arms", "4", "--batch", "16", "--episodes", "30", "--seeds", "3"]  # fmt: skip
UNFORESEEN = cli._unforeseen
METHODS = ["--methods", "tpo,dg"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("own") / "out"
    assert main([*RUN, *METHODS, "--out", str(found)]) == 0
    return found


@pytest.fixture(scope="module")
def errors(folder):
    """[seeds, episodes] by label, from the stored curves."""
    store = Store(folder)
    keys = store.keys()
    named = {store.description(key)["cell"]["method"]["objective"]: key for key in keys}
    return {name.upper(): store.curves(key)["error"] for name, key in named.items()}


def test_json_is_all_that_is_on_stdout(folder, errors, capsys):
    assert main([*RUN, *METHODS, "--out", str(folder), "--json"]) == 0
    (study,) = json.loads(capsys.readouterr().out)["studies"]
    assert study["settings"]["batch"] == 16
    for row in study["table"]["rows"]:
        y = errors[row["method"]]
        assert row["mean"] == pytest.approx(100 * y[:, -1].mean(), rel=1e-4)
        assert row["n"] == 3


def test_the_command_in_the_json_repeats_the_run(folder, capsys, tmp_path):
    assert main([*RUN, *METHODS, "--out", str(folder), "--json"]) == 0
    (study,) = json.loads(capsys.readouterr().out)["studies"]
    words = study["command"].split()
    assert main([*words[1:], "--out", str(tmp_path)]) == 0
    assert Store(tmp_path).keys() == Store(folder).keys()


def test_csv_goes_to_a_file_or_to_stdout(folder, errors, capsys, tmp_path):
    path = tmp_path / "table.csv"
    assert main([*RUN, *METHODS, "--out", str(folder), "--csv", str(path)]) == 0
    capsys.readouterr()
    assert main(["report", str(folder), "--csv", "-"]) == 0
    for text in (path.read_text(), capsys.readouterr().out):
        rows = list(csv.DictReader(io.StringIO(text)))
        assert [row["method"] for row in rows] == ["TPO", "DG"]
        for row in rows:
            last = errors[row["method"]][:, -1]
            assert float(row["median"]) == pytest.approx(100 * np.median(last), rel=1e-4)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--json", "--csv", "-"], "both print on stdout"),
        (["--csv", "nowhere/table.csv"], "a file to write in a folder that exists"),
        (["--log", "mlflow"], "expected tensorboard, wandb or wandb:PROJECT"),
        (["--log", "tensorboard:x"], "expected tensorboard, wandb or wandb:PROJECT"),
    ],
)
def test_a_wrong_output_is_refused_before_anything_runs(flags, message, capsys, tmp_path):
    assert main([*RUN, *METHODS, "--out", str(tmp_path / "new"), *flags]) == 2
    assert message in capsys.readouterr().err
    assert not list((tmp_path / "new").glob("*/cell.json"))


def test_a_report_of_own_runs_has_them(folder, capsys):
    assert main(["report", str(folder)]) == 0
    assert "Bandit(arms=4, n_contexts=1)" in (folder / "report.html").read_text()


def test_opened_results_show_themselves(folder, errors):
    found = reports.open_results(folder)
    html = found._repr_html_()
    last = 100 * errors["DG"][:, -1].mean()
    assert "<svg" in html
    assert f'<td style="text-align: left">{last:.3g}</td>' in html
    assert f"{last:.3g}" in repr(found)
    (panel,) = found.plot().panels
    assert panel.marks[1].ys == pytest.approx(errors["DG"].mean(0), abs=1e-4)
    with pytest.raises(
        ValueError, match="there is no study 'x': give the name of one, such as 'run-"
    ):
        found.plot("x")


def test_curves_in_memory_give_the_same_table(folder, errors):
    in_memory = reports.results_of({name.lower(): {"error": y} for name, y in errors.items()})
    stored = {row["method"]: row for row in reports.open_results(folder).table().rows}
    for row in in_memory.table().rows:
        assert row["last100"] == stored[row["method"]]["last100"]
        assert row["steps_to_threshold"] == stored[row["method"]]["steps_to_threshold"]


def test_a_table_is_a_data_frame_where_pandas_is_installed():
    pd = pytest.importorskip("pandas")
    rows = [{"method": "TPO", "mean": 1.5}, {"method": "DG", "mean": None}]
    frame = ResultTable(rows).to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame["method"]) == ["TPO", "DG"]


def test_without_pandas_the_command_to_install_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match="pip install pandas"):
        ResultTable([{"method": "TPO"}]).to_pandas()


def test_studies_as_json(capsys):
    assert main(["studies", "compare", "--json"]) == 0
    (study,) = json.loads(capsys.readouterr().out)["studies"]
    assert study["settings"]["H"] == 7
    assert study["estimates"]["smoke"]["runs"] > 20


class Recorder:
    """What TensorBoard's SummaryWriter and a W&B run have in common for a test: they keep what they get."""

    made: list

    def __init__(self, folder="", **options):
        self.folder, self.options, self.rows, self.closed = folder, options, [], False
        type(self).made.append(self)

    def add_scalar(self, name, value, step):
        self.rows.append((name, value, step))

    def log(self, numbers, step):
        self.rows += [(name, value, step) for name, value in numbers.items()]

    def close(self):
        self.closed = True

    finish = close


@pytest.mark.parametrize("service", ["tensorboard", "wandb:mine"])
def test_every_episode_is_logged_once(service, monkeypatch, folder, errors, tmp_path):
    class Fake(Recorder):
        made: list = []  # noqa: RUF012

    module = SimpleNamespace(SummaryWriter=Fake, init=Fake, __spec__=ModuleSpec("fake", None))
    monkeypatch.setitem(sys.modules, "tensorboardX", module)
    monkeypatch.setitem(sys.modules, "wandb", module)
    out = str(tmp_path / "out")
    assert main([*RUN, *METHODS, "--chunk", "7", "--out", out, "--log", service]) == 0
    assert len(Fake.made) == 2
    for writer, y in zip(Fake.made, (errors["TPO"], errors["DG"]), strict=True):
        logged = [(step, value) for name, value, step in writer.rows if name == "error"]
        assert [step for step, _ in logged] == list(range(1, 31))
        np.testing.assert_allclose([value for _, value in logged], y.mean(0), rtol=1e-6)
        assert writer.closed
    if service == "tensorboard":
        assert [one.folder for one in Fake.made] == [
            f"{out}/tensorboard/{m}" for m in ("tpo", "dg")
        ]
    else:
        assert {one.options["project"] for one in Fake.made} == {"mine"}


def scalars(path):
    """(name, value, step) of each scalar in an event file: records of length, checksum, event, checksum."""
    from tensorboardX.proto.event_pb2 import Event

    content, at = path.read_bytes(), 0
    while at < len(content):
        (length,) = struct.unpack_from("<Q", content, at)
        event = Event.FromString(content[at + 12 : at + 12 + length])
        yield from ((value.tag, value.simple_value, event.step) for value in event.summary.value)
        at += 16 + length


def test_tensorboards_own_files_have_the_curves(folder, errors, tmp_path):
    pytest.importorskip("tensorboardX")
    out = tmp_path / "out"
    assert main([*RUN, *METHODS, "--chunk", "7", "--out", str(out), "--log", "tensorboard"]) == 0
    for method, label in (("tpo", "TPO"), ("dg", "DG")):
        (file,) = (out / "tensorboard" / method).glob("events.out.tfevents.*")
        found = {step: value for name, value, step in scalars(file) if name == "error"}
        assert list(found) == list(range(1, 31))
        np.testing.assert_allclose(list(found.values()), errors[label].mean(0), rtol=1e-6)


@pytest.mark.parametrize(("service", "package"), [("tensorboard", "tensorboardX"), ("wandb", "wandb")])  # fmt: skip
def test_a_missing_logger_names_the_command_that_installs_it(service, package, monkeypatch, capsys):
    for name in ("tensorboardX", "wandb", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
    assert main([*RUN, *METHODS, "--log", service]) == 2
    assert f"--log {service} needs {package}: pip install {package}" in capsys.readouterr().err


def test_torch_without_tensorboard_is_refused_before_a_folder_is_made(
    monkeypatch, tmp_path, capsys
):
    for name in ("tensorboardX", "tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
    out = tmp_path / "out"
    assert main([*RUN, *METHODS, "--log", "tensorboard", "--out", str(out)]) == 2
    assert "pip install tensorboardX" in capsys.readouterr().err
    assert not out.exists()


def test_piped_progress_of_a_study_says_when_it_compiles(capsys):
    planned = SimpleNamespace(title="TPO H=3", episodes=4)
    for episode, error in ((0, np.nan), (2, 0.5)):
        curves = {"error": np.array([[error]])}
        study_display.PlainWatch(1, lines=PlainProgress(every=0.0))(
            planned, SimpleNamespace(episode=episode, curves=curves)
        )
    first, second = capsys.readouterr().err.splitlines()
    assert first == "TPO H=3: 0/4, compiling"
    assert second == "TPO H=3: 2/4, error 0.500"


def test_a_folder_of_logs_has_the_method_as_its_name():
    assert logs.folder_name("../a b/mine.py:Mine:eta=0.5") == "..-a-b-mine.py-Mine-eta=0.5"


def test_piped_progress_is_a_line_at_intervals(capsys):
    now = iter([0.0, 1.0, 20.0, 21.0, 22.0, 23.0])
    lines = PlainProgress(every=15.0, clock=lambda: next(now))
    for done in (0, 5, 50, 60, 100, 100):
        lines.show("tpo", done, 100, "error 0.5")
    assert capsys.readouterr().err.splitlines() == [
        "tpo: 0/100, error 0.5",
        "tpo: 50/100, error 0.5, about 21 s left",
        "tpo: 100/100, error 0.5",
    ]


def test_a_table_opens_with_the_final_error_of_the_report() -> None:
    row = {
        "method": "tpo",
        "low": 1.0,
        "high": 9.0,
        "mean": 5.0,
        "last100": 3.0,
        "last100_low": 2.0,
    }
    shown = str(ResultTable([row])).split("\n")
    assert shown[0].startswith("method  final error (%)  from  last episode (%)")
    assert shown[1].split() == ["TPO", "3", "2", "5"]


def test_a_full_disk_and_folders_without_evidence_are_named(folder, capsys, tmp_path):
    capsys.readouterr()
    for words, named in (
        (
            ["report", str(folder), "--csv", "/dev/full"],
            "--csv: No space left on device: '/dev/full'",
        ),
        (["evidence", "--docs", str(tmp_path / "none")], f"--docs is '{tmp_path / 'none'}', and"),
    ):
        assert main(words) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("tpo: ")
        assert named in line


def test_an_error_that_was_not_foreseen_is_one_line(monkeypatch, capsys):
    def fail(args):
        raise RuntimeError("a\nb\x1b" + "c" * 10**6)

    monkeypatch.setattr(doctor, "main", fail)
    monkeypatch.setattr(cli, "_unforeseen", UNFORESEEN)
    assert main(["doctor"]) == 2
    line = f"{__file__}, line {fail.__code__.co_firstlineno + 1}"
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(r"tpo: RuntimeError: a b\x1bccc")
    assert f"c ({line}; PYTHONDEVMODE=1" in said
    assert len(said) < 1300
