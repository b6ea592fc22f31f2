"""A small NeRF: positional encoding, sampling along rays, volume rendering."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from common import normal, start, uniform

img2mse = lambda x, y: torch.mean((x - y) ** 2)  # noqa: E731
mse2psnr = lambda x: -10. * torch.log(x) / torch.log(torch.Tensor([10.]))  # noqa: E731


class Embedder:
    def __init__(self, **kwargs):
        self.kwargs = kwargs
        self.create_embedding_fn()

    def create_embedding_fn(self):
        embed_fns, out_dim = [], 0
        d = self.kwargs["input_dims"]
        if self.kwargs["include_input"]:
            embed_fns.append(lambda x: x)
            out_dim += d
        max_freq, N_freqs = self.kwargs["max_freq_log2"], self.kwargs["num_freqs"]
        freq_bands = 2. ** torch.linspace(0., max_freq, steps=N_freqs)
        for freq in freq_bands:
            for p_fn in self.kwargs["periodic_fns"]:
                embed_fns.append(lambda x, p_fn=p_fn, freq=freq: p_fn(x * freq))
                out_dim += d
        self.embed_fns, self.out_dim = embed_fns, out_dim

    def embed(self, inputs):
        return torch.cat([fn(inputs) for fn in self.embed_fns], -1)


class NeRF(nn.Module):
    def __init__(self, D=4, W=16, input_ch=3, input_ch_views=3, skips=[2]):
        super(NeRF, self).__init__()
        self.skips, self.input_ch, self.input_ch_views = skips, input_ch, input_ch_views
        self.pts_linears = nn.ModuleList([nn.Linear(input_ch, W)] + [
            nn.Linear(W, W) if i not in self.skips else nn.Linear(W + input_ch, W) for i in range(D - 1)])
        self.views_linears = nn.ModuleList([nn.Linear(input_ch_views + W, W // 2)])
        self.feature_linear, self.alpha_linear, self.rgb_linear = nn.Linear(W, W), nn.Linear(W, 1), nn.Linear(W // 2, 3)

    def forward(self, x):
        input_pts, input_views = torch.split(x, [self.input_ch, self.input_ch_views], dim=-1)
        h = input_pts
        for i, _ in enumerate(self.pts_linears):
            h = F.relu(self.pts_linears[i](h))
            if i in self.skips:
                h = torch.cat([input_pts, h], -1)
        alpha = self.alpha_linear(h)
        h = torch.cat([self.feature_linear(h), input_views], -1)
        for i, _ in enumerate(self.views_linears):
            h = F.relu(self.views_linears[i](h))
        return torch.cat([self.rgb_linear(h), alpha], -1)


def raw2outputs(raw, z_vals, rays_d):
    raw2alpha = lambda raw, dists, act_fn=F.relu: 1. - torch.exp(-act_fn(raw) * dists)  # noqa: E731
    dists = z_vals[..., 1:] - z_vals[..., :-1]
    dists = torch.cat([dists, torch.Tensor([1e10]).expand(dists[..., :1].shape)], -1)
    dists = dists * torch.norm(rays_d[..., None, :], dim=-1)
    rgb = torch.sigmoid(raw[..., :3])
    alpha = raw2alpha(raw[..., 3], dists)
    weights = alpha * torch.cumprod(torch.cat([torch.ones((alpha.shape[0], 1)), 1. - alpha + 1e-10], -1), -1)[:, :-1]
    rgb_map = torch.sum(weights[..., None] * rgb, -2)
    depth_map = torch.sum(weights * z_vals, -1)
    disp_map = 1. / torch.max(1e-10 * torch.ones_like(depth_map), depth_map / torch.sum(weights, -1))
    return rgb_map + (1. - torch.sum(weights, -1)[..., None]), disp_map, weights


def sample_pdf(bins, weights, N_samples):
    weights = weights + 1e-5
    pdf = weights / torch.sum(weights, -1, keepdim=True)
    cdf = torch.cumsum(pdf, -1)
    cdf = torch.cat([torch.zeros_like(cdf[..., :1]), cdf], -1)
    u = torch.linspace(0., 1., steps=N_samples)
    u = u.expand(list(cdf.shape[:-1]) + [N_samples]).contiguous()
    inds = torch.searchsorted(cdf, u, right=True)
    below, above = torch.max(torch.zeros_like(inds - 1), inds - 1), torch.min((cdf.shape[-1] - 1) * torch.ones_like(inds), inds)
    inds_g = torch.stack([below, above], -1)
    matched_shape = [inds_g.shape[0], inds_g.shape[1], cdf.shape[-1]]
    cdf_g = torch.gather(cdf.unsqueeze(1).expand(matched_shape), 2, inds_g)
    bins_g = torch.gather(bins.unsqueeze(1).expand(matched_shape), 2, inds_g)
    denom = (cdf_g[..., 1] - cdf_g[..., 0])
    denom = torch.where(denom < 1e-5, torch.ones_like(denom), denom)
    t = (u - cdf_g[..., 0]) / denom
    return bins_g[..., 0] + t * (bins_g[..., 1] - bins_g[..., 0])


embed = Embedder(include_input=True, input_dims=3, max_freq_log2=3, num_freqs=4, periodic_fns=[torch.sin, torch.cos])
model = start(NeRF(input_ch=embed.out_dim))
optimizer = torch.optim.Adam(params=list(model.parameters()), lr=5e-3, betas=(0.9, 0.999))
rays_o, rays_d = normal(12, 3, seed=1) * 0.1, normal(12, 3, seed=2)
target, losses, global_step = uniform(12, 3, seed=3), [], 0
for i in range(10):
    t_vals = torch.linspace(0., 1., steps=8)
    z_vals = (2. * (1. - t_vals) + 6. * t_vals).expand([12, 8])
    for stage in range(2):
        pts = rays_o[..., None, :] + rays_d[..., None, :] * z_vals[..., :, None]
        viewdirs = (rays_d / torch.norm(rays_d, dim=-1, keepdim=True))[:, None].expand(pts.shape)
        flat = torch.cat([embed.embed(pts.reshape(-1, 3)), viewdirs.reshape(-1, 3)], -1)
        rgb, disp, weights = raw2outputs(model(flat).view(*pts.shape[:2], 4), z_vals, rays_d)
        loss = img2mse(rgb, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        z_mid = .5 * (z_vals[..., 1:] + z_vals[..., :-1])
        z_samples = sample_pdf(z_mid, weights[..., 1:-1].detach(), 4)
        z_vals, _ = torch.sort(torch.cat([z_vals, z_samples], -1), -1)
    for param_group in optimizer.param_groups:
        param_group["lr"] = 5e-3 * (0.1 ** (global_step / 250))
    global_step += 1
losses.append(mse2psnr(loss).item())
