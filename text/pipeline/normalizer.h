// Normalizes text before it is split into pieces.
#ifndef BALLAST_TEXT_PIPELINE_NORMALIZER_H_
#define BALLAST_TEXT_PIPELINE_NORMALIZER_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/json_reader.h"

namespace ballast::text {

/// The `normalizer` of a tokenizer.json. Immutable; safe to use from several threads.
class Normalizer {
 public:
  /// Supports Sequence, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, Replace, Precompiled and
  /// BertNormalizer; throws Error naming any other node.
  explicit Normalizer(const std::optional<files::JsonReader>& node);

  /// Returns `text` (valid UTF-8) normalized; `storage` holds the result if it differs, and must outlive it.
  std::string_view normalize(std::string_view text, std::string& storage) const;

 private:
  struct Step {
    std::function<std::string(std::string_view)> apply;
    bool changes_ascii = true;
  };

  void add_node(const files::JsonReader& node, int depth);
  void add_strip(const files::JsonReader& node);
  void add_prepend(const files::JsonReader& node);
  void add_replace(const files::JsonReader& node);
  void add_bert(const files::JsonReader& node);
  void add_charsmap(const files::JsonReader& base64);

  std::vector<Step> steps_;
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_PIPELINE_NORMALIZER_H_
