#include "text/readers/bpe_reader.h"

#include <cstddef>
#include <string>
#include <utility>

#include "files/text.h"
#include "text/subword/vocabulary.h"
#include "text/unicode/byte_alphabet.h"

namespace ballast::text {
namespace {

// Merges are stored as ["a", "b"] or, in older files, "a b".
std::pair<std::string_view, std::string_view> halves(const files::JsonReader& merge) {
  if (merge.json().is_string()) {
    const std::string_view text = merge.string();
    const std::size_t space = text.find(' ');
    if (space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
    merge.fail("is not a pair of tokens");
  }
  const std::vector<files::JsonReader> parts = merge.tuple(2);
  return {parts[0].string(), parts[1].string()};
}

std::vector<BpeVocabulary::Merge> read_merges(const files::JsonReader& merges, const TokenTable& vocabulary) {
  std::vector<BpeVocabulary::Merge> result;
  const std::vector<files::JsonReader> pairs = merges.elements();
  result.reserve(pairs.size());
  for (const files::JsonReader& pair : pairs) {
    const auto [left, right] = halves(pair);
    const auto id = [&](std::string_view text) {
      const std::optional<int> found = vocabulary.find(text);
      if (!found) pair.fail("has or makes " + files::in_quotes(text) + ", which is not in the vocabulary");
      return *found;
    };
    result.push_back({id(left), id(right), id(std::string(left).append(right))});
  }
  return result;
}

std::shared_ptr<const TokenTable> bytes_of(const TokenTable& texts) {
  auto bytes = std::make_shared<TokenTable>();
  bytes->reserve(texts.size(), texts.bytes());
  for (std::size_t id = 0; id < texts.size(); ++id) {
    const std::optional<std::string> token = bytes_of_alphabet(texts[id]);
    bytes->add(token ? std::string_view(*token) : texts[id], !token);
  }
  return bytes;
}

}  // namespace

BpeVocabulary read_bpe(const files::JsonReader& model, const std::shared_ptr<const TokenTable>& vocabulary,
                       bool byte_level) {
  for (const std::string_view affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model.text(affix, "").empty())
      model.fail(affix, "must be empty; BPE with marks inside words is not supported");
  }
  BpeVocabulary bpe;
  bpe.merges = read_merges(model.at("merges"), *vocabulary);
  bpe.ignore_merges = model.flag("ignore_merges", false);
  bpe.fuse_unknown = model.flag("fuse_unk", false);
  if (const std::optional<files::JsonReader> unknown = model.find("unk_token")) {
    bpe.unknown = vocabulary->find(unknown->string()).value_or(-1);
  }
  if (model.flag("byte_fallback", false)) bpe.byte_tokens = find_byte_tokens(*vocabulary);
  if (!byte_level) bpe.unit = BpeVocabulary::Unit::kCodePoint;
  bpe.tokens = byte_level ? bytes_of(*vocabulary) : vocabulary;
  return bpe;
}

}  // namespace ballast::text
