"""A vision transformer without einops: patches by unfold, pre-norm blocks, a class token."""

import torch
import torch.nn.functional as F
from torch import nn
from common import integers, normal, start


def pair(t):
    return t if isinstance(t, tuple) else (t, t)


class PreNorm(nn.Module):
    def __init__(self, dim, fn):
        super().__init__()
        self.norm, self.fn = nn.LayerNorm(dim), fn

    def forward(self, x, **kwargs):
        return self.fn(self.norm(x), **kwargs)


class FeedForward(nn.Module):
    def __init__(self, dim, hidden_dim, dropout=0.0):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, hidden_dim), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden_dim, dim),
                                 nn.Dropout(dropout))

    def forward(self, x):
        return self.net(x)


class Attention(nn.Module):
    def __init__(self, dim, heads=2, dim_head=4, dropout=0.0):
        super().__init__()
        inner_dim = dim_head * heads
        self.heads, self.scale = heads, dim_head ** -0.5
        self.attend, self.dropout = nn.Softmax(dim=-1), nn.Dropout(dropout)
        self.to_qkv = nn.Linear(dim, inner_dim * 3, bias=False)
        project_out = not (heads == 1 and dim_head == dim)
        self.to_out = nn.Sequential(nn.Linear(inner_dim, dim), nn.Dropout(dropout)) if project_out else nn.Identity()

    def forward(self, x):
        b, n, _, h = *x.shape, self.heads
        qkv = self.to_qkv(x).chunk(3, dim=-1)
        q, k, v = map(lambda t: t.reshape(b, n, h, -1).permute(0, 2, 1, 3), qkv)
        dots = torch.einsum("bhid,bhjd->bhij", q, k) * self.scale
        out = torch.einsum("bhij,bhjd->bhid", self.dropout(self.attend(dots)), v)
        return self.to_out(out.transpose(1, 2).flatten(2))


class Transformer(nn.Module):
    def __init__(self, dim, depth, heads, dim_head, mlp_dim):
        super().__init__()
        self.layers = nn.ModuleList([])
        for _ in range(depth):
            self.layers.append(nn.ModuleList([PreNorm(dim, Attention(dim, heads=heads, dim_head=dim_head)),
                                              PreNorm(dim, FeedForward(dim, mlp_dim))]))

    def forward(self, x):
        for attn, ff in self.layers:
            x = attn(x) + x
            x = ff(x) + x
        return x


class ViT(nn.Module):
    def __init__(self, *, image_size, patch_size, num_classes, dim, depth, heads, mlp_dim, pool="cls", channels=3, dim_head=4):
        super().__init__()
        image_height, image_width = pair(image_size)
        self.patch_height, self.patch_width = pair(patch_size)
        num_patches = (image_height // self.patch_height) * (image_width // self.patch_width)
        assert pool in {"cls", "mean"}, "pool type must be either cls (cls token) or mean (mean pooling)"
        self.patch_embedding = nn.Linear(channels * self.patch_height * self.patch_width, dim)
        self.pos_embedding = nn.Parameter(torch.randn(1, num_patches + 1, dim))
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.transformer = Transformer(dim, depth, heads, dim_head, mlp_dim)
        self.pool, self.to_latent = pool, nn.Identity()
        self.mlp_head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, num_classes))

    def forward(self, img):
        patches = img.unfold(2, self.patch_height, self.patch_height).unfold(3, self.patch_width, self.patch_width)
        patches = patches.permute(0, 2, 3, 4, 5, 1).reshape(img.shape[0], -1, self.patch_embedding.in_features)
        x = self.patch_embedding(patches)
        b, n, _ = x.shape
        cls_tokens = self.cls_token.expand(b, -1, -1)
        x = torch.cat((cls_tokens, x), dim=1)
        x += self.pos_embedding[:, :(n + 1)]
        x = self.transformer(x)
        x = x.mean(dim=1) if self.pool == "mean" else x[:, 0]
        return self.mlp_head(self.to_latent(x))


losses = []
for pool in ("cls", "mean"):
    model = start(ViT(image_size=8, patch_size=4, num_classes=5, dim=12, depth=2, heads=2, mlp_dim=24, pool=pool))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for i in range(10):
        logits = model(normal(4, 3, 8, 8, seed=i % 3))
        soft = F.one_hot(integers(5, 4, seed=i % 3), 5) * 0.9 + 0.1 / 5
        loss = torch.sum(-soft * F.log_softmax(logits, dim=-1), dim=-1).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
