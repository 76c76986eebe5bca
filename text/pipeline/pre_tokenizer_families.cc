#include "text/pipeline/pre_tokenizer_families.h"

#include <array>
#include <utility>

namespace ballast::text {
namespace {

using nlohmann::json;

constexpr const char* kLlama3Expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kDeepSeekV3Expression =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

json split(const char* expression) {
  return {{"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}, {"invert", false}};
}

json sequence(std::vector<json> nodes) {
  return {{"type", "Sequence"}, {"pretokenizers", std::move(nodes)}};
}

PreTokenizerFamily gpt2() {
  return {.normalizer = nullptr, .pre_tokenizer = byte_level(true)};
}

// GPT-NeoX's tokenizer.
PreTokenizerFamily gpt_neox() {
  return {.normalizer = {{"type", "NFC"}}, .pre_tokenizer = byte_level(true)};
}

PreTokenizerFamily smollm() {
  return {.normalizer = nullptr,
          .pre_tokenizer = sequence({{{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)})};
}

PreTokenizerFamily llama3() {
  return {.normalizer = nullptr,
          .pre_tokenizer = sequence({split(kLlama3Expression), byte_level(false)}),
          .ignore_merges = true,
          .adds_bos = true};
}

PreTokenizerFamily qwen2() {
  return {.normalizer = {{"type", "NFC"}}, .pre_tokenizer = sequence({split(kQwen2Expression), byte_level(false)})};
}

PreTokenizerFamily deepseek_v3() {
  return {.normalizer = nullptr,
          .pre_tokenizer = sequence({split(R"(\p{N}{1,3})"), split("[一-龥぀-ゟ゠-ヿ]+"),
                                     split(kDeepSeekV3Expression), byte_level(false)}),
          .adds_bos = true};
}

// llama.cpp writes "default" where it knew nothing better; GPT-2's expression is what such files were made with.
constexpr std::array<std::pair<std::string_view, PreTokenizerFamily (*)()>, 15> kGgufFamilies{{
    {"default", gpt2},
    {"gpt-2", gpt2},
    {"phi-2", gpt2},
    {"mpt", gpt_neox},
    {"olmo", gpt_neox},
    {"smollm", smollm},
    {"starcoder", smollm},
    {"refact", smollm},
    {"codeshell", smollm},
    {"llama-bpe", llama3},
    {"llama-v3", llama3},
    {"llama3", llama3},
    {"smaug-bpe", llama3},
    {"qwen2", qwen2},
    {"deepseek-v3", deepseek_v3},
}};

}  // namespace

std::optional<PreTokenizerFamily> pre_tokenizer_family(std::string_view name) {
  for (const auto& [known, make] : kGgufFamilies) {
    if (name == known) return make();
  }
  return std::nullopt;
}

}  // namespace ballast::text
