"""A denoising diffusion model: schedules, time embeddings, a small U-Net, and an average of the weights."""

import copy
import math
from functools import partial
from inspect import isfunction

import torch
import torch.nn.functional as F
from torch import einsum, nn
from common import integers, normal, start, uniform


def exists(x):
    return x is not None


def default(val, d):
    return val if exists(val) else d() if isfunction(d) else d


def cosine_beta_schedule(timesteps, s=0.008):
    steps = timesteps + 1
    x = torch.linspace(0, timesteps, steps, dtype=torch.float64)
    alphas_cumprod = torch.cos(((x / timesteps) + s) / (1 + s) * math.pi * 0.5) ** 2
    alphas_cumprod = alphas_cumprod / alphas_cumprod[0]
    betas = 1 - (alphas_cumprod[1:] / alphas_cumprod[:-1])
    return torch.clip(betas, 0, 0.999)


def extract(a, t, x_shape):
    b, *_ = t.shape
    out = a.gather(-1, t)
    return out.reshape(b, *((1,) * (len(x_shape) - 1)))


class SinusoidalPosEmb(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        device = x.device
        half_dim = self.dim // 2
        emb = math.log(10000) / (half_dim - 1)
        emb = torch.exp(torch.arange(half_dim, device=device) * -emb)
        emb = x[:, None] * emb[None, :]
        return torch.cat((emb.sin(), emb.cos()), dim=-1)


class Residual(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x, *args, **kwargs):
        return self.fn(x, *args, **kwargs) + x


class Block(nn.Module):
    def __init__(self, dim, dim_out, groups=4):
        super().__init__()
        self.proj, self.norm, self.act = nn.Conv2d(dim, dim_out, 3, padding=1), nn.GroupNorm(groups, dim_out), nn.SiLU()

    def forward(self, x, scale_shift=None):
        x = self.norm(self.proj(x))
        if exists(scale_shift):
            scale, shift = scale_shift
            x = x * (scale + 1) + shift
        return self.act(x)


class ResnetBlock(nn.Module):
    def __init__(self, dim, dim_out, *, time_emb_dim=None):
        super().__init__()
        self.mlp = nn.Sequential(nn.SiLU(), nn.Linear(time_emb_dim, dim_out * 2)) if exists(time_emb_dim) else None
        self.block1, self.block2 = Block(dim, dim_out), Block(dim_out, dim_out)
        self.res_conv = nn.Conv2d(dim, dim_out, 1) if dim != dim_out else nn.Identity()

    def forward(self, x, time_emb=None):
        scale_shift = None
        if exists(self.mlp) and exists(time_emb):
            scale_shift = self.mlp(time_emb)[:, :, None, None].chunk(2, dim=1)
        return self.block2(self.block1(x, scale_shift=scale_shift)) + self.res_conv(x)


class LinearAttention(nn.Module):
    def __init__(self, dim, heads=2, dim_head=4):
        super().__init__()
        self.scale, self.heads = dim_head ** -0.5, heads
        hidden = dim_head * heads
        self.to_qkv = nn.Conv2d(dim, hidden * 3, 1, bias=False)
        self.to_out = nn.Sequential(nn.Conv2d(hidden, dim, 1), nn.GroupNorm(1, dim))

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = map(lambda t: t.reshape(b, self.heads, -1, h * w), self.to_qkv(x).chunk(3, dim=1))
        q, k = q.softmax(dim=-2) * self.scale, k.softmax(dim=-1)
        context = einsum("b h d n, b h e n -> b h d e", k, v / (h * w))
        return self.to_out(einsum("b h d e, b h d n -> b h e n", context, q).reshape(b, -1, h, w))


class Unet(nn.Module):
    def __init__(self, dim, dim_mults=(1, 2), channels=3):
        super().__init__()
        self.init_conv = nn.Conv2d(channels, dim, 3, padding=1)
        dims = [dim, *map(lambda m: dim * m, dim_mults)]
        in_out, block = list(zip(dims[:-1], dims[1:])), partial(ResnetBlock, time_emb_dim=dim * 4)
        self.time_mlp = nn.Sequential(SinusoidalPosEmb(dim), nn.Linear(dim, dim * 4), nn.GELU(), nn.Linear(dim * 4, dim * 4))
        self.downs, self.ups = nn.ModuleList([]), nn.ModuleList([])
        for dim_in, dim_out in in_out:
            self.downs.append(nn.ModuleList([block(dim_in, dim_in), Residual(LinearAttention(dim_in)),
                                             nn.Conv2d(dim_in, dim_out, 4, 2, 1)]))
        self.mid = block(dims[-1], dims[-1])
        for dim_in, dim_out in reversed(in_out):
            self.ups.append(nn.ModuleList([
                nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(dim_out, dim_in, 3, padding=1)),
                block(dim_in * 2, dim_in)]))
        self.final_conv = nn.Conv2d(dim, channels, 1)

    def forward(self, x, time):
        x, t, h = self.init_conv(x), self.time_mlp(time), []
        for block, attn, down in self.downs:
            x = attn(block(x, t))
            h.append(x)
            x = down(x)
        x = self.mid(x, t)
        for up, block in self.ups:
            x = block(torch.cat((up(x), h.pop()), dim=1), t)
        return self.final_conv(x)


class GaussianDiffusion(nn.Module):
    def __init__(self, model, timesteps=50):
        super().__init__()
        self.model, self.num_timesteps = model, timesteps
        betas = cosine_beta_schedule(timesteps)
        alphas_cumprod = torch.cumprod(1.0 - betas, dim=0)
        alphas_cumprod_prev = F.pad(alphas_cumprod[:-1], (1, 0), value=1.0)
        register = lambda name, val: self.register_buffer(name, val.to(torch.float32))  # noqa: E731
        register("sqrt_alphas_cumprod", torch.sqrt(alphas_cumprod))
        register("sqrt_one_minus_alphas_cumprod", torch.sqrt(1.0 - alphas_cumprod))
        variance = betas * (1.0 - alphas_cumprod_prev) / (1.0 - alphas_cumprod)
        register("posterior_log_variance_clipped", torch.log(variance.clamp(min=1e-20)))

    def q_sample(self, x_start, t, noise=None):
        noise = default(noise, lambda: torch.randn_like(x_start))
        return (extract(self.sqrt_alphas_cumprod, t, x_start.shape) * x_start +
                extract(self.sqrt_one_minus_alphas_cumprod, t, x_start.shape) * noise)

    def forward(self, img, t, noise):
        return F.smooth_l1_loss(self.model(self.q_sample(img, t, noise), t), noise)


class EMA:
    def __init__(self, beta):
        super().__init__()
        self.beta = beta

    def update_model_average(self, ma_model, current_model):
        for current_params, ma_params in zip(current_model.parameters(), ma_model.parameters()):
            old_weight, up_weight = ma_params.data, current_params.data
            ma_params.data = self.update_average(old_weight, up_weight)

    def update_average(self, old, new):
        return new if old is None else old * self.beta + (1 - self.beta) * new


diffusion = start(GaussianDiffusion(Unet(8)))
ema_model, ema = copy.deepcopy(diffusion), EMA(0.9)
optimizer, losses = torch.optim.Adam(diffusion.parameters(), lr=2e-3), []
for step in range(16):
    img = uniform(4, 3, 8, 8, seed=step % 3) * 2 - 1
    loss = diffusion(img, integers(50, 4, seed=step), normal(4, 3, 8, 8, seed=step))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    ema.update_model_average(ema_model, diffusion)
    losses.append(loss.item())
ema_model.eval()
with torch.inference_mode():
    for step in range(4):
        losses.append(ema_model(img, torch.full((4,), step, dtype=torch.long), normal(4, 3, 8, 8, seed=40)).item())
