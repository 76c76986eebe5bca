// Reads vocabularies older than tokenizer.json: vocab.txt (BERT), vocab.json with merges.txt (GPT-2, Qwen2, RoBERTa,
// BART).
#ifndef BALLAST_TEXT_READERS_BARE_VOCABULARY_H_
#define BALLAST_TEXT_READERS_BARE_VOCABULARY_H_

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace ballast::text {

/// Return the equivalent tokenizer.json, including properties of the tokenizer's class. All add the class's names of
/// special tokens to `config` where it has none. Throw Error naming the file.
nlohmann::json read_word_piece_files(const std::filesystem::path& vocab_txt, nlohmann::json& config);

/// Reads vocab.json and merges.txt of RoBERTa or BART in `directory` with the special tokens of its files;
/// `config_file` names `config` in messages.
nlohmann::json read_roberta_files(const std::filesystem::path& directory, nlohmann::json& config,
                                  const std::string& config_file);

/// `family`: a name that pre_tokenizer_family knows.
nlohmann::json read_bpe_files(const std::filesystem::path& vocab_json, const std::filesystem::path& merges_txt,
                              const std::string& family, nlohmann::json& config);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_BARE_VOCABULARY_H_
