// Any bytes follow the 256 single bytes in a list of ranks, or are a tekken.json whose vocabulary begins with these: a
// tokenizer restores a text, or the input is refused with an Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "../support/tiny_vocabularies.h"
#include "ballast/error.h"
#include "files/strict_json.h"
#include "text/readers/json_tokenizer.h"
#include "text/readers/ranked_vocabulary.h"

namespace {

using nlohmann::json;

template <typename Read>
void try_tokenizer(const Read& read) {
  try {
    ballast::text::TokenizerSource source;
    source.tokenizer_data = read(source.config).dump();
    const auto tokenizer = ballast::text::make_tokenizer(std::move(source));
    const std::string text = "hello, 123 \xC3\xA9";
    if (decode(*tokenizer, tokenizer->encode(text)) != text) std::abort();
  } catch (const ballast::Error&) {  // NOLINT(bugprone-empty-catch): most inputs are refused
  }
}

std::string with_bytes(std::string_view tekken) {
  json value = ballast::files::parse_strict_json(tekken, "tekken.json");
  if (value.is_object() && value.contains("vocab") && value["vocab"].is_array()) {
    json vocab = ballast::test::tekken_vocab({});
    vocab.insert(vocab.end(), value["vocab"].begin(), value["vocab"].end());
    value["vocab"] = std::move(vocab);
  }
  return value.dump();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string bytes = ballast::test::rank_list({});
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.starts_with('{')) {
    try_tokenizer([&](json& config) { return ballast::text::read_tekken(with_bytes(input), "tekken.json", config); });
  } else {
    try_tokenizer([&](json& config) {
      return ballast::text::read_rank_list(bytes + std::string(input), "tiktoken.model", "gpt-4o", config);
    });
  }
  return 0;
}
