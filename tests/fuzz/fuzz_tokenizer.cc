// Any bytes are a tokenizer.json with a text after the first 0xFF, and also a text for a valid tokenizer.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "../support/tiny_tokenizer.h"
#include "ballast/error.h"
#include "files/utf8.h"
#include "text/tokenizer.h"

namespace {

using ballast::text::StreamDecoder;
using ballast::text::Tokenizer;

std::string streamed(const Tokenizer& tokenizer, std::string_view text) {
  StreamDecoder decoder(tokenizer);
  std::string decoded;
  for (const int id : tokenizer.encode(text)) decoded += decoder.push(id);
  return decoded + decoder.finish();
}

void check_round_trip(std::string_view text) {
  static const std::unique_ptr<Tokenizer> tokenizer = ballast::test::make_tiny_tokenizer();
  if (text.find("<|end|>") != std::string_view::npos) return;
  if (streamed(*tokenizer, text) != ballast::files::replace_invalid_utf8(text)) std::abort();
}

void try_tokenizer(std::string_view json, std::string_view text) {
  ballast::text::TokenizerSource source;
  source.tokenizer_file = "tokenizer.json";
  source.tokenizer_data = json;
  source.config_file = "tokenizer_config.json";
  try {
    const std::unique_ptr<Tokenizer> tokenizer = ballast::text::make_tokenizer(std::move(source));
    const auto size = static_cast<int>(tokenizer->vocab_size());
    for (const int id : tokenizer->encode(text)) {
      if (id < 0 || id >= size) std::abort();
    }
    streamed(*tokenizer, text);
    tokenizer->files();
  } catch (const ballast::Error&) {  // NOLINT(bugprone-empty-catch): most inputs are refused
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check_round_trip(input);
  const std::size_t end = input.find('\xFF');
  try_tokenizer(input.substr(0, end), end == std::string_view::npos ? input : input.substr(end + 1));
  return 0;
}
