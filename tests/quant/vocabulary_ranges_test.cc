// Ranges of a vocabulary's rows that get formats of their own.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ballast/convert.h"
#include "error_message.h"
#include "file_bytes.h"
#include "files/checkpoint.h"
#include "fixed_recipe.h"
#include "model/source/model_source.h"
#include "model_logits.h"
#include "quant/block/working_block.h"
#include "quant/search/logit_rows.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast::quant {
namespace {

using test::Contains;
using test::error_message;
using test::TemporaryDirectory;
namespace fs = std::filesystem;

constexpr std::size_t kVocab = 8200;
constexpr std::size_t kFrequent = 64;

TEST_CASE("a range of a vocabulary is as large as all before it") {
  CHECK(vocabulary_ranges(8191) == std::vector<std::size_t>{0, 8191});
  CHECK(vocabulary_ranges(8192) == std::vector<std::size_t>{0, 64, 128, 256, 512, 1024, 2048, 4096, 8192});
  CHECK(vocabulary_ranges(49'152) == std::vector<std::size_t>{0, 384, 768, 1536, 3072, 6144, 12'288, 24'576, 49'152});
  CHECK(vocabulary_ranges(151'936) ==
        std::vector<std::size_t>{0, 1152, 2368, 4736, 9472, 18'944, 37'952, 75'968, 151'936});
}

TEST_CASE("weights of tokens are p (1 - p) of the predictions, with a part that is the same for all") {
  TokenWeights none(4);
  CHECK(none.finish() == std::vector<double>(4, 1.0));
  TokenWeights weights(4);
  const auto log = [](double p) { return static_cast<float>(std::log(p)); };
  const std::vector<float> predictions = {log(0.5),  log(0.25), log(0.25), -INFINITY,  //
                                          log(0.25), log(0.5),  log(0.25), -INFINITY};
  weights.add(predictions);
  const double sum = 2 * (0.25 + 2 * 0.1875);
  const std::vector<double> expected = {0.25 + 0.1875, 0.25 + 0.1875, 2 * 0.1875, 0};
  const std::vector<double> got = weights.finish();
  REQUIRE(got.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(got[i] == doctest::Approx(0.2 + 0.8 * 4 * expected[i] / sum));
}

/// Writes a model that predicts its first kFrequent tokens nearly always.
fs::path uneven_model(const fs::path& directory, bool tied) {
  test::TinyModel model = test::random_model({.vocab = kVocab, .hidden = 64, .heads = 4, .head_size = 16, .mlp = 64});
  const std::string head = tied ? "model.embed_tokens.weight" : "lm_head.weight";
  if (tied) {
    model.config["tie_word_embeddings"] = true;
    model.tensors.erase("lm_head.weight");
  }
  std::vector<float>& values = model.at(head).values;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= i / 64 < kFrequent ? 4.0F : 0.25F;
  return model.write(directory);
}

ConvertOptions options_of(std::uint64_t target_bytes, const std::string& scheme = "w4a16") {
  ConvertOptions options{.recipe = recipe_for_scheme(scheme)};
  options.recipe.target_bytes = target_bytes;
  options.calibration.samples = 8;
  options.calibration.length = 16;
  return options;
}

/// Returns the model's logits for its frequent tokens.
std::vector<float> logits_of_frequent(const fs::path& path) {
  const model::Model model(path);
  std::vector<int> ids(kFrequent / 2);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i * 23 % kFrequent);
  model::SequenceState state = model.make_exact_state(ids.size());
  return test::run_tokens(model, ids, state);
}

/// Checks that rows at the ends of ranges are those of the original, rounded.
void check_embedding(const fs::path& converted, const fs::path& original) {
  const model::ModelSource source(original);
  const model::Linear table = model::ModelSource(converted).linear(model::Role::kEmbedding);
  REQUIRE(table.rows() == kVocab);
  std::vector<float> row(table.cols());
  const std::vector<float> values = source.float_weights(model::Role::kEmbedding).values;
  for (const std::size_t r : {0U, 63U, 64U, 127U, 128U, 4095U, 4096U, 8199U}) {
    CAPTURE(r);
    model::decode_row(table, r, row.data());
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(r * row.size());
    CHECK(test::distance(row, {begin, begin + static_cast<std::ptrdiff_t>(row.size())}) < 0.3);
    CHECK(source.float_rows(model::Role::kEmbedding, r, 1) ==
          std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(row.size())));
  }
}

nlohmann::json formats_of(const fs::path& model) {
  return nlohmann::json::parse(test::read_file(model / "config.json")).at("quantization_config").at("tensors");
}

int bits_of(const nlohmann::json& formats, const std::string& module) {
  return parse_format(formats.at(module).get<std::string>()).bits;
}

TEST_CASE("rows of tokens that are predicted more often get more bits, with a head of its own or not") {
  for (const bool tied : {false, true}) {
    for (const char* scheme : {"w4a16", "w4a8", "w8a8"}) {
      CAPTURE(tied);
      CAPTURE(scheme);
      const TemporaryDirectory directory;
      const fs::path original = uneven_model(directory / "original", tied);
      const std::uint64_t target = tied ? 420'000 : 840'000;
      const ConvertReport report = convert(original, directory / "out", options_of(target, scheme));
      CHECK(report.bytes_after <= target);
      CHECK(report.bytes_after == fs::file_size(directory / "out" / "model.safetensors"));
      const nlohmann::json formats = formats_of(directory / "out");
      const std::string head = tied ? "model.embed_tokens" : "lm_head";
      CHECK_FALSE(formats.contains(head));
      CHECK(formats.contains("model.embed_tokens.7"));
      CHECK_FALSE(formats.contains("model.embed_tokens.8"));
      CHECK(bits_of(formats, head + ".0") > bits_of(formats, head + ".7"));
      check_embedding(directory / "out", original);
      // A tied model's logits are far apart, so that small errors grow.
      const double error = test::distance(logits_of_frequent(directory / "out"), logits_of_frequent(original));
      CHECK(error < (tied ? 0.6 : 0.2));
    }
  }
}

TEST_CASE("a vocabulary whose format is named, or that no size limits, stays whole") {
  const TemporaryDirectory directory;
  const fs::path original = uneven_model(directory / "original", false);
  ConvertOptions named = options_of(900'000);
  named.recipe.overrides = {{"^lm_head$", parse_format("int8-g64")}};
  convert(original, directory / "named", named);
  CHECK(formats_of(directory / "named").contains("lm_head"));
  CHECK(formats_of(directory / "named").contains("model.embed_tokens"));
  ConvertOptions fixed = options_of(0);
  fixed.recipe = test::fixed_recipe("w4a16");
  convert(original, directory / "fixed", fixed);
  CHECK(formats_of(directory / "fixed").contains("lm_head"));
}

TEST_CASE("ranges that do not make up a matrix are refused, and so is their export") {
  const TemporaryDirectory directory;
  const fs::path original = uneven_model(directory / "original", true);
  const fs::path model = directory / "out";
  convert(original, model, options_of(420'000));
  CHECK(error_message([&] {
          export_model(model, directory / "exported", {.output_format = OutputFormat::kCompressedTensors});
        }) == Contains("model.embed_tokens has 8 ranges of rows with formats of their own"));
  CHECK_FALSE(fs::exists(directory / "exported"));
  const nlohmann::json config = nlohmann::json::parse(test::read_file(model / "config.json"));
  const auto loading = [&](const auto& change) {
    nlohmann::json changed = config;
    change(changed.at("quantization_config").at("tensors"));
    test::write_file(model / "config.json", changed.dump());
    return error_message([&] { test::logits_of(model); });
  };
  CHECK(loading([](nlohmann::json&) {}) == "no error");
  CHECK(loading([](nlohmann::json& tensors) { tensors.erase("model.embed_tokens.7"); }) ==
        Contains("model.embed_tokens.6"));
  CHECK(loading([](nlohmann::json& tensors) { tensors.erase("model.embed_tokens.0"); }) ==
        Contains("model.embed_tokens.weight"));
  CHECK(loading([](nlohmann::json& tensors) { tensors["model.embed_tokens.8"] = "int8-g32"; }) ==
        Contains("model.embed_tokens.8"));
}

}  // namespace
}  // namespace ballast::quant
