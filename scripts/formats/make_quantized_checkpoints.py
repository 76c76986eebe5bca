#!/usr/bin/env python3
"""Writes small checkpoints in other programs' quantized formats, with the logits of their own code.

    pip install torch==2.13.0 transformers safetensors compressed-tensors "mlx[cpu]"
    pip download --no-deps auto-gptq==0.7.1 autoawq==0.2.9; unpack both into PACKAGES
    make_quantized_checkpoints.py OUT --packages PACKAGES [--only TEXT] [--verify BALLAST] [--model DIRECTORY]

OUT/NAME/ holds config.json, model.safetensors and expected.safetensors (input_ids, logits in F32), which `ballast verify`
reads. Codes are packed and unpacked by compressed-tensors, by MLX, by QuantLinear of AutoGPTQ and by WQLinear_GEMM of
AutoAWQ; FP8 with scales of blocks, and what AutoGPTQ does not write (its second version), are packed here. The logits
are those of transformers with the weights that this code unpacks, in F32. Scales and zero points come from the least and
the largest value of a group. --model: of that model instead of a small random one, its tokenizer included.
"""

import argparse
import importlib.util
import json
import logging
import pathlib
import shutil
import subprocess
import sys
import types

import torch
import transformers
from safetensors.torch import save_file

VOCAB, HIDDEN, MLP = 320, 256, 384
DECODER = {"vocab_size": VOCAB, "hidden_size": HIDDEN, "num_hidden_layers": 2, "num_attention_heads": 4,
           "num_key_value_heads": 2, "max_position_embeddings": 256, "pad_token_id": None, "bos_token_id": 1,
           "eos_token_id": 2}
PACKAGES = pathlib.Path()


def tiny_model(family: str) -> torch.nn.Module:
    torch.manual_seed(7)
    if family == "qwen2":
        config = transformers.Qwen2Config(**DECODER, intermediate_size=MLP, tie_word_embeddings=True)
        model = transformers.Qwen2ForCausalLM(config)
    elif family == "qwen3_moe":
        config = transformers.Qwen3MoeConfig(**DECODER, intermediate_size=MLP, moe_intermediate_size=128, num_experts=4,
                                             num_experts_per_tok=2, head_dim=64, tie_word_embeddings=False)
        model = transformers.Qwen3MoeForCausalLM(config)
    else:
        config = transformers.LlamaConfig(**DECODER, intermediate_size=MLP, tie_word_embeddings=False)
        model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape)
            if parameter.ndim == 1:
                parameter.copy_(1 + 0.3 * noise if name.endswith("norm.weight") else 0.3 * noise)
            else:
                parameter.copy_(noise * (0.5 if "embed" in name else parameter.shape[-1] ** -0.5))
    return model.float().eval()


def parameters(weight: torch.Tensor, bits: int, group: int, symmetric: bool, least_zero: int = 0):
    """Returns scales [rows, groups], exact in F16, and zero points, as F32."""
    groups = weight.unflatten(1, (-1, group if group > 0 else weight.shape[1]))
    if symmetric:
        scale = groups.abs().amax(2) / (2 ** (bits - 1) - 1)
        zero = torch.full_like(scale, 2 ** (bits - 1))
    else:
        low, high = groups.amin(2).clamp(max=0), groups.amax(2).clamp(min=0)
        scale = (high - low) / (2**bits - 1)
        zero = (-low / scale).round().clamp(least_zero, 2**bits - 1)
    return scale.clamp(min=1e-5).half().float(), zero


def module_of(package: str, path: str, **stubs: object) -> types.ModuleType:
    """Imports a file of a package without the package's dependencies."""
    for name, members in stubs.items():
        stub = types.ModuleType(name.replace("__", "."))
        sys.modules[stub.__name__] = stub
        stub.__dict__.update(members)
    file = next(PACKAGES.glob(f"**/{package}/{path}"))
    spec = importlib.util.spec_from_file_location(f"{package}_{file.stem}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Gptq:
    """Packing by AutoGPTQ; `version` "gptq_v2" stores zero points unchanged. `ordered`: groups of columns by
    importance."""

    def __init__(self, bits: int, group: int, symmetric: bool = True, ordered: bool = False, version: str = "gptq",
                 head: bool = False, others: dict | None = None):
        self.bits, self.group, self.symmetric, self.ordered, self.version = bits, group, symmetric, ordered, version
        self.head, self.others = head, others or {}
        self.code = module_of("auto_gptq", "nn_modules/qlinear/qlinear_cuda.py")

    def config(self, _names: list[str]) -> dict:
        config = {"quant_method": "gptq", "bits": self.bits, "group_size": self.group, "sym": self.symmetric,
                  "desc_act": self.ordered, "checkpoint_format": self.version, "lm_head": self.head}
        if self.others:
            config["dynamic"] = {f"+:.*{part}.*": {"bits": bits} for part, bits in self.others.items()}
        return {"quantization_config": config}

    def takes(self, name: str) -> bool:
        return self.head or not name.startswith("lm_head")

    def quantize(self, name: str, weight: torch.Tensor):
        rows, cols = weight.shape
        bits = next((bits for part, bits in self.others.items() if part in name), self.bits)
        linear = torch.nn.Linear(cols, rows, bias=False)
        linear.weight.data = weight.clone()
        group = self.group if self.group > 0 else cols
        order = torch.arange(cols) // group
        if self.ordered:
            order = order[torch.randperm(cols, generator=torch.Generator().manual_seed(3))]
        columns = torch.argsort(order, stable=True)
        scale, zero = parameters(weight[:, columns], bits, group, self.symmetric, 1)
        packed = self.code.QuantLinear(bits, self.group, cols, rows, False, weight_dtype=torch.float32)
        packed.pack(linear, scale, zero.clone(), order.int())
        with torch.no_grad():
            decoded = packed(torch.eye(cols)).T.contiguous()
        zeros = packed.qzeros
        if self.version == "gptq_v2":
            ones = sum(1 << (bits * i) for i in range(32 // bits))  # of widths that divide 32
            zeros = ((zeros.long() & 0xFFFFFFFF) + ones).to(torch.int64)
            zeros = (((zeros + 2**31) % 2**32) - 2**31).int()
        return {"qweight": packed.qweight, "qzeros": zeros, "scales": packed.scales.half(), "g_idx": order.int()}, decoded


class Awq:
    """Packing by AutoAWQ."""

    def __init__(self, group: int):
        self.group = group
        packing = module_of("awq", "utils/packing_utils.py")
        self.code = module_of(
            "awq", "modules/linear/gemm.py", awq={}, awq__utils={}, awq__utils__packing_utils=vars(packing),
            awq__utils__module={"try_import": lambda _: (None, "")}, awq__utils__utils={"get_best_device": lambda: "cpu"})
        self.unpack = packing.dequantize_gemm

    def config(self, _names: list[str]) -> dict:
        return {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": self.group, "zero_point": True,
                                        "version": "gemm", "modules_to_not_convert": ["lm_head"]}}

    def takes(self, name: str) -> bool:
        return not name.startswith("lm_head")

    def quantize(self, _name: str, weight: torch.Tensor):
        linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
        linear.weight.data = weight.clone()
        scale, zero = parameters(weight, 4, self.group, False)
        scale, zero = scale.T.contiguous(), zero.T.contiguous()
        packed = self.code.WQLinear_GEMM.from_linear(linear, 4, self.group, scales=scale, zeros=zero)
        decoded = self.unpack(packed.qweight, packed.qzeros, packed.scales.float(), 4, self.group).T.contiguous()
        return {"qweight": packed.qweight, "qzeros": packed.qzeros, "scales": packed.scales}, decoded


class Mlx:
    """Quantization by mlx.core, including embedding and head."""

    def __init__(self, bits: int, group: int, others: dict | None = None, dtype: torch.dtype = torch.bfloat16):
        self.bits, self.group, self.others, self.dtype = bits, group, others or {}, dtype

    def form(self, name: str) -> tuple[int, int]:
        return next((form for part, form in self.others.items() if part in name), (self.bits, self.group))

    def config(self, names: list[str]) -> dict:
        forms = {"group_size": self.group, "bits": self.bits, "mode": "affine"}
        for name in names:
            bits, group = self.form(name)
            if (bits, group) != (self.bits, self.group):
                forms[name] = {"group_size": group, "bits": bits}
        return {"quantization": forms, "quantization_config": forms}

    def takes(self, _name: str) -> bool:
        return True

    def quantize(self, name: str, weight: torch.Tensor):
        import mlx.core as mx
        import numpy as np

        bits, group = self.form(name)
        half = mx.array(weight.numpy()).astype(mx.bfloat16 if self.dtype == torch.bfloat16 else mx.float16)
        codes, scales, biases = mx.quantize(half, group_size=group, bits=bits)
        decoded = mx.dequantize(codes, scales.astype(mx.float32), biases.astype(mx.float32), group_size=group, bits=bits)
        words = torch.from_numpy(np.array(codes).view(np.int32).copy()).view(torch.uint32)
        halves = [torch.from_numpy(np.array(values.astype(mx.float32))).to(self.dtype) for values in (scales, biases)]
        return {"weight": words, "scales": halves[0], "biases": halves[1]}, torch.from_numpy(np.array(decoded))


class CompressedTensors:
    """Packing by compressed-tensors: `form` is pack-quantized, int-quantized, float-quantized or nvfp4-pack-quantized."""

    def __init__(self, form: str, bits: int, strategy: str, group: int = 0, symmetric: bool = True, others: dict | None = None):
        self.form, self.bits, self.strategy, self.group, self.symmetric = form, bits, strategy, group, symmetric
        self.others = others or {}

    def scheme(self, name: str) -> dict:
        bits = next((bits for part, bits in self.others.items() if part in name), self.bits)
        scheme = {"num_bits": bits, "type": "float" if "float" in self.form or "fp4" in self.form else "int", "dynamic": False,
                  "symmetric": self.symmetric, "strategy": self.strategy}
        if self.strategy in ("group", "tensor_group"):
            scheme["group_size"] = self.group
        if self.strategy == "block":
            scheme["block_structure"] = [self.group, self.group]
        return scheme

    def config(self, names: list[str]) -> dict:
        schemes: dict[str, dict] = {}
        for name in names:
            scheme = self.scheme(name)
            schemes.setdefault(json.dumps(scheme), {"targets": [], "weights": scheme})["targets"].append(name)
        groups = {f"group_{i}": group for i, group in enumerate(schemes.values())}
        return {"quantization_config": {"quant_method": "compressed-tensors", "format": self.form, "ignore": ["lm_head"],
                                        "quantization_status": "compressed", "kv_cache_scheme": None, "config_groups": groups}}

    def takes(self, name: str) -> bool:
        return not name.startswith("lm_head")

    def quantize(self, name: str, weight: torch.Tensor):
        from compressed_tensors.compressors import BaseCompressor
        from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

        if self.form.startswith("nvfp4"):
            return self.quantize_float4(self.scheme(name), weight)
        arguments = self.scheme(name)
        scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**arguments))
        state = {"weight": weight.clone()}
        if self.form.startswith("float"):
            largest = {"tensor": lambda: weight.abs().amax().reshape(1), "channel": lambda: weight.abs().amax(1, True),
                       "block": lambda: block_maxima(weight, self.group)}[self.strategy]()
            state["weight_scale"] = (largest / 448).bfloat16().float()
        else:
            whole = weight.reshape(1, -1) if self.strategy == "tensor" else weight
            scale, zero = parameters(whole, arguments["num_bits"], self.group, self.symmetric)
            state["weight_scale"] = scale.reshape(1) if self.strategy == "tensor" else scale
            if not self.symmetric:
                state["weight_zero_point"] = (zero - 2 ** (arguments["num_bits"] - 1)).to(torch.int8)
        compressor = BaseCompressor.get_value_from_registry(self.form)
        packed = compressor.compress(state, scheme)
        decoded = compressor.decompress(packed, scheme)["weight"].float()
        packed["weight_scale"] = packed["weight_scale"].to(torch.bfloat16 if self.form.startswith("float") else torch.float16)
        return packed, decoded

    def quantize_float4(self, arguments: dict, weight: torch.Tensor):
        from compressed_tensors.compressors import BaseCompressor
        from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
        from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
        from compressed_tensors.quantization.lifecycle.forward import dequantize

        arguments = QuantizationArgs(**arguments, scale_dtype=torch.float8_e4m3fn)
        scheme = QuantizationScheme(targets=["Linear"], weights=arguments)
        whole = (448 * 6 / weight.abs().amax()).reshape(1)
        scale = (weight.unflatten(1, (-1, self.group)).abs().amax(2) / 6 * whole).to(torch.float8_e4m3fn)
        state = {"weight": weight.clone(), "weight_scale": scale.float(), "weight_global_scale": whole}
        packed = BaseCompressor.get_value_from_registry(self.form).compress(state, scheme)
        # decompress() rounds to BF16.
        codes = unpack_fp4_from_uint8(packed["weight_packed"], *weight.shape, dtype=torch.float32)
        return packed, dequantize(codes, packed["weight_scale"].float(), args=arguments, dtype=torch.float32,
                                  global_scale=packed["weight_global_scale"])


class ModelOpt:
    """NVFP4 as ModelOpt stores it: compressed-tensors' codes with other names and a scale of the matrix that multiplies."""

    def config(self, _names: list[str]) -> dict:
        return {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}}

    def takes(self, name: str) -> bool:
        return not name.startswith("lm_head")

    def quantize(self, name: str, weight: torch.Tensor):
        packed, decoded = CompressedTensors("nvfp4-pack-quantized", 4, "tensor_group", 16).quantize(name, weight)
        whole = 1 / packed["weight_global_scale"].reshape(())
        return {"weight": packed["weight_packed"], "weight_scale": packed["weight_scale"], "weight_scale_2": whole}, decoded


class Fp8:
    """FP8 as in DeepSeek's and Qwen's checkpoints."""

    def config(self, _names: list[str]) -> dict:
        return {"quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                                        "weight_block_size": [128, 128]}}

    def takes(self, name: str) -> bool:
        return not name.startswith("lm_head")

    def quantize(self, _name: str, weight: torch.Tensor):
        scale = block_maxima(weight, 128) / 448
        each = scale.repeat_interleave(128, 0).repeat_interleave(128, 1)[: weight.shape[0], : weight.shape[1]]
        codes = (weight / each).to(torch.float8_e4m3fn)
        return {"weight": codes, "weight_scale_inv": scale}, codes.float() * each


def block_maxima(weight: torch.Tensor, size: int) -> torch.Tensor:
    rows, cols = (-(-count // size) for count in weight.shape)
    padded = torch.zeros(rows * size, cols * size)
    padded[: weight.shape[0], : weight.shape[1]] = weight.abs()
    return padded.reshape(rows, size, cols, size).amax((1, 3))


def variants() -> dict:
    """Returns family and format by name; they are made when they are used."""
    ct, llama = CompressedTensors, "llama"
    found = {
        "ct-int4-g32": (llama, lambda: ct("pack-quantized", 4, "group", 32)),
        "ct-int4-g128-asymmetric": (llama, lambda: ct("pack-quantized", 4, "group", 128, False)),
        "ct-int4-channel": ("qwen2", lambda: ct("pack-quantized", 4, "channel")),
        "ct-int8-g128": (llama, lambda: ct("pack-quantized", 8, "group", 128)),
        "ct-mixed-3-5-6": (llama, lambda: ct("pack-quantized", 3, "group", 64, True, {"mlp": 5, "v_proj": 6})),
        "ct-int2-g32-asymmetric": (llama, lambda: ct("pack-quantized", 2, "group", 32, False)),
        "ct-w8": ("qwen2", lambda: ct("int-quantized", 8, "channel")),
        "ct-w8-asymmetric": (llama, lambda: ct("int-quantized", 8, "channel", 0, False)),
        "ct-w8-tensor": (llama, lambda: ct("int-quantized", 8, "tensor")),
        "ct-fp8-channel": (llama, lambda: ct("float-quantized", 8, "channel")),
        "ct-fp8-tensor": (llama, lambda: ct("float-quantized", 8, "tensor")),
        "ct-fp8-block": ("qwen2", lambda: ct("float-quantized", 8, "block", 128)),
        "ct-nvfp4": (llama, lambda: ct("nvfp4-pack-quantized", 4, "tensor_group", 16)),
        "ct-mixture": ("qwen3_moe", lambda: ct("pack-quantized", 4, "group", 32)),
        "gptq-4-g128": (llama, lambda: Gptq(4, 128)),
        "gptq-4-g32-asymmetric": ("qwen2", lambda: Gptq(4, 32, False)),
        "gptq-4-row": (llama, lambda: Gptq(4, -1)),
        "gptq-8-g128": (llama, lambda: Gptq(8, 128)),
        "gptq-2-g32": (llama, lambda: Gptq(2, 32, False)),
        "gptq-3-g32": (llama, lambda: Gptq(3, 32, False)),
        "gptq-4-ordered": (llama, lambda: Gptq(4, 64, ordered=True)),
        "gptq-4-second-version": (llama, lambda: Gptq(4, 32, False, version="gptq_v2")),
        "gptq-4-head": (llama, lambda: Gptq(4, 32, head=True)),
        "gptq-mixed-4-8": (llama, lambda: Gptq(4, 32, others={"mlp": 8})),
        "gptq-mixture": ("qwen3_moe", lambda: Gptq(4, 32)),
        "awq-g32": (llama, lambda: Awq(32)),
        "awq-g128": ("qwen2", lambda: Awq(128)),
        "mlx-mixed-4-6": ("qwen2", lambda: Mlx(4, 64, {"v_proj": (6, 32), "down_proj": (8, 32)})),
        "mlx-4-g64-half": ("qwen2", lambda: Mlx(4, 64, dtype=torch.float16)),
        "modelopt-nvfp4": (llama, ModelOpt),
        "modelopt-mixture": ("qwen3_moe", ModelOpt),
        "fp8-block": (llama, Fp8),
        "fp8-mixture": ("qwen3_moe", Fp8),
    }
    for bits in (2, 3, 4, 5, 6, 8):
        for group in (32, 64, 128):
            found[f"mlx-{bits}-g{group}"] = (llama, lambda bits=bits, group=group: Mlx(bits, group))
    return found


def matrices(model: torch.nn.Module, takes) -> list[str]:
    """Returns the names of modules in a checkpoint, with one for each expert."""
    names = []
    for name, tensor in plain_tensors(model).items():
        module = name.removesuffix(".weight")
        if tensor.ndim != 2 or module.endswith("mlp.gate"):
            continue
        is_embedding = "embed_tokens" in module
        if takes(module) and (not is_embedding or takes("embedding of MLX") and takes("lm_head")):
            names.append(module)
    return names


def plain_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    tensors = {}
    for name, value in model.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        if name.endswith("experts.gate_up_proj"):
            for expert, both in enumerate(value):
                for part, matrix in zip(("gate_proj", "up_proj"), both.chunk(2)):
                    tensors[f"{name.removesuffix('.gate_up_proj')}.{expert}.{part}.weight"] = matrix
        elif name.endswith("experts.down_proj"):
            for expert, matrix in enumerate(value):
                tensors[f"{name.removesuffix('.down_proj')}.{expert}.down_proj.weight"] = matrix
        else:
            tensors[name] = value
    return tensors


def in_fewest_bits(values: torch.Tensor) -> torch.Tensor:
    """Returns a tensor in the 16-bit type of its file, if it had one."""
    for dtype in (torch.bfloat16, torch.float16):
        if torch.equal(values.to(dtype).float(), values):
            return values.to(dtype)
    return values


def set_weight(model: torch.nn.Module, module: str, decoded: torch.Tensor) -> None:
    owner, _, part = module.rpartition(".")
    layer, _, expert = owner.rpartition(".")
    if not expert.isdigit() or not layer.endswith("experts"):
        model.get_submodule(module).weight.data.copy_(decoded)
        return
    experts = model.get_submodule(layer)
    fused = experts.down_proj if part == "down_proj" else experts.gate_up_proj
    rows = decoded.shape[0]
    first = rows if part == "up_proj" else 0
    fused.data[int(expert), first : first + rows] = decoded


@torch.no_grad()
def write(directory: pathlib.Path, model: torch.nn.Module, form, original: pathlib.Path | None) -> None:
    names = matrices(model, form.takes)
    tensors = {name: value.contiguous() for name, value in plain_tensors(model).items()}
    if original is not None:
        tensors = {name: in_fewest_bits(value) for name, value in tensors.items()}
    for module in names:
        parts, decoded = form.quantize(module, plain_tensors(model)[module + ".weight"].float().contiguous())
        del tensors[module + ".weight"]
        tensors.update({f"{module}.{part}": value.contiguous() for part, value in parts.items()})
        set_weight(model, module, decoded)
    directory.mkdir(parents=True, exist_ok=True)
    config = json.loads((original / "config.json").read_text()) if original else model.config.to_dict()
    (directory / "config.json").write_text(json.dumps({**config, **form.config(names)}, indent=1))
    save_file({name: value.clone() for name, value in tensors.items()}, str(directory / "model.safetensors"))
    ids = torch.randint(3, model.config.vocab_size, (2, 40), generator=torch.Generator().manual_seed(5))
    save_file({"input_ids": ids, "logits": model(ids).logits.contiguous()}, str(directory / "expected.safetensors"))
    for file in original.glob("*token*") if original else []:
        shutil.copy(file, directory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--packages", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--verify", type=pathlib.Path, help="the ballast program")
    parser.add_argument("--model", type=pathlib.Path)
    args = parser.parse_args()
    global PACKAGES
    PACKAGES = args.packages
    logging.disable(logging.WARNING)  # AutoGPTQ misses its CUDA code
    transformers.utils.logging.disable_progress_bar()
    failures = 0
    for name, (family, make) in variants().items():
        if args.only not in name:
            continue
        model = tiny_model(family)
        if args.model:
            model = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()
        write(args.out / name, model, make(), args.model)
        verdict = "written"
        if args.verify:
            command = [args.verify, "verify", args.out / name, "--expected", args.out / name / "expected.safetensors",
                       "--tolerance", "1e-4", "--json"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            failures += done.returncode != 0
            figures = json.loads(done.stdout) if done.stdout.startswith("{") else {}
            verdict = f"relative error {figures['relative_error']:.2e}" if figures else done.stderr.strip()
            verdict += "" if done.returncode == 0 else ", FAILED"
        print(f"{name:26s} {verdict}", flush=True)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
