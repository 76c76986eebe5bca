// Converts a GGUF's metadata to the fields of a config.json that many families share.
#ifndef BALLAST_MODEL_ARCH_GGUF_CONFIG_H_
#define BALLAST_MODEL_ARCH_GGUF_CONFIG_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/spec.h"
#include "files/gguf/gguf.h"
#include "files/json_reader.h"

namespace ballast::model {

/// The metadata of an architecture: the keys that begin with its name. Valid as long as the file.
class GgufMetadata {
 public:
  GgufMetadata(const files::GgufFile& file, std::string_view architecture)
      : reader_(file.config(), file.path().string()), prefix_(std::string(architecture) + ".") {}

  std::string key(std::string_view name) const { return prefix_ + std::string(name); }
  bool has(std::string_view name) const { return reader_.has(key(name)); }
  std::size_t size(std::string_view name) const { return reader_.size(key(name)); }
  std::size_t size(std::string_view name, std::size_t fallback) const { return reader_.size(key(name), fallback); }
  std::size_t count(std::string_view name, std::size_t fallback) const { return reader_.count(key(name), fallback); }
  double number(std::string_view name, double fallback) const { return reader_.number(key(name), fallback); }
  double positive(std::string_view name) const { return reader_.positive(key(name)); }
  double positive(std::string_view name, double fallback) const { return reader_.positive(key(name), fallback); }
  bool flag(std::string_view name, bool fallback) const { return reader_.flag(key(name), fallback); }
  std::string text(std::string_view name, std::string_view fallback) const { return reader_.text(key(name), fallback); }
  files::JsonReader at(std::string_view name) const { return reader_.at(key(name)); }
  [[noreturn]] void fail(std::string_view name, std::string_view problem) const { reader_.fail(key(name), problem); }

  /// Returns the number of blocks that predict the next token. The blocks after them, which predict later tokens, do
  /// not count.
  std::size_t layers() const;

  /// Returns the largest of a number per layer, for fields that are 0 in some layers.
  std::size_t largest(std::string_view name, std::size_t fallback) const;

 private:
  files::JsonReader reader_;
  std::string prefix_;
};

/// Features of a GGUF that the caller reads itself. Files with others of these features are refused.
struct GgufExtras {
  bool experts = false;
  bool window = false;
  bool partial_rotation = false;  ///< the caller gets it in `rope_parameters`
  bool layer_norm = false;        ///< the epsilon has another key, and becomes the field "layer_norm_eps"
};

/// Returns the config.json of a GGUF of the Llama line, with model type and keys of `architecture`.
nlohmann::json llama_line_from_gguf(const files::GgufFile& file, std::string_view architecture, GgufExtras extras = {});

/// Returns `rope_parameters` for a GGUF whose keys begin with `prefix` ("llama."), for heads with `rotated` rotated
/// channels. Llama 3's scaling is stored there as one factor per frequency (rope_freqs.weight): its parameters are
/// recovered from them, or an Error is thrown.
nlohmann::json rope_parameters_from_gguf(const files::GgufFile& file, std::string_view prefix, std::size_t rotated);

/// Returns the values of `rope_freqs.weight` for a rotation: the plain frequencies divided by the stretched ones.
std::vector<double> frequency_factors(const RopeSpec& rope);

/// Returns `layer_types` from a flag for each layer that it has a window.
nlohmann::json layer_types_from_gguf(const GgufMetadata& metadata);

/// Returns the values of a tensor of numbers as a list.
nlohmann::json list_from_gguf(const files::GgufFile& file, std::string_view tensor);

/// Copies the ids of the tokens that begin and end a text from a GGUF's metadata to config.json's fields.
void copy_token_ids(const files::GgufFile& file, nlohmann::json& config);

/// Return the number of rows of a GGUF's table, and of its embedding.
std::size_t table_rows(const files::GgufFile& file, std::string_view tensor);
std::size_t gguf_vocab_size(const files::GgufFile& file);

/// Returns how a GGUF's model makes vectors of texts: of length 1, as llama.cpp does. nullopt if it does not specify
/// it.
std::optional<TextVectorSpec> text_vectors_from_gguf(const files::GgufFile& file, std::string_view architecture);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_GGUF_CONFIG_H_
