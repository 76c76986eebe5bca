// The special tokens of a tokenizer whose class transformers 5 creates from several files.
#ifndef BALLAST_TEXT_READERS_CLASS_CONFIG_H_
#define BALLAST_TEXT_READERS_CLASS_CONFIG_H_

#include <cstddef>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "files/json_reader.h"
#include "text/pipeline/added_tokens.h"

namespace ballast::text {

using TokenIds = std::unordered_map<std::string, int>;

/// A special token with a name that a class defines.
struct NamedToken {
  const char* name;  ///< "eos_token"
  const char* content;
};

/// The files of a directory as transformers passes them to a class: special_tokens_map.json and added_tokens.json are
/// used, and override tokenizer_config.json, unless that lists the added tokens.
class ClassConfig {
 public:
  /// `config` is tokenizer_config.json, and `config_file` its path. Throws Error naming a file.
  ClassConfig(const std::filesystem::path& directory, nlohmann::json config, std::string config_file);

  /// Returns a view of tokenizer_config.json.
  files::JsonReader reader() const { return {config_, config_file_}; }

  /// Returns the special token with this name, or nullopt if the files have none.
  std::optional<AddedToken> named_token(const char* name) const;

  /// Returns the token of the files, or else that of the class.
  AddedToken named_token(const NamedToken& token) const;

  /// Returns whether a token is given with properties, not only by its text.
  bool has_properties(const char* name) const;

  /// Returns the special tokens without a name in tokenizer_config.json; nullopt if it has no such list.
  std::optional<std::vector<AddedToken>> extra_tokens() const;

  /// Returns the list of special_tokens_map.json; nullopt if it has none.
  std::optional<std::vector<AddedToken>> listed_in_map() const;

  /// Returns the added tokens that tokenizer_config.json or added_tokens.json list, by id.
  std::map<int, AddedToken> added_tokens() const;
  bool lists_added_tokens() const;  ///< in tokenizer_config.json

  /// Returns whether clean_up_tokenization_spaces is set.
  bool cleans_up() const { return reader().flag("clean_up_tokenization_spaces", false); }

  /// Writes the names of `tokens` into `config`, a tokenizer_config.json that is to be read without the other files.
  void write_names(const std::vector<NamedToken>& tokens, nlohmann::json& config) const;

 private:
  bool is_special(const std::string& content) const;

  nlohmann::json config_;
  std::string config_file_;
  nlohmann::json map_ = nlohmann::json::object();
  std::string map_file_;
  nlohmann::json separate_ = nlohmann::json::object();  // added_tokens.json
  std::string separate_file_;
};

/// The tokens that are searched in a text, in the form of a tokenizer.json. As in Hugging Face's libraries, those that
/// the vocabulary has keep their ids, and others follow.
class AddedTokenList {
 public:
  /// `vocabulary` must outlive the list. `size`: the first id that is free.
  AddedTokenList(const TokenIds& vocabulary, std::size_t size) : vocabulary_(vocabulary), next_(size) {}

  /// Ignores tokens that are in the list, and their id.
  void add(AddedToken token);

  /// Returns the id of a token of the list or of the vocabulary.
  std::optional<int> find(const std::string& content) const;

  /// Makes exactly these tokens of the list special.
  void set_special(const std::set<std::string>& contents);

  const TokenIds& ids() const { return ids_; }  ///< of the list
  const nlohmann::json& tokens() const { return tokens_; }
  nlohmann::json take() { return std::move(tokens_); }

 private:
  const TokenIds& vocabulary_;
  std::size_t next_;
  TokenIds ids_;
  nlohmann::json tokens_ = nlohmann::json::array();
};

/// Lists the tokens of a class that transformers implements in Python (Marian, M2M-100, ByT5): of the files, those with
/// a name, and `extra`. They are searched in the text as it is, and special if they have a name or are in `extra`.
/// Writes them into `written`, a tokenizer_config.json that is to be read without the other files.
AddedTokenList python_added_tokens(const ClassConfig& config, AddedTokenList added,
                                   const std::vector<AddedToken>& named, const std::vector<AddedToken>& extra,
                                   nlohmann::json& written);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_CLASS_CONFIG_H_
