"""Independent computations the lab is checked against: plain, slow, sharing no code with it."""

import numpy as np


def layer_norm(xp, x, scale, bias):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / xp.sqrt(variance + 1e-6) * scale + bias


def gelu(xp, x):
    return 0.5 * x * (1 + xp.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(xp, x):
    e = xp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(xp, x):
    x = x - x.max(-1, keepdims=True)
    return x - xp.log(xp.exp(x).sum(-1, keepdims=True))


def transformer(xp, params, tokens, heads):
    """Logits [n, V] after each token of one sequence: head by head, no cache, no sharing."""
    n = len(tokens)
    x = params["embed"][tokens] + params["position"][:n]
    d = x.shape[-1]
    d_head = d // heads
    blocked = np.triu(np.ones((n, n), bool), 1)
    for i in range(params["qkv"].shape[0]):
        y = layer_norm(xp, x, params["attention_norm"][i], params["attention_norm_bias"][i])
        parts = []
        for head in range(heads):
            cut = slice(head * d_head, (head + 1) * d_head)
            q, k, v = (
                y @ params["qkv"][i][:, part * d : (part + 1) * d][:, cut]
                + params["qkv_bias"][i, part, head]
                for part in range(3)
            )
            scores = xp.where(blocked, -np.inf, q @ k.T / np.sqrt(d_head))
            parts.append(softmax(xp, scores) @ v)
        x = x + xp.concatenate(parts, -1) @ params["out"][i] + params["out_bias"][i]
        y = layer_norm(xp, x, params["mlp_norm"][i], params["mlp_norm_bias"][i])
        y = gelu(xp, y @ params["up"][i] + params["up_bias"][i])
        x = x + y @ params["down"][i] + params["down_bias"][i]
    x = layer_norm(xp, x, params["final_norm"], params["final_norm_bias"])
    return x @ params["head"] + params["head_bias"]
