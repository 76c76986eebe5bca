// What happens to text before it is cut into pieces.
#ifndef BALLAST_MODEL_TOKENIZER_NORMALIZER_H_
#define BALLAST_MODEL_TOKENIZER_NORMALIZER_H_

#include <optional>
#include <string>
#include <string_view>

#include "model/tokenizer/checked_json.h"

namespace ballast::model {

/// The `normalizer` of a tokenizer.json: nothing or NFC, whatever the number of Sequences around it.
class Normalizer {
 public:
  /// Throws Error naming a normalizer that is neither.
  explicit Normalizer(const std::optional<CheckedJson>& node);

  /// `text` (valid UTF-8) normalized; `storage` holds the result where it differs, and must outlive it.
  std::string_view normalize(std::string_view text, std::string& storage) const;

 private:
  bool nfc_ = false;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_TOKENIZER_NORMALIZER_H_
