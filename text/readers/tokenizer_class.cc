#include "text/readers/tokenizer_class.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace ballast::text {
namespace {

using enum TokenizerClass;
using NamedClass = std::pair<std::string_view, TokenizerClass>;

constexpr std::array<NamedClass, 8> kClasses{{{"T5Tokenizer", kT5},
                                              {"ByT5Tokenizer", kByT5},
                                              {"MarianTokenizer", kMarian},
                                              {"M2M100Tokenizer", kM2M100},
                                              {"NllbTokenizer", kNllb},
                                              {"MBartTokenizer", kMBart},
                                              {"MBart50Tokenizer", kMBart50},
                                              {"PegasusTokenizer", kPegasus}}};

constexpr std::array<NamedClass, 11> kModelTypes{{{"t5", kT5},
                                                  {"mt5", kT5},
                                                  {"umt5", kT5},
                                                  {"switch_transformers", kT5},
                                                  {"byt5", kByT5},
                                                  {"marian", kMarian},
                                                  {"m2m_100", kM2M100},
                                                  {"nllb-moe", kNllb},
                                                  {"mbart", kMBart},
                                                  {"mbart50", kMBart50},
                                                  {"pegasus", kPegasus}}};

template <std::size_t N>
TokenizerClass find_in(const std::array<NamedClass, N>& classes, std::string_view name) {
  for (const auto& [known, value] : classes) {
    if (known == name) return value;
  }
  return kOther;
}

}  // namespace

TokenizerClass find_tokenizer_class(const files::JsonReader& config, const files::JsonReader& model_config,
                                    bool has_json) {
  const std::string model_type = model_config.text("model_type", "");
  // transformers reads UMT5's tokenizer.json as it is.
  if (model_type == "umt5" && has_json) return kOther;
  std::string name = config.text("tokenizer_class", model_config.text("tokenizer_class", ""));
  if (name.empty()) return find_in(kModelTypes, model_type);
  constexpr std::string_view kFast = "Fast";
  if (name.ends_with(kFast)) name.resize(name.size() - kFast.size());
  return find_in(kClasses, name);
}

}  // namespace ballast::text
