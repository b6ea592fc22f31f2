"""Writes adapters of this folder's models with PEFT 0.21, transformers 5.24 and PyTorch 2.15, and the logits that PEFT
computes with them: python make_adapters.py"""

import json
import os

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

folder = os.path.dirname(os.path.abspath(__file__))
tokens = torch.tensor([[1, 5, 0, 3], [8, 2, 2, 7]])


def write(name, base, **options):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(os.path.join(folder, base), dtype=torch.float32)
    model = get_peft_model(model, LoraConfig(r=2, lora_alpha=4, **options))
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if "lora_" in parameter_name:
                parameter.normal_(0, 0.3)
            elif parameter.requires_grad:  # a bias
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.eval()
    out = os.path.join(folder, "adapters", name)
    model.save_pretrained(out)
    os.remove(os.path.join(out, "README.md"))
    config_path = os.path.join(out, "adapter_config.json")
    with open(config_path) as file:
        config = json.load(file)
    with open(config_path, "w") as file:
        json.dump(config | {"base_model_name_or_path": base, "target_modules": sorted(config["target_modules"])}, file, indent=2)
    model = AutoModelForCausalLM.from_pretrained(os.path.join(folder, base), dtype=torch.float32)
    model = PeftModel.from_pretrained(model, out).eval()  # which reads patterns in the file's order
    with open(os.path.join(out, "logits.json"), "w") as file:
        json.dump({"base": base, "tokens": tokens.tolist(), "logits": model(tokens).logits.double().tolist()}, file)


write("embedding_and_head", "llama", target_modules=["q_proj", "embed_tokens", "lm_head"])
write("tied_embedding", "qwen2", target_modules=["down_proj", "embed_tokens"])
write("tied_head", "qwen2", target_modules=["down_proj", "lm_head"])
write("tied_embedding_and_head", "qwen2", target_modules=["embed_tokens", "lm_head"])
write("bias_all", "qwen2", target_modules=["q_proj", "down_proj"], bias="all")
write("bias_lora_only", "qwen2", target_modules=["q_proj", "v_proj"], bias="lora_only", use_rslora=True)
write("patterns", "llama", target_modules=["q_proj", "v_proj"], rank_pattern={"layers.1.*q_proj": 3, "q_proj": 1},
      alpha_pattern={"layers.0.self_attn.q_proj": 7, ".*q_proj": 1})
