// Chat templates: the Jinja of Hugging Face's models, evaluated as in transformers (jinja2 in an immutable sandbox,
// trim_blocks and lstrip_blocks on, loop controls, `generation` tags, its own tojson).
#ifndef BALLAST_TEXT_TEMPLATE_TEMPLATE_H_
#define BALLAST_TEXT_TEMPLATE_TEMPLATE_H_

#include <cstddef>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_range.h"
#include "text/template/values/budget.h"

namespace ballast::text::jinja {

/// The variables of a template. Objects keep the order of their members.
struct Variables {
  nlohmann::ordered_json trusted = nlohmann::ordered_json::object();  ///< by name: bos_token, add_generation_prompt ...
  nlohmann::ordered_json from_user =
      nlohmann::ordered_json::object();  ///< messages, tools ...: see Rendered::from_user
  std::tm now{};                         ///< for strftime_now
};

struct Rendered {
  std::string text;
  /// Ranges of characters that come from from_user; ordered and disjoint. The role of a message is not included if it
  /// has only letters, digits, '_' and '-'.
  std::vector<ByteRange> from_user;
};

/// Immutable; safe to use from several threads.
class Template {
 public:
  /// Throws Error for an invalid template.
  explicit Template(std::string_view source);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  /// Throws Error: "chat template: line 3: ...", or "conversation: ..." if the template itself refuses it.
  Rendered render(const Variables& variables, Limits limits = {}) const;

 private:
  struct Tree;
  std::unique_ptr<const Tree> tree_;
};

}  // namespace ballast::text::jinja

#endif  // BALLAST_TEXT_TEMPLATE_TEMPLATE_H_
