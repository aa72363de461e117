"""Shell completion: the script for bash completes what a user types; without shtab the fix is named."""

import shutil
import subprocess
import sys

import pytest

from tpo.cli import main

ASK = """
source {script}
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
$(complete -p tpo | sed 's/.*-F \\([^ ]*\\).*/\\1/')
echo "${{COMPREPLY[@]}}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_commands_studies_flags_and_objectives_are_completed(tmp_path, capsys):
    pytest.importorskip("shtab")
    with pytest.raises(SystemExit):
        main(["--print-completion", "bash"])
    (tmp_path / "script").write_text(capsys.readouterr().out)
    typed = {
        "tpo stu": ["studies"],
        "tpo run temp": ["temperature"],
        "tpo run --learning": ["--learning-rate"],
        "tpo train --objective gspo_": ["gspo_token"],
    }
    for words, expected in typed.items():
        asked = ASK.format(script=tmp_path / "script", words=words)
        done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
        assert done.stdout.split() == expected


def test_without_shtab_the_command_to_install_it_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["--print-completion", "zsh"]) == 2
    assert "pip install shtab" in capsys.readouterr().err
