// Any bytes are a recipe: it is parsed, written and parsed again to the same recipe, or refused with an Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ballast/error.h"
#include "ballast/recipe.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ballast;
  try {
    const Recipe recipe = parse_recipe({reinterpret_cast<const char*>(data), size}, "fuzz");
    const std::string once = recipe_json(recipe);
    if (recipe_json(parse_recipe(once, "written")) != once) __builtin_trap();
  } catch (const Error&) {
  }
  return 0;
}
