"""PyTorch's part of bench/frameworks: models, and runs of them that count bytes."""
import torch
from torch import nn
from torch.nn import functional as F

import costs_torch
import run_torch
from run_torch import With

NAME = f"torch {torch.__version__}"
CPU = torch.device("cpu")


class Embed(nn.Module):
    def __init__(self, words, length, width):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.randn(length, width) / 10)
        self.dropout = nn.Dropout(0.1)

    def forward(self, tokens):
        return self.dropout(self.words(tokens) + self.places)


class Loss(nn.Module):
    """Logits by the embedding's own weights, and their loss."""

    def __init__(self, embed, width):
        super().__init__()
        self.embed, self.norm = embed, nn.LayerNorm(width)

    def forward(self, x, targets):
        logits = F.linear(self.norm(x), self.embed.words.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Residual(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        conv = lambda n, m, size, stride: nn.Conv2d(n, m, size, stride, size // 2, bias=False)
        self.body = nn.Sequential(
            conv(before, after, 3, stride), nn.BatchNorm2d(after), nn.ReLU(),
            conv(after, after, 3, 1), nn.BatchNorm2d(after),
        )
        skip = (conv(before, after, 1, stride), nn.BatchNorm2d(after)) if before != after else ()
        self.skip = nn.Sequential(*skip)

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


def transformer():
    width, length, words, batch = 128, 128, 512, 4
    embed = Embed(words, length, width)
    mask = nn.Transformer.generate_square_subsequent_mask(length)
    block = lambda: nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, norm_first=True)
    loss = With(Loss(embed, width), targets=torch.randint(words, (batch, length)))
    steps = [embed, *[With(block(), src_mask=mask, is_causal=True) for _ in range(12)], loss]
    return steps, lambda: torch.randint(words, (batch, length)), [mask, loss.keywords["targets"]], torch.optim.AdamW


class Attend(nn.Module):
    def __init__(self, width, mask):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, 4, 0.1, batch_first=True)
        self.mask = mask

    def forward(self, x):
        h = self.norm(x)
        return x + self.attention(h, h, h, attn_mask=self.mask, is_causal=True, need_weights=False)[0]


class Feed(nn.Module):
    def __init__(self, width):
        super().__init__()
        up, down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.body = nn.Sequential(nn.LayerNorm(width), up, nn.GELU(), nn.Dropout(0.1), down)

    def forward(self, x):
        return x + self.body(x)


def halves():
    """Eleven blocks of a transformer, each in two steps."""
    (embed, *_, loss), batch, (mask, targets), optimizer = transformer()
    parts = [step for _ in range(11) for step in (Attend(128, mask), Feed(128))]
    return [embed, *parts, loss], batch, [mask, targets], optimizer


def resnet():
    stem = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
    widths = [(16, 16, 1)] * 4 + [(16, 32, 2)] + [(32, 32, 1)] * 3 + [(32, 64, 2)] + [(64, 64, 1)] * 3
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    targets = torch.randint(10, (16,))
    steps = [stem, *[Residual(*w) for w in widths], head, lambda logits: F.cross_entropy(logits, targets)]
    return steps, lambda: torch.randn(16, 3, 32, 32), [targets], None


def mlp():
    shared = nn.Sequential(nn.Linear(256, 256), nn.ReLU())
    layers = [nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(6)]
    layers = [step for layer in layers for step in (layer, shared, nn.LayerNorm(256))]
    sgd = lambda params: torch.optim.SGD(params, momentum=0.9)
    return [*layers, nn.Linear(256, 8), torch.Tensor.square, torch.sum], lambda: torch.randn(512, 256), [], sgd


class Pair(nn.Module):
    """Gets and returns a state of several values, some of which pass on."""

    def __init__(self):
        super().__init__()
        self.linear, self.dropout = nn.Linear(128, 128), nn.Dropout(0.1)

    def forward(self, h, skip, turn, unused, scale=1.0):
        return torch.tanh(self.dropout(self.linear(h))) * scale + skip, skip, turn + 1, unused


def skips():
    pairs = [With(Pair(), scale=1.5) for _ in range(9)]
    steps = [lambda x: (torch.tanh(x), x, 1, None), *pairs, lambda h, skip, turn, _: (h * skip / turn, turn, h)]
    return steps, lambda: torch.randn(256, 128), [], None


MODELS = {"transformer": transformer, "halves": halves, "ResNet": resnet, "MLP": mlp, "skips": skips}


def build(model):
    """The steps, batch maker, tensors and optimiser of MODEL. Gradients and the optimiser's state exist already."""
    torch.manual_seed(1)
    steps, batch, others, optimizer = model()
    params = list(nn.ModuleList(s for s in steps if isinstance(s, nn.Module)).parameters())
    for p in params:
        p.grad = torch.zeros_like(p)
    optimizer = optimizer and optimizer(params)
    if optimizer:
        optimizer.step()
    torch.manual_seed(2)
    return steps, batch, others, optimizer


def costs(name):
    steps, batch, others, optimizer = build(MODELS[name])
    return costs_torch.costs(name, steps, batch(), optimizer, others)


def plain(steps, x):
    inputs = [v.requires_grad_() for v in run_torch.with_gradient(run_torch.as_tuple(x))]
    state = run_torch.as_tuple(x)
    for step in steps:
        state = run_torch.as_tuple(step(*state))
    torch.autograd.backward(run_torch.with_gradient(state), run_torch.ones(*state))
    return [x.grad for x in inputs]


def results(steps, gradients):
    """The bytes that a run leaves: gradients, buffers, the generator's state."""
    modules = nn.ModuleList(s for s in steps if isinstance(s, nn.Module))
    left = [*gradients, *(p.grad for p in modules.parameters()), *modules.buffers(), torch.get_rng_state()]
    return [t.numpy().tobytes() for t in left]


def measure(name, actions=None):
    """Runs a model under ACTIONS, or plain autograd. Returns the fixed bytes, the peak, and the results."""
    found = []

    def phases():
        steps, batch, _, _optimizer = build(MODELS[name])
        yield
        gradients = plain(steps, batch()) if actions is None else run_torch.run(steps, batch(), actions)
        yield
        found.extend(results(steps, gradients))

    (fixed, _), (_, peak) = costs_torch.usage(phases(), CPU)
    return fixed, peak, found
