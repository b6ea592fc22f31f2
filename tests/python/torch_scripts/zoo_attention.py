"""Blocks of transformers of many families, each with its output and the norm of its gradients."""

import math
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F
from common import normal, start


def to_2tuple(x):
    return tuple(x) if isinstance(x, (tuple, list)) else (x, x)


class RotaryAttention(nn.Module):
    def __init__(self, dim, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, dim // heads
        self.wq = nn.Linear(dim, heads * self.head_dim, bias=False)
        self.wk, self.wv = (nn.Linear(dim, kv_heads * self.head_dim, bias=False) for _ in range(2))
        self.wo = nn.Linear(dim, dim, bias=False)
        freqs = 1.0 / (10000.0 ** (torch.arange(0, self.head_dim, 2)[: (self.head_dim // 2)].float() / self.head_dim))
        t = torch.arange(16, device=freqs.device)
        freqs = torch.outer(t, freqs).float()
        self.freqs_cis = torch.polar(torch.ones_like(freqs), freqs)

    def rotate(self, x):
        x_ = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        f = self.freqs_cis[:x.shape[1]].view(1, x.shape[1], 1, -1)
        return torch.view_as_real(x_ * f).flatten(3).type_as(x)

    def forward(self, x):
        bsz, seqlen, _ = x.shape
        xq = self.rotate(self.wq(x).view(bsz, seqlen, self.heads, self.head_dim))
        xk = self.rotate(self.wk(x).view(bsz, seqlen, self.kv_heads, self.head_dim))
        xv = self.wv(x).view(bsz, seqlen, self.kv_heads, self.head_dim)
        keys, values = (torch.repeat_interleave(t, dim=2, repeats=self.heads // self.kv_heads) for t in (xk, xv))
        xq, keys, values = xq.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2)
        scores = torch.matmul(xq, keys.transpose(2, 3)) / math.sqrt(self.head_dim)
        mask = torch.full((1, 1, seqlen, seqlen), float("-inf"), device=x.device)
        scores = scores + torch.triu(mask, diagonal=1).type_as(x)
        output = torch.matmul(F.softmax(scores.float(), dim=-1).type_as(xq), values)
        return self.wo(output.transpose(1, 2).contiguous().view(bsz, seqlen, -1))


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return self._norm(x.float()).type_as(x) * self.weight


class SwiGLU(nn.Module):
    def __init__(self, dim, hidden_dim, multiple_of=4):
        super().__init__()
        hidden_dim = int(2 * hidden_dim / 3)
        hidden_dim = multiple_of * ((hidden_dim + multiple_of - 1) // multiple_of)
        self.norm = RMSNorm(dim)
        self.w1, self.w3 = nn.Linear(dim, hidden_dim, bias=False), nn.Linear(dim, hidden_dim, bias=False)
        self.w2 = nn.Linear(hidden_dim, dim, bias=False)

    def forward(self, x):
        x = self.norm(x)
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class T5Bias(nn.Module):
    def __init__(self, heads=2, num_buckets=8, max_distance=16):
        super().__init__()
        self.num_buckets, self.max_distance = num_buckets, max_distance
        self.relative_attention_bias, self.qkv = nn.Embedding(num_buckets, heads), nn.Linear(16, 48)

    def bucket(self, relative_position):
        num_buckets = self.num_buckets // 2
        ret = (relative_position > 0).to(torch.long) * num_buckets
        n = torch.abs(relative_position)
        max_exact = num_buckets // 2
        is_small = n < max_exact
        val_if_large = max_exact + (torch.log(n.float() / max_exact) / math.log(self.max_distance / max_exact)
                                    * (num_buckets - max_exact)).to(torch.long)
        val_if_large = torch.min(val_if_large, torch.full_like(val_if_large, num_buckets - 1))
        ret += torch.where(is_small, n, val_if_large)
        return ret

    def forward(self, x):
        n = x.shape[1]
        position = torch.arange(n, dtype=torch.long)
        bias = self.relative_attention_bias(self.bucket(position[None, :] - position[:, None])).permute([2, 0, 1]).unsqueeze(0)
        q, k, v = self.qkv(x).view(x.shape[0], n, 3, 2, 8).unbind(2)
        scores = torch.einsum("bnhd,bmhd->bhnm", q, k) + bias
        return torch.einsum("bhnm,bmhd->bnhd", F.softmax(scores, dim=-1), v).reshape(x.shape)


class Performer(nn.Module):
    def __init__(self, dim, features=8):
        super().__init__()
        self.register_buffer("projection", normal(features, dim, seed=9))
        self.qkv = nn.Linear(dim, 3 * dim)

    def kernel(self, data, is_query):
        data_dash = torch.einsum("...id,jd->...ij", data * data.shape[-1] ** -0.25, self.projection)
        diag_data = (data ** 2).sum(dim=-1) / 2.0 * data.shape[-1] ** -0.5
        peak = torch.amax(data_dash, dim=-1, keepdim=True) if is_query else torch.amax(data_dash, dim=(-1, -2), keepdim=True)
        return torch.exp(data_dash - diag_data.unsqueeze(dim=-1) - peak.detach()) + 1e-4

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k = self.kernel(q, True), self.kernel(k, False)
        d_inv = 1.0 / torch.einsum("...nd,...d->...n", q, k.sum(dim=-2).type_as(q))
        return torch.einsum("...de,...nd,...n->...ne", torch.einsum("...nd,...ne->...de", k, v), q, d_inv)


class Linformer(nn.Module):
    def __init__(self, dim, seq_len, k=4):
        super().__init__()
        self.proj_k = nn.Parameter(torch.zeros(seq_len, k).uniform_(-0.5, 0.5))
        self.to_q, self.to_kv = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        keys = torch.einsum("bnd,nk->bkd", self.to_kv(x), self.proj_k)
        attn = torch.einsum("bnd,bkd->bnk", self.to_q(x), keys).mul(x.shape[-1] ** -0.5).softmax(dim=-1)
        return attn @ keys


class FNet(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.ff = nn.LayerNorm((dim,)), nn.Sequential(nn.Linear(dim, dim), nn.GELU(approximate="tanh"))

    def forward(self, x):
        return self.ff(self.norm(x + torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real))


class GFNet(nn.Module):
    def __init__(self, dim, h=4, w=4):
        super().__init__()
        self.complex_weight = nn.Parameter(torch.randn(h, w // 2 + 1, dim, 2, dtype=torch.float32) * 0.02)

    def forward(self, x):
        B, N, C = x.shape
        a = int(math.sqrt(N))
        x = torch.fft.rfft2(x.view(B, a, a, C).to(torch.float32), dim=(1, 2), norm="ortho")
        x = x * torch.view_as_complex(self.complex_weight)
        return torch.fft.irfft2(x, s=(a, a), dim=(1, 2), norm="ortho").reshape(B, N, C)


class gMLP(nn.Module):
    def __init__(self, dim, seq_len):
        super().__init__()
        self.proj_in, self.proj_out = nn.Linear(dim, dim * 2), nn.Linear(dim, dim)
        self.norm, self.spatial = nn.LayerNorm(dim), nn.Conv1d(seq_len, seq_len, kernel_size=1)
        nn.init.constant_(self.spatial.bias, 1.0)

    def forward(self, x):
        u, v = F.gelu(self.proj_in(x)).chunk(2, dim=-1)
        return x + self.proj_out(u * self.spatial(self.norm(v)))


class Perceiver(nn.Module):
    def __init__(self, dim, latents=5):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(latents, dim))
        self.cross = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.self_attn = nn.MultiheadAttention(dim, num_heads=2, dropout=0.0, bias=False, add_zero_attn=True)

    def forward(self, x):
        q = self.latents.unsqueeze(0).repeat(x.shape[0], 1, 1)
        q = q + self.cross(q, x, x, need_weights=False)[0]
        out, weights = self.self_attn(q.transpose(0, 1), q.transpose(0, 1), q.transpose(0, 1))
        return out.transpose(0, 1) + weights.mean()


class CrossScaleEmbed(nn.Module):
    def __init__(self, dim_in, dim_out, kernel_sizes=(2, 4), stride=2):
        super().__init__()
        kernel_sizes = sorted(kernel_sizes)
        num_scales = len(kernel_sizes)
        dim_scales = [int(dim_out / (2 ** i)) for i in range(1, num_scales)]
        dim_scales = [*dim_scales, dim_out - sum(dim_scales)]
        self.convs = nn.ModuleList([nn.Conv2d(dim_in, dim_scale, kernel, stride=stride, padding=(kernel - stride) // 2)
                                    for kernel, dim_scale in zip(kernel_sizes, dim_scales)])

    def forward(self, x):
        x = x.transpose(1, 2).reshape(x.shape[0], -1, 4, 4)
        return torch.cat(tuple(map(lambda conv: conv(x), self.convs)), dim=1)


class ChanLayerNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps, self.g, self.b = eps, nn.Parameter(torch.ones(1, dim, 1, 1)), nn.Parameter(torch.zeros(1, dim, 1, 1))

    def forward(self, x):
        var, mean = torch.var(x, dim=1, unbiased=False, keepdim=True), torch.mean(x, dim=1, keepdim=True)
        return (x - mean) / (var + self.eps).sqrt() * self.g + self.b


class PVTAttention(nn.Module):
    def __init__(self, dim, num_heads=2, sr_ratio=2):
        super().__init__()
        self.num_heads, self.scale = num_heads, (dim // num_heads) ** -0.5
        self.q, self.kv, self.norm = nn.Linear(dim, dim), nn.Linear(dim, dim * 2), ChanLayerNorm(dim)
        self.sr = nn.Conv2d(dim, dim, kernel_size=sr_ratio, stride=sr_ratio)

    def forward(self, x, H=4, W=4):
        B, N, C = x.shape
        q = self.q(x).reshape(B, N, self.num_heads, C // self.num_heads).permute(0, 2, 1, 3)
        x_ = self.norm(self.sr(x.permute(0, 2, 1).reshape(B, C, H, W))).reshape(B, C, -1).permute(0, 2, 1)
        kv = self.kv(x_).reshape(B, -1, 2, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        k, v = kv[0], kv[1]
        attn = ((q @ k.transpose(-2, -1)) * self.scale).softmax(dim=-1)
        return (attn @ v).transpose(1, 2).reshape(B, N, C)


class LocalFeedForward(nn.Module):
    def __init__(self, dim, expand_ratio=1.5, act="hs+se"):
        super().__init__()
        hidden_dim = int(dim * expand_ratio)
        layers = [nn.Conv2d(dim, hidden_dim, 1, 1, 0, bias=False), nn.BatchNorm2d(hidden_dim), nn.Hardswish() if act.find("hs") >= 0 else nn.ReLU6(inplace=True)]
        layers.extend([nn.Conv2d(hidden_dim, hidden_dim, 3, 1, 3 // 2, groups=hidden_dim, bias=False), nn.BatchNorm2d(hidden_dim)])
        layers.extend([nn.Conv2d(hidden_dim, dim, 1, 1, 0, bias=False), nn.BatchNorm2d(dim)])
        self.conv = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.conv(x.transpose(1, 2).view(x.shape[0], -1, 4, 4)).flatten(2).transpose(1, 2)


class MobileViTBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.local, self.point = nn.Conv2d(dim, dim, 3, padding=1, groups=dim), nn.Conv2d(dim, 8, 1)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation=F.gelu, batch_first=True, norm_first=False)
        self.encoder, self.out = nn.TransformerEncoder(layer, 1, norm=nn.LayerNorm(8)), nn.Conv2d(8, dim, 1)

    def forward(self, x):
        y = self.point(self.local(x.transpose(1, 2).reshape(x.shape[0], -1, 4, 4)))
        b, c, h, w = y.shape
        y = y.reshape(b, c, h // 2, 2, w // 2, 2).permute(0, 3, 5, 2, 4, 1).reshape(b * 4, -1, c)
        y = self.encoder(y).reshape(b, 2, 2, h // 2, w // 2, c).permute(0, 5, 3, 1, 4, 2).reshape(b, c, h, w)
        return self.out(y)


class TalkingHeads(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.heads = heads
        self.to_qkv, self.mix = nn.Linear(dim, dim * 3, bias=False), nn.Parameter(torch.randn(heads, heads))
        self.attend, self.temperature = nn.Softmax(dim=-1), nn.Parameter(torch.log(torch.tensor((dim / heads) ** -0.5)))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        dots = torch.matmul(q, k.transpose(-1, -2)) * self.temperature.exp()
        mask = torch.eye(dots.shape[-1], device=dots.device, dtype=torch.bool)
        dots = dots.masked_fill(mask, -torch.finfo(dots.dtype).max)
        attn = torch.einsum("b h i j, h g -> b g i j", self.attend(dots), self.mix)
        return (attn @ v).transpose(1, 2).flatten(-2)


class MoE(nn.Module):
    def __init__(self, dim, experts=4, k=2):
        super().__init__()
        self.gate, self.k = nn.Linear(dim, experts, bias=False), k
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim)) for _ in range(experts))

    def forward(self, inputs):
        squashed = inputs.view(-1, inputs.shape[-1])
        weights, selected = torch.topk(self.gate(squashed), self.k)
        weights = F.softmax(weights, dim=1, dtype=torch.float).to(inputs.dtype)
        results = torch.zeros_like(squashed)
        for i, expert in enumerate(self.experts):
            batch_idx, nth_expert = torch.where(selected == i)
            results[batch_idx] += weights[batch_idx, nth_expert, None] * expert(squashed[batch_idx])
        return results.view_as(inputs)


class SelectiveScan(nn.Module):
    def __init__(self, d_inner, d_state=4):
        super().__init__()
        self.x_proj, self.dt_proj = nn.Linear(d_inner, d_state * 2 + 1, bias=False), nn.Linear(1, d_inner)
        A = torch.arange(1, d_state + 1, dtype=torch.float32).repeat(d_inner, 1)
        self.A_log, self.D, self.d_state = nn.Parameter(torch.log(A)), nn.Parameter(torch.ones(d_inner)), d_state
        self.conv1d = nn.Conv1d(d_inner, d_inner, 3, groups=d_inner, padding=2)

    def forward(self, x):
        b, l, d = x.shape
        u = F.silu(self.conv1d(x.transpose(1, 2))[..., :l].transpose(1, 2))
        delta, B, C = self.x_proj(u).split(split_size=[1, self.d_state, self.d_state], dim=-1)
        delta, A = F.softplus(self.dt_proj(delta)), -torch.exp(self.A_log.float())
        deltaA = torch.exp(torch.einsum("bld,dn->bldn", delta, A))
        deltaB_u = torch.einsum("bld,bln,bld->bldn", delta, B, u)
        state, ys = torch.zeros((b, d, self.d_state), device=deltaA.device), []
        for i in range(l):
            state = deltaA[:, i] * state + deltaB_u[:, i]
            ys.append(torch.einsum("bdn,bn->bd", state, C[:, i, :]))
        return torch.stack(ys, dim=1) + u * self.D


class RelativeShift(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qk, self.r, self.u = nn.Linear(dim, 2 * dim), nn.Linear(dim, dim), nn.Parameter(torch.Tensor(dim))
        nn.init.zeros_(self.u)

    def forward(self, x):
        q, k = torch.chunk(self.qk(x), 2, -1)
        pos = torch.bmm(q, self.r(x).transpose(1, 2))
        zero_pad = torch.zeros((pos.size(0), pos.size(1), 1), device=pos.device, dtype=pos.dtype)
        padded = torch.cat([zero_pad, pos], dim=2).view(pos.size(0), pos.size(2) + 1, pos.size(1))
        shifted = padded[:, 1:].view_as(pos)
        return F.softmax(torch.bmm(q + self.u, k.transpose(1, 2)) + shifted, 2) @ x


class ALiBi(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.qkv, self.heads = nn.Linear(dim, 3 * dim), heads
        slopes = torch.tensor([2 ** (-8 * (i + 1) / heads) for i in range(heads)])
        self.register_buffer("slopes", slopes.view(-1, 1, 1), persistent=False)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        bias = -(torch.arange(n)[None, :] - torch.arange(n)[:, None]).abs() * self.slopes
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype).expand(b, -1, -1, -1)).transpose(1, 2).reshape(b, n, -1)


norm_layer = partial(nn.LayerNorm, eps=1e-6)
makers = [lambda: RotaryAttention(16, 4, 2), lambda: SwiGLU(16, 32), lambda: T5Bias(), lambda: Performer(16),
          lambda: Linformer(16, 16), lambda: FNet(16), lambda: GFNet(16), lambda: gMLP(16, 16), lambda: Perceiver(16),
          lambda: CrossScaleEmbed(16, 8), lambda: PVTAttention(16), lambda: LocalFeedForward(16), lambda: MobileViTBlock(16),
          lambda: TalkingHeads(16), lambda: MoE(16), lambda: SelectiveScan(16), lambda: RelativeShift(16), lambda: ALiBi(16),
          lambda: norm_layer(16), lambda: nn.RMSNorm(16)]
losses = []
for make in makers:
    module, x = start(make()), normal(2, 16, 16, seed=3).requires_grad_()
    out = module(x)
    (out * normal(*out.shape, seed=4)).sum().backward()
    losses += [out.abs().mean().item(), x.grad.norm().item()]
    losses.append(sum(p.grad.norm().item() for p in module.parameters() if p.grad is not None))
assert to_2tuple(3) == (3, 3)
