#include "text/readers/bpe_reader.h"

#include <cstddef>
#include <string>
#include <utility>

#include "files/text.h"
#include "text/unicode/byte_alphabet.h"

namespace ballast::text {
namespace {

// Merges are written ["a", "b"] or, in older files, "a b".
std::pair<std::string_view, std::string_view> halves(const files::CheckedJson& merges, std::size_t rank) {
  const nlohmann::json& merge = merges.value()[rank];
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
  }
  if (merge.is_string()) {
    const std::string_view text = merge.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  }
  merges.fail("merge " + std::to_string(rank) + " is not a pair of tokens");
}

std::vector<BpeVocabulary::Merge> read_merges(const files::CheckedJson& merges, const Vocabulary& vocabulary) {
  std::vector<BpeVocabulary::Merge> result;
  result.reserve(merges.array().size());
  for (std::size_t rank = 0; rank < merges.value().size(); ++rank) {
    const auto [left, right] = halves(merges, rank);
    const auto id = [&](std::string_view text) {
      const std::optional<int> found = vocabulary.find(text);
      if (!found) {
        merges.fail("merge " + std::to_string(rank) + " has or makes " + files::in_quotes(text) +
                    ", which is not in the vocabulary");
      }
      return *found;
    };
    result.push_back({id(left), id(right), id(std::string(left).append(right))});
  }
  return result;
}

}  // namespace

BpeVocabulary read_bpe(const files::CheckedJson& model, const Vocabulary& vocabulary, bool byte_level) {
  for (const std::string_view affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const std::optional<files::CheckedJson> node = model.find(affix);
    if (node && !node->string().empty()) node->fail("must be empty; BPE with marks inside words is not supported");
  }
  BpeVocabulary bpe;
  bpe.merges = read_merges(model.at("merges"), vocabulary);
  bpe.ignore_merges = model.flag("ignore_merges", false);
  bpe.fuse_unknown = model.flag("fuse_unk", false);
  if (const std::optional<files::CheckedJson> unknown = model.find("unk_token")) {
    bpe.unknown = vocabulary.find(unknown->string()).value_or(-1);
  }
  if (model.flag("byte_fallback", false)) bpe.byte_tokens = find_byte_tokens(vocabulary.texts);
  if (!byte_level) {
    bpe.unit = BpeVocabulary::Unit::kCodePoint;
    bpe.tokens = vocabulary.texts;
    return bpe;
  }
  // Names in characters outside the alphabet (special tokens) are not made of bytes of text.
  for (const std::string& text : vocabulary.texts) {
    bpe.tokens.push_back(bytes_of_alphabet(text).value_or(std::string()));
  }
  return bpe;
}

}  // namespace ballast::text
