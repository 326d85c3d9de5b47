"""PyTorch's part of bench/steps: a list of modules, and its gradients by autograd."""
import torch

torch.manual_seed(1)
layers = torch.nn.ModuleList(
    torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True, norm_first=True) for _ in range(8)
)

PROGRAM = "torch_step.py steps_torch.layers"
CHAIN = "program layer(theta): same; param theta; repeat 8 { layer theta }; sum"
OWN = "autograd"


def arrays():
    theta = torch.cat([p.detach().flatten() for p in layers.parameters()])
    return torch.randn(4, 16, 64).numpy(), {"theta": theta.numpy()}


def gradients(x, theta):
    y = x = torch.from_numpy(x).requires_grad_()
    for number, layer in enumerate(layers):
        torch.manual_seed(number)
        y = layer(y)
    y.sum().backward()
    yield OWN, x.grad.numpy(), {"theta": torch.cat([p.grad.flatten() for p in layers.parameters()]).numpy()}
