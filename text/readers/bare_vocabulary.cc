#include "text/readers/bare_vocabulary.h"

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "files/json_reader.h"
#include "files/mapped_file.h"
#include "files/strict_json.h"
#include "files/text.h"
#include "files/utf8.h"
#include "text/pipeline/pre_tokenizer_families.h"
#include "text/readers/class_config.h"
#include "text/readers/tokenizer_json_parts.h"
#include "text/readers/tokenizer_reader.h"
#include "text/readers/tokenizer_source.h"
#include "text/subword/vocabulary.h"

namespace ballast::text {
namespace {

using nlohmann::json;

std::vector<std::string> read_lines(const std::filesystem::path& path) {
  const std::string text = files::read_whole_file(path);
  if (!files::is_utf8(text)) throw Error(path.string(), "is not UTF-8");
  std::vector<std::string> lines;
  for (std::size_t begin = text.starts_with(files::kByteOrderMark) ? files::kByteOrderMark.size() : 0;
       begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(std::move(line));
    begin = end + 1;
  }
  return lines;
}

// Returns the text of the named special token; if the configuration names none, sets it to `otherwise`.
std::string special_token(json& config, const char* name, const char* otherwise) {
  if (!config.contains(name) || config[name].is_null()) config[name] = otherwise;
  return read_token_content(files::JsonReader(config, "tokenizer_config.json").at(name));
}

json read_merges(const std::filesystem::path& merges_txt) {
  json merges = json::array();
  for (std::string& line : read_lines(merges_txt)) {
    if (!line.empty() && !(merges.empty() && line.starts_with("#version"))) merges.push_back(std::move(line));
  }
  return merges;
}

}  // namespace

json read_word_piece_files(const std::filesystem::path& vocab_txt, json& config) {
  json vocab = json::object();
  const std::vector<std::string> lines = read_lines(vocab_txt);
  if (lines.size() > kMaxTokenId) throw Error(vocab_txt.string(), "has too many lines for a vocabulary");
  for (std::size_t id = 0; id < lines.size(); ++id) vocab[lines[id]] = id;
  for (std::size_t id = 0; id < lines.size(); ++id) {
    // Of lines with the same text the last one is used, as in transformers.
    if (vocab[lines[id]] != id) config[kRepeatedTokensField][std::to_string(id)] = {{"same_as", vocab[lines[id]]}};
  }
  json added = json::array();
  const auto add_special = [&](const char* name, const char* otherwise) {
    const std::string token = special_token(config, name, otherwise);
    if (vocab.contains(token)) added.push_back(added_token(vocab[token].get<std::size_t>(), token, true));
    return token;
  };
  const std::string unknown = add_special("unk_token", "[UNK]");
  const std::string begin = add_special("cls_token", "[CLS]");
  const std::string end = add_special("sep_token", "[SEP]");
  add_special("pad_token", "[PAD]");
  add_special("mask_token", "[MASK]");
  for (const std::string& token : {begin, end}) {
    if (!vocab.contains(token)) throw Error(vocab_txt.string(), "has no token " + files::in_quotes(token));
  }
  const files::JsonReader checked(config, "tokenizer_config.json");
  const std::optional<files::JsonReader> accents = checked.find("strip_accents");
  const BertNormalization normalization = {.lowercase = checked.flag("do_lower_case", true),
                                           .strip_accents = accents ? json(accents->boolean()) : json(nullptr),
                                           .handle_chinese_chars = checked.flag("tokenize_chinese_chars", true)};
  json frame = frame_template({{begin, vocab[begin]}}, {{end, vocab[end]}});
  return word_piece_tokenizer_json(normalization, unknown, std::move(vocab), std::move(added), std::move(frame));
}

json read_bpe_files(const std::filesystem::path& vocab_json, const std::filesystem::path& merges_txt,
                    const std::string& family_name, json& config) {
  std::optional<PreTokenizerFamily> family = pre_tokenizer_family(family_name);
  if (!family) throw Error(vocab_json.string(), "no family of tokenizers is called " + files::in_quotes(family_name));
  json vocab = files::read_json_object(vocab_json);
  json merges = read_merges(merges_txt);
  json added = json::array();
  const std::string end = special_token(config, "eos_token", "<|endoftext|>");
  if (vocab.contains(end) && vocab[end].is_number_unsigned()) {
    added.push_back(added_token(vocab[end].get<std::size_t>(), end, true));
  }
  return byte_level_tokenizer_json(*std::move(family), std::move(vocab), std::move(merges), std::move(added),
                                   json(nullptr));
}

json read_roberta_files(const std::filesystem::path& directory, json& config, const std::string& config_file) {
  const std::vector<NamedToken> names = {{"bos_token", "<s>"},    {"eos_token", "</s>"},  {"unk_token", "<unk>"},
                                         {"sep_token", "</s>"},   {"pad_token", "<pad>"}, {"cls_token", "<s>"},
                                         {"mask_token", "<mask>"}};
  const ClassConfig given(directory, config, config_file);
  given.write_names(names, config);
  const std::filesystem::path vocab_json = directory / "vocab.json";
  json vocab = files::read_json_object(vocab_json);
  TokenIds ids;
  for (const auto& [text, id] : files::JsonReader(vocab, vocab_json.string()).members()) {
    ids[std::string(text)] = read_token_id(id);
  }
  AddedTokenList added(ids, ids.size());
  for (auto& [id, token] : given.added_tokens()) added.add(token);
  for (const NamedToken& name : names) added.add(given.named_token(name));
  std::optional<std::vector<AddedToken>> extra = given.extra_tokens();
  if (!extra) extra = given.listed_in_map();
  for (const AddedToken& token : extra.value_or(std::vector<AddedToken>())) added.add(token);

  const auto framing = [&](const char* name) {
    const std::string text = config[name].get<std::string>();
    const std::optional<int> id = added.find(text);
    if (!id) throw Error(config_file, files::concat(name, " must not be empty"));
    return json::array({text, *id});
  };
  json frame = {{"type", "RobertaProcessing"},
                {"sep", framing("sep_token")},
                {"cls", framing("cls_token")},
                {"trim_offsets", true},
                {"add_prefix_space", false}};
  PreTokenizerFamily family = pre_tokenizer_family("gpt-2").value();
  family.pre_tokenizer["add_prefix_space"] = given.reader().flag("add_prefix_space", false);
  return byte_level_tokenizer_json(std::move(family), std::move(vocab), read_merges(directory / "merges.txt"),
                                   added.take(), std::move(frame));
}

}  // namespace ballast::text
