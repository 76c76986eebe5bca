#include "text/template/values/budget.h"

#include "text/template/values/value.h"

namespace ballast::text::jinja {
namespace {

thread_local Budget* current_budget = nullptr;

}  // namespace

Budget::Budget(Limits limits) : left_(limits), outer_(current_budget) {
  current_budget = this;
}

Budget::~Budget() {
  current_budget = outer_;
}

void spend_steps(std::size_t count) {
  if (current_budget == nullptr) return;
  std::size_t& left = current_budget->left_.steps;
  if (count > left) fail("takes more steps than a template may");
  left -= count;
}

void spend_characters(std::size_t count) {
  if (current_budget == nullptr) return;
  std::size_t& left = current_budget->left_.characters;
  if (count > left) fail("makes more text than a template may");
  left -= count;
}

}  // namespace ballast::text::jinja
