"""
The models of check-onnx-models: modules of plain torch.nn with seeded weights, each with example inputs, and models that
installed packages bring along.
"""
import importlib.util
import math
import os

import numpy
import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    def __init__(self, before, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.down = None
        if stride != 1 or before != channels:
            self.down = nn.Sequential(nn.Conv2d(before, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.down is None else self.down(x)))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(*(
            Residual(64 * 2 ** max(i // 2 - (i % 2 == 0), 0), 64 * 2 ** (i // 2), 2 if i and i % 2 == 0 else 1) for i in range(8)))
        self.head = nn.Linear(512, 1000)

    def forward(self, x):
        return self.head(F.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1).flatten(1))


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (part.view(b, t, self.heads, d // self.heads).transpose(1, 2) for part in self.qkv(x).split(d, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh" if causal else "none"),
                                 nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class ViT(nn.Module):
    def __init__(self, width=192, depth=6, heads=3, size=224, patch=16):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, width))
        self.blocks = nn.ModuleList(Block(width, heads, False) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 100)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class GPT2(nn.Module):
    def __init__(self, words=1000, width=256, depth=4, heads=4, length=64):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, True) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(64, 128, 2, batch_first=True)
        self.head = nn.Linear(128, 10)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


class UNet(nn.Module):
    def __init__(self, widths=(16, 32, 64, 128)):
        super().__init__()

        def pair(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1),
                                 nn.BatchNorm2d(b), nn.ReLU())

        self.down = nn.ModuleList(pair(a, b) for a, b in zip((3, *widths), widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
        self.join = nn.ModuleList(pair(2 * a, a) for a in widths[:-1])
        self.out = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        kept = []
        for i, part in enumerate(self.down):
            x = part(x if i == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for i in reversed(range(len(self.up))):
            x = self.join[i](torch.cat([kept[i], self.up[i](x)], 1))
        return self.out(x)


class Steps(nn.Module):
    """A function of x, and the modules that it calls as self.NAME."""

    def __init__(self, call, **modules):
        super().__init__()
        self.call = call
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, x):
        return self.call(self, x)


def encoder():
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)


def mobile():
    """Inverted residuals with squeeze and excitation."""
    def part(s, x):
        y = s.act(s.bn1(s.expand(x)))
        y = s.act(s.bn2(s.depth(y)))
        y = y * F.hardsigmoid(s.up(F.relu(s.squeeze(F.adaptive_avg_pool2d(y, 1)))))
        return x + s.bn3(s.project(y))

    return nn.Sequential(*(Steps(part, expand=nn.Conv2d(8, 24, 1, bias=False), depth=nn.Conv2d(24, 24, 5, padding=2, groups=24, bias=False),
                                 squeeze=nn.Conv2d(24, 6, 1), up=nn.Conv2d(6, 24, 1), project=nn.Conv2d(24, 8, 1, bias=False),
                                 bn1=nn.BatchNorm2d(24), bn2=nn.BatchNorm2d(24), bn3=nn.BatchNorm2d(8), act=nn.Hardswish())
                           for _ in range(3)))


def convnext():
    def part(s, x):
        y = s.norm(s.depth(x).permute(0, 2, 3, 1))
        return x + (s.gamma.weight[0] * s.down(F.gelu(s.up(y)))).permute(0, 3, 1, 2)

    return nn.Sequential(*(Steps(part, depth=nn.Conv2d(12, 12, 7, padding=3, groups=12), norm=nn.LayerNorm(12), up=nn.Linear(12, 48),
                                 down=nn.Linear(48, 12), gamma=nn.Embedding(1, 12)) for _ in range(3)))


def llama():
    """RMS normalisation, rotated pairs and a gate."""
    def rms(x, weight):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight

    def rotate(x):
        t = torch.arange(x.shape[2], dtype=torch.float32)[:, None] * 10000 ** (-torch.arange(0, 8, dtype=torch.float32) / 8)
        a, b = x.chunk(2, -1)
        return torch.cat([a * t.cos() - b * t.sin(), b * t.cos() + a * t.sin()], -1)

    def part(s, x):
        b, n, d = x.shape
        y = rms(x, s.norms.weight[0])
        q, k, v = (m(y).view(b, n, 2, 16).transpose(1, 2) for m in (s.q, s.k, s.v))
        y = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
        x = x + s.o(y.transpose(1, 2).reshape(b, n, d))
        y = rms(x, s.norms.weight[1])
        return x + s.down(F.silu(s.gate(y)) * s.up(y))

    def line(a, b):
        return nn.Linear(a, b, bias=False)

    return nn.Sequential(*(Steps(part, q=line(32, 32), k=line(32, 32), v=line(32, 32), o=line(32, 32), gate=line(32, 48),
                                 up=line(32, 48), down=line(48, 32), norms=nn.Embedding(2, 32)) for _ in range(3)))


def attend(s, x):
    return s.attention(x, x, x, need_weights=False)[0]


def wave(s, x):
    y = x
    for conv in s.convs:
        y = y + torch.tanh(conv(y)) * torch.sigmoid(conv(y))
    return y


def heads(s, x):
    y = s.body(x)
    return torch.cat([torch.log_softmax(y, 1), F.normalize(y, dim=1), y.cumsum(1), y.clamp(-1, 1), y.abs().sqrt()], 1)


def seeded(module):
    """Weights that all differ, of usual sizes; running statistics that are no identities."""
    torch.manual_seed(1)
    with torch.no_grad():
        for name, p in module.named_parameters():
            if p.dim() > 1:
                p.normal_(0, 1 / math.sqrt(p[0].numel()) if "words" not in name and "places" not in name else 0.5)
            else:
                p.normal_(0, 0.1).add_(1.0 if name.endswith("weight") else 0.0)
        for name, b in module.named_buffers():
            if name.endswith("running_mean"):
                b.normal_(0, 0.1)
            if name.endswith("running_var"):
                b.uniform_(0.5, 1.5)
    return module.eval()


def floats(*shape):
    return lambda draw: draw.standard_normal(shape).astype(numpy.float32)


def tokens(most, *shape):
    return lambda draw: draw.integers(0, most, shape)


MODULES = {
    "resnet18": (ResNet18, floats(1, 3, 224, 224)),
    "vit": (ViT, floats(1, 3, 224, 224)),
    "gpt2": (GPT2, tokens(1000, 1, 64)),
    "lstm": (Tagger, floats(1, 32, 64)),
    "unet": (UNet, floats(1, 3, 96, 96)),
}

MODULES.update({
    "encoder": (encoder, floats(2, 9, 32)),
    "mobile": (mobile, floats(2, 8, 14, 14)),
    "convnext": (convnext, floats(2, 12, 12, 12)),
    "llama": (llama, floats(2, 11, 32)),
    "attention": (lambda: Steps(attend, attention=nn.MultiheadAttention(16, 4, batch_first=True)), floats(2, 7, 16)),
    "gru": (lambda: Steps(lambda s, x: s.head(s.gru(x)[0][:, -1]), gru=nn.GRU(8, 12, 2, batch_first=True, bidirectional=True),
                          head=nn.Linear(24, 3)), floats(2, 6, 8)),
    "rnn": (lambda: Steps(lambda s, x: s.rnn(x)[0], rnn=nn.RNN(8, 12, batch_first=True)), floats(2, 6, 8)),
    "wave": (lambda: Steps(wave, convs=nn.ModuleList(nn.Conv1d(4, 4, 3, padding=2**i, dilation=2**i) for i in range(4))),
             floats(2, 4, 40)),
    "heads": (lambda: Steps(heads, body=nn.Sequential(nn.Linear(6, 20), nn.SELU(), nn.Linear(20, 20), nn.Mish(), nn.Linear(20, 5))),
              floats(4, 6)),
    "shuffle": (lambda: nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.PReLU(12), nn.PixelShuffle(2), nn.Conv2d(3, 4, 3, stride=2),
                                      nn.GroupNorm(2, 4), nn.InstanceNorm2d(4), nn.ELU(0.5)), floats(2, 3, 10, 10)),
    "resize": (lambda: Steps(lambda s, x: F.interpolate(F.interpolate(s.conv(x), scale_factor=2, mode="bilinear"), size=(9, 11),
                                                        mode="nearest"), conv=nn.Conv2d(3, 4, 3)), floats(2, 3, 8, 8)),
    "pools": (lambda: nn.Sequential(nn.ReflectionPad2d(2), nn.Conv2d(3, 6, 3, groups=3), nn.AvgPool2d(3, 2, 1), nn.LeakyReLU(0.2),
                                    nn.MaxPool2d(2, ceil_mode=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4),
                                    nn.Softplus()), floats(2, 3, 13, 13)),
    "volume": (lambda: nn.Sequential(nn.Conv3d(2, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(), nn.MaxPool3d(2),
                                     nn.Conv3d(4, 3, (1, 3, 3), stride=(2, 1, 1))), floats(2, 2, 6, 8, 8)),
    "grid": (lambda: Steps(lambda s, x: F.grid_sample(x, F.affine_grid(s.theta(x.mean((2, 3))).view(-1, 2, 3), [2, 3, 6, 7],
                                                                       align_corners=False), align_corners=False),
                           theta=nn.Linear(3, 6)), floats(2, 3, 9, 9)),
})

# The package, the file in it, the input, and how it is declared to the importer.
PACKAGED = {
    "magika": ("magika", "models/standard_v3_3/model.onnx", lambda draw: draw.integers(0, 257, (1, 2048), dtype=numpy.int32), None),
    "ocr-class": ("rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", floats(1, 3, 48, 192), "f32[*,3,48,192]"),
    "ocr-find": ("rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx", floats(1, 3, 96, 128), "f32[1,3,96,128]"),
    "ocr-read": ("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx", floats(1, 3, 48, 160), "f32[1,3,48,160]"),
}


def packaged(name):
    """Returns the path of a model of a package, or None if that is not installed."""
    package, path = PACKAGED[name][:2]
    spec = importlib.util.find_spec(package)
    found = os.path.join(spec.submodule_search_locations[0], path) if spec else ""
    return found if os.path.exists(found) else None


def export(name, exporter, path):
    """Writes the module NAME as a model to PATH, by EXPORTER: "dynamo" or "script"."""
    make, draw = MODULES[name]
    module = seeded(make())
    example = torch.from_numpy(draw(numpy.random.default_rng(0)))
    if exporter == "dynamo":
        shapes = ({0: torch.export.Dim("batch", min=1)},)
        more = example if len(example) > 1 else example.repeat(2, *[1] * (example.dim() - 1))  # of 1 the exporter makes a constant
        program = torch.onnx.export(module, (more,), dynamo=True, dynamic_shapes=shapes,
                                    input_names=["x"], output_names=["y"], verbose=False)
        program.save(path)
    else:
        torch.onnx.export(module, (example,), path, dynamo=False, input_names=["x"], output_names=["y"], opset_version=20 if name == "grid" else 17,
                          dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})
