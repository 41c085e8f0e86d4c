"""nano: a third party's engine. It shares no code with the suite, knows only the wire format, and has no attention."""

# It is somebody else's code in somebody else's style, so this project's tools leave it alone.
# ruff: noqa
# mypy: ignore-errors
# fmt: off
import functools, json, math, random, struct, sys
import numpy as np

@functools.cache
def load(folder):
    raw = open(folder + "/model.safetensors", "rb").read()
    head = struct.unpack("<Q", raw[:8])[0]
    meta = json.loads(raw[8:8 + head]); meta.pop("__metadata__", None)
    cut = lambda m: np.frombuffer(raw[8 + head:][slice(*m["data_offsets"])], "<f4").reshape(m["shape"])
    return {k: cut(m) for k, m in meta.items()}, json.load(open(folder + "/config.json"))

def logits(model, token):
    w, c = model
    x = w["model.embed_tokens.weight"][token].astype("f8")
    x = x / math.sqrt((x * x).mean() + c["rms_norm_eps"]) * w["model.norm.weight"]
    return w["lm_head.weight"] @ x

def law(model, token, t):
    z = logits(model, token)
    if t == 0:
        return np.eye(len(z))[z.argmax()]
    e = np.exp((z - z.max()) / t)
    return e / e.sum()

class Dice:
    """All randomness: drawn from a seed, or prescribed, and then every decision is logged."""
    def __init__(self, seed, choices):
        self.rng, self.choices, self.log = random.Random(seed), choices, []
    def draw(self, weights):
        if self.choices is None: return self.rng.choices(range(len(weights)), weights)[0]
        self.log.append([float(w) for w in weights])
        return next(iter(self.choices[len(self.log) - 1:]), int(np.flatnonzero(weights)[0]))

def generate(target, draft, prompt, o, dice):
    out, last, t = [], prompt[-1], o["temperature"]
    while True:
        k = min(o["max_proposals"], o["max_tokens"] - len(out) - 1)
        block, token = [], last
        for _ in range(k):
            q = law(draft, token, t); token = dice.draw(q); block.append((token, q))
        emitted, token = [], last
        for x, q in block:
            p = law(target, token, t)
            a = min(1.0, p[x] / q[x])
            if dice.draw([a, 1 - a]):
                rest = np.maximum(p - q, 0)
                emitted.append(dice.draw(rest)); break
            emitted.append(x); token = x
        else:
            emitted.append(dice.draw(law(target, token, t)))
        for y in emitted:
            out.append(y); last = y
            if y in o["eos_ids"]: return out, "eos"
            if len(out) >= o["max_tokens"]: return out, "length"

def run(m):
    models = [load(f) if f else None for f in (m["checkpoint"]["target"], m["checkpoint"]["draft"])]
    for w, _ in filter(None, models):
        if any(np.any(v) for k, v in w.items() if k.endswith("o_proj.weight")):
            return {"outcome": "skipped", "reason": "nano has no attention"}
    answers, dice = [], None
    for r in m["requests"]:
        dice = Dice(r["options"]["seed"], m["choices"])
        tokens, why = generate(*models, r["prompt"], r["options"], dice)
        answers.append({"tokens": tokens, "finish": why})
    return {"outcome": "ok", "answers": answers, "decisions": dice.log if m["choices"] is not None else None}

for line in sys.stdin:
    m = json.loads(line)
    if m["cmd"] == "stop": break
    if m["cmd"] == "start":
        reply = {"ok": True, "version": 1, "capabilities": {"name": "nano", "version": "0.1", "architectures": ["llama"],
            "features": ["seeds", "choices"], "options": ["temperature", "eos_ids"], "acceptance": ["rejection"],
            "max_proposals": 8, "max_batch": 4}}
    else: reply = {"seq": m["seq"], **run(m)}
    print(json.dumps(reply), flush=True)
