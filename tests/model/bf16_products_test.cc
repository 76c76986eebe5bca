// Models whose floats are rounded to BF16 before they are multiplied.
#include <doctest/doctest.h>

#include <string_view>
#include <vector>

#include "ballast/error.h"
#include "ballast/processor.h"
#include "model_runs.h"

namespace ballast::model {
namespace {

struct ExactAgain {
  ~ExactAgain() { use_bf16_products(false); }
};

bool can_round() {
  try {
    use_bf16_products(true);
  } catch (const Error& error) {
    MESSAGE("not tested: " << error.what());
    return false;
  }
  use_bf16_products(false);
  return true;
}

TEST_CASE("BF16 products change logits a little, and alike for a prompt and token by token") {
  if (!can_round()) return;
  for (const char* name : test::kGoldenDecoders) {
    CAPTURE(name);
    const test::Golden golden = test::read_golden(name);
    const Model model(test::golden_model(name));
    const std::vector<int>& ids = golden.ids.front();

    const ExactAgain again;
    use_bf16_products(true);
    const std::vector<float> rounded = test::run_at_once(model, ids);
    const double error = test::relative_error(rounded, golden.logits.front());
    CHECK(error > 1e-4);
    CHECK(error < (std::string_view(name) == "gemma4_text" ? 0.6 : 0.2));  // where INT8 weights make 1.0
    CHECK(test::run_in_pieces(model, ids, 1) == rounded);
  }
}

}  // namespace
}  // namespace ballast::model
