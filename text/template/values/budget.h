// Limits of a rendering. Templates and conversations come from untrusted sources.
#ifndef BALLAST_TEXT_TEMPLATE_VALUES_BUDGET_H_
#define BALLAST_TEXT_TEMPLATE_VALUES_BUDGET_H_

#include <cstddef>

namespace ballast::text::jinja {

struct Limits {
  std::size_t steps = 20'000'000;        ///< evaluated expressions, created items, compared values
  std::size_t characters = 128'000'000;  ///< of all strings that are created
};

/// Applies `limits` to the rendering on this thread during its lifetime.
class Budget {
 public:
  explicit Budget(Limits limits);
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

 private:
  friend void spend_steps(std::size_t count);
  friend void spend_characters(std::size_t count);

  Limits left_;
  Budget* outer_;
};

/// Both throw TemplateProblem when the budget of this thread's rendering is used up. Without a rendering they do
/// nothing.
void spend_steps(std::size_t count);
void spend_characters(std::size_t count);

/// Counts steps for reading `length` characters, of which about 64 take the time of another step.
inline void spend_reading(std::size_t length) {
  spend_steps(length / 64);
}

}  // namespace ballast::text::jinja

#endif  // BALLAST_TEXT_TEMPLATE_VALUES_BUDGET_H_
