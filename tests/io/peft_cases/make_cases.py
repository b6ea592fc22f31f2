"""Writes this folder's adapter with PEFT 0.21 and PyTorch 2.15, and PEFT's results with it: python make_cases.py"""

import os

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file

folder = os.path.dirname(os.path.abspath(__file__))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.hidden, self.out = torch.nn.Embedding(9, 6), torch.nn.Linear(6, 5), torch.nn.Linear(5, 4)

    def forward(self, tokens):
        return self.out(torch.tanh(self.hidden(self.token(tokens))))


torch.manual_seed(0)
net = Net()
base = {"base." + name: value.clone() for name, value in net.state_dict().items()}
model = get_peft_model(net, LoraConfig(r=2, lora_alpha=6, target_modules=["token", "hidden", "out"],
                                       rank_pattern={"out": 3}, alpha_pattern={"out": 5}))
with torch.no_grad():
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.normal_(0, 0.4)
model.eval()
model.save_pretrained(folder)
os.remove(os.path.join(folder, "README.md"))
tokens = torch.tensor([[1, 5, 0], [8, 2, 2]])
save_file({**base, "tokens": tokens, "logits": model(tokens).detach()}, os.path.join(folder, "expected.safetensors"))
