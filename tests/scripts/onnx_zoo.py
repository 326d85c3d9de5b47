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
        program = torch.onnx.export(module, (example.expand(2, *example.shape[1:]),), dynamo=True, dynamic_shapes=shapes,
                                    input_names=["x"], output_names=["y"], verbose=False)
        program.save(path)
    else:
        torch.onnx.export(module, (example,), path, dynamo=False, input_names=["x"], output_names=["y"], opset_version=17,
                          dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})
