#include "ballast/embed.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ballast/inspect.h"
#include "error_message.h"
#include "eval/vector_agreement.h"
#include "file_bytes.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "tiny_tokenizer.h"

namespace ballast {
namespace {

using doctest::Approx;
using test::Contains;
using test::error_message;

TEST_CASE("rank correlations follow their definition") {
  using Values = std::vector<double>;
  CHECK(eval::rank_correlation(Values{1, 2, 3, 4}, Values{10, 20, 30, 1000}) == Approx(1));
  CHECK(eval::rank_correlation(Values{1, 2, 3, 4}, Values{4, 3, 2, 1}) == Approx(-1));
  // 1 - 6 * (sum of the squares of differences) / (n (n^2 - 1)) = 1 - 6 * 2 / 60
  CHECK(eval::rank_correlation(Values{1, 2, 3, 4}, Values{1, 3, 2, 4}) == Approx(0.8));
  // Ranks 0.5, 0.5, 2 and 0, 1, 2.
  CHECK(eval::rank_correlation(Values{1, 1, 3}, Values{1, 2, 3}) == Approx(0.866025).epsilon(1e-5));
  CHECK(eval::rank_correlation(Values{1, 1}, Values{2, 2}) == 1);
  CHECK(eval::rank_correlation(Values{1, 1}, Values{2, 3}) == 0);
}

TEST_CASE("vectors are compared by their directions and their nearest neighbours") {
  // Three texts in a plane, at 0, 10 and 90 degrees.
  const std::vector<float> expected = {1, 0, 0.984808F, 0.173648F, 0, 1};
  VectorComparison same;
  eval::compare_vectors(std::vector<float>{5, 0, 9.84808F, 1.73648F, 0, 0.1F}, expected, 2, same);
  CHECK(same.texts == 3);
  CHECK(same.cosine_mean == Approx(1));
  CHECK(same.cosine_min == Approx(1));
  CHECK(same.rank_correlation == Approx(1));
  CHECK(same.nearest_agreement == Approx(1));
  CHECK(same.top10_agreement == Approx(1));
  // The second text moves to 80 degrees: the order of the others stays the same for the first, and is reversed for the
  // second and the third.
  VectorComparison turned;
  eval::compare_vectors(std::vector<float>{1, 0, 0.173648F, 0.984808F, 0, 1}, expected, 2, turned);
  CHECK(turned.cosine_min == Approx(0.342020).epsilon(1e-4));
  CHECK(turned.cosine_p1 == turned.cosine_min);
  CHECK(turned.cosine_mean == Approx((2 + 0.342020) / 3).epsilon(1e-4));
  CHECK(turned.nearest_agreement == Approx(2.0 / 3));
  CHECK(turned.rank_correlation == Approx(1.0 / 3));
}

TEST_CASE("inspect prints how vectors of texts are computed") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path model = test::random_model().write(directory / "m");
  const auto told = [&] {
    std::string lines;
    for (const std::string& line : inspect(model).advice) lines += line + '\n';
    return lines;
  };
  CHECK(!told().starts_with("embed:"));
  std::filesystem::create_directories(model / "1_Pooling");
  test::write_file(model / "1_Pooling" / "config.json", R"({"pooling_mode_cls_token": true})");
  test::write_file(model / "sentence_bert_config.json", R"({"max_seq_length": 40})");
  test::write_file(model / "modules.json", R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
      {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])");
  CHECK(told().starts_with("embed: a text's vector is that of its first token; texts longer than 40 tokens are cut\n"));
}

TEST_CASE("a model's vectors equal themselves and differ from those of a changed model") {
  const test::TemporaryDirectory directory;
  test::TinyModel tiny = test::random_model();
  tiny.tokenizer = test::tiny_tokenizer_json();
  const std::filesystem::path original = tiny.write(directory / "original");
  for (float& value : tiny.at("model.layers.0.mlp.up_proj.weight").values) value *= 1.1F;
  const std::filesystem::path changed = tiny.write(directory / "changed");
  VectorOptions options;
  options.text_file = test::write_file(directory / "texts.txt", "one text\nanother\r\nand a third\n");
  options.reference = original;
  const VectorComparison same = compare_vectors(original, options);
  CHECK(same.texts == 3);
  CHECK(same.cosine_min > 0.999999);
  CHECK(same.nearest_agreement == 1);
  const VectorComparison other = compare_vectors(changed, options);
  CHECK(other.cosine_mean < 0.9999);
  CHECK(other.cosine_min > 0.5);
  const nlohmann::json json = nlohmann::json::parse(vector_comparison_json(other));
  CHECK(json.at("cosine_mean") == other.cosine_mean);
  CHECK(json.at("texts") == 3);

  options.text_file = test::write_file(directory / "line.txt", "one line\n");
  CHECK(error_message([&] { compare_vectors(original, options); }) == Contains("line.txt: has one line"));
  options.text_file = test::write_file(directory / "bytes.txt", "a\n\xFF\n");
  CHECK(error_message([&] { compare_vectors(original, options); }) == Contains("bytes.txt: is not UTF-8"));
}

}  // namespace
}  // namespace ballast
