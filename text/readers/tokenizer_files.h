// Reads the tokenizer files of a Hugging Face directory.
#ifndef BALLAST_TEXT_READERS_TOKENIZER_FILES_H_
#define BALLAST_TEXT_READERS_TOKENIZER_FILES_H_

#include <filesystem>
#include <memory>

#include "text/tokenizer.h"

namespace ballast::text {

/// Reads tokenizer.json or, without one, tokenizer.model (SentencePiece, or tiktoken's list of ranks), tiktoken.model,
/// qwen.tiktoken, tekken.json, vocab.txt (WordPiece) or vocab.json with merges.txt (byte-level BPE of GPT-2, Qwen2,
/// RoBERTa or BART), and tokenizer_config.json, special_tokens_map.json, added_tokens.json, chat_template.jinja,
/// additional_chat_templates and chat_template.json in `directory`; `model_config` (config.json) names bos and eos
/// where they do not. If tokenizer.json and tekken.json have the same tokens, tekken.json is used, else tokenizer.json,
/// with a warning. Tokenizers of encoder-decoder models (tokenizer_class.h) are read from the files that transformers
/// reads for their class. Returns null if there is no tokenizer file. Throws Error.
std::unique_ptr<Tokenizer> read_tokenizer_directory(const std::filesystem::path& directory,
                                                    const nlohmann::json& model_config = nlohmann::json::object());

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_TOKENIZER_FILES_H_
