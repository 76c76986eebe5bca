#include "model/tokenizer/bpe_reader.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "ballast/error.h"
#include "model/checkpoint/text.h"
#include "model/tokenizer/byte_alphabet.h"
#include "model/tokenizer/utf8.h"

namespace ballast::model {
namespace {

using IdByText = std::unordered_map<std::string_view, int>;

void check_options(const CheckedJson& model) {
  // Files from before the field existed have no type.
  const std::optional<CheckedJson> type = model.find("type");
  if (type && type->string() != "BPE") {
    type->fail(in_quotes(type->string()) + " is not supported yet; only byte-level BPE is");
  }
  if (!type && !model.find("merges")) model.fail("has no type and no merges; only byte-level BPE is supported");
  if (model.flag("byte_fallback", false)) model.fail("byte_fallback is not supported; only byte-level BPE is");
  for (const std::string_view affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const std::optional<CheckedJson> node = model.find(affix);
    if (node && !node->string().empty()) node->fail("must be empty; only byte-level BPE is supported");
  }
}

IdByText read_vocabulary(const CheckedJson& vocab, std::vector<BpeVocabulary::Token>& tokens) {
  IdByText id_of;
  id_of.reserve(vocab.object().size());
  std::size_t size = 0;
  for (const auto& [text, id] : vocab.object().get_ref<const nlohmann::json::object_t&>()) {
    if (!id.is_number_integer()) vocab.fail("the id of " + in_quotes(text) + " is not a whole number");
    const int value = read_token_id(CheckedJson(id, vocab.place()));
    id_of.emplace(text, value);
    size = std::max(size, static_cast<std::size_t>(value) + 1);
  }
  check_dense(vocab, id_of.size(), size);

  tokens.resize(size);
  std::vector<bool> taken(size, false);
  for (const auto& [text, id] : id_of) {
    const auto index = static_cast<std::size_t>(id);
    if (taken[index]) vocab.fail("id " + std::to_string(id) + " is given twice, once to " + in_quotes(text));
    taken[index] = true;
    std::optional<std::string> bytes = bytes_of_alphabet(text);
    tokens[index].text = text;
    tokens[index].mergeable = bytes.has_value() && !bytes->empty();
    tokens[index].bytes = bytes ? *std::move(bytes) : std::string(text);
  }
  return id_of;
}

// Merges are written ["a", "b"] or, in older files, "a b".
std::pair<std::string_view, std::string_view> halves(const CheckedJson& merges, std::size_t rank) {
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

std::vector<BpeVocabulary::Merge> read_merges(const CheckedJson& merges, const IdByText& id_of) {
  std::vector<BpeVocabulary::Merge> result;
  result.reserve(merges.array().size());
  for (std::size_t rank = 0; rank < merges.value().size(); ++rank) {
    const auto [left, right] = halves(merges, rank);
    const auto id = [&](std::string_view text) {
      const auto found = id_of.find(text);
      if (found == id_of.end()) {
        merges.fail("merge " + std::to_string(rank) + " has or makes " + in_quotes(text) +
                    ", which is not in the vocabulary");
      }
      return found->second;
    };
    result.push_back({id(left), id(right), id(std::string(left).append(right))});
  }
  return result;
}

}  // namespace

int read_token_id(const CheckedJson& node) {
  const std::int64_t id = node.integer();
  if (id < 0 || id > kMaxTokenId) node.fail(std::to_string(id) + " cannot be a token's id");
  return static_cast<int>(id);
}

void check_dense(const CheckedJson& node, std::size_t ids, std::size_t size) {
  constexpr std::size_t kAlwaysAllowed = 4096;
  if (size > 2 * ids + kAlwaysAllowed) {
    node.fail(std::to_string(ids) + " tokens have ids up to " + std::to_string(size - 1) + "; the file is damaged");
  }
}

BpeVocabulary read_bpe(const CheckedJson& model) {
  check_options(model);
  BpeVocabulary vocabulary;
  const IdByText id_of = read_vocabulary(model.at("vocab"), vocabulary.tokens);
  vocabulary.merges = read_merges(model.at("merges"), id_of);
  vocabulary.ignore_merges = model.flag("ignore_merges", false);
  vocabulary.fuse_unknown = model.flag("fuse_unk", false);
  if (const std::optional<CheckedJson> unknown = model.find("unk_token")) {
    const auto found = id_of.find(unknown->string());
    if (found != id_of.end()) vocabulary.unknown = found->second;
  }
  return vocabulary;
}

}  // namespace ballast::model
