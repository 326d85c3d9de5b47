"""ckptc.torch: what a block may do beside computing, and what a training loop may do with the model."""
from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import ckptc
import ckptc.torch
from test_torch import Named, bits, compare, mlp, step, tight
from torch import nn
from torch.nn import functional as F
import torch.utils.checkpoint


class Residual(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.body = nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.Conv2d(width, width, 3, padding=1))

    def forward(self, x: Any) -> Any:
        return x + self.body(x)


def pre_activated() -> nn.Sequential:
    """Begins with operations that write over their input."""
    layers = [nn.Sequential(nn.ReLU(inplace=True), nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)) for _ in range(4)]
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), *layers)


def test_batch_norm() -> None:
    make = lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), *[Residual(8) for _ in range(4)])
    model = compare(make, torch.randn(4, 3, 16, 16))
    assert model[1].body[0].num_batches_tracked == 2
    model.eval()
    plain = make().eval()
    plain.load_state_dict(model.state_dict())
    x = torch.randn(4, 3, 16, 16)
    assert step(model, (x,)) == step(plain, (x,))


def test_steps_that_write_over_their_input() -> None:
    compare(pre_activated, torch.randn(4, 3, 16, 16))


class Spectral(nn.Module):
    """Its buffers change in each forward pass, and the result depends on them."""

    def __init__(self, width: int = 32):
        super().__init__()
        self.linear = nn.utils.parametrizations.spectral_norm(nn.Linear(width, width))

    def forward(self, x: Any) -> Any:
        return torch.tanh(self.linear(x)) * 2


def test_spectral_norm() -> None:
    compare(lambda: nn.Sequential(*[Spectral() for _ in range(5)]), torch.randn(64, 32))


def test_lstm() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(16, 16, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.lstm(x)[0] + x
    compare(lambda: nn.Sequential(*[Layer() for _ in range(5)]), torch.randn(8, 12, 16))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype: Any) -> None:
    compare(mlp, torch.randn(64, 32), autocast=dtype)
    block = lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
    compare(lambda: Named(block), torch.randint(40, (4, 16)), blocks="h", autocast=dtype)


class Twice(nn.Module):
    """Uses a weight twice, which autocast casts once."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 32)

    def forward(self, x: Any) -> Any:
        return x + self.linear(torch.tanh(self.linear(x)))


def test_autocast_of_a_weight_that_a_block_uses_twice() -> None:
    compare(lambda: nn.Sequential(*[Twice() for _ in range(5)]), torch.randn(64, 32), autocast=torch.bfloat16)


def test_backward_pass_within_autocast() -> None:
    def run(model: Any) -> Any:
        torch.manual_seed(1)
        x = torch.randn(64, 32)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(x).float().square().mean()
            loss.backward()
        found = [bits(loss), *(bits(p.grad) for p in model.parameters())]
        model.zero_grad()
        return found
    model = mlp()
    fitted = tight(model, torch.randn(64, 32))
    assert run(fitted) == run(model)
    assert fitted.ckptc.schedule.counters.recomputed > 0


class Pair(nn.Module):
    """Several results, some of which pass on, and one that needs no gradient."""

    def __init__(self, width: int = 32):
        super().__init__()
        self.linear, self.dropout = nn.Linear(width, width), nn.Dropout(0.2)

    def forward(self, h: Any, skip: Any, turn: Any, places: Any, unused: Any = None, *, scale: Any = 1.0) -> Any:
        h = torch.tanh(self.dropout(self.linear(h))) * scale + skip[places]
        return h, skip, turn + 1, places, None


class Merge(nn.Module):
    def forward(self, h: Any, skip: Any, turn: Any, places: Any, unused: Any, *, scale: Any) -> Any:
        return {"product": h * skip / turn, "places": places, "list": [h, skip]}


def test_states_of_several_values() -> None:
    make = lambda: [*[Pair() for _ in range(5)], Merge()]

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for k, m in enumerate(make()):
                self.add_module(str(k), m)

        def forward(self, *state: Any, scale: Any) -> Any:
            for m in self.children():
                state = m(*state, scale=scale)
            return state
    args = (torch.randn(64, 32, requires_grad=True), torch.randn(64, 32, requires_grad=True), 1, torch.randperm(64))
    compare(make, args, {"scale": torch.randn(32, requires_grad=True)}, plain=Plain)
    compare(make, args, {"scale": torch.randn(32)}, plain=Plain)


class Cross(nn.Module):
    """A decoder whose blocks all read the result of an encoder, and differ in an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(32, 32)
        self.layers = nn.ModuleList(nn.TransformerDecoderLayer(32, 2, 64, batch_first=True) for _ in range(4))

    def forward(self, x: Any) -> Any:
        memory = self.encode(x)
        for number, layer in enumerate(self.layers):
            x = layer(x, memory, tgt_is_causal=False, memory_mask=None if number % 2 else torch.zeros(12, 12))
        return x, memory


def test_outer_arguments_with_gradients() -> None:
    compare(Cross, torch.randn(4, 12, 32), blocks="layers")


def test_shared_params_and_a_module_used_twice() -> None:
    def make() -> Any:
        shared = nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.Tanh())
        tied = nn.Linear(32, 32)
        tied.weight = shared[0].weight
        return [shared, nn.Linear(32, 32), shared, tied, shared]
    compare(make, torch.randn(64, 32), plain=lambda: nn.Sequential(*make()), backwards=2)


def test_frozen_params() -> None:
    def make(frozen: Any) -> Any:
        model = mlp()
        for k in frozen:
            model[k].requires_grad_(False)
        return model
    compare(lambda: make([0, 1]), torch.randn(64, 32))
    compare(lambda: make([2, 4]), torch.randn(64, 32))
    compare(lambda: make([0, 1, 2, 3, 4, 5]), torch.randn(64, 32, requires_grad=True))
    model = ckptc.torch.fit(make(range(6)), "1MB")
    assert not model(torch.randn(64, 32)).requires_grad


def test_frozen_prefix_costs_nothing() -> None:
    model = mlp()
    for k in range(5):
        model[k].requires_grad_(False)
    fitted = ckptc.torch.fit(model, "1MB", example=torch.randn(64, 32))
    assert fitted.ckptc.schedule.counters.steps == 1


def test_unused_params_get_no_gradient() -> None:
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(32, 32), nn.Linear(32, 32)

        def forward(self, x: Any) -> Any:
            return torch.tanh(self.a(x))
    compare(lambda: nn.Sequential(*[Unused() for _ in range(4)]), torch.randn(64, 32))


def test_a_detached_result_ends_the_gradient() -> None:
    class Detach(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.detach()
    compare(lambda: nn.Sequential(*mlp(count=2), Detach(), *mlp(count=4)), torch.randn(64, 32, requires_grad=True))


def test_gradient_accumulation() -> None:
    compare(mlp, torch.randn(64, 32), backwards=3)


def test_gradients_by_name() -> None:
    model = mlp(dropout=0.0)
    x = torch.randn(64, 32, requires_grad=True)
    fitted = tight(model, x)
    for wanted in ([x], [model[5][0].weight], [model[0][0].weight, x], list(model.parameters())):
        found = torch.autograd.grad(fitted(x).square().sum(), wanted)
        assert [bits(g) for g in found] == [bits(g) for g in torch.autograd.grad(model(x).square().sum(), wanted)]


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_hooks_fire_as_in_plain_autograd() -> None:
    def run(fitted: bool) -> Any:
        torch.manual_seed(1)
        model, told = mlp(), []
        for k, block in enumerate(model):
            block.register_forward_pre_hook(lambda m, a, k=k: told.append(("pre", k)))
            block.register_full_backward_hook(lambda m, i, o, k=k: told.append(("backward", k, bits(i[0]), bits(o[0]))))
            block[0].weight.register_hook(lambda g, k=k: told.append(("weight", k, bits(g))))
            block[0].bias.register_post_accumulate_grad_hook(lambda p, k=k: told.append(("bias", k, bits(p.grad))))
            block[3].register_forward_hook(lambda m, a, y: y * 2)
        if fitted:
            model = tight(model, torch.randn(64, 32))
            assert model.ckptc.schedule.counters.recomputed > 0
            told.clear()
            for k in range(6):
                again = lambda m, a, k=k: told.append(("again", k)) if ckptc.torch.recomputing() else None
                model[k].register_forward_pre_hook(again)
        torch.manual_seed(2)
        loss = model(torch.randn(64, 32)).square().sum()
        loss.backward()
        # the hooks of a block fire before those of its params
        by_kind = [[t for t in told if t[0] == kind] for kind in ("backward", "weight", "bias")]
        return by_kind, [t for t in told if t[0] == "pre"], told
    plain, planned = run(False), run(True)
    assert planned[0] == plain[0]
    again = [t for t in planned[2] if t[0] == "again"]
    assert again and len(planned[1]) == len(plain[1]) + len(again)


def test_a_hook_of_a_tensor_within_a_block_fires_once() -> None:
    told = []

    class Hooked(nn.Linear):
        def forward(self, x: Any) -> Any:
            y = super().forward(x)
            if y.requires_grad:
                y.register_hook(lambda g: told.append(bits(g)))
            return torch.tanh(y)
    model = nn.Sequential(*[Hooked(32, 32) for _ in range(6)])
    x = torch.randn(64, 32)
    fitted = tight(model, x)
    told.clear()
    fitted(x).sum().backward()
    planned = list(told)
    told.clear()
    model(x).sum().backward()
    assert planned == told


def test_a_second_backward_pass_is_refused() -> None:
    model = ckptc.torch.fit(mlp(), "300kB")
    loss = model(torch.randn(64, 32)).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="retain_graph=True is not possible"):
        loss.backward()


def test_a_gradient_of_a_gradient_is_refused() -> None:
    model = ckptc.torch.fit(mlp(), "300kB")
    x = torch.randn(64, 32, requires_grad=True)
    with pytest.raises(RuntimeError, match="create_graph=True is not possible"):
        torch.autograd.grad(model(x).sum(), x, create_graph=True)


def test_an_exception_leaves_nothing() -> None:
    class Fails(nn.Module):
        fails = False

        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = nn.Linear(32, 32), nn.BatchNorm1d(32)

        def forward(self, x: Any) -> Any:
            y = torch.tanh(self.norm(F.dropout(self.linear(x))))
            if Fails.fails and ckptc.torch.recomputing():
                raise KeyboardInterrupt
            return y
    make = lambda: nn.Sequential(*[Fails() for _ in range(6)])
    torch.manual_seed(1)
    fitted = tight(make(), torch.randn(64, 32))
    torch.manual_seed(1)
    plain = make()
    hook = fitted[0].linear.weight.register_hook(lambda g: g)
    norms = [fitted[k].norm.running_mean for k in range(6)]
    x = torch.randn(64, 32)
    torch.manual_seed(2)
    loss, state = fitted(x).sum(), torch.get_rng_state()
    Fails.fails = True
    with pytest.raises(KeyboardInterrupt):
        loss.backward()
    Fails.fails = False
    assert torch.equal(state, torch.get_rng_state())
    assert all(fitted[k].norm.running_mean is norms[k] for k in range(6))
    assert len(fitted[0].linear.weight._backward_hooks) == 1
    with pytest.raises(RuntimeError, match="ended by an exception"):
        loss.backward()
    hook.remove()
    torch.manual_seed(2)
    plain(x)
    assert step(fitted, (x,)) == step(plain, (x,))


def test_an_exception_of_the_forward_pass_puts_the_blocks_back() -> None:
    model = mlp()
    fitted = ckptc.torch.fit(model, "1MB")
    with pytest.raises(RuntimeError):
        fitted(torch.randn(3, 5))
    assert all(type(m) is nn.Sequential for m in fitted._modules.values())
    fitted(torch.randn(64, 32)).sum().backward()


def test_params_that_change_before_the_backward_pass_are_refused() -> None:
    model = tight(mlp(), torch.randn(64, 32))
    loss = model(torch.randn(64, 32)).sum()
    with torch.no_grad():
        for p in model.parameters():
            p += 1
    with pytest.raises(RuntimeError, match="was written after the forward pass|modified by an inplace operation"):
        loss.backward()


def test_plain_without_gradients() -> None:
    model = mlp()
    fitted, x = ckptc.torch.fit(model, 1), torch.randn(64, 32)
    fitted.eval()
    for without in (torch.no_grad, torch.inference_mode):
        with without():
            assert bits(fitted(x)) == bits(model(x))


def test_copies() -> None:
    x = torch.randn(64, 32)
    for model, blocks, args in ((mlp(), None, (x,)), (Named(lambda: mlp(count=1)), "h", (torch.randint(40, (4, 16)),))):
        fitted = ckptc.torch.fit(model, "800kB", blocks=blocks)
        expected = step(fitted, args)
        file = io.BytesIO()
        torch.save(fitted, file)
        file.seek(0)
        for other in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted)), torch.load(file, weights_only=False)):
            assert type(other) is type(fitted) and other.ckptc is not fitted.ckptc
            assert not {id(p) for p in other.parameters()} & {id(p) for p in fitted.parameters()}
            assert step(other, args) == expected and other.ckptc.schedule is not None
        fresh = ckptc.torch.fit(model, "800kB", blocks=blocks)
        fresh.load_state_dict(fitted.state_dict())
        assert step(fresh, args) == expected


def test_new_shapes_and_modes_are_measured() -> None:
    model = mlp()
    fitted = ckptc.torch.fit(model, "400kB")
    for rows in (64, 32, 64):
        x = torch.randn(rows, 32)
        assert step(fitted, (x,)) == step(model, (x,))
    assert len(fitted.ckptc._plans) == 2
    fitted.eval()
    model.eval()
    step(fitted, (x,))
    assert len(fitted.ckptc._plans) == 3


def test_a_block_that_computes_something_else_is_named() -> None:
    class Counts(nn.Module):
        count = 0

        def forward(self, x: Any) -> Any:
            Counts.count += 1
            return x * Counts.count
    model = nn.Sequential(*mlp(count=2), Counts(), *mlp(count=2))
    with pytest.raises(ckptc.CheckError, match="block '2' computes another result"):
        ckptc.torch.check(ckptc.torch.fit(model, "2MB"), torch.randn(64, 32))
    for model, x in ((mlp(), torch.randn(64, 32)), (pre_activated(), torch.randn(4, 3, 16, 16))):
        before = [bits(v) for v in (*model.parameters(), *model.buffers(), torch.get_rng_state())]
        ckptc.torch.check(ckptc.torch.fit(model, "2MB"), x)
        assert before == [bits(v) for v in (*model.parameters(), *model.buffers(), torch.get_rng_state())]
        assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("model, blocks, message", [
    (lambda: Named(lambda: nn.Linear(32, 32)), None, "name the blocks of Named; its lists of modules are 'h' \\(5\\)"),
    (lambda: Named(lambda: nn.Linear(32, 32)), "g", "the model has no 'g'; its lists of modules are 'h' \\(5\\)"),
    (lambda: Named(lambda: nn.Linear(32, 32)), "head", "'head' is a Linear and no list of modules"),
    (lambda: [nn.Linear(3, 3), 4], None, "number 1 is int, which cannot be called"),
    (lambda: [nn.Linear(3, 3)], "h", "list is no nn.Module"),
    (lambda: nn.Sequential(), None, "has no blocks"),
    (lambda: ckptc.torch.fit(nn.Sequential(nn.ReLU()), 1), None, "fitted already"),
])
def test_wrong_models(model: Any, blocks: Any, message: str) -> None:
    with pytest.raises(ckptc.UsageError, match=message):
        ckptc.torch.fit(model(), "1GB", blocks=blocks)


class Crooked(nn.Module):
    def __init__(self, how: str):
        super().__init__()
        self.h, self.how = mlp(width=8, count=4), how

    def forward(self, x: Any) -> Any:
        kept = []
        for k, block in enumerate(self.h):
            if self.how == "skips" and k == 2:
                break
            if self.how == "order" and k == 2:
                block = self.h[0]
            x = block(x)
            kept.append(x)
            assert x.shape == (16, 8) and x.dim() == 2 and x.dtype == torch.float32 and len(x) == 16
            if self.how == "between" and k == 1:
                x = x + 1
            if self.how == "far" and k == 1:
                x = kept[0]
        return (x, kept) if self.how == "kept" else x


@pytest.mark.parametrize("how, message", [
    ("between", "'add' reads the result of block 'h.1' outside of the blocks"),
    ("far", "block 'h.2' reads a result of block 'h.0', which is not the one before it"),
    ("kept", "'return' reads the result of block 'h.0' outside of the blocks"),
    ("skips", "ran 2 of its 4 blocks, up to 'h.1'"),
    ("order", "block 'h.0' was called where 'h.2' was to come"),
])
def test_models_that_are_no_chain(how: str, message: str) -> None:
    model = Crooked(how)
    fitted = ckptc.torch.fit(model, "1MB", blocks="h")
    for _ in range(2):
        with pytest.raises(ckptc.UsageError, match=message):
            fitted(torch.randn(16, 8))
        assert not any(type(m) is not nn.Sequential for m in model.h)


def test_names_of_blocks() -> None:
    class Parts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.one, self.two, self.three = (nn.Linear(8, 8), *mlp(width=8, count=3))

        def forward(self, x: Any) -> Any:
            x = self.two(self.one(self.stem(x)))
            return self.three(x).flatten(1)
    compare(Parts, torch.randn(64, 8), blocks=["one", "two", "three"])


def test_the_model_within_another() -> None:
    def make() -> Any:
        torch.manual_seed(1)
        return Named(lambda: mlp(count=1))
    plain, part = make(), make()
    part.h = tight(nn.Sequential(*part.h), torch.randn(4, 16, 32))

    class Outer(nn.Module):
        def __init__(self, inner: Any):
            super().__init__()
            self.inner = inner

        def forward(self, tokens: Any) -> Any:
            return self.inner.head(self.inner.h(self.inner.embed(tokens)))
    tokens = torch.randint(40, (4, 16))
    assert step(Outer(part), (tokens,)) == step(plain, (tokens,))


def test_compiled_blocks() -> None:
    if not torch._dynamo.is_dynamo_supported():
        pytest.skip("torch.compile does not support this Python")
    model = mlp(count=3, dropout=0.0)
    x = torch.randn(64, 32, requires_grad=True)
    try:
        compiled = nn.Sequential(*[torch.compile(block) for block in model])
        expected = step(compiled, (x,))
    except Exception as error:  # no C++ compiler
        pytest.skip(f"torch.compile does not work here: {type(error).__name__}")
    fitted = tight(compiled, x)
    assert fitted.ckptc.schedule.counters.recomputed > 0
    assert step(fitted, (x,)) == expected


class Mean(nn.Module):
    """Communicates in its forward and its backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 32)

    def forward(self, x: Any) -> Any:
        return torch.tanh(self.linear(x)) + Reduced.apply(x)


class Reduced(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x.mean(0)
        torch.distributed.all_reduce(y)
        ctx.rows = len(x)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        total = g.clone()
        torch.distributed.all_reduce(total)
        return total.expand(ctx.rows, -1) / ctx.rows


def _communicate(rank: int, place: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{place}/group", world_size=2, rank=rank)
    try:
        torch.manual_seed(1)
        model = nn.Sequential(*[Mean() for _ in range(8)])
        x = torch.randn(64, 32)
        group = torch.distributed.group.WORLD
        fitted = ckptc.torch.fit(model, 1, group=group)
        with pytest.raises(ckptc.LimitError) as caught:
            fitted(x)
        fitted.ckptc.memory = caught.value.least
        assert step(fitted, (x,)) == step(model, (x,))
        found: list[Any] = [None, None]
        torch.distributed.all_gather_object(found, (fitted.ckptc.costs, list(fitted.ckptc.schedule)))
        assert found[0] == found[1] and fitted.ckptc.schedule.counters.recomputed > 0
    finally:
        torch.distributed.destroy_process_group()


def test_blocks_that_communicate(tmp_path: Any) -> None:
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("torch has no gloo")
    from torch import multiprocessing
    multiprocessing.spawn(_communicate, (str(tmp_path),), nprocs=2)


def test_sharded_params_are_refused() -> None:
    class FSDPModule:
        pass

    class FSDPLinear(FSDPModule, nn.Linear):
        pass
    with pytest.raises(ckptc.UsageError, match="'1' has its params sharded by FSDP"):
        ckptc.torch.fit([nn.Linear(8, 8), FSDPLinear(8, 8)], "1MB")


@pytest.mark.filterwarnings("ignore:Error detected", "ignore:Anomaly")
def test_anomalies_are_detected() -> None:
    model = nn.Sequential(*mlp(count=2), nn.Linear(32, 32), *mlp(count=2))
    fitted, x = tight(model, torch.randn(64, 32)), torch.randn(64, 32)
    with torch.autograd.set_detect_anomaly(True):
        assert step(fitted, (x,)) == step(model, (x,))
        x[0, 0] = float("inf")
        with pytest.raises(RuntimeError, match="returned nan"):
            step(fitted, (x,))


def _train(rank: int, place: str, fitted: bool) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{place}/{fitted}", world_size=2, rank=rank)
    try:
        torch.manual_seed(1)
        model: Any = nn.Sequential(*mlp(dropout=0.1), nn.BatchNorm1d(32))
        if fitted:
            model = tight(model, torch.randn(64, 32))
        shared = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.01)
        optimizer = torch.optim.SGD(shared.parameters(), 0.1)
        torch.manual_seed(10 + rank)
        for _ in range(3):
            with shared.no_sync():
                shared(torch.randn(64, 32)).square().mean().backward()
            shared(torch.randn(64, 32)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        if fitted:
            assert model.ckptc.schedule.counters.recomputed > 0
        found = [*model.parameters(), *model.buffers(), torch.get_rng_state()]
        torch.save([v.detach() for v in found], f"{place}/{fitted}-{rank}")
    finally:
        torch.distributed.destroy_process_group()


def test_distributed_data_parallel(tmp_path: Any) -> None:
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("torch has no gloo")
    from torch import multiprocessing
    for fitted in (False, True):
        multiprocessing.spawn(_train, (str(tmp_path), fitted), nprocs=2)
    for rank in range(2):
        plain, planned = (torch.load(tmp_path / f"{fitted}-{rank}") for fitted in (False, True))
        assert [bits(v) for v in planned] == [bits(v) for v in plain]


cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@cuda
@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_cuda(dtype: Any) -> None:
    """The bits of plain autograd, and torch's own peak within the budget and 5 % of the plan."""
    def run(model: Any, x: Any) -> Any:
        torch.manual_seed(2)
        model.zero_grad(set_to_none=False)
        torch.cuda.synchronize()
        held = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=dtype is not None):
            y = model(x)
        y.backward(torch.ones_like(y))
        peak = torch.cuda.max_memory_allocated() - held
        return [bits(y), *(bits(p.grad) for p in model.parameters()), bits(torch.cuda.get_rng_state())], peak
    torch.manual_seed(1)
    model = mlp(width=512, count=8).cuda()
    x = torch.randn(2048, 512, device="cuda")
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    run(model, x)
    expected, plain_peak = run(model, x)
    fitted = ckptc.torch.fit(model, plain_peak * 6 // 10)
    run(fitted, x)
    found, peak = run(fitted, x)
    planned = fitted.ckptc.schedule.counters.peak_bytes
    state_bytes = x.nbytes  # the caller has the input
    assert found == expected
    assert fitted.ckptc.schedule.counters.recomputed > 0
    assert peak + state_bytes <= fitted.ckptc.memory
    assert abs(peak + state_bytes - planned) < 0.05 * planned


@cuda
def test_data_parallel() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one CUDA device")
    torch.manual_seed(1)
    model = mlp(dropout=0.0).cuda()
    x = torch.randn(64, 32, device="cuda")
    plain = nn.DataParallel(model)
    fitted = nn.DataParallel(ckptc.torch.fit(model, "1MB"))
    assert step(fitted, (x,)) == step(plain, (x,))


def test_a_block_that_runs_several_times() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block, = mlp(count=1)

        def forward(self, x: Any) -> Any:
            for _ in range(5):
                x = self.block(x)
            return x
    compare(Tied, torch.randn(64, 32), blocks=["block"] * 5, backwards=2)


def test_blocks_that_run_twice_in_a_forward_pass() -> None:
    class Loops(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.h = mlp(count=3)

        def forward(self, x: Any) -> Any:
            return self.h(torch.tanh(self.h(x)))
    compare(Loops, torch.randn(64, 32), blocks="h")


def test_blocks_that_are_called_without_gradients() -> None:
    class Backbone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.h = mlp(count=6)

        def forward(self, x: Any) -> Any:
            for k, block in enumerate(self.h):
                with torch.set_grad_enabled(k >= 2):
                    x = block(x)
            return x
    compare(Backbone, torch.randn(64, 32), blocks="h")


@pytest.mark.parametrize("which", ["input", "scale"])
def test_arguments_that_change_before_the_backward_pass_are_refused(which: str) -> None:
    class Scaled(nn.Linear):
        def forward(self, x: Any, scale: Any) -> Any:
            return torch.tanh(super().forward(x) + scale)
    x, scale = torch.randn(64, 32), torch.randn(32)
    model = ckptc.torch.fit([Scaled(32, 32) for _ in range(8)], 1)
    with pytest.raises(ckptc.LimitError) as caught:
        model(x, scale=scale)
    model.ckptc.memory = caught.value.least + 10000
    loss = model(x, scale=scale).sum()
    assert model.ckptc.schedule.counters.recomputed > 0
    (x if which == "input" else scale).add_(1)
    with pytest.raises(RuntimeError, match="an argument of block '.*' was written|modified by an inplace"):
        loss.backward()


def test_the_budget_may_change() -> None:
    model, x = mlp(), torch.randn(64, 32)
    fitted = ckptc.torch.fit(model, "1GB", example=x)
    assert fitted.ckptc.memory == 10**9 and fitted.ckptc.schedule.counters.recomputed == 0
    expected, costs = step(fitted, (x,)), fitted.ckptc.costs
    fitted.ckptc.memory = "300kB"
    assert fitted.ckptc.schedule is None
    assert step(fitted, (x,)) == expected
    assert fitted.ckptc.schedule.counters.recomputed > 0 and fitted.ckptc.costs is costs


def test_a_budget_below_what_a_frozen_prefix_takes() -> None:
    model = nn.Sequential(nn.Linear(32, 4096).requires_grad_(False), nn.Linear(4096, 8).requires_grad_(False),
                          nn.Linear(8, 8), nn.Linear(8, 8))
    with pytest.raises(ckptc.LimitError, match="blocks that need no gradients") as caught:
        ckptc.torch.fit(model, 1, example=torch.randn(64, 32))
    assert caught.value.least and caught.value.least > 64 * 4096 * 4
    ckptc.torch.fit(model, caught.value.least, example=torch.randn(64, 32))


class Layer(nn.Module):
    """As in libraries of language models: many arguments, and a tuple, of which the model takes the first."""

    kind = "full"

    def __init__(self, number: int):
        super().__init__()
        self.number = number
        self.attention, self.feed = nn.MultiheadAttention(32, 4, 0.1, batch_first=True), mlp(count=1)

    def forward(self, hidden: Any, attention_mask: Any = None, places: Any = None, cache: Any = None,
                output_attentions: bool = False, **_: Any) -> Any:
        mixed, weights = self.attention(hidden, hidden, hidden, attn_mask=attention_mask,
                                        need_weights=output_attentions)
        hidden = hidden + mixed + places[0]
        return (hidden + self.feed(hidden), weights) if output_attentions else (hidden + self.feed(hidden),)


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Module()
        self.model.embed = nn.Embedding(40, 32)
        self.model.layers = nn.ModuleList(Layer(k) for k in range(5))
        self.head = nn.Linear(32, 40, bias=False)
        self.head.weight = self.model.embed.weight  # tied
        self.gradient_checkpointing = False

    def forward(self, tokens: Any = None, labels: Any = None, output_attentions: bool = False) -> Any:
        hidden = self.model.embed(tokens)
        length = tokens.shape[1]
        mask = torch.full((length, length), float("-inf")).triu(1)
        places = torch.sin(hidden), torch.arange(length)
        for number, layer in enumerate(self.model.layers[:5]):
            assert isinstance(layer, Layer) and layer.kind == "full" and layer.number == number
            outputs = layer(hidden, attention_mask=mask if number % 2 == 0 else None, places=places, cache=None,
                            output_attentions=output_attentions)
            hidden = outputs[0]
        logits = self.head(hidden)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return {"loss": loss, "logits": logits, "last": outputs[1:]}


@pytest.mark.parametrize("attentions", [False, True])
def test_a_language_model(attentions: bool) -> None:
    batch = {"tokens": torch.randint(40, (4, 16)), "labels": torch.randint(40, (4, 16)),
             "output_attentions": attentions}
    compare(Language, (), batch, blocks="model.layers", backwards=2)


def test_signature_and_example() -> None:
    import inspect
    batch = {"tokens": torch.randint(40, (4, 16)), "labels": torch.randint(40, (4, 16))}
    model = Language()
    state = [bits(v) for v in (*model.parameters(), torch.get_rng_state())]
    fitted = ckptc.torch.fit(model, "1GB", blocks="model.layers", example=batch)
    assert fitted.ckptc.schedule is not None
    assert inspect.signature(fitted.forward) == inspect.signature(model.forward)
    assert repr(fitted) == repr(model)
    assert state == [bits(v) for v in (*model.parameters(), torch.get_rng_state())]


class Far(nn.Module):
    """Its blocks' states have integers that follow from the shape, and a result of any other number is refused."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.calls = nn.Linear(8, 8), 0

    def forward(self, x: Any, count: int) -> Any:
        self.calls += 1
        return torch.tanh(self.linear(x)), self.calls if count < 0 else count + x.shape[0]


def test_numbers_between_blocks() -> None:
    steps = [Far() for _ in range(3)]
    model = ckptc.torch.fit(steps, "1MB")
    assert model(torch.ones(4, 8), 0)[1] == 12
    with pytest.raises(ckptc.UsageError, match="a number that changes must be a tensor"):
        model(torch.ones(4, 8), -1)


MEMORY = {
    "transformer": (lambda: nn.Sequential(*[nn.TransformerEncoderLayer(64, 4, 256, batch_first=True, norm_first=True)
                                            for _ in range(6)]), (8, 64, 64)),
    "convolutions": (lambda: nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), *[Residual(16) for _ in range(3)],
                                           nn.MaxPool2d(2), *[Residual(16) for _ in range(3)], nn.ReLU()),
                     (4, 3, 64, 64)),
    "rectified": (lambda: nn.Sequential(*[nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(inplace=True))
                                          for _ in range(6)]), (4, 8, 32, 32)),
}


@pytest.mark.parametrize("name", MEMORY)
def test_memory_is_that_of_the_plan(name: str) -> None:
    """The peak of torch's allocator is within the budget, and within 5 % of the plan's."""
    from ckptc.torch._meters import by_storages, usage
    make, shape = MEMORY[name]
    torch.manual_seed(1)
    model = make()
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    fitted = tight(model, torch.randn(shape))
    least = fitted.ckptc.memory
    fitted.ckptc.memory = "1GB"
    fitted(torch.randn(shape))
    most = fitted.ckptc.schedule.counters.peak_bytes

    def phases() -> Any:
        yield
        y = fitted(torch.randn(shape))
        y.backward(torch.ones_like(y))
        yield
    for k in range(4):
        fitted.ckptc.memory = budget = least + (most - least) * k // 3
        peak = usage(phases(), torch.device("cpu"))[1][1]
        planned = fitted.ckptc.schedule.counters.peak_bytes
        assert peak <= budget and abs(peak - planned) < 0.05 * planned
        by_life = by_storages(phases())[1][1]  # without what operations use inside
        assert 0.5 * peak < by_life <= 1.02 * peak


def test_results_that_need_gradients_do_not_change() -> None:
    class Switch(nn.Linear):
        def forward(self, x: Any, rate: float) -> Any:
            y = super().forward(x)
            return y.detach() if rate > 1 else y
    model = ckptc.torch.fit([Switch(8, 8) for _ in range(3)], "1MB")
    x = torch.ones(4, 8)
    model(x, rate=0.5).sum().backward()
    model(x, rate=0.25).sum().backward()
    assert len(model.ckptc._measured) == 1
    with pytest.raises(ckptc.UsageError, match="block '0' returned other results that need gradients"):
        model(x, rate=2.0)


def test_fitted_blocks_of_a_fitted_model() -> None:
    def make(inner: Any) -> Any:
        torch.manual_seed(1)
        return nn.Sequential(*[inner(mlp(count=3), torch.randn(64, 32)) for _ in range(4)])
    x = torch.randn(64, 32)
    fitted = tight(make(tight), x)
    assert step(fitted, (x,)) == step(make(lambda m, _: m), (x,))
    assert fitted.ckptc.schedule.counters.recomputed > 0 and fitted[0].ckptc.schedule.counters.recomputed > 0


def test_a_checkpoint_within_a_block() -> None:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, = mlp(count=1)

        def forward(self, x: Any) -> Any:
            return x + torch.utils.checkpoint.checkpoint(self.body, x, use_reentrant=False)
    compare(lambda: nn.Sequential(*[Inner() for _ in range(5)]), torch.randn(64, 32))


def test_a_fitted_model_within_a_checkpoint() -> None:
    model, x = mlp(), torch.randn(64, 32, requires_grad=True)
    fitted = tight(model, x)

    class Outer(nn.Module):
        def __init__(self, inner: Any):
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            return torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)
    assert step(Outer(fitted), (x,)) == step(Outer(model), (x,))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_types(dtype: Any) -> None:
    compare(lambda: mlp().to(dtype), torch.randn(64, 32, dtype=dtype))


@pytest.mark.parametrize("rows", [0, 1])
def test_empty_and_single_rows(rows: int) -> None:
    compare(mlp, torch.randn(rows, 32), count=1)


def test_nan_and_infinity() -> None:
    x = torch.randn(64, 32)
    x[0, 0], x[1, 1], x[2, 2] = float("nan"), float("inf"), -0.0
    compare(mlp, x, count=2)
    ckptc.torch.check(ckptc.torch.fit(mlp(), "2MB"), x)


def test_complex_numbers() -> None:
    class Rotate(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.turn = nn.Parameter(torch.randn(32, dtype=torch.complex64))

        def forward(self, x: Any) -> Any:
            return torch.fft.ifft(torch.fft.fft(x) * self.turn).tanh()
    model = [Rotate() for _ in range(5)]
    x = torch.randn(16, 32, dtype=torch.complex64)

    def run(forward: Any) -> Any:
        loss = forward(x).abs().sum()
        return [bits(g) for g in torch.autograd.grad(loss, [m.turn for m in model])]
    fitted = tight(model, x)
    assert run(fitted) == run(nn.Sequential(*model)) and fitted.ckptc.schedule.counters.recomputed > 0
    ckptc.torch.check(fitted, x)


def test_nothing_is_held_without_a_backward_pass() -> None:
    """What a forward pass holds goes with its result, without the collector of cycles."""
    import gc

    from ckptc.torch._meters import usage
    fitted, x = tight(Language(), (torch.randint(40, (4, 16)), torch.randint(40, (4, 16))), "model.layers"), None

    def phases() -> Any:
        yield
        for _ in range(3):
            x = torch.randint(40, (4, 16))
            fitted(x, x)
            x = None
            yield
        fitted(torch.randint(40, (4, 16)), torch.randint(40, (4, 16)))["loss"].backward()
        fitted.zero_grad()
        yield
    gc.collect()
    gc.disable()
    try:
        rows = usage(phases(), torch.device("cpu"))
    finally:
        gc.enable()
    assert [held for held, _ in rows] == [0] * 5 and x is None


def test_encoder_and_decoder() -> None:
    def make(fitted: bool) -> Any:
        torch.manual_seed(1)
        model: Any = nn.Transformer(32, 4, 4, 4, 64, batch_first=True)
        if fitted:
            x = torch.randn(4, 12, 32)
            model.encoder = tight(model.encoder, x, "layers")
            model.decoder = tight(model.decoder, (x, x), "layers")
        return model
    x, y = torch.randn(4, 12, 32, requires_grad=True), torch.randn(4, 9, 32)
    causal = {"tgt_mask": nn.Transformer.generate_square_subsequent_mask(9), "tgt_is_causal": True}
    plain, fitted = make(False), make(True)
    assert list(plain.state_dict()) == list(fitted.state_dict())
    assert step(fitted, (x, y), causal, backwards=2) == step(plain, (x, y), causal, backwards=2)
    assert fitted.encoder.ckptc.schedule.counters.recomputed > 0 < fitted.decoder.ckptc.schedule.counters.recomputed
    padding = {"src_key_padding_mask": torch.zeros(4, 12, dtype=torch.bool)}
    for model in (plain, fitted):
        model.eval()
    assert step(fitted, (x, y), padding) == step(plain, (x, y), padding)
    with torch.no_grad():
        assert bits(fitted(x, y)) == bits(plain(x, y))


def test_random_chains() -> None:
    """Chains of random blocks at random budgets, with random frozen blocks, inputs and modes."""
    import random
    draw = random.Random(1)
    kinds = [lambda: nn.Linear(16, 16),
             lambda: nn.Sequential(nn.Linear(16, 64), nn.ReLU(inplace=True), nn.Linear(64, 16)),
             lambda: nn.BatchNorm1d(16), lambda: nn.Dropout(0.3), lambda: nn.ReLU(inplace=True), lambda: nn.Identity(),
             lambda: Spectral(16), lambda: nn.Flatten(), lambda: nn.LayerNorm(16), lambda: nn.AlphaDropout(0.2)]
    compared = 0
    for number in range(40):
        chosen = [draw.choice(kinds) for _ in range(draw.randint(2, 9))]
        frozen, evaluated = draw.random() < 0.3, draw.random() < 0.2

        def make() -> Any:
            torch.manual_seed(number)
            parts = [nn.Linear(16, 16), *[kind() for kind in chosen]]
            if draw_twice:
                parts.append(parts[0])
            for part in parts[:len(parts) // 2] if frozen else []:
                part.requires_grad_(False)
            return nn.Sequential(*parts).train(not evaluated)
        draw_twice = draw.random() < 0.3
        x = torch.randn(draw.choice([2, 32, 128]), 16, requires_grad=draw.random() < 0.5)
        plain, model = make(), make()
        if not make()(x).requires_grad:
            continue
        try:
            expected = step(plain, (x,), backwards=2)
        except RuntimeError as error:  # a block writes over what the one before it needs
            assert "modified by an inplace operation" in str(error)
            continue
        compared += 1
        fitted = ckptc.torch.fit(model, "1GB", example=x)
        most = fitted.ckptc.schedule.counters.peak_bytes
        fitted.ckptc.memory = 1
        with pytest.raises(ckptc.LimitError) as caught:
            fitted(x)
        least = caught.value.least
        assert least
        fitted.ckptc.memory = draw.randint(least, max(least, most))
        assert step(fitted, (x,), backwards=2) == expected, (number, [type(m) for m in model])
        ckptc.torch.check(fitted, x)
    assert compared > 20
