"""Methods in words."""

import pytest

from tpo.reports.labels import readable, readable_text


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("tpo:epochs=4:learning_rate=1.2e-05", "TPO, 4 epochs, learning rate 1.2e-5"),
        ("TPO epochs=4 learning_rate=0.0002", "TPO, 4 epochs, learning rate 2e-4"),
        ("TPO, optimiser muon_fading", "TPO, Muon with fading steps"),
        ("tpo:optimiser=muon_fading", "TPO, Muon with fading steps"),
        ("TPO, epochs 1", "TPO, 1 epoch"),
        ("GRPO no KL", "GRPO without KL"),
        ("grpo_no_kl", "GRPO without KL"),
        ("Dr. GRPO epochs=4", "Dr. GRPO, 4 epochs"),
        ("dr_grpo", "Dr. GRPO"),
        ("TPO eta=0.5 max_grad_norm=0.0", "TPO, eta 0.5, no gradient clipping"),
        ("GRPO max_grad_norm=0.01", "GRPO, gradient norm clipped to 0.01"),
        ("TPO skip_zero_gradient=true ties=pooled", "TPO, zero-gradient steps skipped, pooled ties"),
        ("TPO score=mean_ratio eta=2.0", "TPO, score: mean ratio, eta 2"),
        ("mine:my_option=a_b", "mine, my option a b"),
        ("Uniform policy, V = 2", "Uniform policy, V = 2"),
        ("PG, D = 10, learner", "PG, D = 10, learner"),
    ],
)  # fmt: skip
def test_a_label_in_words(label, words):
    assert readable(label) == words
    assert readable(words) == words


def test_a_claim_in_words():
    claim = "TPO epochs=4 eta=0.5 ends with a lower error than GRPO epochs=1 (n = 3); GRPO is level"
    assert readable_text(claim) == (
        "TPO (4 epochs, eta 0.5) ends with a lower error than GRPO (1 epoch) (n = 3); GRPO is level"
    )
    assert readable_text("TPO, optimiser muon_fading 2.57% against TPO, epochs 1 8%") == (
        "TPO (Muon with fading steps) 2.57% against TPO (1 epoch) 8%"
    )
    assert readable_text("tpo:epochs=4, seed 2: none; dr_grpo:epochs=1 too") == (
        "TPO (4 epochs), seed 2: none; Dr. GRPO (1 epoch) too"
    )
    assert readable_text("GRPO no KL 5%, PG (IS) 4%") == (
        "GRPO without KL 5%, PG with importance sampling 4%"
    )
    assert readable_text("error = 5%, V = 2") == "error = 5%, V = 2"
