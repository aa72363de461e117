"""Train a tiny random language model with TPO on TRL: answer every prompt with a digit."""

import tempfile

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from tpo.llm import TargetPolicyConfig, TargetPolicyTrainer

WORDS = ["<pad>", "<eos>", *"0123456789", *(f"w{i}" for i in range(40))]


def digits(completions: list[str], **_: object) -> list[float]:
    """The share of words that are digits: any function of this shape is a reward."""
    return [sum(w.isdigit() for w in c.split()) / max(len(c.split()), 1) for c in completions]


words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="w0"))
words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")
shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
model = LlamaForCausalLM(LlamaConfig(vocab_size=len(WORDS), num_attention_heads=4, **shape))
model.generation_config.eos_token_id = model.config.eos_token_id = tokenizer.eos_token_id
prompts = Dataset.from_dict({"prompt": [f"w{i} w{i + 1}" for i in range(30)]})
args = TargetPolicyConfig(
    tempfile.mkdtemp(), objective="tpo", num_generations=8, per_device_train_batch_size=8,
    gradient_accumulation_steps=4, max_completion_length=6,
    learning_rate=3e-3, max_steps=40, logging_steps=10, save_strategy="no", report_to="none",
    use_cpu=True, bf16=False, gradient_checkpointing=False, disable_tqdm=True,
)  # fmt: skip
trainer = TargetPolicyTrainer(
    model, digits, args, train_dataset=prompts, processing_class=tokenizer
)
trainer.train()
rewards = [row["reward"] for row in trainer.state.log_history if "reward" in row]
print(f"digits among words: {rewards[0]:.0%} in the first ten steps, {rewards[-1]:.0%} in the last")
