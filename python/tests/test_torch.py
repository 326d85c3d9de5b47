"""ckptc.torch: the bits of plain autograd, whatever a model does, and its memory."""
from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import ckptc
import ckptc.torch
from torch import nn

torch.set_num_threads(1)


def bits(tensor: Any) -> Any:
    return None if tensor is None else (tensor.dtype, tuple(tensor.shape),
                                        tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())


def floating(values: Any) -> list[Any]:
    return [v for v in torch.utils._pytree.tree_leaves(values) if isinstance(v, torch.Tensor) and v.requires_grad]


def step(model: nn.Module, args: Any, kwargs: Any = {}, backwards: int = 1, autocast: Any = None) -> list[Any]:
    """A training step of MODEL. Returns the bits of all that it computes and leaves."""
    torch.manual_seed(7)
    given = [v for v in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(v, torch.Tensor)]
    for tensor in (*model.parameters(), *given):
        tensor.grad = None
    found = []
    for _ in range(backwards):
        with torch.autocast("cpu", dtype=autocast or torch.bfloat16, enabled=autocast is not None):
            results = floating(model(*args, **kwargs))
            loss = sum(r.float().square().mean() for r in results)
        loss.backward()
        found += [bits(r) for r in results] + [bits(loss)]
    found += [bits(p.grad) for p in model.parameters()] + [bits(v.grad) for v in given]
    return found + [bits(b) for b in model.buffers()] + [bits(torch.get_rng_state())]


def compare(make: Callable[[], Any], args: Any, kwargs: Any = {}, blocks: Any = None, plain: Any = None, count: int = 4,
            **options: Any) -> Any:
    """Compares two steps of a model with those of itself fitted, at COUNT budgets. Returns the model of the least."""
    args = args if isinstance(args, tuple) else (args,)

    def made(which: Callable[[], Any]) -> Any:
        torch.manual_seed(1)
        return which()

    def steps(model: Any) -> list[Any]:
        return step(model, args, kwargs, **options) + step(model, args, kwargs, **options)
    expected = steps(made(plain or make))
    autocast = options.get("autocast")
    with torch.autocast("cpu", dtype=autocast or torch.bfloat16, enabled=autocast is not None):
        least = least_of(made(make), blocks, args, kwargs)
    models = []
    for n in range(count):
        # costs differ by some bytes from one measurement to the next
        models.append(ckptc.torch.fit(made(make), int(least * (1.02 + n / 3)) + 20000, blocks=blocks))
        assert steps(models[-1]) == expected, f"budget {n}"
    return models[0]


def least_of(model: Any, blocks: Any, args: Any, kwargs: Any) -> int:
    with pytest.raises(ckptc.LimitError, match="the least that works is") as caught:
        ckptc.torch.fit(model, 1, blocks=blocks)(*args, **kwargs)
    assert caught.value.least
    return int(caught.value.least)


def tight(model: Any, example: Any, blocks: Any = None) -> Any:
    """Returns MODEL fitted to little more than the least that works."""
    example = example if isinstance(example, tuple) else (example,)
    return ckptc.torch.fit(model, int(least_of(model, blocks, example, {}) * 1.02) + 10000, blocks=blocks,
                           example=example)


def mlp(width: int = 32, count: int = 6, dropout: float = 0.1) -> nn.Sequential:
    return nn.Sequential(*[nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(dropout),
                                         nn.Linear(4 * width, width), nn.LayerNorm(width)) for _ in range(count)])


class Named(nn.Module):
    """A model whose blocks are called by its own forward method."""

    def __init__(self, block: Callable[[], nn.Module], count: int = 5, width: int = 32):
        super().__init__()
        self.embed, self.h, self.head = nn.Embedding(40, width), nn.ModuleList(block() for _ in range(count)), \
            nn.Linear(width, 40)

    def forward(self, tokens: Any, mask: Any = None) -> Any:
        x = self.embed(tokens)
        for block in self.h:
            x = block(x) if mask is None else block(x, src_mask=mask)
        return self.head(x)


def test_sequential() -> None:
    model = compare(mlp, torch.randn(64, 32))
    assert isinstance(model, nn.Sequential) and len(model) == 6
    assert model.ckptc.schedule.counters.recomputed > 0
    assert list(model.state_dict()) == list(mlp().state_dict())
    assert type(model).__name__ == "Sequential" and type(model[:2]) is type(model)
    with torch.no_grad():
        assert bits(model[:2].eval()(torch.ones(1, 32))) is not None


def test_input_with_gradient() -> None:
    compare(mlp, torch.randn(64, 32, requires_grad=True))


@pytest.mark.parametrize("kind", [list, tuple, nn.ModuleList])
def test_lists(kind: Any) -> None:
    def make() -> Any:
        return kind([*mlp(count=3), nn.Tanh()])
    model = compare(make, torch.randn(64, 32), plain=lambda: nn.Sequential(*mlp(count=3), nn.Tanh()))
    assert list(model.state_dict()) == list(nn.ModuleList(make()).state_dict())


def test_functions_and_captured_params() -> None:
    weight = nn.Parameter(torch.randn(32, 32))

    x = torch.arange(64.0 * 32).reshape(64, 32) / 1e3

    def run(model: Any) -> Any:
        weight.grad = None
        loss = model(x).square().mean()
        loss.backward()
        return bits(loss), bits(weight.grad)
    steps = [torch.sin, lambda x: x @ weight, torch.tanh, torch.cos, lambda x: torch.tanh(x @ weight), torch.sin]
    assert run(tight(steps, x)) == run(lambda x: steps[5](steps[4](steps[3](steps[2](steps[1](
        steps[0](x)))))))


def test_captured_tensor_with_a_graph_is_refused() -> None:
    weight = nn.Parameter(torch.randn(32, 32))
    scaled = weight * 2
    model = ckptc.torch.fit([torch.sin, lambda x: x @ scaled], "1MB")
    with pytest.raises(ckptc.UsageError, match="block '1' reads a tensor with a gradient"):
        model(torch.randn(4, 32))


def test_blocks_of_a_model() -> None:
    make = lambda: Named(lambda: mlp(count=1))
    model = compare(make, torch.randint(40, (4, 16)), blocks="h")
    assert isinstance(model, Named) and model.ckptc.names == [f"h.{i}" for i in range(5)]
    assert list(model.state_dict()) == list(make().state_dict())
    assert len(model.h) == 5 and isinstance(model.h[0], nn.Sequential)


def test_transformer_with_mask() -> None:
    block = lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(16)
    model = compare(lambda: Named(block), torch.randint(40, (4, 16)), {"mask": mask}, blocks="h")
    model.eval()
    plain = Named(block).eval()
    plain.load_state_dict(model.state_dict())
    tokens = torch.randint(40, (4, 16))
    assert step(model, (tokens,), {"mask": mask}) == step(plain, (tokens,), {"mask": mask})


def test_page() -> None:
    """The example of TORCH.md, made small and without a GPU."""
    text = (pathlib.Path(__file__).parents[1] / "TORCH.md").read_text()
    code = "\n".join(line[4:] for line in text.split("## What may")[0].splitlines() if line.startswith("    "))
    for old, new in (("50000", "40"), ("1024, 16, 4096", "32, 4, 64"), ("1024", "32"), (".cuda()", ""),
                     ("4GB", "800kB")):
        assert old in code
        code = code.replace(old, new)
    names: dict[str, Any] = {}
    exec(code, names)
    names["model"](torch.randint(40, (4, 16))).sum().backward()
    names["optimizer"].step()
    assert names["model"].ckptc.schedule.counters.recomputed > 0
