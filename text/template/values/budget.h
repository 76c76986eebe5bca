// What a rendering may cost. A template comes from a file that nobody vouches for, and a conversation from anybody.
#ifndef BALLAST_TEXT_TEMPLATE_VALUES_BUDGET_H_
#define BALLAST_TEXT_TEMPLATE_VALUES_BUDGET_H_

#include <cstddef>

namespace ballast::text::jinja {

struct Limits {
  std::size_t steps = 20'000'000;        ///< expressions evaluated, items made, values compared
  std::size_t characters = 128'000'000;  ///< of all strings made on the way
};

/// While it lives, the rendering on this thread is held to `limits`.
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

/// Both throw TemplateProblem when the budget of this thread's rendering is spent. Without a rendering they do nothing.
void spend_steps(std::size_t count);
void spend_characters(std::size_t count);

/// Steps for going through `length` characters, of which about 64 take as long as another step.
inline void spend_reading(std::size_t length) {
  spend_steps(length / 64);
}

}  // namespace ballast::text::jinja

#endif  // BALLAST_TEXT_TEMPLATE_VALUES_BUDGET_H_
