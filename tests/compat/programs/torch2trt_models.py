"""Convert a small ResNet-18, a U-Net and an LSTM of PyTorch in FP32, FP16 and INT8; compare with PyTorch.

usage: torch2trt_models.py DIRECTORY
"""

import os
import sys

import torch
from torch import nn
from torch_to_trt import TRTModule, torch2trt


class Block(nn.Module):
    """Two convolutions with a shortcut."""

    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn1, self.bn2, self.relu = nn.BatchNorm2d(c_out), nn.BatchNorm2d(c_out), nn.ReLU(inplace=False)
        self.down = None
        if stride != 1 or c_in != c_out:
            self.down = nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out))

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.down is None else self.down(x)))


class ResNet18(nn.Module):
    """Eight blocks, an eighth as wide as the original."""

    def __init__(self, width=8, classes=10):
        super().__init__()
        layers = [
            nn.Conv2d(3, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        ]
        c_in = width
        for stage in range(4):
            c = width << stage
            layers += [Block(c_in, c, 1 if stage == 0 else 2), Block(c, c, 1)]
            c_in = c
        self.body, self.pool, self.fc = (
            nn.Sequential(*layers),
            nn.AdaptiveAvgPool2d(1),
            nn.Linear(c_in, classes),
        )

    def forward(self, x):
        return self.fc(torch.flatten(self.pool(self.body(x)), 1))


def double(c_in, c_out):
    layers = []
    for c in (c_in, c_out):
        layers += [nn.Conv2d(c, c_out, 3, padding=1), nn.BatchNorm2d(c_out), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.pool, self.head = nn.MaxPool2d(2), nn.Conv2d(c, 1, 1)
        self.down = nn.ModuleList([double(3, c), double(c, 2 * c), double(2 * c, 4 * c)])
        self.up = nn.ConvTranspose2d(4 * c, 2 * c, 2, 2)
        self.resize = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.merge = nn.ModuleList([double(4 * c, 2 * c), double(3 * c, c)])

    def forward(self, x):
        a = self.down[0](x)
        b = self.down[1](self.pool(a))
        y = self.up(self.down[2](self.pool(b)))
        y = self.merge[0](torch.cat([y, b], 1))
        y = self.merge[1](torch.cat([self.resize(y), a], dim=1))
        return torch.sigmoid(self.head(y))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(12, 16, num_layers=2, batch_first=True)
        self.fc = nn.Linear(16, 5)

    def forward(self, x):
        y, _ = self.lstm(x)
        return self.fc(y.mean(1))


def settle(model, batches):
    """Compute the statistics of batch norms from data, as training does."""
    model.train()
    with torch.no_grad():
        for batch in batches:
            model(batch)
    return model.eval().cuda()


def main():
    torch.manual_seed(0)
    cases = {
        "resnet18": (ResNet18(), (4, 3, 64, 64)),
        "unet": (UNet(), (2, 3, 32, 32)),
        "lstm": (Tagger(), (3, 9, 12)),
    }
    modes = {"fp32": ({}, 1e-4), "fp16": ({"fp16_mode": True}, 0.02), "int8": ({"int8_mode": True}, 0.2)}
    for name, (model, shape) in cases.items():
        batches = [torch.randn(shape, device="cuda") for _ in range(4)]
        model = settle(model, batches)
        with torch.no_grad():
            want = model(batches[0])
        for mode, (flags, tolerance) in modes.items():
            converted = torch2trt(model, batches[0], dataset=batches, **flags)
            error = float((converted(batches[0]) - want).abs().max() / want.abs().max())
            print(f"{name} {mode}: differs by {error:.1e} of the largest value")
            assert error < tolerance
        path = os.path.join(sys.argv[1], name + ".pth")
        torch.save(converted.state_dict(), path)
        loaded = TRTModule.from_state_dict(torch.load(path, weights_only=False))
        assert torch.equal(loaded(batches[0]), converted(batches[0]))
    print("PASSED")


if __name__ == "__main__":
    main()
