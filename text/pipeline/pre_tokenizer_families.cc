#include "text/pipeline/pre_tokenizer_families.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "text/pipeline/pre_tokenizer_expressions.h"

namespace ballast::text {
namespace {

using nlohmann::json;
using namespace expressions;  // NOLINT(google-build-using-namespace): a table of them follows

enum Options : unsigned {
  kPlain = 0,
  kThenGpt2 = 1u << 0,  // GPT-2's expression splits the remaining parts
  kNfc = 1u << 1,
  kIgnoreMerges = 1u << 2,
  kAddsBos = 1u << 3,
  kSpaceMarks = 1u << 4,
};

struct Family {
  std::string_view names;  // values of tokenizer.ggml.pre written by llama.cpp's converter
  unsigned options;
  std::array<const char*, 6> expressions{};  // applied in order, each within the pieces of the previous one
};

// llama.cpp writes "default" for unknown tokenizers; such files were made with GPT-2's expression.
constexpr std::array kFamilies{
    Family{"default gpt-2 phi-2 jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe gigachat "
           "a.x-4.0 "
           "mellum jais trillion granite-docling exaone4",
           kThenGpt2},
    Family{"mpt olmo modern-bert", kThenGpt2 | kNfc},
    Family{"smollm starcoder refact codeshell exaone minerva-7b mellum2", kThenGpt2, {kDigit}},
    Family{"command-r", kThenGpt2 | kNfc, {kDigit}},
    Family{"llama-bpe llama-v3 llama3 smaug-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
           kIgnoreMerges | kAddsBos,
           {kLlama3}},
    Family{"glm4 glm5", kIgnoreMerges, {kLlama3}},
    Family{"dbrx chatglm-bpe", kPlain, {kLlama3}},
    Family{"qwen2 megrez f2llmv2", kNfc, {kQwen2}},
    Family{"deepseek-r1-qwen kormo stablelm2 hunyuan solar-open grok-2", kPlain, {kQwen2}},
    Family{"qwen35", kNfc, {kQwen3_5}},
    Family{"minicpm5", kIgnoreMerges, {kThreeDigits, kMiniCpm5}},
    Family{"ufakzeka", kPlain, {kUfakzeka}},
    Family{"laguna", kPlain, {kLines, kQwen2}},
    Family{"seed-coder", kPlain, {kSeedCoder}},
    Family{"jais-2", kPlain, {kJais2}},
    Family{"bailingmoe bailingmoe2 llada-moe", kPlain, {kBailing}},
    Family{"exaone-moe", kPlain, {kExaoneMoe}},
    Family{"gpt-4o llama4 kanana2 talkie minimax-m2", kPlain, {kO200k}},
    Family{"granite-embed-multi-97m", kIgnoreMerges, {kO200k}},
    Family{"tiny_aya cohere2moe", kPlain, {kAyaDigits, kO200k}},
    Family{"tekken", kIgnoreMerges | kAddsBos, {kTekken}},
    Family{"kimi-k2", kPlain, {kKimiK2}},
    Family{"deepseek-v3", kAddsBos, {kThreeDigits, kIdeographsAndKana, kDeepSeekV3}},
    Family{"hunyuan-dense joyai-llm hy_v4", kPlain, {kThreeDigits, kIdeographsAndKana, kDeepSeekV3}},
    Family{"spark2_5", kPlain, {kThreeDigits, kIdeographsAndKana, kSpark, kDigit}},
    Family{"youtu", kIgnoreMerges, {kYoutuScripts, kYoutu}},
    Family{"deepseek-llm",
           kAddsBos,
           {kLineEnd, kCasedLetters, kAsciiAndWidePunctuation, kSpacesAtEnd, kEastAsian, kDigits}},
    Family{"deepseek-coder", kAddsBos, {kLineEnd, kSpacedLetters, kSpacedPunctuation, kEastAsian, kDigit}},
    Family{"afmoe", kPlain, {kDigitsFromRight, kAsianScripts, kDeepSeekV3}},
    Family{"superbpe", kPlain, {kDigits, kBeforeThreeDigits}},
    Family{"falcon", kPlain, {kFalconPunctuation, kGpt2, kAsciiThreeDigits}},
    Family{"bloom poro-chat gpt3-finnish", kPlain, {kBloom}},
    Family{"viking", kPlain, {kBloom, kDigit}},
    Family{"chameleon",
           kThenGpt2 | kAddsBos,
           {kChameleonSentinel, kChameleonImage, kChameleonSpaces, kDigit, kChameleonPunctuation}},
    Family{"gemma4 granite-embed-multi-311m sarvam-moe", kSpaceMarks},
};

bool has_name(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

/// The splitting of a byte-level tokenizer: expressions applied in order.
struct Cuts {
  std::vector<std::string> expressions;
  bool then_gpt2 = false;
  bool known = true;  ///< false: there are other steps, too

  bool operator==(const Cuts&) const = default;
};

void add_step(const json& step, Cuts& cuts) {
  const std::string type = step.value("type", "");
  if (type == "Sequence") {
    for (const json& each : step.value("pretokenizers", json::array())) add_step(each, cuts);
  } else if (type == "ByteLevel") {
    cuts.then_gpt2 |= step.value("use_regex", true);
    cuts.known &= !step.value("add_prefix_space", false);
  } else if (type == "Digits") {
    cuts.expressions.emplace_back(step.value("individual_digits", false) ? kDigit : kDigits);
  } else if (type == "Split" && step.contains("pattern") && step["pattern"].contains("Regex")) {
    cuts.expressions.push_back(step["pattern"]["Regex"].get<std::string>());
    const bool inverted = step.value("invert", false);
    cuts.known &= step.value("behavior", "") == (inverted ? "Removed" : "Isolated");
  } else {
    cuts.known = false;
  }
}

Cuts cuts_of(const json& pre_tokenizer) {
  Cuts cuts;
  if (pre_tokenizer.is_object()) {
    add_step(pre_tokenizer, cuts);
  } else {
    cuts.known = false;
  }
  return cuts;
}

/// Returns the first name that is not empty.
std::string first_name(std::string_view names) {
  constexpr std::string_view kNothing = "default ";
  if (names.starts_with(kNothing)) names.remove_prefix(kNothing.size());
  return std::string(names.substr(0, names.find(' ')));
}

}  // namespace

json byte_level_pre_tokenizer(const std::vector<std::string>& expressions, bool then_gpt2) {
  json steps = json::array();
  for (const std::string& expression : expressions) {
    steps.push_back(
        {{"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}, {"invert", false}});
  }
  json last = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", then_gpt2}};
  if (steps.empty()) return last;
  steps.push_back(std::move(last));
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

namespace {

PreTokenizerFamily described(const Family& found) {
  const auto has = [&](Options option) { return (found.options & option) != 0; };
  PreTokenizerFamily family;
  family.normalizer = has(kNfc) ? json({{"type", "NFC"}}) : json(nullptr);
  std::vector<std::string> used;
  for (const char* expression : found.expressions) {
    if (expression != nullptr) used.emplace_back(expression);
  }
  family.pre_tokenizer = byte_level_pre_tokenizer(used, has(kThenGpt2));
  family.ignore_merges = has(kIgnoreMerges);
  family.adds_bos = has(kAddsBos);
  family.space_marks = has(kSpaceMarks);
  return family;
}

}  // namespace

std::optional<PreTokenizerFamily> pre_tokenizer_family(std::string_view name) {
  const auto found =
      std::ranges::find_if(kFamilies, [&](const Family& family) { return has_name(family.names, name); });
  if (found == kFamilies.end()) return std::nullopt;
  return described(*found);
}

std::optional<std::string> pre_tokenizer_name(const json& tokenizer) {
  const Cuts cuts = cuts_of(tokenizer.value("pre_tokenizer", json()));
  const bool ignore_merges = tokenizer.value("/model/ignore_merges"_json_pointer, false);
  const json normalizer = tokenizer.value("normalizer", json());
  if (!cuts.known) return std::nullopt;
  std::optional<std::string> alike;
  for (const Family& each : kFamilies) {
    const PreTokenizerFamily family = described(each);
    if (family.space_marks || family.ignore_merges != ignore_merges) continue;
    if (cuts_of(family.pre_tokenizer) != cuts) continue;
    if (family.normalizer == normalizer) return first_name(each.names);
    if (!alike) alike = first_name(each.names);
  }
  return alike;
}

}  // namespace ballast::text
